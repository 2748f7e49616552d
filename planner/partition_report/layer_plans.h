// Degrees for a list of layers of any architecture: how many GPUs share them how, so that an
// iteration takes least time within memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/memory/memory.h"
#include "planner/partition_report/layer_list.h"
#include "planner/partition_report/pipeline_partition.h"

namespace ptdp {

/// Most chunks per GPU that a search tries unless --vpp says how many.
inline constexpr int kMostTriedChunks = 32;

/// A list of layers to find degrees for, and what it runs on.
struct LayerSearch {
  LayerList list;  ///< A list that check_searchable() accepts.
  ClusterSpec cluster;
  StackSpec stack;  ///< The software; with_bytes_of() gives it the list's bytes per parameter.
  std::int64_t gpus = 1;
  std::int64_t global_batch_size = 1;  ///< Sequences per iteration.
  SearchSpace space = {};              ///< What is fixed of pp, dp, vpp and the ZeRO stage.
  double memory_headroom = 0.0;        ///< Fraction of device memory to leave free.
  std::size_t num_best = 5;            ///< Number of plans to return.
  /// Actions and layers that a search works through at most; the default is some ten seconds of
  /// them.
  double most_work = 2e8;
};

/// Returns the stack as it trains a list: with the list's bytes per parameter in place of its own,
/// and in no recipe of 8 bits, which measured times hold already.
[[nodiscard]] StackSpec with_bytes_of(StackSpec stack, const LayerList& list);

/// Time of an iteration by where it goes; the terms add up to it.
struct LayerPlanTimes {
  Seconds compute;        ///< Passes of the GPU that computes longest.
  Seconds overhead;       ///< The stack's overhead per microbatch and chunk there.
  Seconds bubble;         ///< Waits for the passes of other stages.
  Seconds messages;       ///< Messages between stages, as far as nothing hides them.
  Seconds data_parallel;  ///< Reductions and gathers, as far as nothing hides them.
  Seconds optimizer;      ///< The optimizer's step, and what all GPUs wait for before it.

  [[nodiscard]] Seconds total() const;
};

/// A term of LayerPlanTimes with its name in files.
struct LayerPlanTerm {
  std::string_view name;
  Seconds LayerPlanTimes::*time;
};
/// All terms of LayerPlanTimes, with their names in files.
inline constexpr std::array kLayerTerms = {
    LayerPlanTerm{"compute", &LayerPlanTimes::compute},
    LayerPlanTerm{"overhead", &LayerPlanTimes::overhead},
    LayerPlanTerm{"bubble", &LayerPlanTimes::bubble},
    LayerPlanTerm{"messages", &LayerPlanTimes::messages},
    LayerPlanTerm{"data_parallel", &LayerPlanTimes::data_parallel},
    LayerPlanTerm{"optimizer", &LayerPlanTimes::optimizer}};

/// Degrees for a list of layers, with its cut and what an iteration takes.
struct LayerPlan {
  ParallelConfig config;   ///< Degrees and layers per stage; its recomputation means nothing.
  std::vector<int> sizes;  ///< Layers of each virtual stage, embedding and logits counted.
  LayerPlanTimes times;
  PipelinePartition partition;          ///< Stages by name; ranks with their whole memory.
  std::vector<MemoryBreakdown> memory;  ///< Memory of a GPU, by pipeline rank.

  [[nodiscard]] Seconds iteration_time() const { return times.total(); }
};

/// How many degrees a search looked at, and what became of them.
struct LayerCandidates {
  std::int64_t enumerated = 0;  ///< Degrees that the GPUs, the batch and the flags allow.
  std::int64_t simulated = 0;   ///< Degrees whose iteration was simulated.
  std::int64_t too_full = 0;    ///< Degrees of which no cut fits, or none was found in time.
  std::int64_t too_long = 0;    ///< Degrees left out since their step takes too long to simulate.
  std::int64_t by_chunks = 0;   ///< Degrees whose chunks were cut alike, for want of an exact cut.
  std::int64_t unseen = 0;      ///< Degrees that the search had no time left to look at.
  /// How much faster than the best plan those could be at most, as a fraction of its time.
  double possible_gain = 0.0;

  /// Returns the degrees that a lower bound of their time ruled out.
  [[nodiscard]] std::int64_t beaten() const {
    return enumerated - simulated - too_full - too_long - unseen;
  }
};

/// The degrees that come nearest where none fit.
struct NearestDegrees {
  ParallelConfig config;
  Bytes missing;  ///< Memory that the fullest GPU lacks, to a hundredth of what it needs.
};

/// Degrees for a list, the fastest first.
struct LayerPlans {
  LayerSearch search;
  std::vector<LayerPlan> plans;
  LayerCandidates candidates;
  std::optional<NearestDegrees> nearest = {};  ///< Set where nothing fits.
};

/// Returns how much longer a plan takes than the first one, as a fraction.
[[nodiscard]] double loss_of(const LayerPlan& plan, const LayerPlans& plans);
/// Returns the memory of a plan's fullest GPU.
[[nodiscard]] Bytes peak_of(const LayerPlan& plan);

/// Returns the scenario that lists are costed in: a model of no layers, whose embeddings are not
/// tied.
[[nodiscard]] Scenario scenario_of(const LayerSearch& search);

/// Finds the degrees with which an iteration takes least time.
///
/// Every pp, vpp in loops, dp that divides the batch, and ZeRO stage 0 and 1 with pp·dp·tp GPUs at
/// most is looked at, as far as the stack runs it. With several chunks pp must divide the
/// microbatches. Pipelines have up to 2048 virtual stages. Each is cut by partition_layers(): the
/// slowest rank is as fast as possible within memory. A rank has as many microbatches in flight as
/// its schedule says. The time is that of the simulated step (simulated_step.h). Degrees are left
/// out where a lower bound of it exceeds the times of the best ones.
///
/// With several chunks per GPU the cut counts microbatches in flight as spread evenly over chunks.
/// The peak is then found in the schedule's orders, and a cut that exceeds memory there is too
/// full. Unlike layers may take too long to cut exactly so. Then the longest chunk is as short as
/// possible in place of the slowest rank.
///
/// Steps of more than some million actions are left out, and the search ends after most_work of
/// them. LayerCandidates tells what that leaves open.
///
/// Throws Error where the list does not suit the GPUs or the batch, or the stack has no ZeRO stage
/// that is searched.
[[nodiscard]] LayerPlans plan_layers(const LayerSearch& search);

}  // namespace ptdp
