// The parts of an iteration that a run can measure, as they are predicted.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/stage/planned_job.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// What the ranks of one stage spend an iteration on. Recomputation, embedding and logits are in
/// the first three (and in the collectives), by what they compute.
enum class RunTerm : std::uint8_t {
  kMatmul,     ///< Products of linear layers.
  kAttention,  ///< Attention cores.
  /// All other compute: element-wise kernels, loss, kernel starts, overhead of microbatches.
  kMemoryBound,
  kTensorParallel,    ///< Collectives within passes.
  kPipelineMessages,  ///< Sending, and gathering what comes in parts, as far as nothing is
                      ///< computed.
  kBubble,            ///< The rest: waiting for others.
  kDataParallel,      ///< Reductions and gathers, as far as nothing is computed meanwhile.
  kEmbeddingAllReduce,
  kOptimizer  ///< With the norm of the gradients.
};
inline constexpr int kNumRunTerms = 9;
/// In files, in the order of the enumerators.
inline constexpr std::array<std::string_view, kNumRunTerms> kRunTermNames = {
    "matmul", "attention",     "memory_bound",         "tensor_parallel", "pipeline_messages",
    "bubble", "data_parallel", "embedding_all_reduce", "optimizer"};

/// A time for each term.
class RunTerms {
 public:
  [[nodiscard]] Seconds& operator[](RunTerm term) { return times_[static_cast<std::size_t>(term)]; }
  [[nodiscard]] Seconds operator[](RunTerm term) const {
    return times_[static_cast<std::size_t>(term)];
  }
  /// Of all but the bubble: what the ranks of the stage do themselves.
  [[nodiscard]] Seconds own() const;

 private:
  std::array<Seconds, kNumRunTerms> times_{};
};

/// What the ranks at `stage` (0 … pp−1) of the pipeline do in an iteration, each for itself, by the
/// cost model without a calibration. Messages and reductions count in full, whatever hides them;
/// no bubble.
[[nodiscard]] RunTerms own_run_terms(const PlannedJob& job, int stage);

/// The plan's prediction split over the terms of the ranks at `stage`: messages and reductions as
/// far as they are exposed, the bubble what is left of the iteration, but not below 0. Calibrated.
[[nodiscard]] RunTerms predicted_run_terms(const Plan& plan, int stage);

/// Sending one message to a neighbour in the pipeline, without what gathers its parts.
[[nodiscard]] Seconds send_time(const PlannedJob& job);

}  // namespace ptdp
