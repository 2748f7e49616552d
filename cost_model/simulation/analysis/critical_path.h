// Which actions a step's time consists of.
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
  kMessageTransfer,  ///< What a message takes beyond its latency, other flows on its link included.
  kReductions,
  kGathers,
  kTied,
  kNorm,
  kOptimizer,
  kWaiting  ///< Where nothing that ran explains why an action did not start earlier; as a rule 0.
};
inline constexpr int kNumPathTerms = 13;
inline constexpr std::array<std::string_view, kNumPathTerms> kPathTermNames = {
    "forward",          "backward",   "input gradient",
    "weight gradient",  "recompute",  "message latency",
    "message transfer", "reductions", "gathers",
    "tied embedding",   "norm",       "optimizer",
    "waiting"};

/// An action on the path, and the part of its time that is: all of it, or as much of a weight
/// gradient as a bucket of gradients waited for. The first of an overlapped pair stands for both, a
/// send for the message, the last rank to come for NORM and TIED.
struct PathStep {
  int rank = 0;
  std::size_t position = 0;  ///< In the rank's list.
  Seconds start;
  Seconds end;
};

/// A chain of actions without gaps from time zero to the makespan, each of which could start when
/// the one before it was done.
struct CriticalPath {
  std::vector<PathStep> steps;  ///< In the order of time.
  /// How much of the makespan is what; the sum is the makespan.
  std::array<Seconds, kNumPathTerms> terms = {};
  /// By rank: its F, B, I, W and R on the path.
  std::vector<Seconds> compute;

  [[nodiscard]] Seconds term(PathTerm which) const {
    return terms[static_cast<std::size_t>(which)];
  }
};

/// The chain that ends with the last action. Found backwards: of what an action needs (the action
/// before on its lane, its inputs, the other side of a message or meeting, the share of a weight
/// gradient) the one that was there last. Where several were at the same time, the one on the
/// compute lane that stands before it is taken, so that the path is the same every time. A pair's
/// time is divided as the durations of its actions are. `timeline` is what simulate_step gave for
/// the same schedule and times.
[[nodiscard]] CriticalPath critical_path(const Schedule& schedule, const StepTimes& times,
                                         const Timeline& timeline);

/// By rank, the elasticity of the step: by how many percent it is longer per percent by which the
/// rank's compute is. It is the share of the rank's F, B, I, W and R of the critical path: the
/// derivative d ln(step) / d ln(duration), in one pass and for all ranks at once. Where several
/// paths are critical it is that of the path which `path` follows, from below the true derivative
/// upwards; where transfers share links it leaves out what the shift does to sharing. A rank stands
/// for its replicas and tensor-parallel group, all of them slower.
[[nodiscard]] std::vector<double> slowdown_elasticities(const CriticalPath& path);

}  // namespace ptdp
