#include "planner/finalists.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/analytic/iteration.h"
#include "planner/costs_cache.h"

namespace ptdp {
namespace {

/// How a candidate's time is known.
enum class Knowledge : std::uint8_t { kLeastTime, kLeastStep, kSimulated };

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

class Finalists {
 public:
  Finalists(const Scenario& scenario, const SearchOptions& options, Findings& findings,
            IterationTimes& times)
      : scenario_(scenario),
        options_(options),
        findings_(findings),
        costs_(scenario),
        times_(times) {}

  /// Returns what the limit left.
  [[nodiscard]] std::optional<Unseen> run(std::vector<Candidate> bounded) {
    std::vector<Contender> heap;
    heap.reserve(bounded.size());
    for (Candidate& candidate : bounded) {
      const double score = score_of(candidate);
      heap.push_back({std::move(candidate), score, Knowledge::kLeastTime});
    }
    std::ranges::make_heap(heap, is_later);
    while (!heap.empty() &&
           findings_.may_be_best(heap.front().candidate.config, heap.front().candidate.time)) {
      if (is_over()) {
        return unseen(heap);
      }
      std::ranges::pop_heap(heap, is_later);
      learn(heap.back());
      if (heap.back().knowledge == Knowledge::kSimulated) {
        findings_.keep(std::move(heap.back().candidate));
        heap.pop_back();
      } else {
        std::ranges::push_heap(heap, is_later);
      }
    }
    return options_.wants_front ? find_front(std::move(heap)) : std::nullopt;
  }

 private:
  /// One is simulated, whatever the limit.
  [[nodiscard]] bool is_over() const { return has_simulated_ && options_.limit.is_over(); }

  /// What the rest takes at least.
  [[nodiscard]] Unseen unseen(std::span<const Contender> rest) const {
    Unseen least{.least_time = rest.front().candidate.time, .least_score = rest.front().score};
    for (const Contender& contender : rest) {
      least.least_time = std::min(least.least_time, contender.candidate.time);
      least.least_score = std::min(least.least_score, contender.score);
    }
    return least;
  }

  [[nodiscard]] double score_of(const Candidate& candidate) const {
    return score(candidate.time, candidate.config, options_.objective);
  }

  /// Simulates what of the rest may be on the front; returns what the limit left.
  [[nodiscard]] std::optional<Unseen> find_front(std::vector<Contender> rest) {
    std::ranges::sort(rest, [](const Contender& a, const Contender& b) {
      return std::tie(a.candidate.time, a.candidate.config) <
             std::tie(b.candidate.time, b.candidate.config);
    });
    for (std::size_t i = 0; i < rest.size(); ++i) {
      Contender& contender = rest[i];
      const Candidate& candidate = contender.candidate;
      while (contender.knowledge != Knowledge::kSimulated &&
             findings_.may_be_on_front(candidate.time, candidate.memory)) {
        if (is_over()) {
          return unseen(std::span(rest).subspan(i));
        }
        learn(contender);
      }
      if (contender.knowledge == Knowledge::kSimulated) {
        findings_.keep(candidate);
      }
    }
    return std::nullopt;
  }

  /// Takes the next better figure for the time of a contender.
  void learn(Contender& contender) {
    Candidate& candidate = contender.candidate;
    const MicrobatchCosts& costs = costs_.find(candidate.config);
    if (contender.knowledge == Knowledge::kLeastTime && is_simulated(candidate.config)) {
      candidate.time =
          std::max(candidate.time, least_step_time(scenario_, candidate.config, costs));
      contender.knowledge = Knowledge::kLeastStep;
    } else {
      candidate.time = times_.find(scenario_, candidate.config, costs);
      contender.knowledge = Knowledge::kSimulated;
      has_simulated_ = true;
    }
    contender.score = score_of(candidate);
  }

  const Scenario& scenario_;
  const SearchOptions& options_;
  Findings& findings_;
  CostsCache costs_;
  IterationTimes& times_;
  bool has_simulated_ = false;
};

}  // namespace

std::optional<Unseen> simulate_finalists(const Scenario& scenario, const SearchOptions& options,
                                         Findings& findings, IterationTimes& times) {
  std::vector<Candidate> bounded = findings.take_bounded();
  return bounded.empty() ? std::nullopt
                         : Finalists(scenario, options, findings, times).run(std::move(bounded));
}

}  // namespace ptdp
