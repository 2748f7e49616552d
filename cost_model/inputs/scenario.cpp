#include "cost_model/inputs/scenario.h"

#include <algorithm>

#include "cost_model/error.h"

namespace ptdp {

FlopsPerSecond matmul_peak(const Scenario& scenario) {
  const GpuSpec& gpu = scenario.cluster.gpu;
  return !scenario.stack.fp8                 ? gpu.peak(scenario.stack.precision)
         : bits_of(*scenario.stack.fp8) == 4 ? gpu.peak_fp4
                                             : gpu.peak_fp8;
}

const std::string& attention_kernel(const GpuSpec& gpu, const StackSpec& stack) {
  const auto has_rate = [&](const std::string& kernel) {
    return std::ranges::any_of(gpu.attention_rates,
                               [&](const AttentionRate& rate) { return rate.kernel == kernel; });
  };
  const bool is_other =
      stack.attention != "unfused" && !has_rate(stack.attention) && has_rate(stack.other_attention);
  return is_other ? stack.other_attention : stack.attention;
}

void check(const Scenario& scenario) {
  const ClusterSpec& cluster = scenario.cluster;
  const StackSpec& stack = scenario.stack;
  if (cluster.gpu.peak(stack.precision).value() <= 0.0) {
    throw Error("stack " + stack.name + " trains in " + std::string(name_of(stack.precision)) +
                ", for which " + cluster.gpu.name + " of cluster " + cluster.name +
                " has no matrix units");
  }
  if (stack.precision == Precision::kTf32 && stack.memory_model == MemoryModel::kPtdp) {
    throw Error("stack " + stack.name +
                " trains in tf32: this project's runtime multiplies fp32 numbers as they are; "
                "expected fp32");
  }
  if (has_relative_positions(scenario.job.model) && stack.memory_model == MemoryModel::kPtdp) {
    throw Error("stack " + stack.name + " does not run position_embedding relative, which model " +
                scenario.job.model_name + " has; expected learned, rope or none, or another stack");
  }
  if (stack.fp8) {
    const bool is_mx = *stack.fp8 == Fp8Scaling::kMx;
    if (matmul_peak(scenario).value() <= 0.0 || (is_mx && !cluster.gpu.fp8_mx)) {
      throw Error("stack " + stack.name + " trains linear layers in " +
                  std::string(name_of(*stack.fp8)) + ", for which " + cluster.gpu.name +
                  " of cluster " + cluster.name + " has no matrix units; expected a GPU with " +
                  (is_mx                      ? "fp8_mx"
                   : bits_of(*stack.fp8) == 4 ? "peak_fp4_TFLOPs"
                                              : "peak_fp8_TFLOPs") +
                  ", or precision " + std::string(name_of(stack.precision)));
    }
  }
  const std::string& kernel = attention_kernel(cluster.gpu, stack);
  const bool has_rate =
      std::any_of(cluster.gpu.attention_rates.begin(), cluster.gpu.attention_rates.end(),
                  [&](const AttentionRate& rate) { return rate.kernel == kernel; });
  if (stack.attention != "unfused" && !has_rate) {
    throw Error("stack " + stack.name + " uses " + stack.attention + " attention, for which " +
                cluster.gpu.name + " of cluster " + cluster.name + " has no measured rate");
  }
  if (stack.tp_comm_overlap != TpCommOverlap::kNone && stack.memory_model == MemoryModel::kPtdp) {
    throw Error("stack " + stack.name +
                " has tp_comm_overlap: this project's runtime does not cut products into chunks; "
                "expected none");
  }
  if (stack.tensor_parallel_overlap && !can_overlap_tensor(stack)) {
    throw Error("stack " + stack.name +
                " has tensor_parallel_overlap: a host's collectives are done when they are begun, "
                "so none runs behind a product; expected false, and no tensor in --overlap");
  }
}

}  // namespace ptdp
