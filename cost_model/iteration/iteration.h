// Time of a training iteration, and where it goes.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "cost_model/iteration/least_step.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// How often gradients pass the memory for their bucket: into it and back, read and written.
inline constexpr double kBucketPasses = 4.0;

/// Where the time of an iteration goes, on the GPU that paces it. The terms add up to total().
struct CostBreakdown {
  Seconds matmul;                ///< Linear layers of the transformer layers.
  Seconds attention;             ///< Attention cores.
  Seconds memory_bound;          ///< Element-wise kernels, gradient accumulation.
  Seconds launch;                ///< Kernel latencies, host time, overhead of microbatches.
  Seconds tensor_parallel;       ///< Exposed tensor-parallel collectives.
  Seconds context_parallel;      ///< Parts of sequences that attention waits for.
  Seconds expert_parallel;       ///< Tokens on their way to experts and back.
  Seconds recompute;             ///< The repeated part of the forward pass, all of the above.
  Seconds embedding_and_logits;  ///< What the pacing stage computes besides layers.
  Seconds bubble;                ///< Filling and draining the pipeline.
  Seconds pipeline_messages;     ///< Exposed messages between stages.
  Seconds data_parallel;         ///< Exposed gradient reduction and parameter gathering.
  Seconds embedding_all_reduce;  ///< Of the tied embedding's gradient, first and last stage.
  Seconds optimizer;
  Seconds offload;       ///< Activations on their way to the host and back that no compute hides.
  Seconds core_sharing;  ///< Ranks that wait for a core of their node (core_sharing.h).

  [[nodiscard]] Seconds total() const;
};

/// A term of CostBreakdown with its name in files.
struct CostTerm {
  std::string_view name;
  Seconds CostBreakdown::*time;
  bool is_optional = false;  ///< Left out of files where it is nothing.
};
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
    CostTerm{"core_sharing", &CostBreakdown::core_sharing, true}};

/// Bytes that one GPU sends per iteration.
struct Traffic {
  Bytes tensor_parallel;
  Bytes context_parallel;             ///< With what recomputation sends again.
  Bytes pipeline;                     ///< Both directions, on the stage that sends most.
  Bytes data_parallel;                ///< Heaviest stage.
  Bytes expert_parallel;              ///< To experts and back, on the stage that sends most.
  BytesPerSecond pipeline_bisection;  ///< Through the cut between the pipeline's halves, both ways,
                                      ///< averaged over the iteration.
  BytesPerSecond data_parallel_total;  ///< Of all GPUs together, averaged over the iteration.
};

/// The breakdown of one iteration:
///
///   T = the simulated step (simulated_step.h) + core sharing
///
/// Compute is m times that of the slowest stage, whose pace a pipeline runs at; the bubble is what
/// the passes alone take beyond it, pipeline messages what messages add, and data parallelism what
/// reductions, gathers and the end of the step add beyond the optimizer and the tied embedding's
/// all-reduce. Source of the terms: SC21 (arXiv:2104.04473) sections 2.2, 3 and 4.1.
///
/// PipeDream and PipeDream-2BW never fill or drain a pipeline: m·slowest stage, two exchanges per
/// microbatch, and the reduction and the optimizer, which PipeDream has for every microbatch
/// (arXiv:1806.03377 and arXiv:2006.09503, section 3).
[[nodiscard]] CostBreakdown iteration_cost(const PlannedJob& job);

/// What is left of a whole time beside its terms, or nothing where only their last digits left it.
[[nodiscard]] Seconds beyond_rounding(Seconds left, Seconds whole);

/// The total of iteration_cost() but for rounding, by one simulation in place of three.
[[nodiscard]] Seconds iteration_time(const PlannedJob& job, StepSimulations& simulations);

/// Times of configurations of one scenario, each simulated once. Not for several threads at once.
class IterationTimes {
 public:
  /// What iteration_time() gives; the scenario must be the same in all calls.
  [[nodiscard]] Seconds find(const PlannedJob& job);
  /// The time of a configuration that was found or kept before.
  [[nodiscard]] std::optional<Seconds> find_known(const ParallelConfig& config) const;
  /// Keeps a time that another of these found.
  void keep(const ParallelConfig& config, Seconds time) { times_.emplace(config, time); }

 private:
  StepSimulations simulations_;
  std::map<ParallelConfig, Seconds> times_;
};

/// A lower bound of iteration_time() that costs no walk through the stages.
[[nodiscard]] Seconds least_iteration_time(const PlannedJob& job, const LeastPasses& passes);

/// What the configuration sends; rates over an iteration of `time`.
[[nodiscard]] Traffic iteration_traffic(const PlannedJob& job, Seconds time);

}  // namespace ptdp
