// Finds the actions that a step's time consists of, and how much a slower rank lengthens it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"
#include "cost_model/units.h"

namespace ptdp {

/// What time on a critical path goes into.
enum class PathTerm : std::uint8_t {
  kForward,
  kBackward,
  kInputGradient,
  kWeightGradient,
  kRecompute,
  kMessageLatency,
  /// What a message takes beyond its latency, sharing its link with other flows included.
  kMessageTransfer,
  kReductions,
  kGathers,
  kTied,
  kNorm,
  kOptimizer,
  /// Time that nothing which ran explains: an action could have started earlier. As a rule 0.
  kWaiting
};
inline constexpr int kNumPathTerms = 13;
inline constexpr std::array<std::string_view, kNumPathTerms> kPathTermNames = {
    "forward",          "backward",   "input gradient",
    "weight gradient",  "recompute",  "message latency",
    "message transfer", "reductions", "gathers",
    "tied embedding",   "norm",       "optimizer",
    "waiting"};

/// An action on the critical path, and the part of its time that is on the path. That is all of it,
/// or as much of a weight gradient as a bucket of gradients waited for. The first of an overlapped
/// pair stands for both, a send for the message, the last rank to come for NORM and TIED.
struct PathStep {
  int rank = 0;
  std::size_t position = 0;  ///< Position in the rank's list.
  Seconds start;
  Seconds end;
};

/// A chain of actions without gaps from time zero to the makespan. Each could start when the one
/// before it was done.
struct CriticalPath {
  std::vector<PathStep> steps;  ///< Actions of the path in the order of time.
  /// Time of the path by PathTerm; the sum is the makespan.
  std::array<Seconds, kNumPathTerms> terms = {};
  /// Time of each pipeline rank's F, B, I, W and R on the path.
  std::vector<Seconds> compute;

  [[nodiscard]] Seconds term(PathTerm which) const {
    return terms[static_cast<std::size_t>(which)];
  }
};

/// Returns the chain of actions that ends with the last action of the step. `timeline` is what
/// simulate_step() gave for the same schedule and times.
///
/// The chain is found backwards: the walk goes on to that need of an action which was there last.
/// An action needs the action before it on its lane, its inputs, and the other side of a message or
/// meeting. A bucket needs its share of a weight gradient. Of needs that were there at the same
/// time, the action before it on its lane is taken, so the path is always the same. A pair's time
/// is divided as the durations of its actions are.
[[nodiscard]] CriticalPath critical_path(const Schedule& schedule, const StepTimes& times,
                                         const Timeline& timeline);

/// Returns the elasticity of the step for each pipeline rank: by how many percent the step is
/// longer per percent by which the rank's compute is. It is the share of the rank's F, B, I, W and
/// R on the critical path. That is the derivative d ln(step) / d ln(duration), in one pass and for
/// all ranks at once.
///
/// If several paths are critical, it is the derivative along the path that `path` follows. It then
/// lies between the slopes toward shorter and toward longer durations. If transfers share links, it
/// leaves out what the shift does to sharing. A rank stands for its replicas and tensor-parallel
/// group, all of them slower.
[[nodiscard]] std::vector<double> slowdown_elasticities(const CriticalPath& path);

}  // namespace ptdp
