// Layers per virtual stage of a pipeline out of what each layer costs: the exact minimax partition.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// Cost of one layer of a model, or of what stands at an end of it (embedding; logits and loss).
struct LayerCost {
  Seconds time;  ///< Forward and backward time of one microbatch; not negative.
  Bytes memory;  ///< Memory on the GPU that holds the layer; not negative, counted in whole bytes.
  /// Memory that each microbatch in flight takes besides; not negative, counted in whole bytes.
  Bytes kept = {};

  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// What a list of layers is cut into, and within which limits.
struct PartitionRequest {
  int pp = 1;   ///< Pipeline ranks.
  int vpp = 1;  ///< Virtual stages per pipeline rank; 2 in a V.
  /// How virtual stages lie on ranks: kLooped or kV.
  StagePlacement placement = StagePlacement::kLooped;
  /// Most memory that a rank may hold; nullopt: no limit.
  std::optional<Bytes> memory = std::nullopt;
  /// Microbatches in flight on each rank, which keep LayerCost::kept; from rank to rank no more.
  /// Empty: kept memory does not count.
  std::vector<double> in_flight = {};
  /// Most steps that a search for vpp > 1 may take; the default is some seconds of them.
  std::int64_t most_steps = 100'000'000;
};

/// Returns the pipeline rank that holds virtual stage `stage` (0 … pp·vpp−1).
[[nodiscard]] int rank_of_stage(const PartitionRequest& request, int stage);

/// Cuts the layers, in model order, into pp·vpp virtual stages of one or more layers each. The
/// slowest rank (the sum of its virtual stages) is as fast as possible, and no rank holds more
/// memory than allowed. Returns the number of layers of each virtual stage, or nullopt when there
/// is no such partition.
///
/// The sum counts because 1F1B and interleaved 1F1B take m times the slowest rank, plus p − 1 times
/// the mean rank over v. The second term does not depend on the partition. Chunks come second
/// because their lengths matter little on equally loaded ranks. Lengths that differ by ±10 % cost
/// interleaved 1F1B up to 1 %, those that differ by ±30 % up to 8 % (p = 2 … 8, m = 16p,
/// simulated).
///
/// For vpp = 1 the choice among the optima is the least sum of squares of the ranks' times. Among
/// equal sums it is the partition whose stages all end earliest, since in 1F1B the first stages
/// hold most microbatches. This needs a table of all positions that the cuts may have. Long lists
/// with layers that outweigh whole stages may have more than 2^25 positions. For these the slowest
/// stage of two or more layers is made as fast as possible first. If as many positions are left,
/// each cut is put as close to an equal share of the rest as the windows allow.
///
/// For vpp > 1 the layers between the first and the last may all be equal. The choice is then the
/// least sum of squares of the ranks' times, and after that of the chunks of each rank. With other
/// layers it is a partition whose longest virtual stage is as short as could be found.
///
/// The result is exact: times are integers, in the power of two of seconds that keeps their sum
/// below 2^62. A layer is thus at most 2^-63 of the sum off, and equal layers tie.
///
/// The method for vpp = 1 is bisection over the integers, each probe a greedy walk of O(pp·log n)
/// steps (Pinar & Aykanat, J. Parallel Distrib. Comput. 64, 2004). A dynamic program over the
/// windows of the cuts chooses among the optima.
///
/// For vpp > 1, layers that are equal but for the ends are spread as balance_equal_layers() does.
/// Any other list is searched exhaustively, each state of the ranks met once. 128 layers on 16
/// ranks with vpp = 2 take 40 ms, and 48 on 4 with vpp = 4 half a second. Throws Error when the
/// search takes more than most_steps or has more than 2048 layers, rather than return something
/// else.
[[nodiscard]] std::optional<std::vector<int>> partition_layers(std::span<const LayerCost> layers,
                                                               const PartitionRequest& request);

/// Returns the memory of the fullest rank in the partition that needs least: the smallest limit
/// under which there is a partition. Needs pp·vpp layers or more. Ignores the request's own limit.
/// The request must have nothing in flight. Throws Error as partition_layers() does.
[[nodiscard]] Bytes least_memory(std::span<const LayerCost> layers,
                                 const PartitionRequest& request);

/// Returns the time and memory of each pipeline rank, summed over its virtual stages.
/// `layers_per_stage` has one number per virtual stage.
[[nodiscard]] std::vector<LayerCost> loads_of_ranks(std::span<const LayerCost> layers,
                                                    const PartitionRequest& request,
                                                    std::span<const int> layers_per_stage);

/// Splits num_layers layers over num_stages stages by number alone. The first num_layers mod
/// num_stages get one more.
[[nodiscard]] std::vector<int> even_partition(int num_layers, int num_stages);

}  // namespace ptdp
