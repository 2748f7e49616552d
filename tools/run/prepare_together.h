// Lets the processes of a job prepare and agree on their inputs before they start.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "runtime/transport/processes/job.h"

namespace ptdp {

/// Thrown by prepare_together() on a process when another process reports the fault.
struct SpokenElsewhere {
  int status = 0;
};
/// Returns the exit status with which a command ends after this exception.
[[nodiscard]] int status_of(const std::exception_ptr& failure);

/// An input that must be equal on all processes of a job.
struct SharedInput {
  std::string name;  ///< Name in messages: "the plan", "the command line".
  std::string content;
};

/// Runs `prepare` on every process of a job, and returns on all processes or on none. If `prepare`
/// fails on a rank, the first such rank throws that error, with its rank and host unless it is rank
/// 0. If a rank has another input than rank 0, rank 0 throws Error. All other ranks throw
/// SpokenElsewhere. A rank from which nothing is heard within `limit` ends all. Without a process,
/// only calls `prepare`.
void prepare_together(JobProcess* process, std::optional<Seconds> limit,
                      const std::function<std::vector<SharedInput>()>& prepare);

/// Returns the message for a phase without a watchdog that lasted too long: "PLACE: rank 1 on host
/// H waits WHAT; expected at most 4 s (--deadline)".
[[nodiscard]] std::string waited(const std::string& place, int rank, const std::string& host,
                                 const std::string& what, Seconds limit);
/// Returns a rank's own time limit: `limit` for rank 0, half a second more for the others. Rank 0
/// thus reports first and ends the others before their limits.
[[nodiscard]] std::optional<Seconds> own_limit(std::optional<Seconds> limit, int rank);

}  // namespace ptdp
