// Times collectives within products, chunk by chunk.
#include "cost_model/layer/product_overlap.h"

#include <algorithm>

#include "cost_model/network/collectives.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

constexpr int kScatteredChunks = 4;  // initialize_ub's num_splits
constexpr double kUserBuffersOfALayer = 10.0;

}  // namespace

bool runs_within_products(const StackSpec& stack, const ParallelConfig& config,
                          const GroupPlacement& group) {
  return stack.tp_comm_overlap != TpCommOverlap::kNone && config.tp > 1 &&
         config.sequence_parallel && group.is_within_node();
}

ProductOverlap::ProductOverlap(const Scenario& scenario, const GroupPlacement& group)
    : scenario_(scenario), group_(group) {}

int ProductOverlap::gathered_chunks() const {
  return static_cast<int>(group_.size);
}

int ProductOverlap::scattered_chunks() const {
  return scenario_.stack.tp_comm_overlap == TpCommOverlap::kUserBuffers ? kScatteredChunks
                                                                        : gathered_chunks();
}

Seconds ProductOverlap::of_gather(Bytes size, Seconds product, Seconds in_chunks) const {
  if (size.value() == 0.0) {
    return Seconds(0.0);
  }
  const double n = gathered_chunks();
  const Seconds step = all_gather_time(size, group_, scenario_.cluster) / (n - 1.0);
  const Seconds all = std::max(in_chunks, product);
  return all - product + (n - 1.0) * exposed_behind(step, all / n, 0.0);
}

Seconds ProductOverlap::of_scatter(Bytes size, Seconds product, Seconds in_chunks) const {
  if (size.value() == 0.0) {
    return Seconds(0.0);
  }
  const double chunks = scattered_chunks();
  const Seconds all = std::max(in_chunks, product);
  if (scenario_.stack.tp_comm_overlap == TpCommOverlap::kUserBuffers) {
    const Seconds step = reduce_scatter_time(size / chunks, group_, scenario_.cluster);
    return all - product + step +
           (chunks - 1.0) * exposed_behind(step, all / chunks, scenario_.stack.overlap_slowdown);
  }
  const Seconds step = reduce_scatter_time(size, group_, scenario_.cluster) / (chunks - 1.0);
  return all - product + (chunks - 1.0) * exposed_behind(step, all / chunks, 0.0) +
         memory_bound_time(size + size / chunks, scenario_.cluster.gpu);
}

Bytes overlap_buffers(const StackSpec& stack, double tokens, int hidden_size) {
  const Bytes buffer(element_bytes(stack.precision) * tokens * hidden_size);
  switch (stack.tp_comm_overlap) {
    case TpCommOverlap::kNone:
      return Bytes(0.0);
    case TpCommOverlap::kUserBuffers:
      return kUserBuffersOfALayer * buffer;
    case TpCommOverlap::kSymmetricMemory:
      return buffer;
  }
  return Bytes(0.0);
}

}  // namespace ptdp
