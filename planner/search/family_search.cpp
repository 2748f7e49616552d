// Walks through families, entries and microbatch sizes, and counts and bounds candidates.
#include "planner/search/family_search.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "cost_model/iteration/iteration.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/partition/balance_equal_layers.h"
#include "cost_model/partition/partition.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"
#include "planner/search/finalists.h"

namespace ptdp {
namespace {

constexpr int kUnknown = -1;
constexpr Seconds kTimeOfLook(5e-7);  // on a usual processor, roughly
// Makes a bound lower by more than rounding: sums in another order are off by less.
constexpr double kSurelyBelow = 1.0 - 1e-9;
// A candidate is simulated at once when this many times its bound would still matter.
constexpr double kLikelyAbove = 1.6;
// Share of the time that is left without recomputation: of passes of F, F and 2F the first goes,
// with some messages.
constexpr double kWithoutRecomputation = 0.7;

/// Returns whether two variants belong to one family, apart from the ZeRO stage. With offloading
/// the stage must be equal, too, since what hosts hold depends on it. What is cast to 8 bits
/// depends on whether the stage shards weights, so that must be equal as well.
bool is_same_family(const StackSpec& stack, const ParallelConfig& a, const ParallelConfig& b) {
  if (a.offload != Offload::kNone) {
    return a == b;
  }
  if (casts_shards(stack, a) != casts_shards(stack, b)) {
    return false;
  }
  ParallelConfig other = b;
  other.zero_stage = a.zero_stage;
  return a == other;
}

/// Returns all microbatch sizes of the replicas, each once, ascending.
std::vector<int> all_sizes(const std::vector<Replicas>& replicas) {
  std::vector<int> sizes;
  for (const Replicas& one : replicas) {
    sizes.insert(sizes.end(), one.micro_batch_sizes.begin(), one.micro_batch_sizes.end());
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

bool is_smaller(const MemoryShortfall& a, const MemoryShortfall& b) {
  return std::tie(a.missing, a.config) < std::tie(b.missing, b.config);
}

FamilySearch::FamilySearch(const Scenario& scenario, const SearchOptions& options,
                           const std::vector<Replicas>& replicas, const ComputeFloor& floor)
    : scenario_(scenario),
      options_(options),
      replicas_(replicas),
      floor_(floor),
      sizes_(all_sizes(replicas)),
      batches_(scenario, replicas),
      memory_(scenario, usable_memory(scenario.cluster.gpu, options.memory_headroom)),
      family_memory_(scenario, memory_),
      costs_(scenario),
      best_and_front_(options) {}

bool FamilySearch::search_split(const ParallelConfig& split) {
  if (const auto violation = find_split_violation({scenario_, split})) {
    reject(*violation);
    return !is_over();
  }
  const Variants variants(scenario_, options_.space, split);
  for (const std::int64_t vpp : variants.chunks()) {
    if (is_over()) {
      return false;
    }
    search_chunks(variants.with_chunks(vpp));
  }
  return !is_over_;
}

void FamilySearch::ask_limit() {
  options_.limit.count(static_cast<double>(looks_) * kTimeOfLook);
  looks_ = 0;
  is_over_ = options_.limit.is_over();
  if (on_progress_) {
    on_progress_();
  }
}

/// Searches the variants of one number of chunks, family by family.
void FamilySearch::search_chunks(const std::vector<ParallelConfig>& variants) {
  std::vector<int> zero_stages;
  for (auto first = variants.begin(); first != variants.end() && !is_over_;) {
    zero_stages.clear();
    auto variant = first;
    for (; variant != variants.end() && is_same_family(scenario_.stack, *first, *variant);
         ++variant) {
      if (const auto violation = find_variant_violation({scenario_, *variant})) {
        reject(*violation);
      } else {
        zero_stages.push_back(variant->zero_stage);
      }
    }
    if (!zero_stages.empty()) {
      search_family(*first, zero_stages);
    }
    first = variant;
  }
}

void FamilySearch::search_family(ParallelConfig config, const std::vector<int>& zero_stages) {
  is_uneven_ = !config.layers_per_stage.empty();
  any_split_.reset();
  family_memory_.begin_family(config);
  split_ = family_memory_.number_of(config.layers_per_stage);
  enter(config, zero_stages);
  for (const int size : sizes_) {
    if (entries_.empty() || is_over()) {
      break;
    }
    search_size(config, size);
    std::erase_if(entries_, [](const Entry& entry) { return entry.is_done(); });
  }
}

/// Fills the entries of a family, and counts the candidates that fail for their dp or batch.
void FamilySearch::enter(ParallelConfig& config, const std::vector<int>& zero_stages) {
  entries_.clear();
  classes_.assign(replicas_.size(), kUnknown);
  const std::vector<BatchSizes>& batches = batches_.find(config);
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    config.dp = replicas_[i].dp;
    if (config.world_size() > options_.gpus) {
      break;
    }
    if (is_beaten(config, floor_.gpu_seconds() / static_cast<double>(config.world_size()))) {
      continue;
    }
    const bool has_experts_placed = experts_divide_ranks(config);
    for (const int zero_stage : zero_stages) {
      config.zero_stage = zero_stage;
      if (!is_candidate(scenario_, config, options_.gpus, options_.space)) {
        continue;
      }
      for (const auto& [constraint, number] :
           has_experts_placed ? batches[i].violations : batches[i].without_experts) {
        reject(constraint, number);
      }
      if (!has_experts_placed || batches[i].allowed.empty()) {
        continue;
      }
      entries_.push_back({.dp = config.dp,
                          .zero_stage = zero_stage,
                          .replicas = i,
                          .has_replicas = has_replicas(scenario_.job.model, config),
                          .sizes = &batches[i].allowed});
    }
  }
}

void FamilySearch::search_size(ParallelConfig& config, int size) {
  config.micro_batch_size = size;
  size_costs_.clear();
  beyond_ = {};
  hopeless_ = {};
  if (is_uneven_ && rejects_all(config)) {
    return;
  }
  // From the largest dp down: a size that no split fits there fits none with fewer replicas, and
  // what is too slow there is no faster with fewer.
  for (std::size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    if (entry.is_done() || (*entry.sizes)[entry.next] != size) {
      continue;
    }
    const bool is_skipped = is_known_as_beaten(entry);
    if (!is_skipped && is_over()) {
      break;
    }
    ++entry.next;
    if (!is_skipped) {
      config.dp = entry.dp;
      config.zero_stage = entry.zero_stage;
      evaluate(config, entry);
    }
  }
  if (recomputing_at_size_) {
    recomputing_.push_back(*std::exchange(recomputing_at_size_, std::nullopt));
  }
}

/// Returns whether no split of the layers comes nearer to fitting than the shortfall so far, even
/// with the most replicas and sharding. If so, counts the rest of the family as out of memory.
bool FamilySearch::rejects_all(ParallelConfig& config) {
  if (!tally_.shortfall && options_.counts_all()) {
    return false;
  }
  const Bytes missing = tally_.shortfall ? tally_.shortfall->missing : Bytes(0.0);
  config.dp = entries_.back().dp;
  config.zero_stage = std::ranges::max_element(entries_, {}, &Entry::zero_stage)->zero_stage;
  if (!split_lower_bound(config).fits_none(config, memory_.capacity() + missing)) {
    return false;
  }
  for (const Entry& entry : entries_) {
    reject(Constraint::kMemoryFirstStage,
           static_cast<std::int64_t>(entry.sizes->size() - entry.next));
  }
  entries_.clear();
  return true;
}

void FamilySearch::evaluate(ParallelConfig& config, Entry& entry) {
  SizeCosts& shared = costs_of(config, entry);
  if (recomputes_some(config)) {
    split_layers(config, shared);
    shared.mean_rank = mean_rank_time({scenario_, config, shared.costs.get()});
  }
  // Plans that are derived of it may go without the recomputation of layers.
  const double share = repeats(config.recompute) == Repeats::kLayer ? kWithoutRecomputation : 1.0;
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario_.job.global_batch_size, config));
  if (is_beaten(config, share * microbatches * shared.mean_rank)) {
    shared.is_beaten = true;
    return;
  }
  split_layers(config, shared);
  const MemoryVerdict verdict = family_memory_.judge(config, split_, entry.has_replicas);
  if (verdict.violation) {
    count_misfit(config, entry, verdict);
    return;
  }
  if (options_.leaves_out(config)) {
    reject(Constraint::kNotExportable);
    return;
  }
  ++tally_.enumerated;
  ++tally_.feasible;
  consider(config, shared, verdict.largest);
}

bool FamilySearch::is_beaten(const ParallelConfig& config, Seconds least) const {
  return !options_.counts_all() && !best_and_front_.may_be_best(config, least * kSurelyBelow);
}

/// Counts a candidate that does not fit, and the larger sizes with it when none of them fits.
void FamilySearch::count_misfit(ParallelConfig& config, Entry& entry,
                                const MemoryVerdict& verdict) {
  note_shortfall(config, verdict.largest);
  const bool has_no_split = is_uneven_ && no_split_fits(config);
  const Constraint violation = has_no_split ? Constraint::kMemoryFirstStage : *verdict.violation;
  reject(violation);
  if (has_no_split || larger_sizes_fail(config, violation)) {
    reject(violation, static_cast<std::int64_t>(entry.sizes->size() - entry.next));
    entry.is_over = true;
  }
}

/// Looks closer at a candidate that fits, as long as ever closer lower bounds say that it may
/// matter. One that would matter even at kLikelyAbove times its bound is simulated at once, so that
/// there is something to beat. The others wait for the finalists.
void FamilySearch::consider(const ParallelConfig& config, SizeCosts& shared, Bytes memory) {
  const Bytes least_memory = memory * kSurelyBelow;
  const auto may_matter = [&](Seconds least) {
    return best_and_front_.may_matter(config, least * kSurelyBelow, least_memory);
  };
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario_.job.global_batch_size, config));
  if (repeats(config.recompute) == Repeats::kLayer && config.recompute_num_layers == 0) {
    note_recomputing(config, kWithoutRecomputation * microbatches * shared.mean_rank, memory);
  }
  if (!may_matter(microbatches * shared.mean_rank)) {
    return;
  }
  const PlannedJob job(scenario_, config, shared.costs.get());
  if (!shared.passes) {
    shared.passes.emplace(job);
  }
  if (!may_matter(shared.passes->time(microbatches))) {
    return;
  }
  const Seconds least = least_iteration_time(job, *shared.passes);
  if (!may_matter(least)) {
    return;
  }
  const Bytes exact = memory_.largest(config);
  if (!may_matter(kLikelyAbove * least)) {
    best_and_front_.keep_bounded({config, least * kSurelyBelow, exact, shared.costs});
    return;
  }
  looks_ = kLooks;  // a simulation may take as long as many looks
  const StepBound bound = times_.bound(job);
  count_bound(options_.limit, job, bound);
  if (bound.is_exact || may_matter(bound.time)) {
    if (!bound.is_exact) {
      count_contended(options_.limit, job);
    }
    best_and_front_.keep({config, times_.find(job), exact, shared.costs});
  }
}

