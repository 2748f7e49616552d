// Tests of the best candidates and the front that a search keeps.
#include "planner/search/best_and_front.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace ptdp {
namespace {

/// Returns a candidate with dp as its identity, which is also what it costs in GPUs.
Candidate made_up(int dp, double seconds, double bytes) {
  return {.config = {.dp = dp}, .time = Seconds(seconds), .memory = Bytes(bytes)};
}

double number_below(std::mt19937& random, int end) {
  return std::uniform_int_distribution<int>(0, end - 1)(random);
}

std::vector<int> replicas_of(const std::vector<Candidate>& candidates) {
  std::vector<int> replicas;
  replicas.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    replicas.push_back(candidate.config.dp);
  }
  return replicas;
}

/// Returns candidates with few different times and sizes, so that many are equal.
std::vector<Candidate> random_candidates(std::mt19937& random) {
  const auto count = static_cast<int>(number_below(random, 30));
  std::vector<Candidate> candidates;
  candidates.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    candidates.push_back(
        made_up(i + 1, 10.0 + number_below(random, 15), 1.0 + number_below(random, 8)));
  }
  return candidates;
}

/// Returns the front by its definition: candidates than which no other is better in one of time and
/// memory and no worse in the other. They are up to twice as slow as the fastest. Of equal ones
/// only the first counts.
std::vector<int> front_by_definition(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> front;
  for (const Candidate& mine : candidates) {
    const bool is_there = std::ranges::none_of(candidates, [&](const Candidate& other) {
      const bool is_better = (other.time < mine.time && other.memory <= mine.memory) ||
                             (other.time <= mine.time && other.memory < mine.memory);
      const bool is_first =
          other.time == mine.time && other.memory == mine.memory && other.config < mine.config;
      return is_better || is_first || mine.time > 2.0 * other.time;
    });
    if (is_there) {
      front.push_back(mine);
    }
  }
  std::ranges::sort(front, [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  return replicas_of(front);
}

std::vector<int> best_by_definition(std::vector<Candidate> candidates, std::size_t num_best,
                                    Objective objective) {
  std::ranges::sort(candidates, [&](const Candidate& a, const Candidate& b) {
    const auto value = [&](const Candidate& candidate) {
      return candidate.time.value() * (objective == Objective::kCost ? candidate.config.dp : 1);
    };
    return value(a) != value(b) ? value(a) < value(b) : a.config < b.config;
  });
  candidates.resize(std::min(candidates.size(), num_best));
  return replicas_of(candidates);
}

// Candidates are added in any order, by one object or by two that are merged.
TEST(BestAndFront, AreTheBestAndTheFrontByTheirDefinitions) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<Candidate> candidates = random_candidates(random);
    const SearchOptions options{.gpus = 64,
                                .objective = round % 2 == 0 ? Objective::kTime : Objective::kCost,
                                .num_best = 1 + static_cast<int>(number_below(random, 6))};
    const auto num_best = static_cast<std::size_t>(options.num_best);
    const std::vector<int> front = front_by_definition(candidates);
    const std::vector<int> best = best_by_definition(candidates, num_best, options.objective);
    std::ranges::shuffle(candidates, random);
    BestAndFront kept(options);
    BestAndFront others(options);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      (i % 3 == 0 ? others : kept).keep(candidates[i]);
    }
    kept.merge(others);
    EXPECT_EQ(replicas_of(kept.front()), front) << round;
    EXPECT_EQ(replicas_of(kept.best()), best) << round;
    EXPECT_EQ(kept.best_time().has_value(), !candidates.empty());
  }
}

// What may not matter changes neither the best nor the front, wherever it really lies.
TEST(BestAndFront, ChangeByNothingThatMayNotMatter) {
  std::mt19937 random(6);
  int num_useless = 0;
  for (int round = 0; round < 500; ++round) {
    const SearchOptions options{.gpus = 64,
                                .num_best = 1 + static_cast<int>(number_below(random, 3))};
    BestAndFront kept(options);
    for (const Candidate& candidate : random_candidates(random)) {
      kept.keep(candidate);
    }
    const Candidate bound =
        made_up(100, 10.0 + number_below(random, 25), 1.0 + number_below(random, 8));
    if (!kept.may_matter(bound.config, bound.time, bound.memory)) {
      ++num_useless;
      BestAndFront with = kept;
      with.keep(made_up(100, bound.time.value() + number_below(random, 2), bound.memory.value()));
      EXPECT_EQ(replicas_of(with.best()), replicas_of(kept.best())) << round;
      EXPECT_EQ(replicas_of(with.front()), replicas_of(kept.front())) << round;
    }
  }
  EXPECT_GT(num_useless, 50);
}

// The fastest takes 10 s with 5 bytes. Of bounds: 9 s may be best, 12 s with fewer bytes on the
// front; 12 s with as many may not, nor may 21 s, whatever they hold.
TEST(BestAndFront, GiveWhatIsBoundedAwayOnceAndWithoutWhatIsBeaten) {
  const SearchOptions options{.gpus = 64, .num_best = 1};
  BestAndFront kept(options);
  kept.keep(made_up(1, 10.0, 5.0));
  for (const Candidate& bound : {made_up(2, 9.0, 9.0), made_up(3, 12.0, 4.0), made_up(4, 12.0, 5.0),
                                 made_up(5, 21.0, 1.0)}) {
    kept.keep_bounded(bound);
  }
  BestAndFront others(options);
  others.keep_bounded(made_up(6, 19.0, 1.0));
  kept.merge(others);
  EXPECT_EQ(replicas_of(kept.take_bounded()), (std::vector<int>{2, 3, 6}));
  EXPECT_TRUE(kept.take_bounded().empty());
  EXPECT_EQ(replicas_of(kept.best()), std::vector<int>{1});  // bounds are no results
}

// Thousands of bounds are looked through now and then; none that may matter is lost.
TEST(BestAndFront, LoseNoBoundThatMayMatter) {
  const SearchOptions options{.gpus = 64, .num_best = 1, .wants_front = false};
  BestAndFront kept(options);
  kept.keep(made_up(1, 10.0, 5.0));
  std::set<int> expected;
  for (int dp = 2; dp < 5000; ++dp) {
    const double seconds = dp % 3 == 0 ? 10.0 : 10.5;
    kept.keep_bounded(made_up(dp, seconds, 1.0));
    if (dp % 3 == 0) {
      expected.insert(dp);
    }
  }
  const std::vector<int> found = replicas_of(kept.take_bounded());
  EXPECT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::set<int>(found.begin(), found.end()), expected);
}

TEST(BestAndFront, KeepNoFrontWhereNoneIsWanted) {
  const SearchOptions options{.gpus = 64, .num_best = 1, .wants_front = false};
  BestAndFront kept(options);
  kept.keep(made_up(1, 10.0, 5.0));
  kept.keep(made_up(2, 12.0, 1.0));
  EXPECT_TRUE(kept.front().empty());
  EXPECT_FALSE(kept.may_matter({}, Seconds(12.0), Bytes(1.0)));
}

}  // namespace
}  // namespace ptdp
