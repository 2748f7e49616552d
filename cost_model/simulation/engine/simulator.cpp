#include "cost_model/simulation/engine/simulator.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>

#include "cost_model/error.h"
#include "cost_model/simulation/engine/table_walk.h"

namespace ptdp {
namespace {

/// End of an action that has not been done and for which nobody waits; below, −2 − rank stands for
/// the rank that does.
constexpr double kNotDone = -1.0;

/// What the actions of a virtual stage need and take, beside each other for the loop.
struct StageTable {
  std::array<double, kNumActionKinds> duration = {};  ///< By kind [s].
  double input_latency = 0.0;                         ///< From the stage before, activations [s].
  double gradient_latency = 0.0;                      ///< From the stage behind, gradients [s].
};

constexpr std::size_t kResultsAhead = 16;  // as kActionsAhead

class Simulation {
 public:
  Simulation(const Schedule& schedule, std::span<const StageDurations> durations, double latency)
      : schedule_(schedule),
        stride_(stride_of(schedule.num_microbatches)),
        last_stage_(num_stages(schedule) - 1),
        activations_(num_stages(schedule) * stride_ + kResultsAhead, kNotDone),
        gradients_(activations_.size(), kNotDone),
        progress_(schedule.pp) {
    for (int stage = 0; stage <= last_stage_; ++stage) {
      const StageDurations& of = durations[durations.size() == 1 ? 0 : stage];
      const auto latency_from = [&](int other) {
        const bool is_message = other >= 0 && other <= last_stage_ &&
                                rank_of(schedule, other, 0) != rank_of(schedule, stage, 0);
        return is_message ? latency : 0.0;
      };
      stages_.push_back({{of.forward.value(), of.backward.value(), of.input_gradient.value(),
                          of.weight_gradient.value()},
                         latency_from(stage - 1),
                         latency_from(stage + 1)});
    }
  }

  SimulatedTimes run() {
    for (int rank = schedule_.pp - 1; rank >= 0; --rank) {
      runnable_.push_back(rank);
    }
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    SimulatedTimes times;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      const Progress& progress = progress_[rank];
      const std::vector<Action>& order = schedule_.orders[rank];
      if (progress.position < order.size()) {
        throw Error("schedule " + schedule_.name + ": rank " + std::to_string(rank) +
                    " waits for the input of " + to_string(order[progress.position]) +
                    " for ever; expected no deadlock");
      }
      times.ranks.push_back({.start = Seconds(progress.start),
                             .end = Seconds(progress.now),
                             .work = Seconds(progress.work),
                             .peak_activations = progress.peak,
                             .compute_end = Seconds(progress.now)});
    }
    return times;
  }

 private:
  struct Progress {
    std::size_t position = 0;
    double start = 0.0;
    double now = 0.0;
    double work = 0.0;
    int live = 0;  ///< Activations held.
    int peak = 0;
  };

  /// When the input of an action is there; negative if it is not, and `rank` then waits for it.
  double input_time(const Action& action, int rank) {
    const std::size_t slot = action.stage * stride_ + action.microbatch;
    double* made = nullptr;
    double latency = 0.0;
    switch (action.kind) {
      case ActionKind::kForward:
        if (action.stage == 0) {
          return 0.0;
        }
        made = &activations_[slot - stride_];
        latency = stages_[action.stage].input_latency;
        break;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        if (action.stage == last_stage_) {
          made = &activations_[slot];
        } else {
          made = &gradients_[slot + stride_];
          latency = stages_[action.stage].gradient_latency;
        }
        break;
      default:
        return 0.0;
    }
    if (*made < 0.0) {
      *made = -2.0 - rank;
      return kNotDone;
    }
    return *made + latency;
  }

  /// Notes when the result of an action is there, and lets the rank that waits for it go on.
  void finish(const Action& action, double end, Progress& progress) {
    const std::size_t slot = action.stage * stride_ + action.microbatch;
    double* result = nullptr;
    switch (action.kind) {
      case ActionKind::kForward:
        progress.peak = std::max(progress.peak, ++progress.live);
        result = &activations_[slot];
        break;
      case ActionKind::kBackward:
        --progress.live;
        result = &gradients_[slot];
        break;
      case ActionKind::kInputGradient:
        result = &gradients_[slot];
        break;
      case ActionKind::kWeightGradient:
        --progress.live;
        return;
      default:
        return;
    }
    if (*result < kNotDone) {
      runnable_.push_back(static_cast<int>(-2.0 - *result));
    }
    __builtin_prefetch(result + kResultsAhead, 1);
    *result = end;
  }

  /// Does the actions of a rank until one has to wait.
  void advance(int rank) {
    const std::vector<Action>& order = schedule_.orders[rank];
    Progress progress = progress_[rank];
    while (progress.position < order.size()) {
      const Action& action = order[progress.position];
      __builtin_prefetch(order.data() + std::min(progress.position + kActionsAhead, order.size()));
      double ready = input_time(action, rank);
      double duration = stages_[action.stage].duration[static_cast<std::size_t>(action.kind)];
      const Action* partner = nullptr;
      if (action.overlaps_next && ready >= 0.0) {
        partner = &order[progress.position + 1];
        const double partner_ready = input_time(*partner, rank);
        ready = partner_ready < 0.0 ? partner_ready : std::max(ready, partner_ready);
        duration += stages_[partner->stage].duration[static_cast<std::size_t>(partner->kind)];
      }
      if (ready < 0.0) {
        break;
      }
      const double begin = std::max(progress.now, ready);
      if (progress.position == 0) {
        progress.start = begin;
      }
      progress.now = begin + duration;
      progress.work += duration;
      finish(action, progress.now, progress);
      if (partner != nullptr) {
        finish(*partner, progress.now, progress);
      }
      progress.position += partner != nullptr ? 2 : 1;
    }
    progress_[rank] = progress;
  }

  const Schedule& schedule_;
  std::size_t stride_;
  int last_stage_;
  // By stage and microbatch: when a forward pass and when an input gradient is done [s].
  std::vector<double> activations_;
  std::vector<double> gradients_;
  std::vector<StageTable> stages_;
  std::vector<Progress> progress_;
  std::vector<int> runnable_;
};

}  // namespace

Seconds SimulatedTimes::makespan() const {
  Seconds last;
  for (const RankTimes& rank : ranks) {
    last = std::max(last, rank.end);
  }
  return last;
}

Seconds SimulatedTimes::longest_span() const {
  Seconds longest;
  for (const RankTimes& rank : ranks) {
    longest = std::max(longest, rank.end - rank.start + rank.gathers);
  }
  return longest;
}

Seconds SimulatedTimes::most_work() const {
  Seconds most;
  for (const RankTimes& rank : ranks) {
    most = std::max(most, rank.work);
  }
  return most;
}

Seconds SimulatedTimes::bubble() const {
  Seconds work;
  for (const RankTimes& rank : ranks) {
    work += rank.work;
  }
  return makespan() - work / static_cast<double>(ranks.size());
}

double SimulatedTimes::bubble_ratio() const {
  const Seconds whole = makespan();
  return whole > Seconds(0.0) ? bubble() / whole : 0.0;
}

SimulatedTimes simulate(const Schedule& schedule, std::span<const StageDurations> durations,
                        Seconds p2p_latency) {
  assert(durations.size() == 1 || std::ssize(durations) == num_stages(schedule));
  return Simulation(schedule, durations, p2p_latency.value()).run();
}

}  // namespace ptdp