void FamilySearch::note_recomputing(const ParallelConfig& config, Seconds least, Bytes memory) {
  std::optional<Candidate>& known = recomputing_at_size_;
  if (best_and_front_.may_be_best(config, least) &&
      (!known ||
       std::tie(least, memory, config) < std::tie(known->time, known->memory, known->config))) {
    known = Candidate{config, least, memory};
  }
}

/// Returns what the entry shares with others at this size.
FamilySearch::SizeCosts& FamilySearch::costs_of(ParallelConfig& config, Entry& entry) {
  int& costs_class = classes_[entry.replicas];
  if (costs_class == kUnknown) {
    costs_class = costs_.class_of(config);
  }
  const auto found = std::ranges::find(size_costs_, costs_class, &SizeCosts::costs_class);
  if (found != size_costs_.end()) {
    return *found;
  }
  const auto& costs = costs_.find(costs_class, config);
  return size_costs_.emplace_back(
      SizeCosts{.costs_class = costs_class,
                .costs = costs,
                .mean_rank = mean_rank_time({scenario_, config, costs.get()})});
}

bool FamilySearch::is_known_as_beaten(const Entry& entry) const {
  const int costs_class = classes_[entry.replicas];
  const auto found = std::ranges::find(size_costs_, costs_class, &SizeCosts::costs_class);
  return found != size_costs_.end() && found->is_beaten;
}

