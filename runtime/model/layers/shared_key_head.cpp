#include "runtime/model/layers/shared_key_head.h"

#include <cassert>

namespace ptdp {
namespace {

/// Returns the rows of `buffer` from their column `first` on.
VectorRows columns_from(Buffer buffer, std::int64_t first, std::int64_t stride) {
  return {buffer.slice(first, buffer.size - first), stride};
}

}  // namespace

SharedKeyHead::SharedKeyHead(const LayerContext& context)
    : context_(context),
      head_size_(context.model().kv_channels),
      sharers_(context.tp() / context.model().num_query_groups) {
  assert(context.tp() % context.model().num_query_groups == 0 && head_size_ % sharers_ == 0);
  width_ = head_size_ / sharers_;
}

Tensor SharedKeyHead::parts() const {
  return context_.tensor(context_.rows() * 2 * width_ * context_.tp());
}

SharedKeyHead::OwnPart SharedKeyHead::own_part(Buffer parts) const {
  const Part part = part_of(parts.size, context_.tp(), context_.tensor_rank());
  const Buffer own = parts.slice(part.first, part.count);
  return {{own, 2 * width_}, columns_from(own, width_, 2 * width_)};
}

template <class Visit>
void SharedKeyHead::for_each_part(Buffer parts, Buffer head, const Visit& visit) const {
  const int first_rank = context_.tensor_rank() / sharers_ * sharers_;
  for (int sharer = 0; sharer < sharers_; ++sharer) {
    const Part part = part_of(parts.size, context_.tp(), first_rank + sharer);
    const Buffer of_rank = parts.slice(part.first, part.count);
    for (const int kind : {0, 1}) {  // keys, values
      visit(columns_from(of_rank, kind * width_, 2 * width_),
            columns_from(head, kind * head_size_ + sharer * width_, 2 * head_size_));
    }
  }
}

Tensor SharedKeyHead::gather(Buffer parts) const {
  context_.tensor_group().all_gather(parts);
  Tensor head = context_.tensor(context_.rows() * 2 * head_size_);
  for_each_part(parts, head, [&](const VectorRows& part, const VectorRows& of_head) {
    context_.backend().copy_columns(part, of_head, width_, context_.rows());
  });
  return head;
}

Tensor SharedKeyHead::reduce(Tensor gradient) const {
  Tensor all = parts();
  context_.backend().fill(all, 0.0);
  for_each_part(all, gradient, [&](const VectorRows& part, const VectorRows& of_head) {
    context_.backend().copy_columns(of_head, part, width_, context_.rows());
  });
  gradient.reset();
  context_.tensor_group().reduce_scatter(all);
  return all;
}

}  // namespace ptdp
