// The key head of a rank where a tensor-parallel group has more ranks than the model has key heads.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// A key head, with its values, that several ranks of a tensor-parallel group share. Each projects
/// an equal part of the head's d elements, and attends with its own queries to all of the head. So
/// weights stay split evenly, as in Megatron-Core since 0.16 (attention.py).
class SharedKeyHead {
 public:
  /// The group's size must be a multiple of the model's key heads, and d one of the ranks that
  /// share a head.
  explicit SharedKeyHead(const LayerContext& context);

  /// Returns the head's keys and values, [n, 2d], from the parts that all ranks have projected.
  /// `parts` are this rank's, [n, 2d/ranks]. 1 all-gather of n·2·(key heads)·d elements.
  [[nodiscard]] Tensor gather(const VectorRows& parts) const;
  /// Replaces `parts` by the sums over ranks of their gradients, from this rank's gradient of the
  /// head's keys and values, [n, 2d], which it releases. 1 reduce-scatter of as many elements.
  void reduce(Tensor gradient, const VectorRows& parts) const;

 private:
  /// Calls visit(part, of_head) for keys and for values of each rank that shares the head: their
  /// place in `gathered` and in `head`.
  template <class Visit>
  void for_each_part(Buffer gathered, Buffer head, const Visit& visit) const;
  /// Returns the elements that all ranks have projected.
  [[nodiscard]] Tensor gathered() const;
  /// Returns this rank's part of them, [n, 2d/ranks].
  [[nodiscard]] VectorRows own_part(Buffer gathered) const;

  const LayerContext& context_;
  std::int64_t head_size_;  ///< Size of a head, d.
  std::int64_t width_;      ///< Elements of the head that a rank projects.
  int sharers_;             ///< Number of ranks that share a head.
};

}  // namespace ptdp
