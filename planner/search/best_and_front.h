// What a search keeps of the candidates that it looks at: the best, the Pareto front, and the
// candidates that may still be among either.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// The candidates that no other one beats in both time and memory, up to twice as slow as the
/// fastest. Of two with equal time and memory the configuration that comes first is kept.
class ParetoFront {
 public:
  /// Returns whether one of the front is faster and no larger, or smaller and no slower, or the
  /// fastest is more than twice as fast.
  [[nodiscard]] bool beats(Seconds time, Bytes memory) const;
  /// Adds a candidate unless the front beats it, and removes what it beats.
  void add(const Candidate& candidate);
  /// Returns the front, fastest first, each smaller than the one before.
  [[nodiscard]] std::vector<Candidate> members() const;

 private:
  std::map<Seconds, Candidate> by_time_;
};

/// The options' num_best candidates, those that tie with the best, and, when it is wanted, the
/// Pareto front of all that were kept. Candidates with only a lower bound of their time are kept as
/// long as they may be among these. A candidate for which may_matter() says no would change none.
class BestAndFront {
 public:
  explicit BestAndFront(const SearchOptions& options) : options_(&options) {}

  /// Returns whether a candidate that takes at least this time and memory may be one of the best,
  /// or on the front.
  [[nodiscard]] bool may_matter(const ParallelConfig& config, Seconds least_time,
                                Bytes least_memory) const {
    return may_be_best(config, least_time) || may_be_on_front(least_time, least_memory);
  }
  /// Returns whether a candidate that takes at least this time may be one of the best or tie with
  /// them.
  [[nodiscard]] bool may_be_best(const ParallelConfig& config, Seconds least_time) const;
  /// Returns whether a candidate that takes at least this time and memory may be on the front;
  /// false when no front is wanted.
  [[nodiscard]] bool may_be_on_front(Seconds least_time, Bytes least_memory) const {
    return options_->wants_front && !front_.beats(least_time, least_memory);
  }

  /// Keeps a candidate whose time is exact, if it is one of the best, ties, or is on the front.
  void keep(Candidate candidate);
  /// Keeps a candidate whose time is a lower bound.
  void keep_bounded(Candidate candidate);
  /// Adds what another search found with the same options.
  void merge(BestAndFront other);

  /// Hands over the candidates of keep_bounded() that may still matter beside all that was kept;
  /// none of them stay here.
  [[nodiscard]] std::vector<Candidate> take_bounded();

  /// Returns the shortest time among the best; nullopt when there is none.
  [[nodiscard]] std::optional<Seconds> best_time() const;
  /// Returns the best candidates, by objective, then by configuration.
  [[nodiscard]] std::vector<Candidate> best() const;
  /// Returns the candidates that lose at most the options' tie, ordered as best(); empty if that is
  /// 0.
  [[nodiscard]] std::vector<Candidate> ties() const;
  /// Returns the Pareto front, fastest first.
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
  /// Returns whether `a` is better. Equal scores fall back to the configuration itself, so that a
  /// search is reproducible.
  static bool is_better(const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score < b.score : a.candidate.config < b.candidate.config;
  }
  [[nodiscard]] bool ties_with_best(double score) const {
    return score <= (1.0 + options_->tie) * best_score_;
  }
  void keep_best(Ranked ranked);
  void keep_tie(const Ranked& ranked);
  [[nodiscard]] static std::vector<Candidate> in_order(std::vector<Ranked> ranked);
  void leave_out_beaten();

  const SearchOptions* options_;
  std::vector<Ranked> best_;  // a heap with the worst on top
  double best_score_ = std::numeric_limits<double>::infinity();
  std::vector<Ranked> ties_;         // some may have been beaten since
  std::size_t ties_to_review_ = 64;  // size of ties_ at which beaten ones are left out
  ParetoFront front_;
  std::vector<Candidate> bounded_;
  std::size_t size_to_review_ = 1024;  // size of bounded_ at which beaten candidates are left out
};

}  // namespace ptdp
