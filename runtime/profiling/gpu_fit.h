// Turns measured operations into a device's profile.
#pragma once

#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// Returns a table for each operation in `times` that has at least two sizes.
[[nodiscard]] std::vector<MeasuredOperation> measured_operations(const OperationTimes& times,
                                                                 Precision precision);

/// Raises the peak of a precision to `rate` if that is larger.
void raise_peak(GpuSpec& gpu, Precision precision, FlopsPerSecond rate);

/// Fits the constants that the tables of measured operations correct, so that they are right on
/// average:
///
///   matmul_efficiency, matmul_startup_depth  Least squares of the logarithms over the products.
///   memory_efficiency                        Geometric mean.
///   rates of attention `kernel`              Geometric means.
///
/// Peaks, memory bandwidth and kernel latency must be set; a peak that a product exceeds is raised
/// to it. Rates of other attention kernels are kept.
void fit_constants(GpuSpec& gpu, Precision precision, const std::string& kernel);

/// Returns how many times as long the same operations took in `times` as in `base`, by kind of
/// operation. A factor is Σ times of one over Σ times of the other, over all sizes that both have.
/// The result's cores and skew are not set.
[[nodiscard]] BusyCores factors_between(const OperationTimes& times, const OperationTimes& base);

}  // namespace ptdp
