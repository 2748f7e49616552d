// Tests of the zero-bubble schedules: makespan, bubble and memory.
#include "cost_model/schedule/generators/zero_bubble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/csv_table.h"
#include "tests/cost_model/schedule/in_order_run.h"

namespace ptdp {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Le;

struct Generator {
  Schedule (*generate)(int pp, int num_microbatches) = nullptr;
  int vpp = 1;
  /// The formula of the peak memory [chunks].
  int (*peak)(int pp, int num_microbatches) = nullptr;
};

const std::map<std::string, Generator>& generators() {
  static const std::map<std::string, Generator> all = {
      {"zb-h1", {zb_h1, 1, [](int p, int m) { return std::min(m, p); }}},
      {"zb-h2", {zb_h2, 1, [](int p, int m) { return std::min(m, 2 * p - 1); }}},
      {"zb-v", {zb_v, 2, [](int p, int m) { return std::min(2 * m, 2 * p); }}},
      {"v-half", {v_half, 2, [](int p, int) { return 2 * ((p + 2) / 2); }}},
      {"v-min", {v_min, 2, [](int p, int) { return 2 * ((p + 4) / 3); }}},
      {"dualpipe", {dualpipe, 1, [](int p, int) { return p + 1; }}},
      {"dualpipev", {dualpipev, 2, [](int p, int) { return 2 * p + 1; }}},
  };
  return all;
}

/// Returns why the table of generators refuses a size.
std::optional<ShapeConflict> conflict(const std::string& name, int pp, int vpp, int microbatches) {
  return find_schedule(name)->find_conflict(
      {.pp = pp, .vpp = vpp, .num_microbatches = microbatches});
}

std::vector<int> numbers(const std::string& text) {
  std::istringstream words(text);
  std::vector<int> values;
  for (int value = 0; words >> value;) {
    values.push_back(value);
  }
  return values;
}

std::string text_of(const std::vector<Action>& order) {
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Action& action = order[i];
    const bool second = i > 0 && order[i - 1].overlaps_next;
    text += i == 0 || second ? "" : " ";
    text += action.overlaps_next ? "(" : "";
    text += std::to_string(action.stage);
    text += "FBIW"[static_cast<std::size_t>(action.kind)];
    text += std::to_string(action.microbatch);
    text += action.overlaps_next ? ";" : "";
    text += second ? ")" : "";
  }
  return text;
}

CsvTable golden(const std::string& file) {
  return CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/" + file);
}

template <class Check>
void for_each_size(Check check) {
  for (const auto& [name, generator] : generators()) {
    for (int p = 1; p <= 16; ++p) {
      for (int m = 1; m <= 64; m += m < 20 ? 1 : 11) {
        if (!conflict(name, p, generator.vpp, m).has_value()) {
          const Schedule schedule = generator.generate(p, m);
          SCOPED_TRACE(name + " p=" + std::to_string(p) + " m=" + std::to_string(m));
          check(name, generator, schedule);
        }
      }
    }
  }
}

Schedule two_ranks(std::vector<Action> first, std::vector<Action> second) {
  return {.name = "by hand",
          .pp = 2,
          .vpp = 1,
          .num_microbatches = 1,
          .placement = StagePlacement::kLooped,
          .orders = {std::move(first), std::move(second)}};
}

// Rank 0 waits for the forward pass of rank 1 and for its whole backward pass, which is not split.
TEST(InOrderRun, CountsByHand) {
  using enum ActionKind;
  const Schedule schedule =
      two_ranks({{kForward, 0, 0}, {kInputGradient, 0, 0}, {kWeightGradient, 0, 0}},
                {{kForward, 1, 0}, {kBackward, 1, 0}});
  EXPECT_TRUE(is_complete(schedule));
  const Outcome outcome = run(schedule, {10, 12, 8});
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.makespan, 10 + 10 + 20 + 12 + 8);
  EXPECT_THAT(outcome.idle, ElementsAre(10 + 20, 0));
  EXPECT_THAT(outcome.peaks, Each(1));
}

TEST(InOrderRun, NoticesWhatCannotRun) {
  using enum ActionKind;
  const std::vector<Action> last{{kForward, 1, 0}, {kBackward, 1, 0}};
  EXPECT_FALSE(run(two_ranks({{kBackward, 0, 0}, {kForward, 0, 0}}, last)).finished);
  EXPECT_FALSE(
      run(two_ranks({{kForward, 0, 0}, {kWeightGradient, 0, 0}, {kInputGradient, 0, 0}}, last))
          .finished);
}

