#include "planner/explain/nothing_fits.h"

#include <gmock/gmock.h>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TEST(WhyNothingFits, SaysWhichValuesWouldDo) {
  const Scenario scenario = selene_2021("1.7B", 512);  // 24 heads, 24 layers
  const auto why = [&](const Pins& pins, std::int64_t gpus) {
    const SearchOptions options{.gpus = gpus, .pins = pins};
    const SearchResult result = search(scenario, options);
    EXPECT_TRUE(result.best.empty());
    return why_nothing_fits(scenario, options, result);
  };
  EXPECT_THAT(why({.tp = IntegerRanges(7)}, 64), HasSubstr("tp can be 1, 2, 3, 4, 6, 8, 12, 24"));
  EXPECT_THAT(why({.tp = IntegerRanges(1), .pp = IntegerRanges(5)}, 64),
              HasSubstr("pp can be 1, 2, 3, 4, 6, 8, 12, 24"));
  // 7 replicas: 511 = 7·73 is the nearest batch.
  const std::string seven = why({.dp = IntegerRanges(7)}, 7);
  EXPECT_THAT(seven, HasSubstr("dp * micro_batch_size can be 1, 2, 4, 8,"));
  EXPECT_THAT(seven, HasSubstr("the nearest batch that would do is 511"));
  // The batch that was given is no advice.
  EXPECT_THAT(why({.dp = IntegerRanges(4), .micro_batch_size = IntegerRanges(256)}, 64),
              HasSubstr("the nearest batch that would do is 1024"));
}

TEST(WhyNothingFits, SaysHowSequencesCanBeShared) {
  Scenario scenario = selene_2021("1.7B", 512);  // 24 heads
  scenario.job.model.seq_length = 24;
  scenario.stack.can_run.context_parallel = true;
  const auto why = [&](const Pins& pins) {
    const SearchOptions options{.gpus = 64, .pins = pins};
    return why_nothing_fits(scenario, options, search(scenario, options));
  };
  EXPECT_THAT(why({.cp = IntegerRanges(5)}), HasSubstr("cp can be 1, 2, 3, 4, 6, 12\n"));
  scenario.stack.context_parallel_kind = ContextParallel::kAllToAll;
  EXPECT_THAT(why({.tp = IntegerRanges(8), .cp = IntegerRanges(2)}),
              HasSubstr("tp * cp must divide 24\n"));
  EXPECT_THAT(why({.tp = IntegerRanges(8), .dp = IntegerRanges(8), .cp = IntegerRanges(2)}),
              HasSubstr("tp=8 pp=1 dp=8 cp=2, the smallest asked for, need more than 64 GPUs"));
  scenario.job.model.num_query_groups = 4;
  EXPECT_THAT(why({.tp = IntegerRanges(2), .cp = IntegerRanges(3)}),
              HasSubstr("tp * cp must divide 24, and cp 4 / tp or the other way round"));
  scenario.stack.can_run.context_parallel = false;
  EXPECT_THAT(
      why({.tp = IntegerRanges(2), .cp = IntegerRanges(2)}),
      HasSubstr("stack megatron-lm-2021 runs 1f1b or interleaved, "
                "recompute none or full, ZeRO 0, ranks as tp-cp-ep-dp-pp, no offload, no sequence "
                "parallelism, no experts, no "
                "context parallelism"));
}

TEST(WhyNothingFits, SaysWhatTheStackRuns) {
  const Scenario scenario = selene_2021("1.7B", 512);
  const SearchOptions options{.gpus = 8, .pins = {.sequence_parallel = true}};
  EXPECT_THAT(why_nothing_fits(scenario, options, search(scenario, options)),
              HasSubstr("stack megatron-lm-2021 runs 1f1b or interleaved, recompute none or full, "
                        "ZeRO 0, ranks as tp-cp-ep-dp-pp, no offload, no sequence parallelism"));
}

TEST(WhyNothingFits, NamesPinsThatContradictEachOther) {
  const Scenario scenario = selene_2021("1.7B", 512);
  const auto why = [&](const Pins& pins) {
    const SearchOptions options{.gpus = 64, .pins = pins};
    return why_nothing_fits(scenario, options, search(scenario, options));
  };
  EXPECT_THAT(why({.vpp = IntegerRanges(2), .schedules = {ScheduleKind::kOneFOneB}}),
              HasSubstr("schedule and vpp contradict"));
  EXPECT_THAT(why({.pp = IntegerRanges(1), .schedules = {ScheduleKind::kInterleaved}}),
              HasSubstr("interleaved and pp=1 contradict"));
  EXPECT_THAT(why({.tp = IntegerRanges(1), .sequence_parallel = true}),
              HasSubstr("sequence parallelism and tp=1 contradict"));
}

// 1T keeps 20 bytes of state per parameter, 18776 GiB in all, and a GPU holds 70.3 GiB beside the
// reserve: no fewer than 268 GPUs will do, and 512 are the first power of two.
TEST(GpusThatWouldDo, AreTheFirstMultipleThatFits) {
  const Scenario scenario = selene_2021("1T");
  const auto found = gpus_that_would_do(scenario, {.gpus = 8});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->gpus, 512);
  EXPECT_EQ(find_violation(scenario, found->config, usable_memory(scenario.cluster.gpu, 0.0)),
            std::nullopt);
}

TEST(GpusThatWouldDo, AreNoneWhereMoreDoNotHelp) {
  // 7 does not divide 160 heads on any number of GPUs.
  EXPECT_FALSE(
      gpus_that_would_do(selene_2021("1T"), {.gpus = 8, .pins = {.tp = IntegerRanges(7)}}));
}

TEST(GpusThatWouldDo, AreNoMoreThanTheClusterHas) {
  Scenario scenario = selene_2021("1T");
  scenario.cluster.network_tiers = {{.gpus = 256, .oversubscription = 1.0}};
  EXPECT_FALSE(gpus_that_would_do(scenario, {.gpus = 8}));
}

}  // namespace
}  // namespace ptdp
