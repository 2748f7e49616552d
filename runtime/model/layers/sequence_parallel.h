// Rows of activations over the tensor-parallel group. With sequence parallelism a rank has n/t of
// the n rows between the parallel layers, which need all of them; without it, and on one rank, all
// rows are here and nothing is gathered.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// This rank's rows of an activation with all rows.
[[nodiscard]] Buffer own_rows(const LayerContext& context, Buffer whole);
/// In place: before, this rank's rows are there; afterwards all of them. 1 all-gather.
void gather_rows(const LayerContext& context, Buffer whole);
/// In place: afterwards own_rows(whole) are the sum over ranks. 1 reduce-scatter, or 1 all-reduce
/// without sequence parallelism.
void sum_rows(const LayerContext& context, Buffer whole);
/// Begins that: `whole` may be touched once the tensor-parallel group has waited for it. Nothing
/// on one rank.
[[nodiscard]] Request begin_sum_rows(const LayerContext& context, Buffer whole);

/// All rows of an activation, gathered if need be, else those given.
class AllRows {
 public:
  /// `own` must outlive it.
  AllRows(const LayerContext& context, Buffer own);
  /// Those that begin to be gathered: they are there after wait(). `own` may be released where they
  /// are gathered, else must outlive it.
  [[nodiscard]] static AllRows begin(const LayerContext& context, Buffer own);
  void wait(const LayerContext& context) const { context.tensor_group().wait(gathering_); }
  // Passed where the rows are meant.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  operator Buffer() const { return rows_; }

 private:
  AllRows() = default;
  /// Makes room for all of them, with `own` in its place.
  void place(const LayerContext& context, Buffer own);

  Tensor gathered_;
  Buffer rows_;
  Request gathering_;
};

}  // namespace ptdp
