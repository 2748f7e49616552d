// Lists the element-wise operations of layers and ends of the model, and times each.
#include "cost_model/layer/element_wise.h"

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {
namespace {

/// Returns how many passes over [rows, width], reading or writing, an operation makes; 0 for one
/// that is not element-wise.
double passes(DeviceOperation operation) {
  switch (operation) {
    case DeviceOperation::kForwardProduct:
    case DeviceOperation::kInputGradientProduct:
    case DeviceOperation::kWeightGradientProduct:
    case DeviceOperation::kAttention:
    case DeviceOperation::kAttentionBackward:
    case DeviceOperation::kDropoutAttention:
    case DeviceOperation::kDropoutAttentionBackward:
      return 0.0;
    case DeviceOperation::kBiasGradient:
    case DeviceOperation::kPositionGradient:
    case DeviceOperation::kFill:
    case DeviceOperation::kAddSquares:
      return 1.0;
    case DeviceOperation::kLayerNorm:
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
    case DeviceOperation::kBiasAdd:
    case DeviceOperation::kBiasDropoutAdd:
    case DeviceOperation::kEmbeddingGradient:
      return 3.0;
    case DeviceOperation::kLayerNormBackward:
      return 4.0;
    case DeviceOperation::kAdamW:
      return 7.0;
  }
  return 0.0;
}

/// Whether only the number of elements matters to an operation, so that it is measured as one row.
bool is_flat(DeviceOperation operation) {
  return operation == DeviceOperation::kCopy || operation == DeviceOperation::kFill ||
         operation == DeviceOperation::kGeluBackward || operation == DeviceOperation::kAddSquares ||
         operation == DeviceOperation::kAdamW;
}

/// Times operations on the rows of a configuration's microbatch on one rank.
class Operations {
 public:
  Operations(const Scenario& scenario, const ParallelConfig& config)
      : scenario_(scenario),
        rows_(static_cast<double>(tokens_of_rank(scenario.job.model, config))),
        own_rows_(config.sequence_parallel ? rows_ / config.tp : rows_),
        hidden_(scenario.job.model.hidden_size),
        copies_own_rows_(config.sequence_parallel && config.tp > 1) {}

  /// Returns the time of `operation` on all rows, `width` wide.
  [[nodiscard]] Seconds on_all_rows(DeviceOperation operation, double width) const {
    return time(operation, rows_, width);
  }
  /// Returns the time of `operation` on this rank's own rows, of the hidden width. With sequence
  /// parallelism these are 1/tp of all rows.
  [[nodiscard]] Seconds on_own_rows(DeviceOperation operation) const {
    return time(operation, own_rows_, hidden_);
  }
  /// Returns the time to copy own rows before they are gathered; 0 where nothing is gathered.
  [[nodiscard]] Seconds copy() const {
    return copies_own_rows_ ? on_own_rows(DeviceOperation::kCopy) : Seconds(0.0);
  }
  [[nodiscard]] double hidden() const { return hidden_; }

 private:
  [[nodiscard]] Seconds time(DeviceOperation operation, double rows, double width) const {
    return element_wise_time(operation, rows, width, scenario_.cluster.gpu,
                             scenario_.stack.precision);
  }

  const Scenario& scenario_;
  double rows_;
  double own_rows_;
  double hidden_;
  bool copies_own_rows_;
};

}  // namespace

bool has_measured_operations(const Scenario& scenario) {
  return scenario.stack.memory_model == MemoryModel::kPtdp &&
         find_measured(scenario.cluster.gpu.measured_operations, DeviceOperation::kLayerNorm,
                       scenario.stack.precision) != nullptr;
}

Seconds element_wise_time(DeviceOperation operation, double rows, double width, const GpuSpec& gpu,
                          Precision precision) {
  const double bytes = passes(operation) * element_bytes(precision);
  const BytesPerSecond bandwidth(gpu.memory_bandwidth.value() * gpu.memory_efficiency);
  const auto model = [&](const OperationSizes& sizes) {
    return Bytes(bytes * sizes[0] * sizes[1]) / bandwidth + gpu.kernel_latency;
  };
  const OperationSizes sizes = is_flat(operation) ? OperationSizes{1.0, rows * width, 1.0}
                                                  : OperationSizes{rows, width, 1.0};
  const MeasuredOperation* measured = find_measured(gpu.measured_operations, operation, precision);
  return model(sizes) * (measured == nullptr ? 1.0 : measured->correction(sizes, model));
}

ElementWiseTime layer_element_wise_time(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const Operations run(scenario, config);
  const double qkv = static_cast<double>(query_width(model) + 2 * key_width(model)) / config.tp;
  const double ffn = 1.0 * model.ffn_hidden_size / config.tp;
  const bool drops = has_dropout(model);

  ElementWiseTime time;
  time.forward =
      2.0 * (run.copy() + run.on_own_rows(DeviceOperation::kLayerNorm) +
             run.on_own_rows(drops ? DeviceOperation::kBiasDropoutAdd : DeviceOperation::kBiasAdd));
  time.forward += run.on_all_rows(DeviceOperation::kBiasGelu, ffn);
  time.weight_gradient = 2.0 * run.copy();
  if (model.add_bias_linear || model.add_qkv_bias) {
    time.forward += run.on_all_rows(DeviceOperation::kBias, qkv);
    time.weight_gradient += run.on_all_rows(DeviceOperation::kBiasGradient, qkv);
  }
  if (model.add_bias_linear) {
    time.weight_gradient += run.on_all_rows(DeviceOperation::kBiasGradient, ffn) +
                            2.0 * run.on_own_rows(DeviceOperation::kBiasGradient);
  }
  time.backward =
      time.weight_gradient + run.on_all_rows(DeviceOperation::kGeluBackward, ffn) +
      2.0 * (run.on_own_rows(DeviceOperation::kLayerNormBackward) +
             run.on_own_rows(drops ? DeviceOperation::kDropoutBackward : DeviceOperation::kCopy));
  return time;
}

ElementWiseTime embedding_element_wise_time(const Scenario& scenario,
                                            const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const Operations run(scenario, config);
  const bool has_positions = model.position_embedding == PositionEmbedding::kLearned;
  ElementWiseTime time;
  time.forward = run.on_all_rows(DeviceOperation::kEmbedding, run.hidden()) + run.copy();
  time.weight_gradient =
      run.copy() + run.on_all_rows(DeviceOperation::kEmbeddingGradient, run.hidden());
  if (has_positions) {
    time.forward += run.on_own_rows(DeviceOperation::kPositions);
    time.weight_gradient += run.on_all_rows(DeviceOperation::kPositionGradient, run.hidden());
  }
  time.backward = time.weight_gradient;
  if (has_dropout(model)) {
    time.forward += run.on_own_rows(DeviceOperation::kBiasDropoutAdd);
    time.backward += run.on_own_rows(DeviceOperation::kDropoutBackward);
  }
  return time;
}

ElementWiseTime logits_element_wise_time(const Scenario& scenario, const ParallelConfig& config) {
  const Operations run(scenario, config);
  const double width =
      static_cast<double>(padded_vocab_size(scenario.job.model, config.tp)) / config.tp;
  return {.forward = run.on_own_rows(DeviceOperation::kLayerNorm) +
                     run.on_all_rows(DeviceOperation::kCrossEntropy, width),
          .backward = run.on_all_rows(DeviceOperation::kCrossEntropyBackward, width) +
                      run.on_own_rows(DeviceOperation::kFill) +
                      run.on_own_rows(DeviceOperation::kLayerNormBackward)};
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
