// The candidates of a search: every configuration that the pins allow.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// Returns the tensor-parallel sizes to look at: 1 to the number of heads, or what is pinned, at
/// most `gpus`.
[[nodiscard]] std::vector<int> enumerate_tp(const Scenario& scenario, std::int64_t gpus,
                                            const SearchSpace& space);

/// A way to split a model over GPUs. A search may have millions of them.
struct Degrees {
  int tp = 1;
  int pp = 1;
  int cp = 1;

  /// Returns the number of GPUs of one replica.
  [[nodiscard]] std::int64_t gpus() const { return std::int64_t{1} * tp * pp * cp; }
};

/// Returns the ways to split a model with this tp on at most `gpus`:
///
///   - pp from 1 to the number of layers, or what is pinned;
///   - cp 1, or what is pinned. When the stack runs context parallelism, also the powers of two
///     that leave each GPU at least 2048 tokens of a sequence.
///
/// Shorter parts of a sequence were not found in published runs, and each cp costs about as much to
/// search as the rest.
[[nodiscard]] std::vector<Degrees> enumerate_degrees(const Scenario& scenario, std::int64_t gpus,
                                                     const SearchSpace& space, int tp);

/// Returns a configuration with these degrees. Its layers_per_stage holds an even split, for the
/// search to balance, when layers do not divide and the stack runs any number per stage.
[[nodiscard]] ParallelConfig config_of_degrees(const Scenario& scenario, const SearchSpace& space,
                                               const Degrees& degrees);

/// Returns every variant of a split that the stack can run or that is pinned. A variant has one
/// value for each of these:
///
///   - vpp from 1 to the layers per stage. Embedding and logits may be chunks without layers when
///     the stack runs any number of layers per stage.
///   - A schedule that has so many chunks. 1F1B and its interleaved form are always there, so that
///     a stack that cannot run them is counted as such. One stage has no other schedule than 1F1B.
///   - Recomputation of the stack's usual modules, of all layers, or of what is pinned.
///   - Sequence parallelism and the ZeRO stage.
///   - With several stages, every order of ranks that is pinned.
///   - For a model with experts, every ep that divides them, with etp 1 and tp.
///   - When gradients are sharded in every microbatch and the stack can, every power of two that
///     divides the batch as dp_replicate.
///   - When weights are sharded and the stack can, reshard_after_forward on and off.
[[nodiscard]] std::vector<ParallelConfig> enumerate_variants(const Scenario& scenario,
                                                             const SearchSpace& space,
                                                             const ParallelConfig& degrees);

/// Variants of a split, made for one number of chunks (vpp) at a time: all of them may not fit into
/// the memory of the planner.
class Variants {
 public:
  /// Keeps references to the scenario and the pins.
  Variants(const Scenario& scenario, const SearchSpace& space, ParallelConfig degrees);

  /// Returns every vpp to look at, ascending.
  [[nodiscard]] const std::vector<std::int64_t>& chunks() const { return chunks_; }
  /// Returns the variants with `vpp` chunks per pipeline rank, as enumerate_variants() says.
  [[nodiscard]] std::vector<ParallelConfig> with_chunks(std::int64_t vpp) const;

 private:
  /// Returns the split with `vpp` chunks and every schedule that has so many chunks, as far as the
  /// pins allow. A searched schedule is there once for each memory limit.
  [[nodiscard]] std::vector<ParallelConfig> interleavings(std::int64_t vpp) const;

  const Scenario& scenario_;
  const SearchSpace& space_;
  ParallelConfig degrees_;
  std::vector<std::int64_t> chunks_;
  std::vector<ScheduleKind> schedules_;
  std::vector<Recompute> recomputes_;
  std::vector<std::pair<int, int>> experts_;  // ep, etp
  std::vector<bool> sequences_;               // whether sequence-parallel
  std::vector<ParallelConfig> placements_;    // what add_placements chose
};

/// A number of replicas, with the microbatch sizes to look at.
struct Replicas {
  int dp = 1;
  std::vector<int> micro_batch_sizes;  ///< Sequences per microbatch, ascending.
};

/// Returns every dp up to `gpus` that divides the batch, ascending, with the microbatch sizes that
/// divide the batch of a replica. A dp or a size pinned as a single number is there whether it
/// divides or not. Fewer replicas than there is room for leave GPUs idle: they win when the batch
/// does not divide by more, or when every GPU costs.
[[nodiscard]] std::vector<Replicas> enumerate_replicas(const Scenario& scenario, std::int64_t gpus,
                                                       const SearchSpace& space);

/// Returns whether a variant with its number of replicas is a candidate. It must use at most
/// `gpus`, ZeRO must have replicas to shard over, and each replica of the shards must span at least
/// a node. With one replica all ZeRO stages are equal, so stage 0 stands for them when it may be
/// chosen.
[[nodiscard]] bool is_candidate(const Scenario& scenario, const ParallelConfig& config,
                                std::int64_t gpus, const SearchSpace& space);

}  // namespace ptdp
