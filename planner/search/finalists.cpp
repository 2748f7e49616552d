// Simulates bounded candidates in batches, the lowest bound first.
#include "planner/search/finalists.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

/// What is known of a candidate's time: a bound by least_iteration_time(), by least_step_time() or
/// by IterationTimes::bound(), or the time itself.
enum class Knowledge : std::uint8_t { kLeastTime, kLeastStep, kUncontended, kExact };

/// A candidate with a lower bound of its time, and with the score of that bound.
struct Contender {
  Candidate candidate;
  double score = 0.0;
  Knowledge knowledge = Knowledge::kLeastTime;
};

/// Returns whether `a` is looked at after `b`.
bool is_later(const Contender& a, const Contender& b) {
  return std::tie(a.score, a.knowledge, a.candidate.config) >
         std::tie(b.score, b.knowledge, b.candidate.config);
}

/// Simulates bounded candidates in batches on several threads, the lowest bound first.
class Finalists {
 public:
  Finalists(const Scenario& scenario, const SearchOptions& options, BestAndFront& best_and_front,
            IterationTimes& times)
      : scenario_(scenario),
        options_(options),
        best_and_front_(best_and_front),
        num_workers_(static_cast<std::size_t>(std::max(options.num_threads, 1))),
        batch_size_(num_workers_ > 1 ? kBatchOfAWorker * num_workers_ : 1),
        times_of_others_(num_workers_ - 1) {
    times_.push_back(&times);
    for (IterationTimes& other : times_of_others_) {
      times_.push_back(&other);
    }
  }

  /// Simulates what has to be simulated; returns what was left when the limit was over, if
  /// anything.
  [[nodiscard]] std::optional<Unseen> run(std::vector<Candidate> bounded) {
    std::vector<Contender> heap;
    heap.reserve(bounded.size());
    for (Candidate& candidate : bounded) {
      const double score = score_of(candidate);
      heap.push_back({std::move(candidate), score, Knowledge::kLeastTime});
    }
    std::ranges::make_heap(heap, is_later);
    while (may_be_best(heap)) {
      std::vector<Contender> batch = take_next(heap);
      if (batch.empty() && may_be_best(heap)) {
        return unseen(heap);
      }
      for (Contender& contender : simulate(std::move(batch))) {
        heap.push_back(std::move(contender));
        std::ranges::push_heap(heap, is_later);
      }
    }
    return options_.wants_front ? find_front(std::move(heap)) : std::nullopt;
  }

 private:
  // Simulations per thread and batch: they take some ten times as long as starting a thread.
  static constexpr std::size_t kBatchOfAWorker = 4;

  /// Returns the number of contenders in the next batch: one when the limit is over already.
  [[nodiscard]] std::size_t next_batch_size() const {
    return options_.limit.is_over() ? 1 : batch_size_;
  }

  [[nodiscard]] bool may_be_best(const std::vector<Contender>& heap) const {
    return !heap.empty() &&
           best_and_front_.may_be_best(heap.front().candidate.config, heap.front().candidate.time);
  }

  /// Returns whether to end: the limit is over and at least one batch is simulated.
  [[nodiscard]] bool is_over() const { return has_simulated_ && options_.limit.is_over(); }

