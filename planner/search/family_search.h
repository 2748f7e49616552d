// The search through one split of the model over GPUs after another.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/stage/stage.h"
#include "planner/search/any_split.h"
#include "planner/search/batch_sizes.h"
#include "planner/search/costs_cache.h"
#include "planner/search/enumerate.h"
#include "planner/search/family_memory.h"
#include "planner/search/findings.h"
#include "planner/search/memory_fit.h"
#include "planner/search/search.h"

namespace ptdp {

/// Whether `a` is nearer to fitting than `b`; of equally near ones the configuration that comes
/// first.
[[nodiscard]] bool is_smaller(const MemoryShortfall& a, const MemoryShortfall& b);

/// Counts the candidates of splits, and finds what matters of them. The unit is a family: the
/// configurations that differ in dp, ZeRO stage and microbatch size alone. They share their checks,
/// and those of one size what their microbatches cost, how layers are split, and the memory of
/// their stages but for shards. Keeps references to its arguments.
class FamilySearch {
 public:
  FamilySearch(const Scenario& scenario, const SearchOptions& options,
               const std::vector<Replicas>& replicas);

  /// Returns whether it came to the end of the split before the options' limit was over.
  [[nodiscard]] bool search_split(const ParallelConfig& split);

  /// What is called now and then from here on.
  void report_to(std::function<void()> on_progress) { on_progress_ = std::move(on_progress); }
  [[nodiscard]] std::optional<Seconds> best_time() const { return findings_.best_time(); }

  /// What was counted so far, without best and pareto; and what was found.
  [[nodiscard]] const SearchResult& tally() const { return tally_; }
  [[nodiscard]] Findings take_findings() { return std::move(findings_); }
  /// Configurations that recompute all, the fastest of each family and microbatch size, each with a
  /// bound of its time without recomputation.
  [[nodiscard]] const std::vector<Candidate>& recomputing() const { return recomputing_; }

 private:
  /// A number of replicas and a ZeRO stage of a family, on its way through the microbatch sizes.
  struct Entry {
    int dp = 1;
    int zero_stage = 0;
    std::size_t replicas = 0;  ///< Place of dp among those of the search.
    bool has_replicas = false;
    const std::vector<int>* sizes = nullptr;
    std::size_t next = 0;  ///< In sizes.
    bool is_over = false;

    [[nodiscard]] bool is_done() const { return is_over || next == sizes->size(); }
  };
  /// Of one microbatch size: what entries with the same costs share.
  struct SizeCosts {
    int costs_class = 0;
    std::shared_ptr<const MicrobatchCosts> costs;
    std::size_t split = 0;  ///< Of the layers, in the family's memory.
    Seconds mean_stage;
    std::optional<LeastPasses> passes;  ///< Once they are needed.
  };

  static constexpr unsigned kLooks = 64;  ///< At candidates between two at the limit.

  /// What is known of something that holds for few replicas if at all.
  struct FewReplicas {
    int most = 0;  ///< Largest dp for which it is known to hold.
    bool is_asked = false;
    bool is_ever = false;  ///< Once it is asked: whether it holds for the fewest.
  };

  /// Asks the limit now and then: it may be a clock.
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
  void look_at(ParallelConfig& config, Entry& entry);
  void count_misfit(ParallelConfig& config, Entry& entry, const MemoryVerdict& verdict);
  void consider(const ParallelConfig& config, SizeCosts& shared, Bytes memory);
  void note_recomputing(const ParallelConfig& config, Seconds least, Bytes memory);

  SizeCosts& costs_of(ParallelConfig& config, Entry& entry);
  std::size_t find_split(const ParallelConfig& config, const MicrobatchCosts& costs);
  /// Whether no larger microbatch fits either, by the stage that violates memory.
  bool is_beyond(ParallelConfig& config, Constraint violation);
  /// Whether no split of the layers fits, if they are split here.
  bool is_hopeless(ParallelConfig& config);
  const AnySplit& any_split(const ParallelConfig& config);
  template <class Holds>
  bool holds_for(ParallelConfig& config, FewReplicas& few, const Holds& holds);
  void reject(Constraint constraint, std::int64_t count = 1);
  void note_shortfall(const ParallelConfig& config, Bytes largest);

  const Scenario& scenario_;
  const SearchOptions& options_;
  const std::vector<Replicas>& replicas_;
  std::vector<int> sizes_;  // of all microbatches, ascending
  BatchTable batches_;
  MemoryFit memory_;
  FamilyMemory family_memory_;
  std::optional<AnySplit> any_split_;  // of the family, once it is needed
  CostsCache costs_;
  std::vector<Entry> entries_;  // of the family that is searched, by dp
  std::vector<int> classes_;    // of its costs, by replicas; kUnknown until one is needed
  bool is_uneven_ = false;      // whether its layers are split here
  std::vector<SizeCosts> size_costs_;
  std::size_t split_ = 0;  // whose layers_per_stage the configuration has
  std::array<FewReplicas, kHighestZeroStage + 1> beyond_;    // at the size, by ZeRO stage
  std::array<FewReplicas, kHighestZeroStage + 1> hopeless_;  // the same
  SearchResult tally_;
  Findings findings_;
  std::vector<Candidate> recomputing_;
  std::optional<Candidate> recomputing_at_size_;
  IterationTimes times_;
  std::function<void()> on_progress_;
  unsigned looks_ = 0;  // since the limit was asked
  bool is_over_ = false;
};

}  // namespace ptdp
