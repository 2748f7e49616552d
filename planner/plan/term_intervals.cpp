// Chooses the measured steps that resemble a job.
#include "planner/plan/term_intervals.h"

#include <cmath>

namespace ptdp {
namespace {

constexpr std::string_view kRuntimeOnGpus = "ptdp-cuda";
constexpr std::string_view kMeasuredGpu = "h200-141gb-sxm";

}  // namespace

RelativeInterval TermError::interval() const {
  const RelativeInterval around = interval_of(deviation * deviation, degrees);
  return {.low = std::exp(mean) * around.low, .high = std::exp(mean) * around.high};
}

const TermError* StepErrors::of(RunTerm term) const {
  switch (term) {
    case RunTerm::kMatmul:
      return &matmul;
    case RunTerm::kAttention:
      return &attention;
    case RunTerm::kMemoryBound:
      return &memory_bound;
    case RunTerm::kOptimizer:
      return &optimizer;
    default:
      return nullptr;
  }
}

std::optional<Estimate<Seconds>> StepErrors::estimate(RunTerm term, Seconds predicted) const {
  const TermError* const error = of(term);
  if (error == nullptr) {
    return std::nullopt;
  }
  const RelativeInterval interval = error->interval();
  return Estimate<Seconds>{
      .value = predicted, .low = predicted * interval.low, .high = predicted * interval.high};
}

const StepErrors* step_errors(const PlannedJob& job) {
  const GpuSpec& gpu = job.cluster().gpu;
  if (job.stack().name != kRuntimeOnGpus || job.config().world_size() > 1) {
    return nullptr;
  }
  if (!gpu.measured_operations.empty()) {
    return &kErrorsByProfile;
  }
  return gpu.name == kMeasuredGpu ? &kErrorsByDataSheet : nullptr;
}

}  // namespace ptdp
