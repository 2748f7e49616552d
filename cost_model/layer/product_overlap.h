// Collectives of sequence parallelism that run within the products that use or make what they move,
// a chunk of the tokens beside the product of another.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// Whether they do: sequence parallelism over more ranks than one, in one node, whose GPUs write
/// into one another's memory. (A tensor-parallel group across nodes runs its collectives whole.)
[[nodiscard]] bool runs_within_products(const StackSpec& stack, const ParallelConfig& config,
                                        const GroupPlacement& group);

/// What collectives of a tensor-parallel group of n ranks cost beyond the products that they run
/// within, times P of the whole product and P' ≥ P of all of its chunks.
///
/// All-gather, n chunks on a ring: a rank's own is there, and while one is multiplied the next
/// comes by copy engines, which take no multiprocessor, in c = t_AG/(n−1):
///
///   t = P' − P + (n−1)·max(0, c − P'/n)
///
/// Reduce-scatter with user buffers, in k = 4 chunks: a kernel on some multiprocessors sums and
/// scatters one while the next is multiplied, which loses s = overlap_slowdown of the kernel's
/// time; the last chunk's, c = t_RS(S/k), is exposed:
///
///   t = P' − P + (k−1)·e + c,  e = c < P'/k ? s·c : c − P'/k + s·P'/k
///
/// Reduce-scatter in symmetric memory: n chunks, each copied to its rank beside the product of the
/// next, a rank's own last; then a kernel reads n results of S/n and writes their sum:
///
///   t = P' − P + (n−1)·max(0, t_RS/(n−1) − P'/n) + (S + S/n)/bandwidth
///
/// Source: TransformerEngine, transformer_engine/pytorch/csrc/comm_gemm_overlap.h
/// (split_overlap_ag, split_overlap_rs) and module/base.py initialize_ub (methods, num_splits,
/// use_ce); PyTorch, "Introducing Async Tensor Parallelism in PyTorch" (discuss.pytorch.org,
/// September 2024). Both put chunks on several streams, so that the tiles of two fill a wave
/// together: P' is that of products side by side. That copies are as fast as NCCL's rings is an
/// assumption. In symmetric memory backward passes run their collectives whole: that post has
/// forward passes of Llama 3 70B 20 % faster and steps 8 %. With every layer recomputed these are
/// half of a step, two forward passes of four, and (4 / (2 / 1.2 + 2) - 1) = 9 % is then all there
/// is.
class ProductOverlap {
 public:
  ProductOverlap(const Scenario& scenario, const GroupPlacement& group);

  /// Chunks of an all-gather, and of a reduce-scatter.
  [[nodiscard]] int gathered_chunks() const;
  [[nodiscard]] int scattered_chunks() const;
  /// Time beyond `product` of gathering `size`, the whole buffer, within it; `in_chunks` is P'.
  [[nodiscard]] Seconds of_gather(Bytes size, Seconds product, Seconds in_chunks) const;
  /// The same of summing and scattering.
  [[nodiscard]] Seconds of_scatter(Bytes size, Seconds product, Seconds in_chunks) const;

 private:
  const Scenario& scenario_;
  GroupPlacement group_;
};

/// What user buffers keep: one for each of a layer's ten products that a collective runs beside, of
/// all `tokens` of a group and h features. Symmetric memory keeps one. Source: as above, add_ub.
[[nodiscard]] Bytes overlap_buffers(const StackSpec& stack, double tokens, int hidden_size);

}  // namespace ptdp
