#include "cost_model/operations/attention.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <string_view>

#include "cost_model/operations/gemm.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

/// Sizes of attention to which the time of one core is proportional: it works on one head after
/// another.
constexpr std::size_t kHeads = 1;

AttentionTime unfused_attention_time(const TransformerConfig& model, int micro_batch_size, int tp,
                                     const GpuSpec& gpu, const StackSpec& stack) {
  const FlopsPerSecond peak = gpu.peak(stack.precision);
  const std::int64_t s = model.seq_length;
  const std::int64_t heads = std::int64_t{1} * micro_batch_size * model.num_attention_heads / tp;
  // Products with an s×s result (QKᵀ, dP) and with an s×width result (PV, dV, dQ, dK).
  const int bytes = element_bytes(stack.precision);
  const auto product = [&](std::int64_t n, std::int64_t k) {
    return matmul_time({.m = s,
                        .n = n,
                        .k = k,
                        .batch = heads,
                        .element_bytes = 1.0 * bytes,
                        .output_bytes = bytes},
                       gpu, peak);
  };
  const std::int64_t keys = query_head_width(model);
  const std::int64_t values = value_head_width(model);
  const LayerTraffic traffic =
      layer_traffic(model, micro_batch_size, tp, false, stack.fused_element_wise, bytes);
  return {.forward = product(s, keys) + product(values, s) +
                     memory_bound_time(traffic.attention_forward, gpu),
          .backward = product(s, values) + (product(values, s) + 2.0 * product(keys, s)) +
                      memory_bound_time(traffic.attention_backward, gpu)};
}

}  // namespace

AttentionTime attention_time(const TransformerConfig& model, int micro_batch_size, int tp,
                             const GpuSpec& gpu, const StackSpec& stack) {
  if (stack.attention == "unfused") {
    return unfused_attention_time(model, micro_batch_size, tp, gpu, stack);
  }
  const FlopsPerSecond peak = gpu.peak(stack.precision);
  const bool drops = dropout_rates(model).attention > 0.0;
  const auto rate_of = [&](const std::string& kernel) {
    return std::find_if(gpu.attention_rates.begin(), gpu.attention_rates.end(),
                        [&](const AttentionRate& entry) { return entry.kernel == kernel; });
  };
  auto rate = rate_of(stack.attention + std::string(kWithDropout));
  if (!drops || rate == gpu.attention_rates.end()) {
    rate = rate_of(stack.attention);
  }
  assert(rate != gpu.attention_rates.end());
  const double s = model.seq_length;
  const double widths = query_head_width(model) + value_head_width(model);
  const Flops causal(1.0 * micro_batch_size * s * s * model.num_attention_heads * widths / tp);
  const double in_window = attended_tokens(model, /*is_causal=*/true) / (s / 2.0);
  const Seconds forward = causal / FlopsPerSecond(peak.value() * rate->forward);
  const Seconds backward = 2.5 * causal / FlopsPerSecond(peak.value() * rate->backward);

  const OperationSizes sizes = {1.0 * micro_batch_size * model.num_attention_heads / tp, s,
                                widths / 2.0};
  const auto correction = [&](DeviceOperation operation, Seconds modelled) {
    const MeasuredOperation* measured =
        find_measured(gpu.measured_operations, operation, stack.precision);
    const double of_size = sizes[0] * sizes[1] * sizes[1] * sizes[2];
    return measured == nullptr ? 1.0
                               : measured->correction(
                                     sizes,
                                     [&](const OperationSizes& at) {
                                       return modelled * (at[0] * at[1] * at[1] * at[2] / of_size);
                                     },
                                     gpu.num_multiprocessors == 1 ? kHeads : 0);
  };
  const Seconds whole =
      forward *
      correction(drops ? DeviceOperation::kDropoutAttention : DeviceOperation::kAttention, forward);
  const Seconds whole_backward =
      backward * correction(drops ? DeviceOperation::kDropoutAttentionBackward
                                  : DeviceOperation::kAttentionBackward,
                            backward);
  return {.forward = whole * in_window, .backward = whole_backward * in_window};
}

}  // namespace ptdp
