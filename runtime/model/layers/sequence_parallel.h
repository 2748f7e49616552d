// Gathers and sums rows of activations over the tensor-parallel group. With sequence parallelism a
// rank has n/t of the n rows between the parallel layers, which need all of them. Without it, and
// on one rank, all rows are here and nothing is gathered.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Returns this rank's rows of an activation with all rows.
[[nodiscard]] Buffer own_rows(const LayerContext& context, Buffer whole);
/// Gathers all rows in place; before the call, this rank's rows are there. 1 all-gather with
/// sequence parallelism.
void gather_rows(const LayerContext& context, Buffer whole);
/// Sums `whole` over ranks in place: own_rows(whole) hold the sums afterwards. 1 reduce-scatter
/// with sequence parallelism, else 1 all-reduce; nothing on one rank.
void sum_rows(const LayerContext& context, Buffer whole);
/// Begins sum_rows(). `whole` may be touched once the tensor-parallel group has waited for the
/// request. Does nothing on one rank.
[[nodiscard]] Request begin_sum_rows(const LayerContext& context, Buffer whole);

/// All rows of an activation: gathered with sequence parallelism, else the rows given.
class AllRows {
 public:
  /// Gathers all rows. `own` must outlive this object.
  AllRows(const LayerContext& context, Buffer own);
  /// Begins to gather all rows, which are there after wait(). `own` may be released if rows are
  /// gathered; otherwise it must outlive this object.
  [[nodiscard]] static AllRows begin(const LayerContext& context, Buffer own);
  /// Waits until all rows are gathered.
  void wait(const LayerContext& context) const { context.tensor_group().wait(gathering_); }
  // Not explicit: passed wherever the rows are meant.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  operator Buffer() const { return rows_; }

 private:
  AllRows() = default;
  /// Makes room for all rows, with `own` in its place.
  void place(const LayerContext& context, Buffer own);

  Tensor gathered_;
  Buffer rows_;
  Request gathering_;
};

}  // namespace ptdp
