// Collectives of sequence parallelism that run within the products that use or make what they move.
// A chunk of the tokens travels beside the product of another chunk.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// Whether collectives run within products. The stack must do so, with sequence parallelism over
/// more than one rank in a single node, whose GPUs write into one another's memory. A
/// tensor-parallel group across nodes runs its collectives whole.
[[nodiscard]] bool runs_within_products(const StackSpec& stack, const ParallelConfig& config,
                                        const GroupPlacement& group);

/// Time that collectives of a tensor-parallel group of n ranks cost beyond the products that they
/// run within. P is the time of the whole product, and P' ≥ P that of all of its chunks.
///
/// All-gather, n chunks on a ring: a rank's own is there. While one is multiplied, the next comes
/// by copy engines, which take no multiprocessor, in c = t_AG/(n−1):
///
///   t = P' − P + (n−1)·max(0, c − P'/n)
///
/// Reduce-scatter with user buffers, in k = 4 chunks: a kernel on some multiprocessors sums and
/// scatters one while the next is multiplied, which loses s = overlap_slowdown of the kernel's
/// time. The last chunk's time, c = t_RS(S/k), is exposed:
///
///   t = P' − P + (k−1)·e + c,  e = c < P'/k ? s·c : c − P'/k + s·P'/k
///
/// Reduce-scatter in symmetric memory: n chunks, each copied to its rank beside the product of the
/// next, a rank's own last. After that a kernel reads n results of S/n and writes their sum:
///
///   t = P' − P + (n−1)·max(0, t_RS/(n−1) − P'/n) + (S + S/n)/bandwidth
///
/// Source: TransformerEngine, transformer_engine/pytorch/csrc/comm_gemm_overlap.h
/// (split_overlap_ag, split_overlap_rs) and module/base.py initialize_ub (methods, num_splits,
/// use_ce); PyTorch, "Introducing Async Tensor Parallelism in PyTorch" (discuss.pytorch.org,
/// September 2024). Both put chunks on several streams, so that the tiles of two fill a wave
/// together: P' is that of products side by side. That copies are as fast as NCCL's rings is an
/// assumption.
///
/// In symmetric memory backward passes run their collectives whole: that post has forward passes of
/// Llama 3 70B 20 % faster and steps 8 %. With every layer recomputed, forward passes are half of a
/// step: two of four. The most that a step can gain is then (4 / (2 / 1.2 + 2) - 1) = 9 %.
class ProductOverlap {
 public:
  /// Keeps a reference to `scenario`, which must outlive the object. `group` is the placement of
  /// the tensor-parallel group.
  ProductOverlap(const Scenario& scenario, const GroupPlacement& group);

  [[nodiscard]] int gathered_chunks() const;  ///< Returns the number of chunks of an all-gather: n.
  /// Returns the number of chunks of a reduce-scatter: 4 with user buffers, else n.
  [[nodiscard]] int scattered_chunks() const;
  /// Returns the time beyond `product` that gathering `size` within that product takes. `size` is
  /// the whole gathered buffer, and `in_chunks` is P', the product's time in chunks.
  [[nodiscard]] Seconds of_gather(Bytes size, Seconds product, Seconds in_chunks) const;
  /// Returns the time beyond `product` that summing and scattering `size` within that product
  /// takes. `size` is the whole buffer, and `in_chunks` is P', the product's time in chunks.
  [[nodiscard]] Seconds of_scatter(Bytes size, Seconds product, Seconds in_chunks) const;

 private:
  const Scenario& scenario_;
  GroupPlacement group_;
};

/// Returns the memory of buffers for collectives within products. User buffers keep one for each of
/// a layer's ten products that a collective runs beside. A buffer holds all `tokens` of a group and
/// h features. Symmetric memory keeps one in all. Source: TransformerEngine, module/base.py
/// (add_ub).
[[nodiscard]] Bytes overlap_buffers(const StackSpec& stack, double tokens, int hidden_size);

}  // namespace ptdp
