// The passes around the compute of a step: data parallelism, tied embedding, norm and optimizer.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "cost_model/schedule/passes/communication.h"

namespace ptdp {
namespace {

bool ends_weight_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient;
}

bool hands_over(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward ||
         kind == ActionKind::kCopyForward || kind == ActionKind::kCopyBackward;
}

int buckets_of(int stage, const StepActions& step) {
  return step.gradient_buckets[step.gradient_buckets.size() == 1 ? 0 : stage];
}

/// What a rank has left to do for a stage while its list is walked.
struct StageUse {
  bool is_used = false;
  std::int64_t gradients_left = 0;
};

/// Writes the ranks' lists with their buckets, rank after rank.
class BucketPass {
 public:
  BucketPass(const StepActions& step, int num_stages) : step_(step), uses_(num_stages) {}

  [[nodiscard]] std::vector<Action> run(const std::vector<Action>& order) {
    std::vector<Action> result;
    const std::vector<int> stages = find_stages(order);
    std::size_t buckets = 0;
    for (const int stage : stages) {
      buckets += static_cast<std::size_t>(buckets_of(stage, step_));
    }
    result.reserve(order.size() + (step_.gathers_parameters ? 2 : 1) * buckets);
    for (const int stage : stages) {
      uses_[stage].is_used = false;
      if (step_.gathers_parameters) {
        append_buckets(result, ActionKind::kGatherParameters, stage);
      }
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      result.push_back(order[i]);
      if (ends_weight_gradient(order[i].kind) && --uses_[order[i].stage].gradients_left == 0) {
        finished_.push_back(order[i].stage);
      }
      const bool is_first_of_pair = order[i].overlaps_next;
      const bool hands_over_next = i + 1 < order.size() && hands_over(order[i + 1].kind);
      const bool is_due = step_.overlaps_reductions || i + 1 == order.size();
      if (is_due && !finished_.empty() && !is_first_of_pair && !hands_over_next) {
        for (const int stage : finished_) {
          if (step_.reduces_gradients) {
            append_buckets(result, ActionKind::kReduceGradients, stage);
          }
        }
        finished_.clear();
      }
    }
    return result;
  }

 private:
  /// Returns the stages of a list in the order of their first use, and counts their weight
  /// gradients.
  std::vector<int> find_stages(const std::vector<Action>& order) {
    std::vector<int> stages;
    for (const Action& action : order) {
      StageUse& use = uses_[action.stage];
      use.gradients_left += ends_weight_gradient(action.kind) ? 1 : 0;
      if (is_compute(action.kind) && !std::exchange(use.is_used, true)) {
        stages.push_back(action.stage);
      }
    }
    return stages;
  }

  void append_buckets(std::vector<Action>& order, ActionKind kind, int stage) const {
    for (int bucket = 0; bucket < buckets_of(stage, step_); ++bucket) {
      order.push_back({kind, stage, bucket});
    }
  }

  const StepActions& step_;
  std::vector<StageUse> uses_;  ///< State by virtual stage.
  std::vector<int> finished_;   ///< Stages whose reductions follow.
};

}  // namespace

Schedule insert_data_parallel(Schedule schedule, const StepActions& step) {
  if (step.gradient_buckets.empty()) {
    return schedule;
  }
  assert(step.gradient_buckets.size() == 1 ||
         std::ssize(step.gradient_buckets) == num_stages(schedule));
  BucketPass pass(step, num_stages(schedule));
  for (std::vector<Action>& order : schedule.orders) {
    order = pass.run(order);
  }
  return schedule;
}

Schedule insert_step_end(Schedule schedule, const StepActions& step) {
  const int last_stage = num_stages(schedule) - 1;
  const int first_rank = rank_of(schedule, 0, 0);
  const int last_rank = rank_of(schedule, last_stage, 0);
  // A rank with both ends has one table for both; in a bidirectional pipeline each of the two outer
  // ranks does.
  const bool is_apart =
      first_rank != last_rank && schedule.placement != StagePlacement::kBidirectional;
  for (int rank = 0; rank < schedule.pp; ++rank) {
    std::vector<Action>& order = schedule.orders[rank];
    if (step.ties_embeddings && is_apart && (rank == first_rank || rank == last_rank)) {
      order.push_back({ActionKind::kReduceTied, rank == first_rank ? 0 : last_stage});
    }
    if (step.reduces_norm) {
      order.push_back({ActionKind::kReduceNorm, rank});
    }
    if (step.has_optimizer) {
      order.push_back({ActionKind::kOptimizer, rank});
    }
  }
  return schedule;
}

Schedule complete(const Schedule& schedule, const StepActions& step) {
  Schedule result =
      step.merges_backward ? insert_messages(merge_backward(schedule)) : insert_messages(schedule);
  return insert_step_end(insert_data_parallel(std::move(result), step), step);
}

}  // namespace ptdp
