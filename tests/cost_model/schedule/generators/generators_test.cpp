// Tests of all schedule generators, and of the shapes that they refuse.
#include "cost_model/schedule/generators/generators.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cost_model/schedule/validator/validator.h"
#include "tests/cost_model/schedule/golden_schedules.h"

namespace ptdp {
namespace {

/// The schedules of the golden file that this project's generators must reproduce exactly: name in
/// the file to generator.
const std::map<std::string, std::string> kSameOrders = {{"gpipe", "gpipe"},
                                                        {"1f1b", "1f1b"},
                                                        {"interleaved", "interleaved"},
                                                        {"interleaved_flex", "interleaved"},
                                                        {"bfs", "looped-bfs"}};

Schedule generated(std::string_view name, const ScheduleShape& shape) {
  return find_schedule(name)->generate(shape);
}

TEST(Generators, MakeTheOrdersOfTorchSailAndMegatron) {
  int compared = 0;
  for (const GoldenSchedule& golden : golden_schedules()) {
    const auto name = kSameOrders.find(golden.name);
    if (name == kSameOrders.end()) {
      continue;
    }
    const ScheduleShape shape{
        .pp = golden.pp, .vpp = golden.vpp, .num_microbatches = golden.num_microbatches};
    const ScheduleTraits& generator = *find_schedule(name->second);
    EXPECT_FALSE(generator.find_conflict(shape).has_value()) << golden.title();
    const Schedule schedule = generator.generate(shape);
    EXPECT_EQ(schedule.name, name->second);
    ASSERT_EQ(std::ssize(schedule.orders), golden.pp) << golden.title();
    for (int rank = 0; rank < golden.pp; ++rank) {
      EXPECT_EQ(to_string(schedule.orders[rank]), golden.orders[rank]) << golden.title();
    }
    ++compared;
  }
  EXPECT_EQ(compared, 18 + 21 + 16 + 20 + 21);
}

/// Returns all shapes up to these sizes that a generator takes.
std::vector<ScheduleShape> shapes_of(const ScheduleTraits& generator) {
  std::vector<ScheduleShape> shapes;
  for (const int pp : {1, 2, 3, 4, 5, 7, 8, 11, 16}) {
    for (const int vpp : {1, 2, 3, 4}) {
      for (const int microbatches : {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 24, 31, 33, 64}) {
        const ScheduleShape shape{.pp = pp, .vpp = vpp, .num_microbatches = microbatches};
        if (!generator.find_conflict(shape)) {
          shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

std::string title(const ScheduleTraits& generator, const ScheduleShape& shape) {
  return std::string(generator.name) + " p=" + std::to_string(shape.pp) +
         " v=" + std::to_string(shape.vpp) + " m=" + std::to_string(shape.num_microbatches) +
         " N=" + std::to_string(shape.microbatch_group_size);
}

TEST(Generators, MakeSchedulesWithoutAFaultWithinTheirMemory) {
  for (const ScheduleTraits& generator : kSchedules) {
    const std::vector<ScheduleShape> shapes = shapes_of(generator);
    EXPECT_GE(shapes.size(), 10U) << generator.name;  // DualPipe takes even sizes, m >= 2p
    for (const ScheduleShape& shape : shapes) {
      const Schedule schedule = generator.generate(shape);
      EXPECT_EQ(schedule.name, generator.name);
      EXPECT_EQ(schedule.pp, shape.pp);
      EXPECT_EQ(schedule.num_microbatches, shape.num_microbatches);
      std::vector<int> limits;
      limits.reserve(static_cast<std::size_t>(shape.pp));
      for (int rank = 0; rank < shape.pp; ++rank) {
        limits.push_back(generator.peak_activations(shape, rank));
      }
      const auto fault = find_fault(schedule, limits);
      ASSERT_FALSE(fault.has_value()) << title(generator, shape) << ": " << fault->message();
    }
  }
}

// The closed forms of these are exact, not bounds.
TEST(Generators, HoldAsManyActivationsAsTheTheoryHas) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "looped-bfs"}) {
    const ScheduleTraits& generator = *find_schedule(name);
    for (const ScheduleShape& shape : shapes_of(generator)) {
      const std::vector<int> peaks = peak_activations(generator.generate(shape));
      for (int rank = 0; rank < shape.pp; ++rank) {
        EXPECT_EQ(peaks[rank], generator.peak_activations(shape, rank)) << title(generator, shape);
      }
    }
  }
}

// What the table says of a schedule is what its orders show.
TEST(Generators, AreWhatTheTableSaysOfThem) {
  for (const ScheduleTraits& traits : kSchedules) {
    EXPECT_EQ(traits_of(traits.kind).name, traits.name);
    for (const ScheduleShape& shape : shapes_of(traits)) {
      SCOPED_TRACE(title(traits, shape));
      const Schedule schedule = traits.generate(shape);
      EXPECT_EQ(schedule.placement, traits.placement);
      bool is_split = false;
      for (const std::vector<Action>& order : schedule.orders) {
        is_split = is_split || std::ranges::any_of(order, [](const Action& action) {
                     return action.kind == ActionKind::kWeightGradient;
                   });
      }
      EXPECT_EQ(is_split, traits.splits_backward);
      EXPECT_TRUE(has_chunks(traits.kind, shape.vpp));
      for (int rank = 0; rank < shape.pp; ++rank) {
        EXPECT_TRUE(!traits.is_synchronous || traits.weight_versions(shape, rank) == 1);
      }
    }
    for (const int vpp : {1, 2, 3, 7}) {
      ScheduleShape shape{.pp = 4, .vpp = vpp, .num_microbatches = 16};
      const auto conflict = traits.find_conflict(shape);
      EXPECT_EQ(has_chunks(traits.kind, vpp), !conflict || conflict->size != "vpp") << traits.name;
      shape.microbatch_group_size = 8;
      const auto of_group = traits.find_conflict(shape);
      EXPECT_EQ(traits.has_groups && has_chunks(traits.kind, vpp), !of_group.has_value())
          << traits.name;
      shape.microbatch_group_size = 0;
      shape.memory_limit = 4;
      EXPECT_EQ(traits.is_searched && has_chunks(traits.kind, vpp),
                !traits.find_conflict(shape).has_value())
          << traits.name;
    }
  }
}

TEST(Generators, HaveNamesOfTheirOwnAndAPaper) {
  std::vector<std::string> names = schedule_names();
  for (const ScheduleTraits& generator : kSchedules) {
    EXPECT_FALSE(generator.paper.empty()) << generator.name;
    EXPECT_EQ(find_schedule(generator.name)->name, generator.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(find_schedule("1F1B"), nullptr);
}

// Megatron-LM tests/unit_tests/pipeline_parallel/test_schedules.py asks of its order of chunks that
// as many forward as backward passes run and that no prefix has more of the latter.
TEST(Interleaved, NeverRunsAheadOfItsForwardPassesForAnyGroupSize) {
  const ScheduleTraits& generator = *find_schedule("interleaved");
  for (const auto& [pp, size] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {2, 4}, {4, 4}, {4, 5}, {8, 9}, {8, 11}}) {
    for (const int microbatches : {8, 32}) {
      for (const int vpp : {2, 4, 8}) {
        const ScheduleShape shape{
            .pp = pp, .vpp = vpp, .num_microbatches = microbatches, .microbatch_group_size = size};
        if (generator.find_conflict(shape)) {
          EXPECT_TRUE(size > microbatches || (microbatches % size > 0 && microbatches % size < pp));
          continue;
        }
        const Schedule schedule = generator.generate(shape);
        for (int rank = 0; rank < pp; ++rank) {
          int ahead = 0;
          for (const Action& action : schedule.orders[rank]) {
            ahead += action.kind == ActionKind::kForward ? 1 : -1;
            ASSERT_GE(ahead, 0) << title(generator, shape);
            ASSERT_LE(ahead, generator.peak_activations(shape, rank)) << title(generator, shape);
          }
          EXPECT_EQ(ahead, 0);
        }
        EXPECT_FALSE(find_fault(schedule).has_value()) << title(generator, shape);
      }
    }
  }
}

// By hand, Megatron-LM's get_schedule_table for p = 2, m = 5, v = 2, N = 3: microbatches 0 to 2
// through both stages, then 3 and 4; rank 1 warms up with (2 − 1)·3 forward passes.
TEST(Interleaved, EndsWithASmallerGroup) {
  const Schedule schedule = generated(
      "interleaved", {.pp = 2, .vpp = 2, .num_microbatches = 5, .microbatch_group_size = 3});
  EXPECT_EQ(to_string(schedule.orders[1]),
            "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4");
}

TEST(DefaultGroupSize, IsTheDepthOrTheNextThatLeavesNoSmallRest) {
  struct Row {
    int pp, microbatches, size;
  };
  // The last five by trying sizes from p on; the fifth is torch's 8 over its two whole rounds of 3.
  for (const Row& row : {Row{4, 8, 4}, Row{4, 2, 2}, Row{1, 7, 1}, Row{3, 5, 5}, Row{3, 8, 4},
                         Row{4, 9, 5}, Row{4, 11, 6}, Row{2, 5, 3}, Row{4, 7, 7}}) {
    EXPECT_EQ(default_microbatch_group_size(row.pp, row.microbatches), row.size)
        << row.pp << " " << row.microbatches;
  }
}

TEST(PipeDream, RunsTheOrderOf1F1BWithMoreWeights) {
  const ScheduleShape shape{.pp = 4, .num_microbatches = 6};
  const auto versions = [&](const char* name, const ScheduleShape& of) {
    std::vector<int> each;
    each.reserve(static_cast<std::size_t>(of.pp));
    for (int rank = 0; rank < of.pp; ++rank) {
      each.push_back(find_schedule(name)->weight_versions(of, rank));
    }
    return each;
  };
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    EXPECT_FALSE(find_schedule(name)->is_synchronous);
    EXPECT_EQ(generated(name, shape).orders, generated("1f1b", shape).orders) << name;
  }
  EXPECT_EQ(versions("pipedream", shape), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(versions("pipedream", {.pp = 4, .num_microbatches = 2}),
            (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(versions("pipedream-2bw", shape), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(versions("pipedream-2bw", {.pp = 1, .num_microbatches = 2}), (std::vector<int>{1}));
  const auto conflict =
      find_schedule("pipedream-2bw")->find_conflict({.pp = 4, .num_microbatches = 3});
  EXPECT_EQ(conflict->size, "microbatches");
}

TEST(Generators, ThatAreSynchronousKeepOneVersionOfTheWeights) {
  int synchronous = 0;
  for (const ScheduleTraits& each : kSchedules) {
    EXPECT_FALSE(each.bubble.empty()) << each.name;
    if (each.is_synchronous) {
      EXPECT_EQ(each.weight_versions({.pp = 4, .num_microbatches = 8}, 0), 1) << each.name;
      ++synchronous;
    }
  }
  EXPECT_EQ(synchronous + 2, std::ssize(kSchedules));
}

TEST(Conflict, NamesTheSizeAndWhatItShouldBe) {
  struct Row {
    const char* name = nullptr;
    ScheduleShape shape;
    const char* size = nullptr;
    int found = 0;
  };
  for (const Row& row : {Row{"gpipe", {.pp = 2, .vpp = 2, .num_microbatches = 4}, "vpp", 2},
                         Row{"1f1b", {.pp = 2, .vpp = 3, .num_microbatches = 4}, "vpp", 3},
                         Row{"interleaved", {.pp = 2, .vpp = 1, .num_microbatches = 4}, "vpp", 1},
                         Row{"looped-bfs",
                             {.pp = 2, .vpp = 2, .num_microbatches = 4, .microbatch_group_size = 2},
                             "microbatch-group-size",
                             2},
                         Row{"interleaved",
                             {.pp = 4, .vpp = 2, .num_microbatches = 8, .microbatch_group_size = 3},
                             "microbatch-group-size",
                             3},
                         Row{"interleaved",
                             {.pp = 4, .vpp = 2, .num_microbatches = 8, .microbatch_group_size = 6},
                             "microbatch-group-size",
                             6},
                         Row{"interleaved",
                             {.pp = 4, .vpp = 2, .num_microbatches = 8, .microbatch_group_size = 9},
                             "microbatch-group-size",
                             9}}) {
    const auto conflict = find_schedule(row.name)->find_conflict(row.shape);
    ASSERT_TRUE(conflict.has_value()) << row.name;
    EXPECT_EQ(conflict->size, row.size) << row.name;
    EXPECT_EQ(conflict->found, row.found) << row.name;
    EXPECT_FALSE(conflict->expected.empty());
  }
}

// Each refusal is compared in full, and the nearest size is accepted.
TEST(Conflict, SaysWhatWouldBeRight) {
  struct Row {
    const char* name = nullptr;
    ScheduleShape wrong;
    ShapeConflict conflict;
    ScheduleShape right;
  };
  const auto shape = [](int pp, int vpp, int microbatches, int group = 0) {
    return ScheduleShape{
        .pp = pp, .vpp = vpp, .num_microbatches = microbatches, .microbatch_group_size = group};
  };
  const std::string group =
      "at least pp and at most the microbatches, with a remainder of 0 or at least pp, such as ";
  const std::vector<Row> rows = {
      {"1f1b", shape(2, 2, 4), {"vpp", 2, "1"}, shape(2, 1, 4)},
      {"gpipe", shape(2, 1, 4, 2), {"microbatch-group-size", 2, "none"}, shape(2, 1, 4)},
      {"zb-v", shape(2, 1, 4), {"vpp", 1, "2"}, shape(2, 2, 4)},
      {"interleaved",
       shape(2, 1, 4),
       {"vpp", 1, "at least 2 (1f1b has one stage per rank)"},
       shape(2, 2, 4)},
      {"interleaved",
       shape(4, 2, 9, 4),
       {"microbatch-group-size", 4, group + "5"},
       shape(4, 2, 9, 5)},
      {"interleaved",
       shape(4, 2, 8, 3),
       {"microbatch-group-size", 3, group + "4"},
       shape(4, 2, 8, 4)},
      {"interleaved",
       shape(4, 2, 8, 9),
       {"microbatch-group-size", 9, group + "4"},
       shape(4, 2, 8, 8)},
      {"pipedream-2bw", shape(4, 1, 3), {"microbatches", 3, "at least pp"}, shape(4, 1, 4)},
      {"dualpipe", shape(3, 1, 8), {"pp", 3, "an even number"}, shape(4, 1, 8)},
      {"dualpipe", shape(4, 1, 9), {"microbatches", 9, "an even number"}, shape(4, 1, 10)},
      {"dualpipe", shape(4, 1, 6), {"microbatches", 6, "at least 2 pp"}, shape(4, 1, 8)},
      {"dualpipev", shape(4, 2, 7), {"microbatches", 7, "at least 2 pp"}, shape(4, 2, 8)}};
  for (const Row& row : rows) {
    const ScheduleTraits& generator = *find_schedule(row.name);
    const auto conflict = generator.find_conflict(row.wrong);
    ASSERT_TRUE(conflict.has_value()) << row.name;
    EXPECT_EQ(conflict->size, row.conflict.size) << row.name;
    EXPECT_EQ(conflict->found, row.conflict.found) << row.name;
    EXPECT_EQ(conflict->expected, row.conflict.expected) << row.name;
    EXPECT_FALSE(generator.find_conflict(row.right).has_value()) << row.name;
  }
}

// zb-auto alone searches within a limit.
TEST(Conflict, IsALimitOfASchedulesMemoryThatIsNotSearched) {
  for (const ScheduleTraits& generator : kSchedules) {
    ScheduleShape shape{.pp = 4, .num_microbatches = 8, .memory_limit = 3};
    shape.vpp = generator.find_conflict({.pp = 4, .num_microbatches = 8}).has_value() ? 2 : 1;
    const auto conflict = generator.find_conflict(shape);
    EXPECT_EQ(conflict.has_value(), generator.name != "zb-auto") << generator.name;
    if (conflict) {
      EXPECT_EQ(conflict->size, "memory-limit") << generator.name;
      EXPECT_EQ(conflict->found, 3) << generator.name;
      EXPECT_EQ(conflict->expected, "none") << generator.name;
    }
  }
}

}  // namespace
}  // namespace ptdp
