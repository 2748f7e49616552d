// Spreads layers over ranks and chunks: equal ones by filling up to a level, unlike ones by greedy
// walks.
#include "cost_model/partition/balance_equal_layers.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

#include "cost_model/pipeline_rank/recomputed_layers.h"

namespace ptdp {
namespace {

/// Returns how many layers fit below `level` in each member of a bin, within its bounds.
int layers_below(const LayerBin& bin, Seconds level, Seconds layer) {
  const double layers = std::floor((level - bin.extra) / layer);
  return layers <= bin.least ? bin.least : layers >= bin.most ? bin.most : static_cast<int>(layers);
}

/// A bin that is being filled. The last `ahead` members hold one layer more than the others.
struct Filling {
  const LayerBin* bin = nullptr;
  int layers = 0;  ///< Layers that each member holds at least.
  int ahead = 0;   ///< Members that hold one layer more.

  [[nodiscard]] bool has_room() const { return layers < bin->most; }
  [[nodiscard]] Seconds next_level(Seconds layer) const {
    return bin->extra + (layers + 1.0) * layer;
  }
  /// Gives one layer each to at most `available` members. Returns how many it gave.
  int raise(std::int64_t available) {
    const auto given = static_cast<int>(std::min<std::int64_t>(available, bin->count - ahead));
    ahead += given;
    if (ahead == bin->count) {
      ++layers;
      ahead = 0;
    }
    return given;
  }
};

std::int64_t total_below(std::span<const LayerBin> bins, Seconds level, Seconds layer) {
  std::int64_t total = 0;
  for (const LayerBin& bin : bins) {
    total += std::int64_t{bin.count} * layers_below(bin, level, layer);
  }
  return total;
}

/// Returns a level below which no more than `num_layers` layers fit, at most a layer below the
/// level where more do. Giving out layers begins from there.
Seconds find_level(std::span<const LayerBin> bins, int num_layers, Seconds layer) {
  Seconds low = bins.front().extra;
  Seconds high = low;
  for (const LayerBin& bin : bins) {
    low = std::min(low, bin.extra);
    high = std::max(high, bin.extra + (num_layers + 1.0) * layer);
  }
  while (high - low > layer) {
    const Seconds middle = low + (high - low) / 2.0;
    if (middle == low || middle == high) {
      break;  // neighboring numbers: the ends outweigh a layer by 2^52
    }
    (total_below(bins, middle, layer) <= num_layers ? low : high) = middle;
  }
  return low;
}

/// Returns the chunks of a rank as bins: alike but for those with an end of the model.
std::vector<LayerBin> chunk_bins(const TransformerTimes& times, int vpp, bool holds_first,
                                 bool holds_last) {
  std::vector<LayerBin> bins;
  if (holds_first) {
    bins.push_back({.extra = times.embedding});
  }
  if (const int between = vpp - static_cast<int>(holds_first) - static_cast<int>(holds_last);
      between > 0) {
    bins.push_back({.count = between, .least = 1});
  }
  if (holds_last) {
    bins.push_back({.extra = times.logits});
  }
  return bins;
}

/// Returns a rank as a bin. Every chunk needs a layer, except those with an end of the model.
LayerBin rank_bin(const TransformerTimes& times, int vpp, bool holds_first, bool holds_last) {
  const int ends = static_cast<int>(holds_first) + static_cast<int>(holds_last);
  return {.extra = (holds_first ? times.embedding : Seconds(0.0)) +
                   (holds_last ? times.logits : Seconds(0.0)),
          .least = std::max(vpp - ends, 0)};
}

/// Returns all ranks as bins, those alike in one bin unless each has a limit of its own.
std::vector<LayerBin> rank_bins(const TransformerTimes& times, int pp, int vpp, int last_rank,
                                std::span<const int> most_of_ranks) {
  std::vector<LayerBin> bins;
  for (int rank = 0; rank < pp; ++rank) {
    const bool is_like_before = most_of_ranks.empty() && rank > 1 && rank != last_rank;
    if (is_like_before) {
      ++bins.back().count;
      continue;
    }
    bins.push_back(rank_bin(times, vpp, rank == 0, rank == last_rank));
    if (!most_of_ranks.empty()) {
      bins.back().most = most_of_ranks[rank];
    }
  }
  return bins;
}

/// Layers in a row that take as long as each other.
struct EqualLayers {
  Seconds time;
  int count = 1;
};

/// Returns the embedding, the layers and the logits as runs, in model order.
std::vector<EqualLayers> runs_in_order(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  // Where only some layers are recomputed, which ones is known only once they are spread. Until
  // then each layer takes a share of its recomputation.
  const double num_stages = 1.0 * job.config().pp * job.config().vpp;
  const double share =
      !recomputes_some(job.config()) ? 1.0
      : job.config().recompute_method == RecomputeMethod::kEvery
          ? 1.0 / job.config().recompute_num_layers
          : std::min(1.0, job.config().recompute_num_layers * num_stages / model.num_layers);
  std::vector<EqualLayers> runs;
  runs.reserve(kLayerKinds.size() + 2);  // mostly no kind comes twice
  runs.push_back({.time = job.costs().embedding.total()});
  for (int layer = 0; layer < model.num_layers;) {
    const LayerCosts& kind = job.costs().layers[index_of(kind_of_layer(model, layer))];
    const int end = end_of_run(model, layer);
    runs.push_back({.time = kind.forward.total() + kind.backward.total() +
                            share * kind.recompute(job.config().recompute).total(),
                    .count = end - layer});
    layer = end;
  }
  runs.push_back({.time = job.costs().logits.total() + model.mtp_num_layers * runs.back().time});
  return runs;
}

std::vector<Seconds> one_by_one(std::span<const EqualLayers> runs) {
  int count = 0;
  for (const EqualLayers& run : runs) {
    count += run.count;
  }
  std::vector<Seconds> times(static_cast<std::size_t>(count));
  auto next = times.begin();
  for (const EqualLayers& run : runs) {
    next = std::fill_n(next, run.count, run.time);
  }
  return times;
}

/// Result of a walk that fills virtual stages up to a limit, one after the other.
struct GreedyWalk {
  bool is_enough = false;  ///< Whether the virtual stages hold all layers.
  Seconds longest;         ///< Time of the longest virtual stage that was filled.
  Seconds next_longer;  ///< Least time that a virtual stage would have taken with one layer more.
};
/// Fills `num_stages` virtual stages with `runs`, each up to `most`, one after the other.
GreedyWalk fill_stages(std::span<const EqualLayers> runs, int num_stages, Seconds most) {
  const Seconds room = most * (1.0 + 1e-13);  // covers the rounding of sums in another order
  GreedyWalk walk{.next_longer = Seconds(std::numeric_limits<double>::infinity())};
  auto run = runs.begin();
  int left = run->count;
  int stages = num_stages;
  while (stages > 0 && run != runs.end()) {
    const auto first = run;
    Seconds sum = run->time;
    int count = 1;
    for (--left;; left = run->count) {
      const double fit = (room - sum) / run->time;
      const int added = fit < left ? std::max(static_cast<int>(fit), 0) : left;
      sum += added * run->time;
      count += added;
      left -= added;
      if (left > 0) {
        walk.next_longer = std::min(walk.next_longer, sum + run->time);
        break;
      }
      if (++run == runs.end()) {
        break;
      }
    }
    walk.longest = std::max(walk.longest, sum);
    --stages;
    if (run == first) {  // those behind it are alike while they end within the run
      const int alike = std::min(stages, (left - 1) / count);
      stages -= alike;
      left -= alike * count;
    }
  }
  walk.is_enough = run == runs.end();
  return walk;
}

/// Returns the least possible time of the longest of `num_stages` virtual stages. A little is
/// added, so that sums in another order stay below. Virtual stages that do not hold all layers must
/// take one layer more: the least such sum is the next candidate, and mostly one of the first three
/// is enough. After that each step also halves the interval.
Seconds least_longest(std::span<const EqualLayers> runs, int num_stages, Seconds total) {
  constexpr double above_rounding = 1.0 + 1e-12;
  constexpr int steps_up = 3;
  const Seconds largest = std::ranges::max_element(runs, {}, &EqualLayers::time)->time;
  Seconds low = std::max(largest, total / static_cast<double>(num_stages));
  // A virtual stage that another layer would not fit into is longer than `low`: so many are enough.
  Seconds high = (low + largest) * above_rounding;
  for (int step = 0; low < high; ++step) {
    const GreedyWalk walk = fill_stages(runs, num_stages, low);
    if (walk.is_enough) {
      high = walk.longest;
      break;
    }
    low = walk.next_longer;
    if (step < steps_up) {
      continue;
    }
    const GreedyWalk half = fill_stages(runs, num_stages, low + 0.5 * (high - low));
    if (half.is_enough) {
      high = half.longest;
    } else {
      low = half.next_longer;
    }
  }
  return high * above_rounding;
}

/// Returns, by number of virtual stages, the first layer from which on so many hold all layers,
/// none longer than `most`.
std::vector<std::size_t> first_held(std::span<const Seconds> times, int num_stages, Seconds most) {
  std::vector<std::size_t> first(static_cast<std::size_t>(num_stages) + 1);
  std::size_t layer = times.size();
  first[0] = layer;
  for (std::size_t stages = 1; stages < first.size(); ++stages) {
    Seconds sum;
    while (layer > 0 && sum + times[layer - 1] <= most) {
      sum += times[--layer];
    }
    first[stages] = layer;
  }
  return first;
}

/// Returns the number of layers of each virtual stage, as near as possible to an equal share of
/// what is left. None is longer than `longest`. A stage takes more than its share where those
/// behind could not hold the rest: `held_from` says that, as first_held() returns it; empty means
/// not looked at. The sum is less than all layers where those behind could not hold the rest.
std::vector<int> fill_by_share(std::span<const Seconds> times, int num_stages, Seconds longest,
                               Seconds total, std::span<const std::size_t> held_from) {
  std::vector<int> sizes;
  sizes.reserve(static_cast<std::size_t>(num_stages));
  Seconds left = total;
  std::size_t layer = 0;
  for (auto stages = static_cast<std::size_t>(num_stages); stages > 0; --stages) {
    const std::size_t begin = layer;
    const std::size_t held = held_from.empty() ? 0 : held_from[stages - 1];
    const Seconds share = left / static_cast<double>(stages);
    Seconds sum = times[layer++];
    // Takes another layer where the share wants it or the stages behind could not hold it.
    while (times.size() - layer >= stages && (sum + 0.5 * times[layer] <= share || layer < held) &&
           sum + times[layer] <= longest) {
      sum += times[layer++];
    }
    left = left - sum;
    sizes.push_back(static_cast<int>(layer - begin));
  }
  return sizes;
}

/// Spreads layers of unlike kinds, between the ends of the model, over `num_stages` virtual stages.
/// The longest is as short as possible; each is as near to its share of what is left as that
/// allows. Returns nullopt when there are too few layers. Walks greedily, since a search meets a
/// million of these: partition_layers() has the exact tie-breaks.
std::optional<std::vector<int>> balanced_kinds(std::span<const EqualLayers> runs, int num_stages) {
  const std::vector<Seconds> times = one_by_one(runs);
  if (std::ssize(times) < num_stages) {
    return std::nullopt;
  }
  Seconds total;
  for (const EqualLayers& run : runs) {
    total += run.count * run.time;
  }
  const Seconds longest = least_longest(runs, num_stages, total);
  // Mostly the shares alone leave no layer over: then no stage must take more for those behind.
  std::vector<int> sizes = fill_by_share(times, num_stages, longest, total, {});
  if (std::reduce(sizes.begin(), sizes.end()) < std::ssize(times)) {
    sizes =
        fill_by_share(times, num_stages, longest, total, first_held(times, num_stages, longest));
  }
  --sizes.front();
  --sizes.back();
  return sizes;
}

}  // namespace

std::optional<std::vector<int>> balance_equal_layers(int num_layers, Seconds layer,
                                                     std::span<const LayerBin> bins) {
  assert(layer > Seconds(0.0));
  std::int64_t least = 0;
  for (const LayerBin& bin : bins) {
    least += std::int64_t{bin.count} * bin.least;
    if (bin.least > bin.most) {
      return std::nullopt;
    }
  }
  if (bins.empty() || num_layers < least) {
    return std::nullopt;
  }
  const Seconds level = find_level(bins, num_layers, layer);
  std::vector<Filling> fillings;
  std::int64_t left = num_layers;
  for (const LayerBin& bin : bins) {
    fillings.push_back({.bin = &bin, .layers = layers_below(bin, level, layer)});
    left -= std::int64_t{bin.count} * fillings.back().layers;
  }
  while (left > 0) {
    Filling* lowest = nullptr;
    for (Filling& filling : fillings) {
      if (filling.has_room() &&
          (lowest == nullptr || filling.next_level(layer) <= lowest->next_level(layer))) {
        lowest = &filling;
      }
    }
    if (lowest == nullptr) {
      return std::nullopt;  // all are full
    }
    left -= lowest->raise(left);
  }
  std::vector<int> result;
  for (const Filling& filling : fillings) {
    result.insert(result.end(), filling.bin->count - filling.ahead, filling.layers);
    result.insert(result.end(), filling.ahead, filling.layers + 1);
  }
  return result;
}

std::optional<std::vector<int>> balanced_layers(const TransformerTimes& times, int pp, int vpp,
                                                StagePlacement placement,
                                                std::span<const int> most_of_ranks) {
  const bool is_v = placement == StagePlacement::kV;
  assert(is_v ? vpp == 2 : placement == StagePlacement::kLooped);
  const int last_rank = is_v ? 0 : pp - 1;
  auto of_ranks = balance_equal_layers(times.num_layers, times.layer,
                                       rank_bins(times, pp, vpp, last_rank, most_of_ranks));
  if (!of_ranks || vpp == 1) {
    return of_ranks;
  }
  std::vector<int> result(static_cast<std::size_t>(pp) * vpp);
  for (int rank = 0; rank < pp; ++rank) {
    const auto of_chunks = balance_equal_layers(
        (*of_ranks)[rank], times.layer, chunk_bins(times, vpp, rank == 0, rank == last_rank));
    for (int chunk = 0; chunk < vpp; ++chunk) {
      const int stage = is_v && chunk == 1 ? 2 * pp - 1 - rank : chunk * pp + rank;
      result[stage] = (*of_chunks)[chunk];
    }
  }
  return result;
}

TransformerTimes transformer_times(const PlannedJob& job) {
  const std::vector<EqualLayers> runs = runs_in_order(job);
  return {.num_layers = job.model().num_layers,
          .layer = runs[1].time,
          .embedding = runs.front().time,
          .logits = runs.back().time};
}

std::optional<std::vector<int>> balanced_layers(const PlannedJob& job) {
  const StagePlacement placement = traits_of(job.config().schedule).placement;
  if (placement == StagePlacement::kBidirectional) {
    return std::nullopt;
  }
  if (!has_one_kind(job.model())) {
    return balanced_kinds(runs_in_order(job), job.config().pp * job.config().vpp);
  }
  return balanced_layers(transformer_times(job), job.config().pp, job.config().vpp, placement);
}

}  // namespace ptdp
