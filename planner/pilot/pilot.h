// A pilot: plans of one job, the short runs that separate them, and what these showed.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost_model/text/described.h"
#include "planner/pilot/pilot_belief.h"
#include "planner/pilot/short_runs.h"
#include "planner/plan/plan.h"

namespace ptdp {

inline constexpr const char* kPilotSchema = "ptdp.pilot/1";
/// Name of the pilot's own file in its directory.
inline constexpr const char* kPilotFile = "pilot.json";
/// Name of the log in the folder of a run, where the pilot looks for it.
inline constexpr const char* kPilotLog = "train.log";

/// A short run of a pilot and the folder that holds its plan, its files and its log.
struct PilotRun {
  ShortRun run;
  std::string folder;  ///< Name within the pilot's directory: "run-1".

  friend bool operator==(const PilotRun&, const PilotRun&) = default;
};

/// The file of a pilot, `ptdp.pilot/1` (FORMATS.md).
struct Pilot {
  PilotModel model;
  std::vector<std::string> plans;  ///< Files of the plans, within the pilot's directory.
  std::vector<PilotRun> runs;
  std::string framework = {};  ///< Name of the framework that runs them; empty: the user's choice.

  friend bool operator==(const Pilot&, const Pilot&) = default;
};
template <class Fields>
void describe(Fields& fields, Described<Fields, PilotModel>& model);
template <class Fields>
void describe(Fields& fields, Described<Fields, PilotRun>& run);

/// Returns the pilot as JSON; equal pilots give equal bytes.
[[nodiscard]] std::string to_json(const Pilot& pilot);
/// Reads a pilot's file. Throws Error at `place` for one that to_json() does not write.
[[nodiscard]] Pilot parse_pilot(std::string_view text, const std::string& place);

/// Throws Error, naming the plan's file, unless all plans are of one model, batch, cluster and
/// stack, on as many GPUs.
void check_alike(std::span<const Plan> plans, std::span<const std::string> files);

/// Returns what is believed of plans before any run.
[[nodiscard]] PilotBelief belief_of(const PilotModel& model, std::span<const Plan> plans);

/// What a run of a pilot measured.
struct PilotResult {
  ShortRun run;
  std::string folder;
  Seconds measured;
  Seconds predicted;
};

/// What is believed of a pilot's plans at one time.
struct PilotState {
  std::size_t best = 0;      ///< Plan with the least expected time.
  double probability = 0.0;  ///< Probability that it is the fastest of all.
  Seconds time;              ///< Its expected time, with the ends of its 90 % interval.
  Seconds low;
  Seconds high;
  double regret = 0.0;  ///< By how much the fastest plan is faster, as a fraction, on average.
};

/// What a pilot's runs changed.
struct PilotReport {
  std::vector<PilotResult> results;
  PilotState before;
  PilotState after;
  /// The run that would lower the regret most for its cost; nullopt: none would by much.
  std::optional<ShortRun> next;
  double regret_after_next = 0.0;
};

/// Learns what the runs measured. `plans` are those of the pilot, in order; `possible` are the runs
/// that could be next.
[[nodiscard]] PilotReport report_pilot(const Pilot& pilot, std::span<const Plan> plans,
                                       std::vector<PilotResult> results,
                                       std::span<const ShortRun> possible);
/// Returns the report as text for people.
[[nodiscard]] std::string to_text(const PilotReport& report, const Pilot& pilot);

}  // namespace ptdp
