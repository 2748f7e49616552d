// What a search keeps of the candidates that it looks at: the best and the Pareto front.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// Candidates that no other one beats in both time and memory, up to twice as slow as the fastest.
/// Two equal ones count once, as the configuration that comes first.
class ParetoFront {
 public:
  /// Whether one of the front is faster and no larger, or smaller and no slower, or the fastest is
  /// more than twice as fast.
  [[nodiscard]] bool beats(Seconds time, Bytes memory) const;
  void add(const Candidate& candidate);
  /// Fastest first, each smaller than the one before.
  [[nodiscard]] std::vector<Candidate> members() const;

 private:
  std::map<Seconds, Candidate> by_time_;
};

/// The options' num_best candidates and, where it is wanted, the front of all that were kept; and
/// those whose time is known from below only, as far as they may be among either. Whatever is not
/// kept because `may_matter` says no changes neither.
class Findings {
 public:
  explicit Findings(const SearchOptions& options) : options_(&options) {}

  /// Whether a candidate that takes no less time and memory may be one of the best, or on the
  /// front.
  [[nodiscard]] bool may_matter(const ParallelConfig& config, Seconds least_time,
                                Bytes least_memory) const {
    return may_be_best(config, least_time) || may_be_on_front(least_time, least_memory);
  }
  [[nodiscard]] bool may_be_best(const ParallelConfig& config, Seconds least_time) const;
  [[nodiscard]] bool may_be_on_front(Seconds least_time, Bytes least_memory) const {
    return options_->wants_front && !front_.beats(least_time, least_memory);
  }

  void keep(Candidate candidate);
  /// Of one whose time is a lower bound.
  void keep_bounded(Candidate candidate);
  void merge(Findings other);

  /// Those kept by keep_bounded() that may matter beside all that was kept since; none are left.
  [[nodiscard]] std::vector<Candidate> take_bounded();

  /// The time of the fastest of the best.
  [[nodiscard]] std::optional<Seconds> best_time() const;
  /// By objective, then by configuration.
  [[nodiscard]] std::vector<Candidate> best() const;
  [[nodiscard]] std::vector<Candidate> front() const { return front_.members(); }

 private:
  struct Ranked {
    double score = 0.0;
    Candidate candidate;
  };

  [[nodiscard]] double score_of(const ParallelConfig& config, Seconds time) const {
    return score(time, config, options_->objective);
  }
  [[nodiscard]] std::size_t num_best() const {
    return static_cast<std::size_t>(options_->num_best);
  }
  /// Equal scores fall back to the configuration itself, so that a search is reproducible.
  static bool is_better(const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score < b.score : a.candidate.config < b.candidate.config;
  }
  void leave_out_beaten();

  const SearchOptions* options_;
  std::vector<Ranked> best_;  // a heap, the worst of them on top
  ParetoFront front_;
  std::vector<Candidate> bounded_;
  std::size_t size_to_review_ = 1024;  // of bounded_, when what no longer matters goes
};

}  // namespace ptdp
