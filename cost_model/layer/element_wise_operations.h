// Lists the element-wise operations that this project's own runtime runs: all but products and
// attention, collectives and the optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
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

/// What products do of a layer's element-wise work.
struct FusedEpilogues {
  bool biases = false;          ///< They add biases.
  bool bias_gradients = false;  ///< They sum bias gradients.
  bool gelu = false;            ///< They apply tanh-GELU and its gradient.
};
/// Returns what products do on a stack (StackSpec::fused_epilogues, fused_bias_gradients). GELU is
/// theirs in 16 bits only.
[[nodiscard]] FusedEpilogues fused_epilogues(const StackSpec& stack);

/// Returns whether an operation is a part of a product's kernel, and has no start of its own.
[[nodiscard]] bool is_epilogue(DeviceOperation operation);

/// Returns the sizes under which an operation on [rows, width] is measured. They are one row where
/// the number of elements alone matters.
[[nodiscard]] OperationSizes element_wise_sizes(DeviceOperation operation, double rows,
                                                double width);

// The following lists are what runtime/model/layers runs for one microbatch on one rank. The model
// must be resolved.

/// Returns the operations of a dense layer. They are its norms, biases, dropout, residual sums,
/// rotary positions and activation, with their gradients. With sequence parallelism a rank's rows
/// are copied before they are gathered. A bias that products add costs nothing, and what else they
/// do is an operation.
[[nodiscard]] std::vector<ElementWiseOperation> layer_operations(const TransformerConfig& model,
                                                                 const ParallelConfig& config,
                                                                 const FusedEpilogues& fused);
/// Returns the operations of the embedding: rows of the table, factor, positions, dropout, and
/// their gradients.
[[nodiscard]] std::vector<ElementWiseOperation> embedding_operations(const TransformerConfig& model,
                                                                     const ParallelConfig& config);
/// Returns the operations of the end of the model: final norm, factor and cap of logits, and
/// cross-entropy over V/t columns.
[[nodiscard]] std::vector<ElementWiseOperation> logits_operations(const TransformerConfig& model,
                                                                  const ParallelConfig& config);

}  // namespace ptdp