/// Sets the configuration's layers per stage. These are the balanced split, which neither dp nor
/// the ZeRO stage changes, or an even split when there is no balanced one.
void FamilySearch::split_layers(ParallelConfig& config, SizeCosts& shared) {
  if (!shared.split) {
    shared.split = find_split(config, *shared.costs);
  }
  if (*shared.split != split_) {
    split_ = *shared.split;
    config.layers_per_stage = family_memory_.layers_per_stage(split_);
  }
}

std::size_t FamilySearch::find_split(const ParallelConfig& config, const MicrobatchCosts& costs) {
  if (!is_uneven_ || !options_.space.layers_per_stage.empty()) {
    return split_;
  }
  const auto balanced = balanced_layers({scenario_, config, &costs});
  return family_memory_.number_of(
      balanced ? *balanced
               : even_partition(scenario_.job.model.num_layers, config.pp * config.vpp));
}

bool FamilySearch::larger_sizes_fail(ParallelConfig& config, Constraint violation) {
  if (memory_.grows_with_size(config)) {
    return violation == Constraint::kMemoryFirstStage;
  }
  return holds_for(config, beyond_[static_cast<std::size_t>(config.zero_stage)], [&] {
    return split_lower_bound(config).least_memory(config) > memory_.capacity();
  });
}

