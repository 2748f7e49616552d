// Times the element-wise operations of layers and ends of the model, one by one.
#include "cost_model/layer/element_wise.h"

#include <optional>

#include "cost_model/layer/element_wise_operations.h"

namespace ptdp {
namespace {

/// Operations that together do what another one does.
struct Parts {
  DeviceOperation sum = DeviceOperation::kAdd;
  DeviceOperation norm = DeviceOperation::kLayerNorm;
};

/// Returns the parts of an operation that does two things at once; nullopt for others.
std::optional<Parts> parts_of(DeviceOperation operation) {
  switch (operation) {
    case DeviceOperation::kSumLayerNorm:
      return Parts{DeviceOperation::kBiasAdd, DeviceOperation::kLayerNorm};
    case DeviceOperation::kSumRmsNorm:
      return Parts{DeviceOperation::kAdd, DeviceOperation::kRmsNorm};
    case DeviceOperation::kDropoutSumLayerNorm:
      return Parts{DeviceOperation::kBiasDropoutAdd, DeviceOperation::kLayerNorm};
    case DeviceOperation::kDropoutSumRmsNorm:
      return Parts{DeviceOperation::kBiasDropoutAdd, DeviceOperation::kRmsNorm};
    case DeviceOperation::kLayerNormBackwardBias:
      return Parts{DeviceOperation::kBiasGradient, DeviceOperation::kLayerNormBackward};
    case DeviceOperation::kRmsNormBackwardBias:
      return Parts{DeviceOperation::kBiasGradient, DeviceOperation::kRmsNormBackward};
    default:
      return std::nullopt;
  }
}

}  // namespace

double element_wise_passes(DeviceOperation operation) {
  switch (operation) {
    case DeviceOperation::kForwardProduct:
    case DeviceOperation::kInputGradientProduct:
    case DeviceOperation::kWeightGradientProduct:
    case DeviceOperation::kAttention:
    case DeviceOperation::kAttentionBackward:
    case DeviceOperation::kDropoutAttention:
    case DeviceOperation::kDropoutAttentionBackward:
    case DeviceOperation::kBiasGradientEpilogue:
      return 0.0;
    case DeviceOperation::kGeluEpilogue:
    case DeviceOperation::kBiasGradient:
    case DeviceOperation::kPositionGradient:
    case DeviceOperation::kFill:
    case DeviceOperation::kAddSquares:
      return 1.0;
    case DeviceOperation::kLayerNorm:
    case DeviceOperation::kRmsNorm:
    case DeviceOperation::kRowProducts:
    case DeviceOperation::kRotary:
    case DeviceOperation::kScale:
    case DeviceOperation::kSoftCap:
    case DeviceOperation::kBias:
    case DeviceOperation::kDropoutBackward:
    case DeviceOperation::kCopy:
    case DeviceOperation::kEmbedding:
    case DeviceOperation::kPositions:
    case DeviceOperation::kCrossEntropy:
    case DeviceOperation::kCrossEntropyBackward:
      return 2.0;
    case DeviceOperation::kBiasGelu:
    case DeviceOperation::kGeluBackward:
    case DeviceOperation::kGatedActivation:
    case DeviceOperation::kAdd:
    case DeviceOperation::kBiasAdd:
    case DeviceOperation::kBiasDropoutAdd:
    case DeviceOperation::kEmbeddingGradient:
      return 3.0;
    case DeviceOperation::kLayerNormBackward:
    case DeviceOperation::kLayerNormBackwardBias:
    case DeviceOperation::kRmsNormBackward:
    case DeviceOperation::kRmsNormBackwardBias:
    case DeviceOperation::kSumLayerNorm:
    case DeviceOperation::kSumRmsNorm:
    case DeviceOperation::kDropoutSumLayerNorm:
    case DeviceOperation::kDropoutSumRmsNorm:
      return 4.0;
    case DeviceOperation::kGatedActivationBackward:
      return 5.0;
    case DeviceOperation::kAdamW:
      return 7.0;
  }
  return 0.0;
}

namespace {

/// Returns the time of one operation by its own table, or by the formula without one.
Seconds time_of_one(DeviceOperation operation, double rows, double width, const GpuSpec& gpu,
                    Precision precision) {
  const double bytes = element_wise_passes(operation) * element_bytes(precision);
  const BytesPerSecond bandwidth(gpu.memory_bandwidth.value() * gpu.memory_efficiency);
  const Seconds latency = is_epilogue(operation) ? Seconds(0.0) : gpu.kernel_latency;
  const auto model = [&](const OperationSizes& sizes) {
    return Bytes(bytes * sizes[0] * sizes[1]) / bandwidth + latency;
  };
  const OperationSizes sizes = element_wise_sizes(operation, rows, width);
  const MeasuredOperation* measured = find_measured(gpu.measured_operations, operation, precision);
  return model(sizes) * (measured == nullptr ? 1.0 : measured->correction(sizes, model));
}

/// Returns whether the stack is this project's runtime, and the model is one that it runs.
bool runs_model(const Scenario& scenario) {
  return scenario.stack.memory_model == MemoryModel::kPtdp && scenario.job.model.num_experts == 0 &&
         !has_latent_attention(scenario.job.model);
}

/// Returns the time of operations, by the pass in which they run.
ElementWiseTime time_of(const std::vector<ElementWiseOperation>& operations,
                        const Scenario& scenario) {
  ElementWiseTime time;
  for (const ElementWiseOperation& each : operations) {
    const Seconds seconds = element_wise_time(each.operation, each.sizes[0], each.sizes[1],
                                              scenario.cluster.gpu, scenario.stack.precision);
    const bool is_forward = each.pass == OperationPass::kForward;
    if (is_epilogue(each.operation)) {
      (is_forward ? time.forward_epilogues : time.backward_epilogues) += seconds;
      continue;
    }
    if (is_forward) {
      time.forward += seconds;
      continue;
    }
    time.backward += seconds;
    if (each.pass == OperationPass::kWeightGradient) {
      time.weight_gradient += seconds;
    }
  }
  return time;
}

}  // namespace

bool has_measured_operations(const Scenario& scenario) {
  return runs_model(scenario) &&
         find_measured(scenario.cluster.gpu.measured_operations, DeviceOperation::kLayerNorm,
                       scenario.stack.precision) != nullptr;
}

bool lists_operations(const Scenario& scenario) {
  return has_measured_operations(scenario) ||
         (runs_model(scenario) && scenario.stack.workspace > Bytes(0.0));
}

Seconds element_wise_time(DeviceOperation operation, double rows, double width, const GpuSpec& gpu,
                          Precision precision) {
  const auto is_measured = [&](DeviceOperation kind) {
    return find_measured(gpu.measured_operations, kind, precision) != nullptr;
  };
  const std::optional<Parts> parts = parts_of(operation);
  if (parts && !is_measured(operation) && is_measured(parts->sum) && is_measured(parts->norm)) {
    return time_of_one(parts->sum, rows, width, gpu, precision) +
           time_of_one(parts->norm, rows, width, gpu, precision);
  }
  return time_of_one(operation, rows, width, gpu, precision);
}

ElementWiseTime layer_element_wise_time(const Scenario& scenario, const ParallelConfig& config) {
  return time_of(layer_operations(scenario.job.model, config, fused_epilogues(scenario.stack)),
                 scenario);
}

ElementWiseTime embedding_element_wise_time(const Scenario& scenario,
                                            const ParallelConfig& config) {
  return time_of(embedding_operations(scenario.job.model, config), scenario);
}

ElementWiseTime logits_element_wise_time(const Scenario& scenario, const ParallelConfig& config) {
  return time_of(logits_operations(scenario.job.model, config), scenario);
}

OptimizerPasses optimizer_passes(const Scenario& scenario, double parameters) {
  const auto time = [&](DeviceOperation operation, double elements) {
    return element_wise_time(operation, 1.0, elements, scenario.cluster.gpu,
                             scenario.stack.precision);
  };
  return {.norm = time(DeviceOperation::kAddSquares, parameters),
          .step = time(DeviceOperation::kAdamW, parameters)};
}

}  // namespace ptdp
