// The search through the candidates of one split of the model over GPUs after another.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "planner/search/batch_sizes.h"
#include "planner/search/best_and_front.h"
#include "planner/search/costs_cache.h"
#include "planner/search/degrees_order.h"
#include "planner/search/enumerate.h"
#include "planner/search/family_memory.h"
#include "planner/search/memory_fit.h"
#include "planner/search/search.h"
#include "planner/search/split_lower_bound.h"

namespace ptdp {

/// Returns whether `a` is nearer to fitting than `b`; the configuration decides between equally
/// near ones.
[[nodiscard]] bool is_smaller(const MemoryShortfall& a, const MemoryShortfall& b);

/// Counts the candidates of splits, and finds those that may be among the best or on the Pareto
/// front. It works through one family after another: the configurations that differ only in dp,
/// ZeRO stage and microbatch size. A family shares its checks. Members of one microbatch size also
/// share the costs of a microbatch, the split of layers, and the memory of stages but for shards.
/// Keeps references to its arguments.
class FamilySearch {
 public:
  FamilySearch(const Scenario& scenario, const SearchOptions& options,
               const std::vector<Replicas>& replicas, const ComputeFloor& floor);

  /// Searches the variants of a split (config_of_degrees()). Returns whether it came to the end
  /// before the options' limit was over.
  [[nodiscard]] bool search_split(const ParallelConfig& split);

  /// Sets a function that later searches call from time to time.
  void report_to(std::function<void()> on_progress) { on_progress_ = std::move(on_progress); }
  /// Returns the time of the fastest candidate found so far whose time is exact.
  [[nodiscard]] std::optional<Seconds> best_time() const { return best_and_front_.best_time(); }

  /// Returns the counts and the shortfall so far; `best` and `pareto` stay empty.
  [[nodiscard]] const SearchResult& tally() const { return tally_; }
  /// Hands over the best candidates, the front, and the candidates with a lower bound only.
  [[nodiscard]] BestAndFront take_best_and_front() { return std::move(best_and_front_); }
  /// Returns the configurations that recompute all layers, the fastest of each family and
  /// microbatch size. `time` is a lower bound of the time without recomputation.
  [[nodiscard]] const std::vector<Candidate>& recomputing() const { return recomputing_; }

 private:
  /// A number of replicas and a ZeRO stage of a family, on its way through the microbatch sizes.
  struct Entry {
    int dp = 1;
    int zero_stage = 0;
    std::size_t replicas = 0;  ///< Index of dp among the replicas of the search.
    bool has_replicas = false;
    const std::vector<int>* sizes = nullptr;  ///< Microbatch sizes that can run, ascending.
    std::size_t next = 0;                     ///< Index in `sizes` of the size to look at next.
    bool is_over = false;                     ///< Whether the remaining sizes are counted already.

    [[nodiscard]] bool is_done() const { return is_over || next == sizes->size(); }
  };
  /// What entries with the same costs class share at one microbatch size.
  struct SizeCosts {
    int costs_class = 0;
    std::shared_ptr<const MicrobatchCosts> costs;
    Seconds mean_rank;  ///< Mean time of a stage per microbatch.
    /// Number of the split of layers in FamilyMemory, set when first needed.
    std::optional<std::size_t> split;
    std::optional<LeastPasses> passes;  ///< Lower bound of the passes, set when first needed.
    bool is_beaten = false;  ///< Whether none with as many replicas or fewer can be the best.
  };

  static constexpr unsigned kLooks = 64;  ///< Candidates looked at between two looks at the limit.

  /// A memoized predicate of dp that, once false for some dp, is false for every larger dp.
  struct MonotoneInDp {
    int most = 0;           ///< Largest dp for which the predicate is known to hold.
    bool is_asked = false;  ///< Whether `is_ever` is known.
    bool is_ever = false;   ///< Whether the predicate holds for the smallest dp.
  };

  /// Returns whether the limit is over. Asks it only every kLooks candidates, since it may be a
  /// clock, but each time when memory walks through orders, which is slow.
  [[nodiscard]] bool is_over() {
    if (!is_over_ && (++looks_ >= kLooks || memory_.walks_orders())) {
      ask_limit();
    }
    return is_over_;
  }
  void ask_limit();

  void search_chunks(const std::vector<ParallelConfig>& variants);
  void search_family(ParallelConfig config, const std::vector<int>& zero_stages);
  void enter(ParallelConfig& config, const std::vector<int>& zero_stages);
  void search_size(ParallelConfig& config, int size);
  bool rejects_all(ParallelConfig& config);
  void evaluate(ParallelConfig& config, Entry& entry);
  /// Returns whether a candidate that takes at least this time may be skipped, uncounted: not all
  /// are counted, and it cannot be among the best.
  [[nodiscard]] bool is_beaten(const ParallelConfig& config, Seconds least) const;
  void count_misfit(ParallelConfig& config, Entry& entry, const MemoryVerdict& verdict);
  void consider(const ParallelConfig& config, SizeCosts& shared, Bytes memory);
  void note_recomputing(const ParallelConfig& config, Seconds least, Bytes memory);

  SizeCosts& costs_of(ParallelConfig& config, Entry& entry);
  /// Returns whether an entry was found to be beaten when one with more replicas was looked at.
  [[nodiscard]] bool is_known_as_beaten(const Entry& entry) const;
  void split_layers(ParallelConfig& config, SizeCosts& shared);
  std::size_t find_split(const ParallelConfig& config, const MicrobatchCosts& costs);
  /// Returns whether no larger microbatch fits either, given the stage that violates memory.
  bool larger_sizes_fail(ParallelConfig& config, Constraint violation);
  /// Returns whether no split of the layers fits; asked only where the search splits layers.
  bool no_split_fits(ParallelConfig& config);
  const SplitLowerBound& split_lower_bound(const ParallelConfig& config);
  template <class Holds>
  bool holds_for(ParallelConfig& config, MonotoneInDp& few, const Holds& holds);
  void reject(Constraint constraint, std::int64_t count = 1);
  void note_shortfall(const ParallelConfig& config, Bytes largest);

  const Scenario& scenario_;
  const SearchOptions& options_;
  const std::vector<Replicas>& replicas_;
  const ComputeFloor& floor_;
  std::vector<int> sizes_;  // all microbatch sizes of the replicas, ascending
  BatchTable batches_;
  MemoryFit memory_;
  FamilyMemory family_memory_;
  std::optional<SplitLowerBound> any_split_;  // bounds of the family, set when first needed
  CostsCache costs_;
  std::vector<Entry> entries_;  // the family's entries that are not done, by dp
  std::vector<int> classes_;    // the family's costs class by replicas; kUnknown until needed
  bool is_uneven_ = false;      // whether the family's layers_per_stage is set
  std::vector<SizeCosts> size_costs_;
  std::size_t split_ = 0;  // number of the split whose layers_per_stage the configuration has
  std::array<MonotoneInDp, kHighestZeroStage + 1> beyond_;    // least memory, by ZeRO stage
  std::array<MonotoneInDp, kHighestZeroStage + 1> hopeless_;  // no split fits, by ZeRO stage
  SearchResult tally_;
  BestAndFront best_and_front_;
  std::vector<Candidate> recomputing_;
  std::optional<Candidate> recomputing_at_size_;
  IterationTimes times_;
  std::function<void()> on_progress_;
  unsigned looks_ = 0;  // candidates looked at since the limit was asked
  bool is_over_ = false;
};

}  // namespace ptdp
