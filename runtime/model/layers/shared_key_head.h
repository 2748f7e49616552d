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

  /// Keys and values of a rank's part of the head, side by side in rows, [n, width()] each.
  struct OwnPart {
    VectorRows keys;
    VectorRows values;
  };

  /// Returns the number of elements of the head that a rank projects.
  [[nodiscard]] std::int64_t width() const { return width_; }
  /// Allocates memory for the parts of all ranks, of n·2·(key heads)·d elements.
  [[nodiscard]] Tensor parts() const;
  /// Returns this rank's part of them.
  [[nodiscard]] OwnPart own_part(Buffer parts) const;
  /// Returns the head's keys and values, [n, 2d], from `parts`, of which each rank has written its
  /// own. 1 all-gather of `parts`.
  [[nodiscard]] Tensor gather(Buffer parts) const;
  /// Returns `parts` of which this rank's own are sums over ranks of gradients. Releases
  /// `gradient`, this rank's gradient of the head's keys and values, [n, 2d]. 1 reduce-scatter of
  /// `parts`.
  [[nodiscard]] Tensor reduce(Tensor gradient) const;

 private:
  /// Calls visit(part, of_head) for keys and for values of each rank that shares the head: their
  /// place in `parts` and in `head`.
  template <class Visit>
  void for_each_part(Buffer parts, Buffer head, const Visit& visit) const;

  const LayerContext& context_;
  std::int64_t head_size_;  ///< Size of a head, d.
  std::int64_t width_;      ///< Elements of the head that a rank projects.
  int sharers_;             ///< Number of ranks that share a head.
};

}  // namespace ptdp
