// Saving of a training run: every rank writes what it owns, and one rank binds the parts together.
#pragma once

#include <cstdint>
#include <filesystem>

#include "kernels/backend.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/optimizer/optimizer.h"

namespace ptdp {

/// Writes the checkpoint DIRECTORY/step-N. Everything is written and synced in a hidden directory
/// beside it, which gets its name last. So whenever the run ends, the checkpoints in DIRECTORY are
/// whole. Ranks may be threads or processes; each has a writer constructed with the same arguments.
/// The order of calls is
///
///   begin() on one rank; a barrier; write_shard() on all; a barrier; finish() on one rank.
///
/// Each of these throws Error(kOutputFailed) and leaves earlier checkpoints as they were.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path directory, std::int64_t step);

  /// Makes the directories, and removes what failed attempts left behind.
  void begin() const;
  /// Writes this rank's part of the model (Optimizer::saved_slices). All ranks together write every
  /// element once. `rank` is the rank in the world, 0 … num_ranks − 1.
  void write_shard(int rank, Backend& backend, const Optimizer& optimizer) const;
  /// Binds the shards of all ranks together and makes them the checkpoint of state.step. An earlier
  /// checkpoint of this step is replaced.
  void finish(const TrainingState& state, int num_ranks) const;
  /// Removes what a failed attempt left. Call it once no rank writes any more.
  void discard() const noexcept;

 private:
  std::filesystem::path directory_;
  std::int64_t step_;
  std::filesystem::path partial_;  ///< Hidden directory of the checkpoint until it gets its name.
};

}  // namespace ptdp
