// A model of a few matrices in any layout, for tests of checkpoints: every element of its masters
// and moments has a value that follows from its name, its place in the whole and a salt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/optimizer/optimizer.h"

namespace ptdp {

struct CheckpointLayout {
  int tp = 1;
  int pp = 1;  ///< Stages, 1 or 2; the table is on both ends.
  int dp = 1;
  bool shards_states = false;
  bool shards_units =
      /// Whether gradients and weights are sharded too, unit by unit: each layer, and the rest.
      /// Only with pp = 1.
      false;
  int num_buckets = 1;
  DataType type = DataType::kFloat64;
  /// Factor on the columns of every parameter, so that more ranks have a part of it.
  int width = 1;

  [[nodiscard]] int world_size() const { return tp * pp * dp; }
};

/// A rank of a CheckpointLayout; ranks are numbered tp fastest, then dp.
class CheckpointedRank {
 public:
  CheckpointedRank(const CheckpointLayout& layout, int rank);

  /// Fills what the rank updates with values that follow from `salt`, and padding with 0.
  void fill(double salt);
  /// Returns the first element of masters, moments and weights that differs from what fill() sets;
  /// empty if none does.
  [[nodiscard]] std::string find_difference(double salt);

  [[nodiscard]] Backend& backend() { return backend_; }
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }

 private:
  [[nodiscard]] std::vector<double> expected(const OwnedSlice& slice, int kind, double salt) const;

  CpuBackend backend_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Returns the configuration of the model, as far as a manifest records it.
[[nodiscard]] TransformerConfig checkpointed_config();
[[nodiscard]] TrainingState state_at(std::int64_t step);

/// Saves a checkpoint of all ranks, in the way of the executor.
void save_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout,
                     std::int64_t step, double salt);
/// Restores all ranks of a layout and compares them with what was saved with `salt`. Returns the
/// first difference; empty if there is none.
[[nodiscard]] std::string find_restored_difference(const Checkpoint& checkpoint,
                                                   const CheckpointLayout& layout, double salt);

}  // namespace ptdp
