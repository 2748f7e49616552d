#include "planner/finalists.h"

#include <algorithm>
#include <cstdint>
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

  void run(std::vector<Candidate> bounded) {
    std::vector<Contender> heap;
    heap.reserve(bounded.size());
    for (Candidate& candidate : bounded) {
      const double score = score_of(candidate);
      heap.push_back({std::move(candidate), score, Knowledge::kLeastTime});
    }
    std::ranges::make_heap(heap, is_later);
    while (!heap.empty() &&
           findings_.may_be_best(heap.front().candidate.config, heap.front().candidate.time)) {
      std::ranges::pop_heap(heap, is_later);
      learn(heap.back());
      if (heap.back().knowledge == Knowledge::kSimulated) {
        findings_.keep(std::move(heap.back().candidate));
        heap.pop_back();
      } else {
        std::ranges::push_heap(heap, is_later);
      }
    }
    if (options_.wants_front) {
      find_front(std::move(heap));
    }
  }

 private:
  [[nodiscard]] double score_of(const Candidate& candidate) const {
    return score(candidate.time, candidate.config, options_.objective);
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
             findings_.may_be_on_front(candidate.time, candidate.memory)) {
        learn(contender);
      }
      if (contender.knowledge == Knowledge::kSimulated) {
        findings_.keep(candidate);
      }
    }
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
    }
    contender.score = score_of(candidate);
  }

  const Scenario& scenario_;
  const SearchOptions& options_;
  Findings& findings_;
  CostsCache costs_;
  IterationTimes& times_;
};

}  // namespace

void simulate_finalists(const Scenario& scenario, const SearchOptions& options, Findings& findings,
                        IterationTimes& times) {
  std::vector<Candidate> bounded = findings.take_bounded();
  if (!bounded.empty()) {
    Finalists(scenario, options, findings, times).run(std::move(bounded));
  }
}

}  // namespace ptdp
