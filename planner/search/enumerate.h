// The candidates of a search: every configuration that the pins allow.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// The tensor-parallel sizes: 1 to the number of heads (or what is pinned), at most `gpus`.
[[nodiscard]] std::vector<int> enumerate_tp(const Scenario& scenario, std::int64_t gpus,
                                            const Pins& pins);

/// A way to split a model over GPUs. There may be millions.
struct ModelSplit {
  int tp = 1;
  int pp = 1;
  int cp = 1;

  [[nodiscard]] std::int64_t gpus() const { return std::int64_t{1} * tp * pp * cp; }
};

/// The ways to split a model with this tp: pp from 1 to the number of layers, and with each cp 1
/// and, where the stack runs it, the powers of two that leave each GPU at least 2048 tokens of a
/// sequence (or what is pinned), on at most `gpus`. Shorter parts were not found in published runs,
/// and each cp costs about as much to search as the rest.
[[nodiscard]] std::vector<ModelSplit> enumerate_splits(const Scenario& scenario, std::int64_t gpus,
                                                       const Pins& pins, int tp);

/// A configuration with these degrees. Where the stack runs any number of layers per stage and they
/// do not divide, layers_per_stage holds an even split, for the search to balance.
[[nodiscard]] ParallelConfig split_config(const Scenario& scenario, const Pins& pins,
                                          const ModelSplit& split);

/// The split with every vpp (1 to the layers per stage, where embedding and logits may be chunks
/// without layers if the stack runs any number of layers) and schedule of so many chunks,
/// recomputation, sequence parallelism and ZeRO stage that the stack can run or that is pinned,
/// with several stages every order of ranks that is pinned, and of a model with experts every ep
/// that divides them, with etp 1 and tp. Where gradients are sharded in every microbatch and the
/// stack runs it, every power of two that divides the batch as dp_replicate, and where weights are,
/// with and without reshard_after_forward.
/// Recomputation is of the stack's usual modules and of all layers, or of what is pinned.
/// 1F1B and its interleaved form are always there, so that a stack that cannot run them is seen to;
/// one stage has no other schedule than 1F1B.
[[nodiscard]] std::vector<ParallelConfig> enumerate_variants(const Scenario& scenario,
                                                             const Pins& pins,
                                                             const ParallelConfig& split);

/// Variants of a split, one number of virtual stages after another: all may not fit into memory.
class Variants {
 public:
  /// Keeps references to the scenario and the pins.
  Variants(const Scenario& scenario, const Pins& pins, ParallelConfig split);

  /// Every vpp, ascending.
  [[nodiscard]] const std::vector<std::int64_t>& chunks() const { return chunks_; }
  [[nodiscard]] std::vector<ParallelConfig> with_chunks(std::int64_t vpp) const;

 private:
  /// With every schedule that has so many chunks, as far as the pins allow.
  [[nodiscard]] std::vector<ParallelConfig> interleavings(std::int64_t vpp) const;

  const Scenario& scenario_;
  const Pins& pins_;
  ParallelConfig split_;
  std::vector<std::int64_t> chunks_;
  std::vector<ScheduleKind> schedules_;
  std::vector<Recompute> recomputes_;
  std::vector<std::pair<int, int>> experts_;  // ep, etp
  std::vector<bool> sequences_;               // whether sequence-parallel
  std::vector<ParallelConfig> placements_;    // what add_placements chose
};

/// A number of replicas, and the microbatch sizes that divide the batch of each.
struct Replicas {
  int dp = 1;
  std::vector<int> micro_batch_sizes;  ///< Ascending.
};

/// Every dp up to `gpus` that divides the batch, ascending, with the microbatch sizes that divide
/// the batch of a replica; and those pinned as single numbers, whether they divide or not. Fewer
/// replicas than there is room for leave GPUs idle: they win where the batch does not divide by
/// more, or where every GPU costs.
[[nodiscard]] std::vector<Replicas> enumerate_replicas(const Scenario& scenario, std::int64_t gpus,
                                                       const Pins& pins);

/// Whether a variant with its number of replicas is a candidate: it uses at most `gpus`, and ZeRO
/// has something to shard over, within a replica of the shards at least a node. With one replica
/// all stages are the same, so stage 0 stands for them where it may be chosen.
[[nodiscard]] bool is_candidate(const Scenario& scenario, const ParallelConfig& config,
                                std::int64_t gpus, const Pins& pins);

}  // namespace ptdp
