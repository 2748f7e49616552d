// A cluster and a stack corrected by what runs on them measured, term by term.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/profile_refit/profile_knobs.h"
#include "planner/runs/run_evidence.h"

namespace ptdp {

/// Least share of an iteration, measured or predicted, that a run must spend on what a knob times
/// for the run to say something about it.
inline constexpr double kLeastTimeShare = 0.005;
/// What became of a knob.
struct KnobRefit {
  ProfileKnob knob = ProfileKnob::kProducts;
  double factor = 1.0;      ///< Of the time that the profile said; 1 where it was left as it was.
  int num_runs = 0;         ///< That say something about it; 0: left as it was.
  double time_share = 0.0;  ///< Largest share of a run's iteration that it times.
  bool is_at_bound = false;
};

/// Time of an iteration of one run.
struct RunRefit {
  std::string name;
  Seconds measured;
  Seconds before;  ///< As was predicted when it ran, calibration included.
  Seconds after;   ///< By the corrected profiles, not calibrated.
  /// By profiles corrected by all other runs; from three runs on.
  std::optional<Seconds> leave_one_out;
};

struct ProfileRefit {
  ClusterSpec cluster;
  StackSpec stack;
  std::vector<KnobRefit> knobs;  ///< All of them, in order.
  std::vector<RunRefit> runs;    ///< As given.
};

/// Corrects the profiles that all `runs` were planned for, so that what the cost model predicts of
/// each term of each run comes near what was measured: the least sum of |log(predicted/measured)|
/// over the terms, each weighted with its share of its run's iteration. A minimum of absolute
/// values is a median: for a knob with a term of its own, the weighted median of measured/predicted
/// over the runs. Found by Gauss-Newton with reweighted squares; knobs that no run can tell from
/// their partner move with it, and those that no run spends kLeastTimeShare on are left as they
/// are.
///
/// Products, attention, memory-bound work (with launches), tensor-parallel collectives, the
/// all-reduce of the embedding and the optimizer are compared as terms of the stage that paces
/// (run_terms.h); messages, reductions and gathers of data parallelism as actions, which take as
/// long when something hides them. The bubble says nothing about a constant.
///
/// `sources` ends up in the documents: which runs, when. At least one run. Throws Error for runs
/// that check_evidence_of_one_machine refuses.
[[nodiscard]] ProfileRefit refit_profile(const std::vector<NamedReport>& runs,
                                         const std::string& sources);

/// The corrections and the errors before and after, as tables.
[[nodiscard]] std::string to_table(const ProfileRefit& refit);

/// As files of profiles/clusters and profiles/stacks.
[[nodiscard]] std::string cluster_json(const ClusterSpec& cluster);
[[nodiscard]] std::string stack_json(const StackSpec& stack);

/// Where write_profiles puts the stack: host.stack.json for host.json.
[[nodiscard]] std::filesystem::path stack_file_beside(std::filesystem::path cluster);
/// Writes both, atomically. Throws Error(kOutputFailed).
void write_profiles(const std::filesystem::path& cluster, const ProfileRefit& refit);

}  // namespace ptdp
