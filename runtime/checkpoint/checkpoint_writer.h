// Saving of a training run: every rank writes what it owns, one makes a checkpoint of it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "kernels/backend.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/optimizer/optimizer.h"

namespace ptdp {

/// Writes DIRECTORY/step-N. Everything is written and synced in a hidden directory beside it, which
/// gets its name last: whenever the run ends, the checkpoints in DIRECTORY are whole. Ranks may be
/// threads or processes; each has a writer of the same arguments. The order is
///
///   begin() on one rank; a barrier; write_shard() on all; a barrier; finish() on one rank.
///
/// All throw Error(kOutputFailed), with earlier checkpoints as they were.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path directory, std::int64_t step);

  /// Makes the directories, and removes what attempts that failed left behind.
  void begin() const;
  /// This rank's part of the model (Optimizer::saved_slices): all ranks together write every
  /// element once. `rank` is the one of the world, 0 … num_ranks − 1.
  void write_shard(int rank, Backend& backend, const Optimizer& optimizer) const;
  /// Binds the shards of all ranks together and makes them the checkpoint of state.step, which
  /// replaces one of the same step.
  void finish(const TrainingState& state, int num_ranks) const;
  /// Removes what a failed attempt left; once no rank writes any more.
  void discard() const noexcept;

 private:
  std::filesystem::path directory_;
  std::int64_t step_;
  std::filesystem::path partial_;  ///< Until it has its name.
};

}  // namespace ptdp
