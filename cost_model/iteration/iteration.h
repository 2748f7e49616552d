// Time of a training iteration, and where it goes.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "cost_model/iteration/least_step.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {

/// Passes of gradients through memory for their bucket: into it and back, each a read and a write.
inline constexpr double kBucketPasses = 4.0;

/// Time of an iteration by where it goes, on the GPU that paces it. The terms add up to total().
struct CostBreakdown {
  Seconds matmul;            ///< Products of the transformer layers' linear layers.
  Seconds attention;         ///< Attention cores.
  Seconds memory_bound;      ///< Element-wise kernels and gradient accumulation.
  Seconds launch;            ///< Kernel latencies, host time and overhead of microbatches.
  Seconds tensor_parallel;   ///< Exposed tensor-parallel collectives.
  Seconds context_parallel;  ///< Waiting of attention for other parts of sequences.
  Seconds expert_parallel;   ///< Tokens on their way to experts and back, not hidden.
  Seconds recompute;  ///< Forward work that is done again: compute, communication and launches.
  Seconds embedding_and_logits;  ///< Embedding, logits and loss on the pacing pipeline rank.
  Seconds bubble;                ///< Waits for others' passes: the pipeline fills and drains.
  Seconds pipeline_messages;     ///< Exposed messages between stages.
  Seconds data_parallel;         ///< Exposed gradient reduction and parameter gathering.
  /// All-reduce of the tied embedding's gradient between first and last rank.
  Seconds embedding_all_reduce;
  Seconds optimizer;  ///< The optimizer's step, with the norm of the gradients.
  Seconds offload;    ///< Activations on their way to the host and back that no compute hides.
  Seconds core_contention;  ///< Ranks that wait for a core of their node (core_contention.h).

  [[nodiscard]] Seconds total() const;
};

/// A term of CostBreakdown with its name in files.
struct CostTerm {
  std::string_view name;
  Seconds CostBreakdown::*time = nullptr;
  bool is_optional = false;  ///< Whether files leave it out where it is 0.
};
/// All terms of CostBreakdown, with their names in files.
inline constexpr std::array kCostTerms = {
    CostTerm{"matmul", &CostBreakdown::matmul},
    CostTerm{"attention", &CostBreakdown::attention},
    CostTerm{"memory_bound", &CostBreakdown::memory_bound},
    CostTerm{"launch", &CostBreakdown::launch},
    CostTerm{"tensor_parallel", &CostBreakdown::tensor_parallel},
    CostTerm{"context_parallel", &CostBreakdown::context_parallel, true},
    CostTerm{"expert_parallel", &CostBreakdown::expert_parallel, true},
    CostTerm{"recompute", &CostBreakdown::recompute},
    CostTerm{"embedding_and_logits", &CostBreakdown::embedding_and_logits},
    CostTerm{"bubble", &CostBreakdown::bubble},
    CostTerm{"pipeline_messages", &CostBreakdown::pipeline_messages},
    CostTerm{"data_parallel", &CostBreakdown::data_parallel},
    CostTerm{"embedding_all_reduce", &CostBreakdown::embedding_all_reduce},
    CostTerm{"optimizer", &CostBreakdown::optimizer},
    CostTerm{"offload", &CostBreakdown::offload, true},
    CostTerm{"core_sharing", &CostBreakdown::core_contention, true}};

/// Bytes that one GPU sends per iteration.
struct Traffic {
  Bytes tensor_parallel;  ///< Sent in tensor-parallel collectives, on the stage that sends most.
  /// Sent for attention over shared sequences, with what recomputation sends again.
  Bytes context_parallel;
  Bytes pipeline;         ///< Messages in both directions, on the stage that sends most.
  Bytes data_parallel;    ///< Sent for gradients and parameters, on the heaviest stage.
  Bytes expert_parallel;  ///< Sent to experts and back, on the stage that sends most.
  /// Rate through the cut between the pipeline's halves, both ways, averaged over the iteration.
  BytesPerSecond pipeline_bisection;
  /// Data-parallel rate of all GPUs together, averaged over the iteration.
  BytesPerSecond data_parallel_total;
};

/// Computes the breakdown of one iteration:
///
///   T = the simulated step (simulated_step.h) + core sharing
///
/// Compute is m times that of the slowest pipeline rank, whose pace a pipeline runs at. The bubble
/// is what the passes alone take beyond it, and pipeline messages what messages add. Data
/// parallelism is what reductions, gathers and the end of the step add beyond the optimizer and the
/// tied embedding's all-reduce. Source of the terms: SC21 (arXiv:2104.04473) sections 2.2, 3 and
/// 4.1.
///
/// PipeDream and PipeDream-2BW never fill or drain a pipeline. Their time is m·slowest stage, two
/// exchanges per microbatch, the reduction and the optimizer. PipeDream has the last two for every
/// microbatch (arXiv:1806.03377 and arXiv:2006.09503, section 3).
[[nodiscard]] CostBreakdown iteration_cost(const PlannedJob& job);
/// Computes the breakdown as iteration_cost(job) does; `simulations` shares the schedules of jobs.
[[nodiscard]] CostBreakdown iteration_cost(const PlannedJob& job, StepSimulations& simulations);

/// Returns `left`, what a `whole` time has beside its terms, or 0 where it is only their rounding.
[[nodiscard]] Seconds beyond_rounding(Seconds left, Seconds whole);

/// Returns the total of iteration_cost() but for rounding, by one simulation in place of three.
[[nodiscard]] Seconds iteration_time(const PlannedJob& job, StepSimulations& simulations);

/// Times of configurations of one scenario, each simulated once. Not safe for concurrent use by
/// several threads.
class IterationTimes {
 public:
  /// Returns iteration_time() of the job, found once. The scenario must be the same in all calls.
  [[nodiscard]] Seconds find(const PlannedJob& job);
  /// Returns iteration_time() of the job if that is known or takes little; else a lower bound.
  [[nodiscard]] StepBound bound(const PlannedJob& job);
  /// Returns the time of a configuration that was found or kept before, else nullopt.
  [[nodiscard]] std::optional<Seconds> find_known(const ParallelConfig& config) const;
  /// Keeps a time that another IterationTimes found.
  void keep(const ParallelConfig& config, Seconds time) { times_.emplace(config, time); }

 private:
  StepSimulations simulations_;
  std::map<ParallelConfig, Seconds> times_;
};

/// Returns a lower bound of iteration_time() without a walk through the stages. `passes` must have
/// been made for the job's scenario, microbatch costs and split of the layers.
[[nodiscard]] Seconds least_iteration_time(const PlannedJob& job, const LeastPasses& passes);

/// Computes what one GPU of the configuration sends per iteration, with rates over an iteration of
/// `time`.
[[nodiscard]] Traffic iteration_traffic(const PlannedJob& job, Seconds time);

}  // namespace ptdp
