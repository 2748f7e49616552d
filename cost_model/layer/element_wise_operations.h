// Lists the element-wise operations that this project's own runtime runs: all but products and
// attention, collectives and the optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// The pass in which an operation runs.
enum class OperationPass : std::uint8_t {
  kForward,
  kInputGradient,  ///< The part of a backward pass that the stage before waits for.
  kWeightGradient  ///< The part of a backward pass that may wait with the weight gradients.
};

/// An operation that a rank calls once per microbatch, with the sizes of a table's points.
struct ElementWiseOperation {
  DeviceOperation operation = DeviceOperation::kCopy;
  OperationSizes sizes = {1.0, 1.0, 1.0};
  OperationPass pass = OperationPass::kForward;
};

/// Returns the sizes under which an operation on [rows, width] is measured. They are one row where
/// the number of elements alone matters.
[[nodiscard]] OperationSizes element_wise_sizes(DeviceOperation operation, double rows,
                                                double width);

// The following lists are what runtime/model/layers runs for one microbatch on one rank. The model
// must be resolved.

/// Returns the operations of a dense layer. They are its norms, biases, dropout, residual sums,
/// rotary positions and activation, with their gradients. With sequence parallelism a rank's rows
/// are copied before they are gathered. With `fuses_epilogues` products do what they can of it
/// (StackSpec::fused_epilogues): a bias then costs nothing, and other epilogues are operations.
[[nodiscard]] std::vector<ElementWiseOperation> layer_operations(const TransformerConfig& model,
                                                                 const ParallelConfig& config,
                                                                 bool fuses_epilogues);
/// Returns the operations of the embedding: rows of the table, factor, positions, dropout, and
/// their gradients.
[[nodiscard]] std::vector<ElementWiseOperation> embedding_operations(const TransformerConfig& model,
                                                                     const ParallelConfig& config);
/// Returns the operations of the end of the model: final norm, factor and cap of logits, and
/// cross-entropy over V/t columns.
[[nodiscard]] std::vector<ElementWiseOperation> logits_operations(const TransformerConfig& model,
                                                                  const ParallelConfig& config);

}  // namespace ptdp