bool FamilySearch::no_split_fits(ParallelConfig& config) {
  return holds_for(config, hopeless_[static_cast<std::size_t>(config.zero_stage)],
                   [&] { return split_lower_bound(config).fits_none(config, memory_.capacity()); });
}

const SplitLowerBound& FamilySearch::split_lower_bound(const ParallelConfig& config) {
  if (!any_split_) {
    any_split_.emplace(PlannedJob(scenario_, config));
  }
  return *any_split_;
}

/// Returns whether `holds` holds for the configuration's dp, and remembers it in `few`. It asks for
/// the fewest replicas first: mostly it does not even hold for these.
template <class Holds>
bool FamilySearch::holds_for(ParallelConfig& config, MonotoneInDp& few, const Holds& holds) {
  if (!few.is_asked) {
    const int dp = std::exchange(config.dp, entries_.front().dp);
    few = {.is_asked = true, .is_ever = holds()};
    config.dp = dp;
  }
  if (few.is_ever && config.dp > few.most && holds()) {
    few.most = config.dp;
  }
  return config.dp <= few.most;
}

void FamilySearch::reject(Constraint constraint, std::int64_t count) {
  if (count > 0) {
    tally_.enumerated += count;
    tally_.violations[constraint] += count;
  }
}

/// Notes a candidate that does not fit if none was nearer to fitting. `largest` is the memory of
/// the stages looked at, and may be rounded.
void FamilySearch::note_shortfall(const ParallelConfig& config, Bytes largest) {
  std::optional<MemoryShortfall>& smallest = tally_.shortfall;
  if (!options_.counts_all()) {
    return;
  }
  if (smallest && largest * kSurelyBelow - memory_.capacity() > smallest->missing) {
    return;
  }
  const MemoryShortfall exact{config, memory_.largest(config) - memory_.capacity()};
  if ((!smallest || is_smaller(exact, *smallest)) && !options_.leaves_out(config)) {
    smallest = exact;
  }
}

}  // namespace ptdp
