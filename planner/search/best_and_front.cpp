// Keeps the best candidates in a heap and the Pareto front in a map.
#include "planner/search/best_and_front.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace ptdp {
namespace {

// Slowest time on the front, over the fastest. Nobody trades more time than that for memory, and
// slow steps of deep pipelines take longest to simulate.
constexpr double kSlowestOfFront = 2.0;

}  // namespace

bool ParetoFront::beats(Seconds time, Bytes memory) const {
  const auto slower = by_time_.upper_bound(time);
  if (slower == by_time_.begin()) {
    return false;
  }
  if (time > kSlowestOfFront * by_time_.begin()->first) {
    return true;
  }
  const Candidate& known = std::prev(slower)->second;
  return known.memory < memory || (known.memory == memory && known.time < time);
}

void ParetoFront::add(const Candidate& candidate) {
  const Seconds time = candidate.time;
  const Bytes memory = candidate.memory;
  if (beats(time, memory)) {
    return;
  }
  auto it = by_time_.lower_bound(time);
  if (it != by_time_.end() && it->first == time && it->second.memory == memory &&
      it->second.config < candidate.config) {
    return;
  }
  while (it != by_time_.end() && it->second.memory >= memory) {
    it = by_time_.erase(it);
  }
  by_time_.emplace(time, candidate);
}

std::vector<Candidate> ParetoFront::members() const {
  std::vector<Candidate> members;
  members.reserve(by_time_.size());
  for (const auto& [time, candidate] : by_time_) {
    if (time <= kSlowestOfFront * by_time_.begin()->first) {
      members.push_back(candidate);
    }
  }
  return members;
}

bool BestAndFront::may_be_best(const ParallelConfig& config, Seconds least_time) const {
  const double score = score_of(config, least_time);
  if (score >= options_->to_beat) {
    return false;
  }
  if (best_.size() < num_best()) {
    return true;
  }
  return (!best_.empty() && score <= best_.front().score) ||
         (options_->tie > 0.0 && ties_with_best(score));
}

void BestAndFront::keep(Candidate candidate) {
  if (options_->wants_front) {
    front_.add(candidate);
  }
  const double score = score_of(candidate.config, candidate.time);
  if (score >= options_->to_beat) {
    return;
  }
  Ranked ranked{.score = score, .candidate = std::move(candidate)};
  keep_tie(ranked);
  keep_best(std::move(ranked));
}

void BestAndFront::keep_tie(const Ranked& ranked) {
  best_score_ = std::min(best_score_, ranked.score);
  if (options_->tie == 0.0 || !ties_with_best(ranked.score)) {
    return;
  }
  ties_.push_back(ranked);
  if (ties_.size() >= ties_to_review_) {
    std::erase_if(ties_, [this](const Ranked& tie) { return !ties_with_best(tie.score); });
    ties_to_review_ = std::max(ties_to_review_, 2 * ties_.size());
  }
}

void BestAndFront::keep_best(Ranked ranked) {
  if (best_.size() == num_best()) {
    if (best_.empty() || !is_better(ranked, best_.front())) {
      return;
    }
    std::ranges::pop_heap(best_, is_better);
    best_.pop_back();
  }
  best_.push_back(std::move(ranked));
  std::ranges::push_heap(best_, is_better);
}

void BestAndFront::keep_bounded(Candidate candidate) {
  bounded_.push_back(std::move(candidate));
  if (bounded_.size() >= size_to_review_) {
    leave_out_beaten();
    size_to_review_ = std::max(size_to_review_, 2 * bounded_.size());
  }
}

void BestAndFront::leave_out_beaten() {
  std::erase_if(bounded_, [this](const Candidate& candidate) {
    return !may_matter(candidate.config, candidate.time, candidate.memory);
  });
}

void BestAndFront::merge(BestAndFront other) {
  for (const Ranked& ranked : other.ties_) {
    keep_tie(ranked);
  }
  for (Ranked& ranked : other.best_) {
    best_score_ = std::min(best_score_, ranked.score);
    keep_best(std::move(ranked));
  }
  for (const Candidate& candidate : other.front_.members()) {
    front_.add(candidate);
  }
  bounded_.insert(bounded_.end(), std::make_move_iterator(other.bounded_.begin()),
                  std::make_move_iterator(other.bounded_.end()));
}

std::vector<Candidate> BestAndFront::take_bounded() {
  leave_out_beaten();
  return std::exchange(bounded_, {});
}

std::optional<Seconds> BestAndFront::best_time() const {
  std::optional<Seconds> least;
  for (const Ranked& ranked : best_) {
    least = std::min(least.value_or(ranked.candidate.time), ranked.candidate.time);
  }
  return least;
}

std::vector<Candidate> BestAndFront::in_order(std::vector<Ranked> ranked) {
  std::ranges::sort(ranked, is_better);
  std::vector<Candidate> candidates;
  candidates.reserve(ranked.size());
  for (Ranked& one : ranked) {
    candidates.push_back(std::move(one.candidate));
  }
  return candidates;
}

std::vector<Candidate> BestAndFront::best() const {
  return in_order(best_);
}

std::vector<Candidate> BestAndFront::ties() const {
  std::vector<Ranked> ties = ties_;
  std::erase_if(ties, [this](const Ranked& tie) { return !ties_with_best(tie.score); });
  return in_order(std::move(ties));
}

}  // namespace ptdp
