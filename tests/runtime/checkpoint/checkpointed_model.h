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
  int pp = 1;  ///< 1 or 2; the table is on both ends.
  int dp = 1;
  bool shards_states = false;
  bool shards_units =
      false;  ///< Gradients and weights too, where pp is 1: each layer, and the rest.
  int num_buckets = 1;
  DataType type = DataType::kFloat64;

  [[nodiscard]] int world_size() const { return tp * pp * dp; }
};

/// A rank of that layout, tp fastest, then dp.
class CheckpointedRank {
 public:
  CheckpointedRank(const CheckpointLayout& layout, int rank);

  /// Sets what the rank updates, and what pads to 0.
  void fill(double salt);
  /// The first element of masters, moments and weights that is not as fill() has it; empty if all
  /// are.
  [[nodiscard]] std::string find_difference(double salt);

  [[nodiscard]] Backend& backend() { return backend_; }
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }

 private:
  [[nodiscard]] std::vector<double> expected(const OwnedSlice& slice, int kind, double salt) const;

  CpuBackend backend_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Of that model, as far as a manifest says.
[[nodiscard]] TransformerConfig checkpointed_config();
[[nodiscard]] TrainingState state_at(std::int64_t step);

/// All ranks save, the way the executor has them do it.
void save_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout,
                     std::int64_t step, double salt);
/// Restores all ranks of a layout and compares; empty if all is as saved with the salt.
[[nodiscard]] std::string find_restored_difference(const Checkpoint& checkpoint,
                                                   const CheckpointLayout& layout, double salt);

}  // namespace ptdp
