// Runs one rank of a plan at full size, alone, before the others are there.
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

/// How a rank is rehearsed.
struct RehearsalOptions {
  /// Pipeline rank whose first tensor rank in the first replica is rehearsed.
  int pipeline_rank = 0;
  std::int64_t warm_up = 0;  ///< Steps before the recorded ones.
  /// Steps that are recorded. Of many, only the last kDetailedSteps stay.
  std::int64_t measured = 1;
  /// Memory [B] of ranks that would compute on this one's core while it waits for messages. That
  /// much other memory is used during such waits, in no action's time. 0 when the rank has a core
  /// to itself.
  std::int64_t memory_of_others = 0;
  /// Ends the rehearsal before its next action once it is not 0.
  const std::atomic<int>* interrupt = nullptr;
  /// Called after every step, with the number of steps done.
  std::function<void(std::int64_t done, const StepRecord& record)> on_step;
};

/// What a rehearsed rank measured, and the memory that it keeps.
struct RehearsalRecord {
  RankRecord rank;
  KeptMemory kept;
};

/// Thrown when `interrupt` ended the rehearsal.
class RehearsalInterrupted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "interrupted"; }
};

/// Runs steps of one rank over RehearsalCommunicator, in a world of settings.config.world_size().
/// It has that rank's layers, shards, optimizer, and actions in their order. The learning rate is
/// 0: computed values mean nothing, and weights that keep their initial values keep them finite.
/// Steps that overflow in fp16 are repeated with the smaller loss scale, and not counted. Throws
/// OutOfMemory, RehearsalInterrupted and what the executor throws.
[[nodiscard]] RehearsalRecord rehearse(const TrainingSettings& settings, const TrainingData& data,
                                       Backend& backend, const RehearsalOptions& options);

}  // namespace ptdp
