// Equal layers over the GPUs of a pipeline whose ends carry something besides.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// Neighbours (ranks of a pipeline, or chunks of a rank) that carry the same besides layers.
struct SpreadBin {
  int count = 1;                               ///< How many there are, at least one.
  Seconds extra;                               ///< What each takes without any layer.
  int least = 0;                               ///< Fewest layers that each may hold.
  int most = std::numeric_limits<int>::max();  ///< And most.
};

/// Layers of `layer` > 0 each (per microbatch) over the members of all bins, one number for each
/// member in order; nothing where the bins hold fewer or need more.
///
/// The largest time is the least possible, and so is the sum of squares of all times: giving layer
/// after layer to whoever has least is optimal for every symmetric convex objective (separable
/// convex allocation; Federgruen & Groenevelt, Operations Research 34, 1986). Among equal ones
/// those behind get more, for the first stages of a pipeline hold most microbatches. Takes O(bins²
/// + members) steps, whatever the number of layers.
[[nodiscard]] std::optional<std::vector<int>> spread_layers(int num_layers, Seconds layer,
                                                            std::span<const SpreadBin> bins);

/// A transformer as a pipeline sees it, per microbatch.
struct TransformerTimes {
  int num_layers = 1;  ///< All alike.
  Seconds layer;       ///< Forward, backward and recomputation; positive.
  Seconds embedding;   ///< On the first virtual stage.
  Seconds logits;      ///< On the last.
};

/// Layers of each of the pp·vpp virtual stages, in model order, such that the slowest rank (all its
/// stages together, with embedding and logits) is as fast as possible, and then the sum of squares
/// of the ranks' times least; a rank's layers are spread over its chunks likewise. The first and
/// the last virtual stage may be left with no layer at all, the others hold one or more; nothing
/// where there are too few layers for that. In a V (vpp = 2) the last stage is on rank 0. Rank r
/// holds at most `most_of_ranks[r]` layers; empty: no limits, and the answer takes O(pp·vpp) steps.
[[nodiscard]] std::optional<std::vector<int>> balanced_layers(
    const TransformerTimes& times, int pp, int vpp,
    StagePlacement placement = StagePlacement::kLooped, std::span<const int> most_of_ranks = {});

/// The same for a configuration and what its layers cost. Nothing for bidirectional schedules,
/// whose ranks hold a stage from either end. Where layers are of several kinds, the slowest virtual
/// stage is as fast as possible, whichever rank has it (partition_layers).
[[nodiscard]] std::optional<std::vector<int>> balanced_layers(const PlannedJob& job);

/// What the stages of a configuration are made of; the model's layers must be of one kind.
[[nodiscard]] TransformerTimes transformer_times(const PlannedJob& job);

}  // namespace ptdp
