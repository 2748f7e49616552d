#include "cost_model/operations/attention.h"

#include <cassert>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/operations/gemm.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

/// Sizes of attention to which the time of one core is proportional: it works on one head after
/// another.
constexpr std::size_t kHeads = 1;

/// Rate of a backward pass that sums gradients in a fixed order, over one that does not.
constexpr double kInOrder = 361.3 / 574.7;
constexpr double kBackwardWork = 2.5;  // FLOPs backward over forward, QKᵀ once more among them
constexpr double kAnyWidth = 0.5;      // farther than a head's own width, nearer than all others

/// Returns the GPU's entry of `kernel` for heads of `width`, or null if it has none of the kernel.
const AttentionRate* find_rate(const GpuSpec& gpu, std::string_view kernel, int width) {
  const AttentionRate* nearest = nullptr;
  const auto distance = [&](const AttentionRate& entry) {
    return std::pair(entry.head_width == 0 ? kAnyWidth : std::abs(1.0 * entry.head_width - width),
                     entry.head_width);
  };
  for (const AttentionRate& entry : gpu.attention_rates) {
    if (entry.kernel == kernel && (nearest == nullptr || distance(entry) < distance(*nearest))) {
      nearest = &entry;
    }
  }
  return nearest;
}

/// Returns `work` times the FLOPs of QKᵀ and PV for heads, tokens and width (`sizes`) where a token
/// attends to `attended`.
Flops fused_flops(double work, const OperationSizes& sizes, double attended) {
  const auto& [heads, tokens, width] = sizes;
  return Flops(work * 4.0 * heads * tokens * attended * width);
}

/// Returns heads, tokens and mean width of heads, as fused kernels are timed by.
OperationSizes fused_sizes(const TransformerConfig& model, int micro_batch_size, int tp) {
  return {1.0 * micro_batch_size * model.num_attention_heads / tp, 1.0 * model.seq_length,
          (query_head_width(model) + value_head_width(model)) / 2.0};
}

/// A pass of a fused kernel has these FLOPs and this rate.
struct Pass {
  double work = 1.0;         ///< Its FLOPs over those of QKᵀ and PV.
  FlopsPerSecond long_rate;  ///< What long sequences reach.
  double half_rate_length = 0.0;
  Seconds start;

  /// Returns its time for heads, tokens and width (`sizes`) where a token attends to `attended`.
  [[nodiscard]] Seconds time(const OperationSizes& sizes, double attended) const {
    return start + (1.0 + half_rate_length / (2.0 * attended)) *
                       (fused_flops(work, sizes, attended) / long_rate);
  }
};

/// Returns how many kinds of keys each query is multiplied by: those of tokens, and of positions.
double kinds_of_keys(const TransformerConfig& model) {
  return has_relative_positions(model) ? 2.0 : 1.0;
}

/// Products of unfused kernels.
struct UnfusedProducts {
  MatmulShape scores;     ///< QKᵀ.
  MatmulShape outputs;    ///< PV, and dV backward, which is of its size.
  MatmulShape of_values;  ///< Gradient of probabilities: an s×s result over the width of values.
  MatmulShape of_keys;    ///< Gradients of queries and of keys, each.
};

UnfusedProducts unfused_products(const TransformerConfig& model, int micro_batch_size, int tp,
                                 const StackSpec& stack) {
  const std::int64_t s = model.seq_length;
  const std::int64_t heads = std::int64_t{1} * micro_batch_size * model.num_attention_heads / tp;
  const int bytes = element_bytes(stack.precision);
  const auto product = [&](std::int64_t n, std::int64_t k) {
    return MatmulShape{.m = s,
                       .n = n,
                       .k = k,
                       .batch = heads,
                       .element_bytes = 1.0 * bytes,
                       .output_bytes = bytes};
  };
  const std::int64_t keys = query_head_width(model);
  const std::int64_t values = value_head_width(model);
  return {.scores = product(s, keys),
          .outputs = product(values, s),
          .of_values = product(s, values),
          .of_keys = product(keys, s)};
}

AttentionTime unfused_attention_time(const TransformerConfig& model, int micro_batch_size, int tp,
                                     const GpuSpec& gpu, const StackSpec& stack) {
  const FlopsPerSecond peak = gpu.peak(stack.precision);
  const auto time = [&](const MatmulShape& product) { return matmul_time(product, gpu, peak); };
  const auto [scores, outputs, of_values, of_keys] =
      unfused_products(model, micro_batch_size, tp, stack);
  const double kinds = kinds_of_keys(model);
  const LayerTraffic traffic = layer_traffic(model, micro_batch_size, tp, false, stack);
  return {.forward = kinds * time(scores) + time(outputs) +
                     memory_bound_time(traffic.attention_forward, gpu),
          .backward = time(of_values) + (time(outputs) + 2.0 * kinds * time(of_keys)) +
                      memory_bound_time(traffic.attention_backward, gpu)};
}

}  // namespace