TEST(InOrderRun, NoticesWhatIsMissingDoubledOrMisplaced) {
  using enum ActionKind;
  const std::vector<Action> whole{{kForward, 0, 0}, {kBackward, 0, 0}};
  const std::vector<Action> last{{kForward, 1, 0}, {kBackward, 1, 0}};
  EXPECT_TRUE(is_complete(two_ranks(whole, last)));
  EXPECT_FALSE(is_complete(two_ranks(last, whole)));
  EXPECT_FALSE(is_complete(two_ranks(whole, {{kForward, 1, 0}, {kInputGradient, 1, 0}})));
  EXPECT_FALSE(
      is_complete(two_ranks(whole, {{kForward, 1, 0}, {kBackward, 1, 0}, {kForward, 1, 0}})));
}

TEST(ZeroBubble, SchedulesSayWhatTheyAre) {
  for (const auto& [name, generator] : generators()) {
    const Schedule schedule = generator.generate(8, 16);
    EXPECT_EQ(schedule.name, name);
    EXPECT_EQ(schedule.pp, 8) << name;
    EXPECT_EQ(schedule.vpp, generator.vpp) << name;
    EXPECT_EQ(schedule.num_microbatches, 16) << name;
    EXPECT_EQ(schedule.orders.size(), 8U) << name;
  }
}

TEST(ZeroBubble, EveryActionRunsOnceOnItsRank) {
  for_each_size([](const std::string&, const Generator&, const Schedule& schedule) {
    EXPECT_TRUE(is_complete(schedule));
  });
}

TEST(ZeroBubble, EveryScheduleFinishesWithinTheFormulaOfItsPeaks) {
  for_each_size([](const std::string&, const Generator& generator, const Schedule& schedule) {
    const Outcome outcome = run(schedule);
    EXPECT_TRUE(outcome.finished);
    EXPECT_THAT(outcome.peaks, Each(Le(generator.peak(schedule.pp, schedule.num_microbatches))));
  });
}

// F, I and W once each per stage and microbatch; the first microbatch also has to come back.
TEST(ZeroBubble, MakespanIsNoLessThanTheWorkAndTheCriticalPath) {
  for_each_size([](const std::string&, const Generator&, const Schedule& schedule) {
    const Durations durations{.forward = 10, .input_gradient = 12, .weight_gradient = 8};
    const int makespan = run(schedule, durations).makespan;
    EXPECT_GE(makespan, 30 * schedule.vpp * schedule.num_microbatches);
    EXPECT_GE(makespan, 22 * schedule.vpp * schedule.pp + 8);
  });
}

// Makespans and peaks of the authors' generators (tests/golden/README.md).
TEST(ZeroBubble, IsNoSlowerAndNoLargerThanThePublishedSchedules) {
  const CsvTable table = golden("zero_bubble_summary.csv");
  std::set<std::string> names;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    SCOPED_TRACE(table.place_of(row, "schedule"));
    const auto generator = generators().find(table.text(row, "schedule"));
    ASSERT_NE(generator, generators().end());
    names.insert(generator->first);
    const std::vector<int> expected = numbers(table.text(row, "peaks"));
    const Outcome outcome = run(generator->second.generate(std::stoi(table.text(row, "p")),
                                                           std::stoi(table.text(row, "m"))));
    EXPECT_LE(outcome.makespan, std::stoi(table.text(row, "makespan")));
    ASSERT_EQ(outcome.peaks.size(), expected.size());
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      EXPECT_LE(outcome.peaks[rank], expected[rank]) << "rank " << rank;
    }
  }
  EXPECT_EQ(names.size(), generators().size());
}

TEST(ZbH1, HasTheBubbleOfThePaper) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Schedule schedule = zb_h1(p, m);
      EXPECT_EQ(run(schedule).makespan, 3 * m + (p - 1)) << p << ' ' << m;
      // (p-1)(F+I-W)
      EXPECT_EQ(run(schedule, {10, 12, 8}).makespan, 30 * m + (p - 1) * 14) << p << ' ' << m;
    }
  }
}

// The bubble is the paper's whenever a weight gradient takes no longer than each of the other two
// passes.
TEST(ZbH1, HasTheBubbleOfThePaperForShortWeightGradients) {
  for (const Durations& each : {Durations{5, 9, 5}, Durations{9, 5, 2}, Durations{1, 20, 1},
                                Durations{7, 7, 6}, Durations{12, 3, 3}}) {
    for (const int p : {2, 5, 8}) {
      const int work = each.forward + each.input_gradient + each.weight_gradient;
      EXPECT_EQ(run(zb_h1(p, 2 * p), each).makespan,
                2 * p * work + (p - 1) * (work - 2 * each.weight_gradient));
    }
  }
}

TEST(ZbH2, LeavesNoIdleTimeWithinARank) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 2 * p - 1; m <= 4 * p; ++m) {
      const Outcome outcome = run(zb_h2(p, m));
      EXPECT_THAT(outcome.idle, Each(0)) << p << ' ' << m;
      EXPECT_EQ(outcome.makespan, 3 * m + p - 1) << p << ' ' << m;
    }
  }
}

