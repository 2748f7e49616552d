// Computes volumes and times of attention for each kind of context parallelism.
#include "cost_model/layer/context_parallel.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

/// Returns the number of key heads on a rank of the tensor-parallel group.
int key_heads(const TransformerConfig& model, int tp) {
  return has_latent_attention(model) ? model.num_attention_heads / tp
                                     : key_heads_of_rank(model, tp);
}

/// Sizes of what a rank of the tensor-parallel group has of some tokens.
struct AttentionOperands {
  Bytes queries;
  Bytes keys;
  Bytes values;
  Bytes outputs;
};

/// Computes the operands of `tokens` tokens per sequence on a rank of the tensor-parallel group.
/// For an all-to-all keys and values have at least cp heads.
AttentionOperands operands(const TransformerConfig& model, const ContextSharing& split,
                           std::int64_t tokens, Precision precision) {
  const double heads = 1.0 * model.num_attention_heads / split.tp;
  int groups = key_heads(model, split.tp);
  if (split.kind == ContextParallel::kAllToAll) {
    groups = std::max(groups, split.cp);
  }
  const auto of = [&](double rank_heads, int width) {
    return Bytes(1.0 * element_bytes(precision) * split.micro_batch_size *
                 static_cast<double>(tokens) * rank_heads * width);
  };
  return {.queries = of(heads, query_head_width(model)),
          .keys = of(groups, query_head_width(model)),
          .values = of(groups, value_head_width(model)),
          .outputs = of(heads, value_head_width(model))};
}

/// Returns the pairs of the slowest rank. A token sees min(position, w) keys, which grows ever more
/// slowly. Where balanced, the pair of chunks in the middle thus has most, else the last chunk.
double slowest_pairs(const TransformerConfig& model, const ContextSharing& split) {
  const double s = model.seq_length;
  const double held = s / split.cp;
  const double end = split.is_balanced ? (s + held) / 2.0 : s;
  return attended_pairs(model, end) - attended_pairs(model, end - held);
}

AttentionTime times(const AttentionTime& time, double factor) {
  return {.forward = time.forward * factor, .backward = time.backward * factor};
}

/// Whether the attention kernel skips masked pairs; an unfused one computes all.
bool saves_masked(const StackSpec& stack) {
  return stack.attention != "unfused";
}

ContextParallelTime ring_time(const TransformerConfig& model, const ContextSharing& split,
                              const GroupPlacement& group, const ClusterSpec& cluster,
                              const StackSpec& stack) {
  TransformerConfig block = model;
  block.seq_length = model.seq_length / split.cp;
  block.window_size = 0;
  const double cp = split.cp;
  const double s = model.seq_length;
  const double blocks =
      saves_masked(stack) ? cp * cp * slowest_pairs(model, split) / (s * s / 2.0) : cp;
  const AttentionTime computed =
      times(attention_time(block, split.micro_batch_size, split.tp, cluster.gpu, stack), blocks);

  // The causal step has half the pairs of the others, where balance does not halve these.
  const bool has_equal_steps = split.is_balanced || !saves_masked(stack);
  const AttentionTime causal = times(computed, 1.0 / (has_equal_steps ? cp : 2.0 * cp - 1.0));
  const AttentionTime other = has_equal_steps ? causal : times(causal, 2.0);

  const AttentionOperands held = operands(model, split, block.seq_length, stack.precision);
  const Bytes keys_and_values = held.keys + held.values;
  const Seconds message = message_time(keys_and_values, group, cluster);
  const Seconds message_with_gradients = message_time(2.0 * keys_and_values, group, cluster);
  const auto add_partial = [&](Bytes size) {
    return memory_bound_time(3.0 * (cp - 1.0) * size, cluster.gpu);
  };
  const auto behind = [&](Seconds sent, Seconds step) {
    return exposed_behind(sent, step, stack.overlap_slowdown);
  };
  return {
      .attention = {.forward = computed.forward + add_partial(held.outputs),
                    .backward = computed.backward + add_partial(held.queries + keys_and_values)},
      .exposed_forward =
          behind(message, causal.forward) + (cp - 2.0) * behind(message, other.forward),
      .exposed_backward = behind(message, other.backward) +
                          (cp - 2.0) * behind(message_with_gradients, other.backward) +
                          behind(message, causal.backward)};
}

