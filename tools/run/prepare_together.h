// What the processes of a job read before they start, and agree on.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "runtime/transport/processes/job.h"

namespace ptdp {

/// What prepare_together() throws where another process speaks of the fault.
struct SpokenElsewhere {
  int status = 0;
};
/// The exit status that a command ends with where this was thrown.
[[nodiscard]] int status_of(const std::exception_ptr& failure);

/// Something that must be equal on all processes of a job.
struct SharedInput {
  std::string name;  ///< For messages: "the plan", "the command line".
  std::string content;
};

/// Runs `prepare` on every process of a job, and returns on all or on none: where one fails, that
/// one throws, naming its rank and host unless it is rank 0, and so does rank 0 where a rank has
/// another input than its own; the others end without a word. A rank of which nothing is heard
/// within `limit` ends all. Without a process just calls it.
void prepare_together(JobProcess* process, std::optional<Seconds> limit,
                      const std::function<std::vector<SharedInput>()>& prepare);

/// "PLACE: rank 1 on host H waits WHAT; expected at most 4 s (--deadline)": a phase without a
/// watchdog that has lasted too long.
[[nodiscard]] std::string waited(const std::string& place, int rank, const std::string& host,
                                 const std::string& what, Seconds limit);
/// A rank's own limit: rank 0 speaks first, and what it does then ends the others before they do.
[[nodiscard]] std::optional<Seconds> own_limit(std::optional<Seconds> limit, int rank);

}  // namespace ptdp
