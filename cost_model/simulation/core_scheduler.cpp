#include "cost_model/simulation/core_scheduler.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace ptdp {
namespace {

Seconds duration_of(const StageDurations& stage, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return stage.forward;
    case ActionKind::kBackward:
      return stage.backward;
    case ActionKind::kInputGradient:
      return stage.input_gradient;
    case ActionKind::kWeightGradient:
      return stage.weight_gradient;
    default:
      return stage.recompute;
  }
}

/// Simulates the ranks of all pipelines as they take turns on the cores.
class SharedCores {
 public:
  SharedCores(const Schedule& schedule, std::span<const StageDurations> durations, int pipelines,
              int cores)
      : schedule_(schedule),
        durations_(durations),
        num_stages_(num_stages(schedule)),
        idle_cores_(cores),
        ranks_(static_cast<std::size_t>(pipelines) * schedule.pp),
        made_(static_cast<std::size_t>(pipelines) * 2 * num_stages_ * schedule.num_microbatches) {}

  Seconds run() {
    for (std::size_t id = 0; id < ranks_.size(); ++id) {
      seek(id);
    }
    dispatch();
    while (!running_.empty()) {
      const auto [end, turn, id] = running_.top();
      running_.pop();
      now_ = end;
      ++idle_cores_;
      finish(id);
      dispatch();
    }
    return Seconds(now_);
  }

 private:
  struct Rank {
    std::size_t position = 0;  ///< Position of the rank's next pass.
    bool is_queued = false;    ///< Whether the rank can compute, or does.
  };
  /// Returns the rank's next pass, or the two that run together.
  [[nodiscard]] std::span<const Action> next_of(std::size_t id) const {
    const std::span<const Action> order = schedule_.orders[id % schedule_.pp];
    const std::size_t position = ranks_[id].position;
    return order.subspan(position, order[position].overlaps_next ? 2 : 1);
  }

  /// A running pass: its end, its number, and its rank.
  using Pass = std::tuple<double, std::size_t, std::size_t>;

  /// Whether a pass of a pipeline has been done: F, or with `is_gradient` the input gradient.
  std::vector<bool>::reference made(std::size_t pipeline, bool is_gradient, int stage,
                                    int microbatch) {
    const std::size_t table = pipeline * 2 + (is_gradient ? 1 : 0);
    return made_[(table * num_stages_ + stage) * schedule_.num_microbatches + microbatch];
  }

  bool has_input(const Action& action, std::size_t pipeline) {
    switch (action.kind) {
      case ActionKind::kForward:
        return action.stage == 0 || made(pipeline, false, action.stage - 1, action.microbatch);
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return action.stage == num_stages_ - 1
                   ? made(pipeline, false, action.stage, action.microbatch)
                   : made(pipeline, true, action.stage + 1, action.microbatch);
      default:
        return true;
    }
  }

  /// Queues a rank if it can go on.
  void seek(std::size_t id) {
    Rank& rank = ranks_[id];
    const std::vector<Action>& order = schedule_.orders[id % schedule_.pp];
    while (rank.position < order.size() && !is_compute(order[rank.position].kind)) {
      ++rank.position;
    }
    if (rank.is_queued || rank.position == order.size()) {
      return;
    }
    const std::span<const Action> next = next_of(id);
    rank.is_queued = std::all_of(next.begin(), next.end(), [&](const Action& action) {
      return has_input(action, id / schedule_.pp);
    });
    if (rank.is_queued) {
      ready_.push_back(id);
    }
  }

  void dispatch() {
    for (; idle_cores_ > 0 && !ready_.empty(); --idle_cores_) {
      const std::size_t id = ready_.front();
      ready_.pop_front();
      double end = now_;
      for (const Action& action : next_of(id)) {
        const StageDurations& stage = durations_[durations_.size() == 1 ? 0 : action.stage];
        end += duration_of(stage, action.kind).value();
      }
      running_.emplace(end, num_passes_++, id);
    }
  }

  void finish(std::size_t id) {
    const std::size_t pipeline = id / schedule_.pp;
    const std::span<const Action> done = next_of(id);
    for (const Action& action : done) {
      if (action.kind <= ActionKind::kInputGradient) {  // F, B or I: others wait for it
        made(pipeline, action.kind != ActionKind::kForward, action.stage, action.microbatch) = true;
      }
    }
    ranks_[id].is_queued = false;
    ranks_[id].position += done.size();
    for (std::size_t other = pipeline * schedule_.pp; other < (pipeline + 1) * schedule_.pp;
         ++other) {
      seek(other);
    }
  }

  const Schedule& schedule_;
  std::span<const StageDurations> durations_;
  int num_stages_;
  int idle_cores_;
  double now_ = 0.0;
  std::size_t num_passes_ = 0;
  std::vector<Rank> ranks_;
  std::vector<bool> made_;
  std::deque<std::size_t> ready_;
  std::priority_queue<Pass, std::vector<Pass>, std::greater<>> running_;
};

}  // namespace

Seconds time_on_shared_cores(const Schedule& schedule, std::span<const StageDurations> durations,
                             int pipelines, int cores) {
  assert(pipelines > 0 && cores > 0);
  assert(durations.size() == 1 || std::ssize(durations) == num_stages(schedule));
  return SharedCores(schedule, durations, pipelines, cores).run();
}

}  // namespace ptdp
