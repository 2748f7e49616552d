// Time of a training iteration in closed form.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "cost_model/analytic/stage.h"
#include "cost_model/simulation/pipeline_waits.h"

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

/// Whether the closed form holds for the configuration's schedule: 1F1B, interleaved, GPipe, looped
/// BFS and what never drains, and every schedule on one stage.
[[nodiscard]] bool is_in_closed_form(const ParallelConfig& config);

/// Time of one iteration:
///
///   T = m·slowest stage + bubble + messages + exposed data parallelism + embedding all-reduce
///       + optimizer + core sharing
///
/// The stages differ (embedding, logits), and a pipeline runs at the pace of the slowest.
///
/// In closed form the bubble is (p−1)/v·mean stage, of looped BFS with m < p (p−m)(v−1)/v more.
/// Exposed messages: 1F1B and GPipe block twice per microbatch (one exchange forward, one
/// backward), also while they fill and drain; looped BFS the same for every chunk; interleaved once
/// per chunk and microbatch with both messages at once, or only in fill and drain where the stack
/// overlaps them. PipeDream and PipeDream-2BW are 1F1B that never fills or drains; PipeDream
/// reduces and applies the gradient of every microbatch for itself (arXiv:1806.03377 and
/// arXiv:2006.09503, section 3). For other schedules both terms are simulated
/// (simulation/pipeline_waits.h).
///
/// Data parallelism: all of the reduction, or what the last microbatch's backward pass does not
/// hide, and at least the last bucket: small buckets cost latencies, large ones leave more exposed;
/// and the copies of gradients into buckets and back, where the stack keeps both (torch's DDP,
/// reducer.cpp). What looped BFS hides behind other chunks is not counted. Source: SC21
/// (arXiv:2104.04473) sections 2.2, 3 and 4.1. Against a walk through 1F1B with a last stage up to
/// 30 % heavier the first two terms are 0.5 % off on average and 4.2 % at most
/// (tests/cost_model/analytic/iteration_test.cpp). The gradient accumulation of fill and drain, up
/// to 2.4 % of the time, is left out: runs that are bound by the bubble (SC21 figures 12 and 17)
/// are measured 3 to 5 % faster than predicted as it is.
[[nodiscard]] CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config,
                                           const MicrobatchCosts& costs);

/// The same with waits that are known, or the closed form's.
[[nodiscard]] CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config,
                                           const MicrobatchCosts& costs,
                                           const std::optional<PipelineWaits>& waits);

/// The same, computing the microbatch costs.
[[nodiscard]] CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config);

/// A lower bound of that, in closed form: m·slowest stage + bubble, with the per-microbatch times
/// of the slowest stage, or anything below it, and of the mean stage.
[[nodiscard]] Seconds least_iteration_time(const Scenario& scenario, const ParallelConfig& config,
                                           Seconds slowest_stage, Seconds mean_stage);

/// What the configuration sends; rates over an iteration of `time`.
[[nodiscard]] Traffic iteration_traffic(const Scenario& scenario, const ParallelConfig& config,
                                        Seconds time);

}  // namespace ptdp
