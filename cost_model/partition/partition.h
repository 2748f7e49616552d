// Layers per stage of a pipeline out of what each layer costs: the exact minimax partition.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// One layer of a model, or what stands at an end of it (embedding; logits and loss).
struct LayerCost {
  Seconds time;  ///< Of one microbatch, forward and backward; not negative.
  Bytes memory;  ///< Of the GPU that holds it; not negative, counted in whole bytes.

  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// Into what a list of layers is cut.
struct PartitionRequest {
  int pp = 1;                                          ///< Ranks.
  int vpp = 1;                                         ///< Virtual stages per rank; 2 in a V.
  StagePlacement placement = StagePlacement::kLooped;  ///< Or kV.
  std::optional<Bytes> memory = std::nullopt;          ///< Of a rank; nothing: no limit.
  /// Steps that a search for vpp > 1 may take: some seconds.
  std::int64_t most_steps = 100'000'000;
};

/// The rank that holds a virtual stage.
[[nodiscard]] int rank_of_stage(const PartitionRequest& request, int stage);

/// Cuts the layers, in model order, into pp·vpp virtual stages of one or more layers each, such
/// that the slowest rank (the sum of its virtual stages) is as fast as possible, and no rank holds
/// more memory than allowed. The result is the number of layers of each virtual stage; nothing
/// where there is no such partition.
///
/// Why the sum: 1F1B and interleaved 1F1B take m·slowest rank + what does not depend on the
/// partition, p − 1 times the mean rank over v. Chunks of unequal length on equally loaded ranks
/// cost interleaved 1F1B up to 1 % where they differ by ±10 %, up to 8 % at ±30 % (p = 2 … 8,
/// m = 16p, simulated), which is why chunks come second.
///
/// Among the optima, for vpp = 1: the one with the least sum of squares of the ranks' times, and
/// among these the one whose stages all end earliest, for in 1F1B the first stages hold most
/// microbatches. Where the cuts together may have more than 2^25 positions, which takes long lists
/// with layers that outweigh whole stages, the slowest stage of two or more layers is made as fast
/// as possible before that; and where even that leaves as many, each cut is put as close to an
/// equal share of what is left as the windows allow. For vpp > 1, where all layers but the first
/// and last are equal: the same of ranks, then of the chunks of a rank. Else one whose longest
/// virtual stage is as short as could be found.
///
/// Exact: times are integers, in the power of two of seconds that keeps their sum below 2^62, so
/// that a layer is at most 2^-63 of the sum off, and equal layers tie. For vpp = 1 by bisection
/// over the integers, each probe a greedy walk of O(pp·log n) steps (Pinar & Aykanat, J. Parallel
/// Distrib. Comput. 64, 2004), and a dynamic program over the windows of the cuts. For vpp > 1 the
/// layers that are equal but for the ends are spread as spread_layers does; any other list is
/// searched exhaustively, each state of the ranks met once: 128 layers on 16 ranks with vpp = 2
/// take 40 ms, 48 on 4 with vpp = 4 half a second. Throws Error where it takes more than
/// most_steps, or there are more than 2048 unlike layers, rather than answering with something
/// else.
[[nodiscard]] std::optional<std::vector<int>> partition_layers(std::span<const LayerCost> layers,
                                                               const PartitionRequest& request);

/// Memory of the fullest rank in the partition that needs least, pp·vpp layers or more given: what
/// has to be allowed for there to be any. The request's limit is not looked at.
[[nodiscard]] Bytes least_memory(std::span<const LayerCost> layers,
                                 const PartitionRequest& request);

/// What each rank of a partition takes and holds.
[[nodiscard]] std::vector<LayerCost> loads_of_ranks(std::span<const LayerCost> layers,
                                                    const PartitionRequest& request,
                                                    std::span<const int> layers_per_stage);

/// n layers over so many stages by number alone, the first n mod stages one more.
[[nodiscard]] std::vector<int> even_split(int num_layers, int num_stages);

}  // namespace ptdp
