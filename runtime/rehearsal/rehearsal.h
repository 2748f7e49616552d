// One rank of a plan at full size, alone: before the others are there.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

#include "kernels/backend.h"
#include "runtime/data/training_data.h"
#include "runtime/executor/step_record.h"
#include "runtime/executor/training_settings.h"
#include "runtime/run/training_run.h"

namespace ptdp {

struct RehearsalOptions {
  int pipeline_rank = 0;      ///< Whose first tensor rank in the first replica is rehearsed.
  std::int64_t warm_up = 0;   ///< Steps before those
  std::int64_t measured = 1;  ///< that are recorded: of many the last kDetailedSteps.
  /// Of ranks that would compute on this one's core while it waits for messages [B]: as much other
  /// memory is used then, in no action's time. 0: it has a core to itself.
  std::int64_t memory_of_others = 0;
  const std::atomic<int>* interrupt = nullptr;  ///< Not 0: ends it before its next action.
  /// After every step, with how many were done.
  std::function<void(std::int64_t done, const StepRecord& record)> on_step;
};

struct RehearsalRecord {
  RankRecord rank;
  KeptMemory kept;
};

/// Thrown where `interrupt` ended it.
class RehearsalInterrupted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "interrupted"; }
};

/// Runs steps of the one rank over RehearsalCommunicator: its layers, its shards, its actions in
/// their order, its optimizer, of a world of settings.config.world_size(). The learning rate is
/// taken for 0: what is computed means nothing, and weights that stay as they began keep it finite.
/// Steps that overflow in fp16 are repeated with the smaller loss scale, and not counted. Throws
/// OutOfMemory and what the executor throws.
[[nodiscard]] RehearsalRecord rehearse(const TrainingSettings& settings, const TrainingData& data,
                                       Backend& backend, const RehearsalOptions& options);

}  // namespace ptdp
