// Spreads equal layers over the GPUs of a pipeline whose ends carry something besides.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// Neighbors (ranks of a pipeline, or chunks of a rank) that carry the same besides layers.
struct LayerBin {
  int count = 1;                               ///< Number of members in the bin, at least one.
  Seconds extra;                               ///< Time that each member takes without any layer.
  int least = 0;                               ///< Fewest layers that each member may hold.
  int most = std::numeric_limits<int>::max();  ///< Most layers that each member may hold.
};

/// Spreads layers that take `layer` > 0 each (per microbatch) over the members of all bins. Returns
/// one number for each member, in order, or nullopt when the bins hold fewer layers or need more.
///
/// The largest time is the least possible, and so is the sum of squares of all times: giving layer
/// after layer to whoever has least is optimal for every symmetric convex objective (separable
/// convex allocation; Federgruen & Groenevelt, Operations Research 34, 1986). Among equal members
/// those behind get more, since the first stages of a pipeline hold most microbatches. Takes
/// O(bins² + members) steps, whatever the number of layers.
[[nodiscard]] std::optional<std::vector<int>> balance_equal_layers(int num_layers, Seconds layer,
                                                                   std::span<const LayerBin> bins);

/// Times per microbatch of the parts of a transformer with equal layers.
struct TransformerTimes {
  int num_layers = 1;  ///< Layers of the model, all alike.
  Seconds layer;       ///< Time of one layer: forward, backward and recomputation; positive.
  Seconds embedding;   ///< Time of the embedding, on the first virtual stage.
  Seconds logits;      ///< Time of logits and loss, on the last virtual stage.
};

/// Spreads layers over pp·vpp virtual stages and returns the number of each, in model order. The
/// slowest rank (all its virtual stages together, with embedding and logits) is as fast as
/// possible. Among equal ones, the sum of squares of the ranks' times is least. A rank's layers are
/// spread over its chunks by the same rule.
///
/// The first and the last virtual stage may be left with no layer at all; the others hold one or
/// more. Returns nullopt when there are too few layers for that, or the limits leave no room. In a
/// V (vpp = 2) the last virtual stage is on rank 0. Rank r holds at most `most_of_ranks[r]` layers.
/// Empty `most_of_ranks` means no limits, and takes O(pp·vpp) steps.
[[nodiscard]] std::optional<std::vector<int>> balanced_layers(
    const TransformerTimes& times, int pp, int vpp,
    StagePlacement placement = StagePlacement::kLooped, std::span<const int> most_of_ranks = {});

/// Spreads the layers of the job's model by what they cost under its configuration, in model order.
/// Layers of one kind are spread as balanced_layers() of transformer_times(). With several kinds
/// the slowest virtual stage is as fast as possible, whichever rank has it (partition_layers).
/// Returns nullopt for bidirectional schedules, whose ranks hold a stage from either end, and when
/// there are too few layers.
[[nodiscard]] std::optional<std::vector<int>> balanced_layers(const PlannedJob& job);

/// Returns the times of the job's layers and ends per microbatch. The model's layers must be of one
/// kind.
[[nodiscard]] TransformerTimes transformer_times(const PlannedJob& job);

}  // namespace ptdp
