// Time of the element-wise operations of this project's own runtime, one by one. Element-wise here
// means all but products and attention.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// Whether the operations of this project's runtime (MemoryModel::kPtdp) are measured, for a model
/// that it runs: one without experts and latent attention. The layer norm in the stack's precision
/// stands for all. Measured times contain what starting an operation costs.
[[nodiscard]] bool has_measured_operations(const Scenario& scenario);
/// Whether the scenario's element-wise work is timed operation by operation. So it is where
/// operations are measured, and for the runtime's stack of GPUs (StackSpec::workspace) without
/// measurements, too. A host without measurements takes the traffic of Megatron-LM.
[[nodiscard]] bool lists_operations(const Scenario& scenario);

/// Returns how many passes over [rows, width], reading or writing, an operation makes; 0 for one
/// that is not element-wise.
[[nodiscard]] double element_wise_passes(DeviceOperation operation);

/// Returns the time of one operation on [rows, width], as measured. Without a measurement, and
/// between the measured sizes, it is
///
///   t = passes·rows·width·element / (memory_efficiency·bandwidth) + kernel_latency
///
/// with element_wise_passes() over the buffers that the operation reads and writes. Not for
/// products and attention, which have no such passes. A sum with its norm that was not measured
/// takes as long as the two measured apart, if both were. That is so on a host, and a pass too much
/// on a GPU. The epilogue of a product has no latency, and passes over
/// what the product alone would neither read nor write.
[[nodiscard]] Seconds element_wise_time(DeviceOperation operation, double rows, double width,
                                        const GpuSpec& gpu, Precision precision);

/// Time of the element-wise work of a layer or of an end of the model, per microbatch.
struct ElementWiseTime {
  Seconds forward;          ///< Time of the forward pass.
  Seconds backward;         ///< Time of the backward pass, weight gradients included.
  Seconds weight_gradient;  ///< The part of `backward` that waits with the weight gradients.
  /// Time by which epilogues lengthen the products of the forward pass, which `forward` lacks.
  Seconds forward_epilogues;
  /// Time by which epilogues lengthen the products of the backward pass, which `backward` lacks.
  Seconds backward_epilogues;
};

// The following functions time what runtime/model/layers runs (element_wise_operations.h).
// lists_operations() must hold.

/// Returns the time of layer_operations(). lists_operations() must hold.
[[nodiscard]] ElementWiseTime layer_element_wise_time(const Scenario& scenario,
                                                      const ParallelConfig& config);
/// Returns the time of embedding_operations(). lists_operations() must hold.
[[nodiscard]] ElementWiseTime embedding_element_wise_time(const Scenario& scenario,
                                                          const ParallelConfig& config);
/// Returns the time of logits_operations(). lists_operations() must hold.
[[nodiscard]] ElementWiseTime logits_element_wise_time(const Scenario& scenario,
                                                       const ParallelConfig& config);

/// Times of the optimizer's passes on one rank.
struct OptimizerPasses {
  Seconds norm;  ///< Time of the sum of squares for the gradient norm.
  Seconds step;  ///< Time of AdamW, with clearing the gradients.
};
/// Returns the times of the optimizer's passes on a rank that updates `parameters` parameters.
/// has_measured_operations() must hold.
[[nodiscard]] OptimizerPasses optimizer_passes(const Scenario& scenario, double parameters);

}  // namespace ptdp