AttentionWork attention_work(const TransformerConfig& model, int micro_batch_size, int tp,
                             const StackSpec& stack) {
  if (is_unfused(model, stack)) {
    const auto [scores, outputs, of_values, of_keys] =
        unfused_products(model, micro_batch_size, tp, stack);
    const double kinds = kinds_of_keys(model);
    const LayerTraffic traffic = layer_traffic(model, micro_batch_size, tp, false, stack);
    return {.forward = {kinds * matmul_flops(scores) + matmul_flops(outputs),
                        kinds * matmul_bytes(scores) + matmul_bytes(outputs) +
                            traffic.attention_forward},
            .backward = {matmul_flops(of_values) + matmul_flops(outputs) +
                             2.0 * kinds * matmul_flops(of_keys),
                         matmul_bytes(of_values) + matmul_bytes(outputs) +
                             2.0 * kinds * matmul_bytes(of_keys) + traffic.attention_backward}};
  }
  const auto flops = [&](double work) {
    return fused_flops(work, fused_sizes(model, micro_batch_size, tp),
                       attended_tokens(model, /*is_causal=*/true));
  };
  const double tokens = 1.0 * micro_batch_size * model.seq_length;
  const auto of_width = [&](std::int64_t width) {
    return Bytes(element_bytes(stack.precision) * tokens * static_cast<double>(width));
  };
  const bool is_latent = has_latent_attention(model);
  const Bytes queries = of_width(query_width(model) / tp);
  const Bytes context = of_width(context_width(model) / tp);
  const Bytes keys = is_latent ? queries : of_width(key_width_of_rank(model, tp));
  const Bytes values = is_latent ? context : keys;
  const Bytes inputs = queries + keys + values;
  return {.forward = {flops(1.0), inputs + context},
          .backward = {flops(kBackwardWork), 2.0 * inputs + 2.0 * context}};
}

AttentionTime attention_time(const TransformerConfig& model, int micro_batch_size, int tp,
                             const GpuSpec& gpu, const StackSpec& stack) {
  if (is_unfused(model, stack)) {
    return unfused_attention_time(model, micro_batch_size, tp, gpu, stack);
  }
  const bool drops = dropout_rates(model).attention > 0.0;
  const int width = query_head_width(model);
  const std::string& kernel = attention_kernel(gpu, stack);
  const AttentionRate* rate =
      drops ? find_rate(gpu, kernel + std::string(kWithDropout), width) : nullptr;
  if (rate == nullptr) {
    rate = find_rate(gpu, kernel, width);
  }
  assert(rate != nullptr);
  const OperationSizes sizes = fused_sizes(model, micro_batch_size, tp);
  const double attended = attended_tokens(model, /*is_causal=*/true);
  const auto corrected = [&](DeviceOperation operation, const Pass& pass) {
    const MeasuredOperation* measured =
        find_measured(gpu.measured_operations, operation, stack.precision);
    const auto whole = [&](const OperationSizes& at) { return pass.time(at, at[1] / 2.0); };
    return pass.time(sizes, attended) *
           (measured == nullptr
                ? 1.0
                : measured->correction(sizes, whole, gpu.num_multiprocessors == 1 ? kHeads : 0));
  };
  const double peak = gpu.peak(stack.precision).value();
  const Pass forward = {.long_rate = FlopsPerSecond(peak * rate->forward),
                        .half_rate_length = rate->half_rate_length,
                        .start = rate->start};
  const Pass backward = {
      .work = kBackwardWork,
      .long_rate = FlopsPerSecond(peak * rate->backward),
      .half_rate_length = rate->backward_half_rate_length.value_or(rate->half_rate_length),
      .start = rate->start};
  return {.forward = corrected(
              drops ? DeviceOperation::kDropoutAttention : DeviceOperation::kAttention, forward),
          .backward = corrected(drops ? DeviceOperation::kDropoutAttentionBackward
                                      : DeviceOperation::kAttentionBackward,
                                backward) /
                      (stack.deterministic ? kInOrder : 1.0)};
}

}  // namespace ptdp
