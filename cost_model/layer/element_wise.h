// Time of this project's own operations outside products and attention, one by one, where a
// profile has measured them.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// Whether the scenario's element-wise work is timed one by one: a stack that is this project's
/// runtime (MemoryModel::kPtdp) on a GPU whose layer norm is measured in its precision. Measured
/// times contain what starting an operation costs.
[[nodiscard]] bool has_measured_operations(const Scenario& scenario);

/// Time of one operation on [rows, width], as measured; else, and between the measured sizes, by
///
///   t = passes·rows·width·element / (memory_efficiency·bandwidth) + kernel_latency
///
/// with the buffers that it reads and writes. Nothing for products and attention.
[[nodiscard]] Seconds element_wise_time(DeviceOperation operation, double rows, double width,
                                        const GpuSpec& gpu, Precision precision);

/// Element-wise work of a layer or of an end of the model, per microbatch.
struct ElementWiseTime {
  Seconds forward;
  Seconds backward;         ///< All of it,
  Seconds weight_gradient;  ///< and the part that waits with the weight gradients.
};

// What runtime/layers runs; has_measured_operations() must hold.

/// Two norms, the bias of QKV, bias and GELU, two biases with dropout and residual; backward their
/// gradients. With sequence parallelism a rank's rows are copied before they are gathered.
[[nodiscard]] ElementWiseTime layer_element_wise_time(const Scenario& scenario,
                                                      const ParallelConfig& config);
/// Rows of the table, positions, dropout, and their gradients.
[[nodiscard]] ElementWiseTime embedding_element_wise_time(const Scenario& scenario,
                                                          const ParallelConfig& config);
/// Final norm and cross-entropy over V/t columns.
[[nodiscard]] ElementWiseTime logits_element_wise_time(const Scenario& scenario,
                                                       const ParallelConfig& config);

/// Of a rank that updates `parameters` parameters: the squares of the norm, and AdamW with clearing
/// the gradients.
struct OptimizerPasses {
  Seconds norm;
  Seconds step;
};
[[nodiscard]] OptimizerPasses optimizer_passes(const Scenario& scenario, double parameters);

}  // namespace ptdp
