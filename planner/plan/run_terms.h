// Predictions of the parts of an iteration that a run can measure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/pipeline_rank/planned_job.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// What the ranks of one pipeline stage spend an iteration on. Recomputation, embedding and logits
/// count under matmul, attention, memory-bound and tensor-parallel, by what they compute.
enum class RunTerm : std::uint8_t {
  kMatmul,     ///< Products of linear layers, with what their epilogues add.
  kAttention,  ///< Attention cores.
  /// All other compute: element-wise kernels, loss, kernel starts, overhead of microbatches.
  kMemoryBound,
  kTensorParallel,  ///< Collectives within passes.
  /// Sending messages, and gathering those that come in parts, while nothing is computed.
  kPipelineMessages,
  kBubble,              ///< Waiting for others: the rest of the iteration.
  kDataParallel,        ///< Reductions and gathers over replicas while nothing is computed.
  kEmbeddingAllReduce,  ///< All-reduce of the tied embedding's gradient.
  kOptimizer            ///< The optimizer's step and the norm of the gradients.
};
inline constexpr int kNumRunTerms = 9;
/// Names of the terms in files, in the order of the enumerators.
inline constexpr std::array<std::string_view, kNumRunTerms> kRunTermNames = {
    "matmul", "attention",     "memory_bound",         "tensor_parallel", "pipeline_messages",
    "bubble", "data_parallel", "embedding_all_reduce", "optimizer"};

/// A time for each RunTerm.
class RunTerms {
 public:
  [[nodiscard]] Seconds& operator[](RunTerm term) { return times_[static_cast<std::size_t>(term)]; }
  [[nodiscard]] Seconds operator[](RunTerm term) const {
    return times_[static_cast<std::size_t>(term)];
  }
  /// Returns the sum of all terms but the bubble: what the ranks of the stage do themselves.
  [[nodiscard]] Seconds own() const;

 private:
  std::array<Seconds, kNumRunTerms> times_{};
};

/// Returns what pipeline rank `stage` (0 … pp−1) does in an iteration, by the cost model without
/// calibration. Messages and reductions count in full, whatever hides them; the bubble is 0.
[[nodiscard]] RunTerms own_run_terms(const PlannedJob& job, int stage);

/// Splits the plan's calibrated prediction over the terms of pipeline rank `stage` (0 … pp−1).
/// Messages and reductions count as far as they are exposed. The bubble is what is left of the
/// iteration, but not below 0.
[[nodiscard]] RunTerms predicted_run_terms(const Plan& plan, int stage);

/// Returns the time to send one message to a neighbor in the pipeline, without gathering its parts.
[[nodiscard]] Seconds send_time(const PlannedJob& job);

}  // namespace ptdp