  /// Returns what the rest takes at least; `rest` must not be empty.
  [[nodiscard]] static Unseen unseen(std::span<const Contender> rest) {
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

  /// Takes the contenders with the lowest bounds off the heap, bounding them closer on the way.
  /// Takes fewer or none when the limit is over.
  [[nodiscard]] std::vector<Contender> take_next(std::vector<Contender>& heap) {
    std::vector<Contender> batch;
    const std::size_t size = next_batch_size();
    while (batch.size() < size && may_be_best(heap) && !is_over()) {
      std::ranges::pop_heap(heap, is_later);
      if (heap.back().knowledge == Knowledge::kLeastTime && is_simulated(heap.back())) {
        bound_closer(heap.back());
        std::ranges::push_heap(heap, is_later);
      } else {
        batch.push_back(std::move(heap.back()));
        heap.pop_back();
      }
    }
    return batch;
  }

  /// Simulates the contenders of `rest` that may be on the Pareto front. Returns what was left when
  /// the limit was over, if anything.
  [[nodiscard]] std::optional<Unseen> find_front(std::vector<Contender> rest) {
    std::ranges::sort(rest, [](const Contender& a, const Contender& b) {
      return std::tie(a.candidate.time, a.candidate.config) <
             std::tie(b.candidate.time, b.candidate.config);
    });
    for (std::size_t next = 0; next < rest.size();) {
      const std::size_t first = next;
      const std::size_t size = next_batch_size();
      std::vector<Contender> batch;
      for (; next < rest.size() && batch.size() < size; ++next) {
        Contender& contender = rest[next];
        if (!may_be_on_front(contender)) {
          continue;
        }
        if (is_over()) {
          return unseen(std::span(rest).subspan(first));
        }
        if (is_simulated(contender)) {
          bound_closer(contender);
        }
        if (may_be_on_front(contender)) {
          batch.push_back(contender);
        }
      }
      std::vector<Contender> bounded = simulate(std::move(batch));
      std::erase_if(bounded,
                    [&](const Contender& contender) { return !may_be_on_front(contender); });
      simulate(std::move(bounded));
    }
    return std::nullopt;
  }

  [[nodiscard]] bool may_be_on_front(const Contender& contender) const {
    return best_and_front_.may_be_on_front(contender.candidate.time, contender.candidate.memory);
  }
  [[nodiscard]] static bool is_simulated(const Contender& contender) {
    return ptdp::is_simulated(contender.candidate.config);
  }

  [[nodiscard]] PlannedJob job_of(const Candidate& candidate) const {
    return {scenario_, candidate.config, candidate.costs.get()};
  }

  /// Raises the contender's bound to least_step_time() unless that is done.
  void bound_closer(Contender& contender) {
    Candidate& candidate = contender.candidate;
    if (contender.knowledge == Knowledge::kLeastTime) {
      candidate.time = std::max(candidate.time, least_step_time(job_of(candidate)));
      contender.score = score_of(candidate);
      contender.knowledge = Knowledge::kLeastStep;
    }
  }

  /// Finds the times of a batch and keeps candidates in `best_and_front`. Steps that take long to
  /// simulate are bounded first, as if their transfers shared nothing; returns these contenders.
  std::vector<Contender> simulate(std::vector<Contender> batch) {
    IterationTimes& known = *times_.front();
    std::vector<Contender*> unknown;
    unknown.reserve(batch.size());
    for (Contender& contender : batch) {
      if (const auto time = known.find_known(contender.candidate.config)) {
        contender.candidate.time = *time;
        contender.knowledge = Knowledge::kExact;
      } else {
        unknown.push_back(&contender);
      }
    }
    run_tasks(unknown.size(), num_workers_,
              [&](std::size_t worker, std::size_t i) { know_more(*unknown[i], *times_[worker]); });
    std::vector<Contender> bounded;
    for (Contender& contender : batch) {
      if (contender.knowledge != Knowledge::kExact) {
        bounded.push_back(std::move(contender));
        continue;
      }
      known.keep(contender.candidate.config, contender.candidate.time);
      best_and_front_.keep(std::move(contender.candidate));
      has_simulated_ = true;
    }
    return bounded;
  }

  /// Finds the contender's time, or a closer bound where none but least_step_time() is known.
  void know_more(Contender& contender, IterationTimes& times) const {
    Candidate& candidate = contender.candidate;
    const PlannedJob job = job_of(candidate);
    if (contender.knowledge == Knowledge::kUncontended) {
      count_contended(options_.limit, job);
      candidate.time = times.find(job);
      contender.knowledge = Knowledge::kExact;
      return;
    }
    const StepBound bound = times.bound(job);
    count_bound(options_.limit, job, bound);
    candidate.time = bound.is_exact ? bound.time : std::max(candidate.time, bound.time);
    contender.score = score_of(candidate);
    contender.knowledge = bound.is_exact ? Knowledge::kExact : Knowledge::kUncontended;
  }

  const Scenario& scenario_;
  const SearchOptions& options_;
  BestAndFront& best_and_front_;
  std::size_t num_workers_;
  std::size_t batch_size_;
  std::vector<IterationTimes> times_of_others_;
  std::vector<IterationTimes*> times_;  ///< Times by worker; the first are the caller's.
  bool has_simulated_ = false;
};

}  // namespace

std::optional<Unseen> simulate_finalists(const Scenario& scenario, const SearchOptions& options,
                                         BestAndFront& best_and_front, IterationTimes& times) {
  std::vector<Candidate> bounded = best_and_front.take_bounded();
  return bounded.empty()
             ? std::nullopt
             : Finalists(scenario, options, best_and_front, times).run(std::move(bounded));
}

}  // namespace ptdp
