// Checks that the buckets of data parallelism and the end of the step are where they belong.
#include <algorithm>
#include <array>
#include <string>

#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

/// How far a rank is with one of its stages.
struct StageProgress {
  std::int64_t gradients_left = 0;
  bool has_begun = false;
  std::array<int, 2> buckets = {};  ///< Buckets gathered and buckets reduced.
};

/// Whether an action of this kind ends the step: TIED, NORM and OPTIMIZER come last, in this order.
bool is_step_end(ActionKind kind) {
  return kind >= ActionKind::kReduceTied;
}

std::size_t bucket_index(ActionKind kind) {
  return kind == ActionKind::kGatherParameters ? 0 : 1;
}

class StepCheck {
 public:
  StepCheck(const Schedule& schedule, const StageRanks& ranks)
      : schedule_(schedule),
        ranks_(ranks),
        stages_(2 * static_cast<std::size_t>(ranks.num_stages())),
        ends_(schedule.pp) {}

  std::optional<ScheduleFault> find() {
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (const Action& action : schedule_.orders[rank]) {
        if ((kWeightGradientBits & bit_of(action.kind)) != 0) {
          ++of(action.stage, rank).gradients_left;
        }
        has_[static_cast<std::size_t>(action.kind)] = true;
      }
    }
    if (auto fault = first_of(schedule_, [&](Place place) { return step(place); })) {
      return fault;
    }
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      if (auto fault = find_missing_end(rank)) {
        return fault;
      }
    }
    for (int stage = 0; stage < ranks_.num_stages(); ++stage) {
      if (auto fault = find_missing_buckets(stage)) {
        return fault;
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool has(ActionKind kind) const { return has_[static_cast<std::size_t>(kind)]; }

  /// Returns the progress of a stage on a rank; two ranks hold it if the placement is
  /// bidirectional.
  StageProgress& of(int stage, int rank) {
    return stages_[2 * static_cast<std::size_t>(stage) + (ranks_.of(stage, 0) == rank ? 0 : 1)];
  }

  std::optional<ScheduleFault> step(Place place) {
    const Action& action = schedule_.orders[place.rank][place.position];
    Kinds& end = ends_[place.rank];
    if (is_step_end(action.kind)) {
      if (end >= bit_of(action.kind)) {
        return (end & bit_of(action.kind)) != 0
                   ? expected_at(schedule_, place, "once, but it is there twice")
                   : expected_at(schedule_, place, "the order TIED, NORM, OPTIMIZER");
      }
      end |= bit_of(action.kind);
      return std::nullopt;
    }
    if (end != 0) {
      return expected_at(schedule_, place, "it before TIED, NORM and OPTIMIZER");
    }
    StageProgress& stage = of(action.stage, place.rank);
    switch (action.kind) {
      case ActionKind::kForward:
        stage.has_begun = true;
        return std::nullopt;
      case ActionKind::kBackward:
      case ActionKind::kWeightGradient:
        --stage.gradients_left;
        return std::nullopt;
      case ActionKind::kGatherParameters:
      case ActionKind::kReduceGradients:
        return bucket(place, stage);
      default:
        return std::nullopt;
    }
  }

  std::optional<ScheduleFault> bucket(Place place, StageProgress& stage) const {
    const Action& action = schedule_.orders[place.rank][place.position];
    if (action.kind == ActionKind::kGatherParameters && stage.has_begun) {
      return expected_at(schedule_, place, "it before the first forward pass of the stage");
    }
    if (action.kind == ActionKind::kReduceGradients && stage.gradients_left > 0) {
      return expected_at(schedule_, place, "it behind the last weight gradient of the stage");
    }
    int& next = stage.buckets.at(bucket_index(action.kind));
    if (action.microbatch != next) {
      return expected_at(schedule_, place, "bucket " + std::to_string(next) + " next");
    }
    ++next;
    return std::nullopt;
  }

  [[nodiscard]] ScheduleFault missing(int rank, const Action& action) const {
    return fault_at(
        schedule_, {rank, schedule_.orders[rank].size()},
        "rank " + std::to_string(rank) + ": " + to_string(action) + " is missing; expected once");
  }

  [[nodiscard]] std::optional<ScheduleFault> find_missing_end(int rank) const {
    for (const ActionKind kind :
         {ActionKind::kReduceTied, ActionKind::kReduceNorm, ActionKind::kOptimizer}) {
      const int last_stage = ranks_.num_stages() - 1;
      const bool is_first = ranks_.of(0, 0) == rank;
      const bool is_tied = is_first || ranks_.of(last_stage, 0) == rank;
      if (has(kind) && (ends_[rank] & bit_of(kind)) == 0 &&
          (kind != ActionKind::kReduceTied || is_tied)) {
        const int tied_stage = is_first ? 0 : last_stage;
        return missing(rank, {kind, kind == ActionKind::kReduceTied ? tied_stage : rank});
      }
    }
    return std::nullopt;
  }

  /// Finds a holder of a stage with fewer buckets than others have, or with none of a kind that
  /// others have.
  std::optional<ScheduleFault> find_missing_buckets(int stage) {
    const int first_holder = ranks_.of(stage, 0);
    const int second_holder = ranks_.of(stage, schedule_.num_microbatches - 1);
    int most = 1;
    for (const int rank : {first_holder, second_holder}) {
      const StageProgress& progress = of(stage, rank);
      most = std::max({most, progress.buckets[0], progress.buckets[1]});
    }
    for (const int rank : {first_holder, second_holder}) {
      for (const ActionKind kind : {ActionKind::kGatherParameters, ActionKind::kReduceGradients}) {
        const int buckets = of(stage, rank).buckets.at(bucket_index(kind));
        if (has(kind) && buckets < most) {
          return missing(rank, {kind, stage, buckets});
        }
      }
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  const StageRanks& ranks_;
  std::vector<StageProgress> stages_;  ///< Progress by virtual stage and which of its two holders.
  std::vector<Kinds> ends_;            ///< Actions of the step's end that each rank has had so far.
  std::array<bool, kNumActionKinds> has_ = {};
};

}  // namespace

std::optional<ScheduleFault> find_step_fault(const Schedule& schedule, const StageRanks& ranks) {
  return StepCheck(schedule, ranks).find();
}

}  // namespace ptdp
