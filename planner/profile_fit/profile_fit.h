// Corrects a cluster and a stack by what runs on them measured, term by term.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/profile_fit/profile_knobs.h"
#include "planner/runs/run_evidence.h"

namespace ptdp {

/// Least share of an iteration, measured or predicted, that a run must spend on what a knob times.
/// A run that spends less says nothing about the knob.
inline constexpr double kLeastTimeShare = 0.005;
/// The correction of one knob.
struct KnobFit {
  ProfileKnob knob = ProfileKnob::kProducts;
  double factor = 1.0;       ///< Factor on the profile's time; 1 if the knob is left as it was.
  int num_runs = 0;          ///< Runs that say something about the knob; 0: left as it was.
  double time_share = 0.0;   ///< Largest share of a run's iteration that the knob times.
  bool is_at_bound = false;  ///< Whether the factor ended at the knob's bound.
};

/// Times of an iteration of one run, measured and predicted.
struct RunFit {
  std::string name;
  Seconds measured;
  Seconds before;  ///< Time predicted when it ran, calibration included.
  Seconds after;   ///< Time predicted by the corrected profiles, not calibrated.
  /// Time predicted by profiles corrected by all other runs; nullopt for fewer than three runs.
  std::optional<Seconds> leave_one_out;
};

/// Corrected profiles, and what became of each knob and run.
struct ProfileFit {
  ClusterSpec cluster;
  StackSpec stack;
  std::vector<KnobFit> knobs;  ///< All knobs, in the order of kProfileKnobs.
  std::vector<RunFit> runs;    ///< All runs, in the order given.
};

/// Corrects the profiles that all `runs` were planned for, so that the cost model predicts each
/// term of each run as it was measured. The factors of the knobs minimize
///
///   Σ w·|log(predicted/measured)|
///
/// over all terms of all runs, where w is the term's share of its run's iteration. A minimum of
/// absolute values is a median: for a knob with a term of its own, the weighted median of
/// measured/predicted over the runs. The minimum is found by Gauss-Newton with reweighted squares.
/// A knob that no run can tell from its partner moves with it. A knob that no run spends
/// kLeastTimeShare on is left as it is.
///
/// Compared as terms of the stage that paces (run_terms.h) are products, attention, memory-bound
/// work with launches, tensor-parallel collectives, the embedding's all-reduce and the optimizer.
/// Compared as actions are messages, and reductions and gathers of data parallelism: actions take
/// as long when something hides them. The bubble says nothing about a constant.
///
/// `sources` says which runs and when; it ends up in the documents. At least one run. Throws Error
/// for runs that check_evidence_of_one_machine() refuses.
[[nodiscard]] ProfileFit fit_profile(const std::vector<NamedReport>& runs,
                                     const std::string& sources);

/// Returns the corrections, and the errors before and after, as tables.
[[nodiscard]] std::string to_text(const ProfileFit& fit);

/// Returns a cluster as a file of profiles/clusters, `ptdp.cluster/1`.
[[nodiscard]] std::string to_json(const ClusterSpec& cluster);
/// Returns a stack as a file of profiles/stacks, `ptdp.stack/1`.
[[nodiscard]] std::string to_json(const StackSpec& stack);

/// Returns the path to which write_profiles() writes the stack: host.stack.json for host.json.
[[nodiscard]] std::filesystem::path stack_file_beside(std::filesystem::path cluster);
/// Writes the corrected cluster to `cluster` and the stack beside it, atomically. Throws
/// Error(kOutputFailed).
void write_profiles(const std::filesystem::path& cluster, const ProfileFit& fit);

}  // namespace ptdp
