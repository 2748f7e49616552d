#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {

Buffer own_rows(const LayerContext& context, Buffer whole) {
  if (!context.scatters_sequence()) {
    return whole;
  }
  const Part part = part_of(whole.size, context.tp(), context.tensor_rank());
  return whole.slice(part.first, part.count);
}

void gather_rows(const LayerContext& context, Buffer whole) {
  if (context.scatters_sequence()) {
    context.tensor_group().all_gather(whole);
  }
}

void sum_rows(const LayerContext& context, Buffer whole) {
  if (context.scatters_sequence()) {
    context.tensor_group().reduce_scatter(whole);
  } else if (context.tp() > 1) {
    context.tensor_group().all_reduce(whole, Reduction::kSum);
  }
}

Request begin_sum_rows(const LayerContext& context, Buffer whole) {
  if (context.scatters_sequence()) {
    return context.tensor_group().begin_reduce_scatter(whole);
  }
  return context.tp() > 1 ? context.tensor_group().begin_all_reduce(whole, Reduction::kSum)
                          : Request{};
}

void AllRows::place(const LayerContext& context, Buffer own) {
  rows_ = own;
  if (context.scatters_sequence()) {
    gathered_ = context.tensor(own.size * context.tp());
    rows_ = gathered_;
    context.backend().copy(own, own_rows(context, rows_));
  }
}

AllRows::AllRows(const LayerContext& context, Buffer own) {
  place(context, own);
  gather_rows(context, rows_);
}

AllRows AllRows::begin(const LayerContext& context, Buffer own) {
  AllRows rows;
  rows.place(context, own);
  if (context.scatters_sequence()) {
    rows.gathering_ = context.tensor_group().begin_all_gather(rows.rows_);
  }
  return rows;
}

}  // namespace ptdp