TEST(ZbV, LeavesNoIdleTimeWithinARank) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 2 * p - 1; m <= 4 * p; ++m) {
      const Outcome outcome = run(zb_v(p, m));
      EXPECT_THAT(outcome.idle, Each(0)) << p << ' ' << m;
      EXPECT_EQ(outcome.makespan, 6 * m + p - 1) << p << ' ' << m;
    }
  }
}

// Bubbles of the authors' generator, measured at m = 3p.
TEST(VHalf, HasTheBubbleOfTheAuthorsGenerator) {
  for (int p = 3; p <= 16; ++p) {
    const int bubble = run(v_half(p, 3 * p)).makespan - 6 * 3 * p;
    EXPECT_EQ(bubble, p % 2 == 0 ? 3 * p - 7 : 3 * p - 4) << p;
  }
}

TEST(VMin, HasAtMostTheBubbleOfTheAuthorsGenerator) {
  for (int p = 3; p <= 16; ++p) {
    const int bubble = run(v_min(p, 3 * p)).makespan - 6 * 3 * p;
    EXPECT_LE(bubble, p % 3 == 0 ? 4 * p - 7 : 4 * p - 5) << p;
    EXPECT_EQ(bubble, p % 3 == 1 ? 4 * p - 5 : 4 * p - 7) << p;
  }
}

TEST(ControllableMemory, GrowsBySixSlotsAMicrobatch) {
  for (const int p : {2, 5, 8, 16}) {
    EXPECT_EQ(run(v_half(p, 4 * p + 1)).makespan, run(v_half(p, 4 * p)).makespan + 6) << p;
    EXPECT_EQ(run(v_min(p, 4 * p + 1)).makespan, run(v_min(p, 4 * p)).makespan + 6) << p;
  }
}

TEST(DualPipe, HasTheOrdersOfDeepseeksCode) {
  const CsvTable table = golden("dualpipe_orders.csv");
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const Generator& generator = generators().at(table.text(row, "schedule"));
    const Schedule schedule =
        generator.generate(std::stoi(table.text(row, "p")), std::stoi(table.text(row, "m")));
    EXPECT_EQ(text_of(schedule.orders.at(std::stoi(table.text(row, "rank")))),
              table.text(row, "order"))
        << table.place_of(row, "order");
  }
}

// (p/2-1)(F&B+B-3W) and (p-1)(F&B+B-3W) at F = I = W: B = 2 and F&B = F + B = 3.
TEST(DualPipe, HasTheBubbleOfTheTechnicalReport) {
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {2 * p, 2 * p + 2, 4 * p}) {
      if (p % 2 == 0) {
        EXPECT_EQ(run(dualpipe(p, m)).makespan, 3 * m + (p / 2 - 1) * 2) << p << ' ' << m;
      }
      EXPECT_EQ(run(dualpipev(p, m)).makespan, 6 * m + (p - 1) * 2) << p << ' ' << m;
    }
  }
}

TEST(DualPipe, MirrorsItsHalves) {
  const Schedule schedule = dualpipe(8, 24);
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<Action> mirrored = schedule.orders[7 - rank];
    for (Action& action : mirrored) {
      action.microbatch = (action.microbatch + 12) % 24;
    }
    EXPECT_EQ(text_of(mirrored), text_of(schedule.orders[rank])) << rank;
  }
}

TEST(WhyNot, NamesTheConstraint) {
  for (const char* name : {"zb-h1", "zb-h2"}) {
    EXPECT_FALSE(conflict(name, 4, 1, 1).has_value());
    EXPECT_EQ(conflict(name, 4, 2, 8)->size, "vpp");
  }
  for (const char* name : {"zb-v", "v-half", "v-min"}) {
    EXPECT_FALSE(conflict(name, 4, 2, 1).has_value());
    EXPECT_EQ(conflict(name, 4, 1, 8)->size, "vpp");
  }
  EXPECT_FALSE(conflict("dualpipe", 4, 1, 8).has_value());
  EXPECT_EQ(conflict("dualpipe", 4, 2, 8)->size, "vpp");
  EXPECT_EQ(conflict("dualpipe", 3, 1, 8)->size, "pp");
  EXPECT_EQ(conflict("dualpipe", 4, 1, 9)->size, "microbatches");
  EXPECT_EQ(conflict("dualpipe", 4, 1, 6)->size, "microbatches");
  EXPECT_FALSE(conflict("dualpipev", 3, 2, 6).has_value());
  EXPECT_EQ(conflict("dualpipev", 3, 1, 6)->size, "vpp");
  EXPECT_EQ(conflict("dualpipev", 3, 2, 5)->size, "microbatches");
}

}  // namespace
}  // namespace ptdp