ContextParallelTime all_gathered_time(const TransformerConfig& model, const ContextSharing& split,
                                      const GroupPlacement& group, const ClusterSpec& cluster,
                                      const StackSpec& stack) {
  const double share = saves_masked(stack)
                           ? slowest_pairs(model, split) / attended_pairs(model, model.seq_length)
                           : 1.0 / split.cp;
  const AttentionOperands whole = operands(model, split, model.seq_length, stack.precision);
  const Seconds gathers =
      all_gather_time(whole.keys, group, cluster) + all_gather_time(whole.values, group, cluster);
  const Seconds reductions = reduce_scatter_time(whole.keys, group, cluster) +
                             reduce_scatter_time(whole.values, group, cluster);
  return {.attention = times(
              attention_time(model, split.micro_batch_size, split.tp, cluster.gpu, stack), share),
          .exposed_forward = gathers,
          .exposed_backward = gathers + reductions};
}

ContextParallelTime exchanged_time(const TransformerConfig& model, const ContextSharing& split,
                                   const GroupPlacement& group, const ClusterSpec& cluster,
                                   const StackSpec& stack) {
  const AttentionOperands held =
      operands(model, split, model.seq_length / split.cp, stack.precision);
  Seconds exchanges;
  for (const Bytes size : {held.queries, held.keys, held.values, held.outputs}) {
    exchanges += all_to_all_time(size, group, cluster);
  }
  return {.attention = attention_time(model, split.micro_batch_size, split.tp * split.cp,
                                      cluster.gpu, stack),
          .exposed_forward = exchanges,
          .exposed_backward = exchanges};
}

}  // namespace

ContextSharing context_sharing(const ParallelConfig& config, const StackSpec& stack) {
  return {.kind = stack.context_parallel_kind,
          .micro_batch_size = config.micro_batch_size,
          .tp = config.tp,
          .cp = config.cp};
}

bool divides_sequence(const TransformerConfig& model, const ContextSharing& split) {
  const std::int64_t chunks = std::int64_t{split.is_balanced && split.cp > 1 ? 2 : 1} * split.cp;
  return model.seq_length % chunks == 0;
}

bool divides_heads(const TransformerConfig& model, const ContextSharing& split) {
  if (split.kind != ContextParallel::kAllToAll) {
    return true;
  }
  const int groups = key_heads(model, split.tp);
  return model.num_attention_heads % (std::int64_t{1} * split.tp * split.cp) == 0 &&
         (groups % split.cp == 0 || split.cp % groups == 0);
}

ContextParallelVolume context_parallel_volume(const TransformerConfig& model,
                                              const ContextSharing& split, Precision precision) {
  const AttentionOperands held = operands(model, split, model.seq_length / split.cp, precision);
  const Bytes keys_and_values = held.keys + held.values;
  switch (split.kind) {
    case ContextParallel::kRing:
    case ContextParallel::kAllGather: {
      const double others = split.cp - 1;
      return {.forward = others * keys_and_values, .backward = 2.0 * others * keys_and_values};
    }
    case ContextParallel::kAllToAll: {
      const Bytes sent = all_to_all_volume(held.queries + keys_and_values + held.outputs, split.cp);
      return {.forward = sent, .backward = sent};
    }
  }
  return {};
}

ContextParallelTime context_parallel_time(const TransformerConfig& model,
                                          const ContextSharing& split, const GroupPlacement& group,
                                          const ClusterSpec& cluster, const StackSpec& stack) {
  assert(group.size == split.cp);
  assert(divides_sequence(model, split) && divides_heads(model, split));
  if (split.cp == 1) {
    return {.attention =
                attention_time(model, split.micro_batch_size, split.tp, cluster.gpu, stack)};
  }
  switch (split.kind) {
    case ContextParallel::kRing:
      return ring_time(model, split, group, cluster, stack);
    case ContextParallel::kAllGather:
      return all_gathered_time(model, split, group, cluster, stack);
    case ContextParallel::kAllToAll:
      return exchanged_time(model, split, group, cluster, stack);
  }
  return {};
}

}  // namespace ptdp
