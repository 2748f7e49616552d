// Tests of which measured rows contradict themselves.
#include "cost_model/measured/contradictions.h"

#include <gmock/gmock.h>

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Returns a run with a batch of 32 on 4 stages, without replicas. It has `b` sequences per
/// microbatch and takes `q` seconds per sequence and slot.
MeasuredRun run_with(int b, double q) {
  MeasuredRun run;
  run.cluster = "cluster";
  run.stack = "stack";
  run.model = {.num_layers = 4, .hidden_size = 64};
  run.global_batch_size = 32;
  run.config = {.pp = 4, .micro_batch_size = b};
  run.iteration_time = Seconds(q * (32.0 / b + 3.0) * b);
  return run;
}

// By hand: 16 microbatches of 2 on 4 stages are 19 slots; 38 s over 19·2 is 1 s.
TEST(SlotTime, IsTheTimePerSequenceAndSlot) {
  MeasuredRun run = run_with(2, 0.0);
  run.iteration_time = Seconds(38.0);
  EXPECT_DOUBLE_EQ(slot_time(run).value(), 1.0);
}

TEST(FindContradictions, NamesARunThatIsMuchSlowerThanOneWithLargerMicrobatches) {
  EXPECT_THAT(find_contradictions(std::vector{run_with(1, 1.21), run_with(2, 1.0)}),
              ElementsAre(true, false));
  EXPECT_THAT(find_contradictions(std::vector{run_with(1, 1.19), run_with(2, 1.0)}),
              ElementsAre(false, false));
}

TEST(FindContradictions, NamesARunThatIsSlowerThanOneWithSmallerMicrobatches) {
  EXPECT_THAT(find_contradictions(std::vector{run_with(1, 1.0), run_with(2, 1.07)}),
              ElementsAre(false, true));
  EXPECT_THAT(find_contradictions(std::vector{run_with(1, 1.0), run_with(2, 1.05)}),
              ElementsAre(false, false));
}

// b = 1, 2, 4, 8 take 1, 0.95, 1.3, 0.9: the third is slower than both of its neighbors allow, the
// first is within 1.2 of the last.
TEST(FindContradictions, ComparesWithEveryRunOfTheSeries) {
  EXPECT_THAT(find_contradictions(std::vector{run_with(1, 1.0), run_with(2, 0.95), run_with(4, 1.3),
                                              run_with(8, 0.9)}),
              ElementsAre(false, false, true, false));
}

TEST(FindContradictions, LetsRepetitionsDiffer) {
  EXPECT_THAT(find_contradictions(std::vector{run_with(1, 1.0), run_with(1, 2.0)}),
              ElementsAre(false, false));
}

TEST(FindContradictions, ComparesNothingThatDiffersInMoreThanTheMicrobatch) {
  const MeasuredRun fast = run_with(2, 1.0);
  const auto is_found_after = [&](auto change) -> bool {
    MeasuredRun slow = run_with(1, 2.0);
    change(slow);
    return find_contradictions(std::vector{slow, fast}).front();
  };
  EXPECT_TRUE(is_found_after([](MeasuredRun&) {}));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.cluster = "other"; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.stack = "other"; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.model.seq_length = 1; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.global_batch_size = 64; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.config.tp = 2; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.config.zero_stage = 1; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.config.recompute = Recompute::kFull; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.precision = "bf16"; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.precision = "fp8"; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.data_parallel_overlap = true; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.tp_comm_overlap = false; }));
  EXPECT_FALSE(
      is_found_after([](MeasuredRun& run) { run.expert_dispatch = ExpertDispatch::kAllToAll; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.expert_overlap = true; }));
  EXPECT_FALSE(is_found_after([](MeasuredRun& run) { run.cuda_graphs = CudaGraphs::kNone; }));
  // The source of a row does not matter.
  EXPECT_TRUE(is_found_after([](MeasuredRun& run) {
    run.id = "another";
    run.group = "another";
    run.source = "another";
    run.memory = Bytes(1.0);
  }));
}

TEST(FindContradictions, InNothingFindsNothing) {
  EXPECT_TRUE(find_contradictions({}).empty());
}

}  // namespace
}  // namespace ptdp
