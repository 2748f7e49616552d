#include "planner/finalists.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "cost_model/analytic/iteration.h"
#include "planner/costs_cache.h"

namespace ptdp {
namespace {

constexpr double kBelowRounding = 1.0 - 1e-12;

/// How a candidate's time is known.
enum class Knowledge : std::uint8_t { kLeastTime, kLeastWaits, kSimulated };

struct Contender {
  Candidate candidate;
  double score = 0.0;
  Knowledge knowledge = Knowledge::kLeastTime;
};

/// Whether `a` is looked at after `b`.
bool is_later(const Contender& a, const Contender& b) {
  return std::tie(a.score, a.knowledge, a.candidate.config) >
         std::tie(b.score, b.knowledge, b.candidate.config);
}

/// The times and memories that no other known one beats in both, fastest first.
class Front {
 public:
  /// Whether a known one is faster and no larger, or smaller and no slower.
  [[nodiscard]] bool beats(Seconds time, Bytes memory) const {
    const auto slower = memory_by_time_.upper_bound(time);
    if (slower == memory_by_time_.begin()) {
      return false;
    }
    const auto& [known_time, known_memory] = *std::prev(slower);
    return known_memory < memory || (known_memory == memory && known_time < time);
  }
  void add(Seconds time, Bytes memory) {
    const auto slower = memory_by_time_.upper_bound(time);
    if (slower != memory_by_time_.begin() && std::prev(slower)->second <= memory) {
      return;
    }
    auto it = memory_by_time_.lower_bound(time);
    while (it != memory_by_time_.end() && it->second >= memory) {
      it = memory_by_time_.erase(it);
    }
    memory_by_time_.emplace(time, memory);
  }

 private:
  std::map<Seconds, Bytes> memory_by_time_;
};

class Finalists {
 public:
  Finalists(const Scenario& scenario, const SearchOptions& options, std::vector<Candidate> costed,
            WaitsCache& simulations)
      : scenario_(scenario),
        options_(options),
        known_(std::move(costed)),
        costs_(scenario),
        simulations_(simulations) {
    for (const Candidate& candidate : known_) {
      note(candidate);
    }
  }

  std::vector<Candidate> run(std::vector<Candidate> bounded) {
    std::vector<Contender> heap;
    heap.reserve(bounded.size());
    for (Candidate& candidate : bounded) {
      const double score = score_of(candidate);
      heap.push_back({std::move(candidate), score, Knowledge::kLeastTime});
    }
    std::ranges::make_heap(heap, is_later);
    while (!heap.empty() && can_be_best(heap.front())) {
      std::ranges::pop_heap(heap, is_later);
      learn(heap.back());
      if (heap.back().knowledge == Knowledge::kSimulated) {
        keep(heap.back().candidate);
        heap.pop_back();
      } else {
        std::ranges::push_heap(heap, is_later);
      }
    }
    if (options_.wants_front) {
      find_front(std::move(heap));
    }
    return std::move(known_);
  }

 private:
  [[nodiscard]] double score_of(const Candidate& candidate) const {
    return score(candidate.time, candidate.config, options_.objective);
  }

  [[nodiscard]] bool can_be_best(const Contender& contender) const {
    return best_scores_.size() < static_cast<std::size_t>(options_.num_best) ||
           contender.score <= best_scores_.top();
  }

  /// Simulates what of the rest may be on the front.
  void find_front(std::vector<Contender> rest) {
    std::ranges::sort(rest, [](const Contender& a, const Contender& b) {
      return std::tie(a.candidate.time, a.candidate.config) <
             std::tie(b.candidate.time, b.candidate.config);
    });
    for (Contender& contender : rest) {
      const Candidate& candidate = contender.candidate;
      while (contender.knowledge != Knowledge::kSimulated &&
             !front_.beats(candidate.time, candidate.memory)) {
        learn(contender);
      }
      if (contender.knowledge == Knowledge::kSimulated) {
        keep(candidate);
      }
    }
  }

  /// Takes the next better figure for the time of a contender.
  void learn(Contender& contender) {
    Candidate& candidate = contender.candidate;
    const MicrobatchCosts& costs = costs_.find(candidate.config);
    if (contender.knowledge == Knowledge::kLeastTime) {
      const PipelineWaits waits = least_waits(scenario_, candidate.config, costs);
      const Seconds bound =
          iteration_cost(scenario_, candidate.config, costs, waits).total() * kBelowRounding;
      candidate.time = std::max(candidate.time, bound);
      contender.knowledge = Knowledge::kLeastWaits;
    } else {
      const PipelineWaits waits{.bubble = simulations_.find(scenario_, candidate.config, costs)};
      candidate.time = iteration_cost(scenario_, candidate.config, costs, waits).total();
      contender.knowledge = Knowledge::kSimulated;
    }
    contender.score = score_of(candidate);
  }

  void keep(const Candidate& candidate) {
    note(candidate);
    known_.push_back(candidate);
  }

  void note(const Candidate& candidate) {
    best_scores_.push(score_of(candidate));
    if (best_scores_.size() > static_cast<std::size_t>(options_.num_best)) {
      best_scores_.pop();
    }
    front_.add(candidate.time, candidate.memory);
  }

  const Scenario& scenario_;
  const SearchOptions& options_;
  std::vector<Candidate> known_;
  std::priority_queue<double> best_scores_;  // the num_best lowest, the worst of them on top
  Front front_;
  CostsCache costs_;
  WaitsCache& simulations_;
};

}  // namespace

std::vector<Candidate> simulate_finalists(const Scenario& scenario, const SearchOptions& options,
                                          std::vector<Candidate> costed,
                                          std::vector<Candidate> bounded, WaitsCache& simulations) {
  if (bounded.empty()) {
    return costed;
  }
  return Finalists(scenario, options, std::move(costed), simulations).run(std::move(bounded));
}

Seconds least_time(const Scenario& scenario, const ParallelConfig& config,
                   const MicrobatchCosts& costs) {
  return iteration_cost(scenario, config, costs, PipelineWaits{}).total() * kBelowRounding;
}

}  // namespace ptdp
