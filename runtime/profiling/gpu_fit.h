// From measured operations to a device's profile.
#pragma once

#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// Tables of the operations in `times`, one of each that has two sizes at least.
[[nodiscard]] std::vector<MeasuredOperation> measured_operations(const OperationTimes& times,
                                                                 Precision precision);

/// Where a product exceeds the peak, that is the peak.
void raise_peak(GpuSpec& gpu, Precision precision, FlopsPerSecond rate);

/// Sets what the tables correct so that it is right on average: matmul_efficiency and
/// matmul_startup_depth by least squares of the logarithms over the products, memory_efficiency
/// and the rates of attention `kernel` by their geometric means. Peaks, memory bandwidth and
/// kernel latency must be set; a peak that a product exceeds is raised to that. Rates of other
/// kernels of attention are kept.
void fit_constants(GpuSpec& gpu, Precision precision, const std::string& kernel);

/// How much longer the same operations took in one measurement than in another, by what they are: Σ
/// times of one over Σ times of the other, of all sizes that both have. Cores and skew are left as
/// they are.
[[nodiscard]] BusyCores factors_between(const OperationTimes& times, const OperationTimes& base);

}  // namespace ptdp
