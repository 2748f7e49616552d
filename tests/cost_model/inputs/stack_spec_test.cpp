#include "cost_model/inputs/stack_spec.h"

#include <gmock/gmock.h>

#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Every field away from its default.
StackSpec unusual_stack() {
  return {.name = "s",
          .source = "a test",
          .precision = Precision::kFp16,
          .attention = "flash-2",
          .memory_model = MemoryModel::kPtdp,
          .tensor_parallel_overlap = true,
          .fused_gradient_accumulation = true,
          .weight_bytes = 1.0,
          .gradient_bytes = 2.0,
          .optimizer_bytes = 16.0,
          .bf16_gradient_bytes = 4.0,
          .bf16_optimizer_bytes = 12.0,
          .other_precisions = {PrecisionBytes{.precision = Precision::kFp32,
                                              .weight_bytes = 4.0,
                                              .gradient_bytes = 4.5,
                                              .optimizer_bytes = 8.0,
                                              .reduced_gradient_bytes = 5.0,
                                              .optimizer_traffic = 36.0,
                                              .loss_traffic = 16.0},
                               PrecisionBytes{.precision = Precision::kFp64,
                                              .weight_bytes = 8.0,
                                              .gradient_bytes = 9.0,
                                              .optimizer_bytes = 20.0,
                                              .reduced_gradient_bytes = 10.0,
                                              .optimizer_traffic = 72.0,
                                              .loss_traffic = 32.0}},
          .fp8_recipes = {Fp8Recipe{.scaling = Fp8Scaling::kCurrent,
                                    .norms_cast = true,
                                    .keeps_inputs = false,
                                    .casts_weights_once = false,
                                    .has_only_fp8_weights = true,
                                    .gathers_weights = true,
                                    .gathers_activations = true},
                          Fp8Recipe{.scaling = Fp8Scaling::kMx}},
          .fp8 = Fp8Scaling::kMx,
          .reduced_gradient_bytes = 2.5,
          .gradient_bucket_bytes = 3.0,
          .gradient_staging_traffic = 12.0,
          .optimizer_traffic = 60.0,
          .data_parallel_overlap = DataParallelOverlap::kSingleStage,
          .scatter_gather = true,
          .pipeline_overlap = PipelineOverlap::kInterleaved,
          .pipeline_latency = microseconds(30.0),
          .host_time_per_kernel = microseconds(7.0),
          .overlap_slowdown = 0.15,
          .reserve_fraction = 0.121,
          .workspace = Bytes(32.0 * 1024.0 * 1024.0),
          .can_run = {.schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved},
                      .recompute = {Recompute::kSelective},
                      .recompute_modules = {RecomputeModule::kCoreAttention, RecomputeModule::kMlp},
                      .recompute_methods = {RecomputeMethod::kBlock, RecomputeMethod::kEvery},
                      .zero_stages = {0, 1},
                      .sequence_parallel = true,
                      .context_parallel = true,
                      .expert_parallel = true,
                      .interleaved_min_stages = 3,
                      .uneven_layers = true,
                      .rank_orders = {RankOrder::kTpCpEpPpDp},
                      .offload = {Offload::kActivations}}};
}

std::string refusal_of_stack(const std::string& from, const std::string& to) {
  return message_of([&] { return parse<StackSpec>(replaced(dump(unusual_stack()), from, to)); });
}

TEST(StackSpecJson, ReadsBackAsItWas) {
  const std::string text = dump(unusual_stack());
  EXPECT_EQ(parse<StackSpec>(text), unusual_stack()) << text;
  EXPECT_EQ(dump(parse<StackSpec>(text)), text);
}

TEST(StackSpecJson, RefusesRecipesThatAreTwiceOrNotThere) {
  EXPECT_THAT(refusal_of_stack("fp8-current", "fp8-mx"), HasSubstr("fp8-mx is there twice"));
  EXPECT_THAT(refusal_of_stack("\"fp8\": \"fp8-mx\"", "\"fp8\": \"fp8-block\""),
              HasSubstr("fp8_recipes: expected fp8-block among them, which fp8 names"));
}

TEST(WithFp8, TakesTheStacksFirstRecipeOrTheOneThatIsNamed) {
  EXPECT_EQ(with_fp8(unusual_stack(), "fp8").fp8, Fp8Scaling::kCurrent);
  EXPECT_EQ(with_fp8(unusual_stack(), "fp8-mx").fp8, Fp8Scaling::kMx);
  EXPECT_EQ(at_precision(unusual_stack(), Precision::kFp16).fp8, std::nullopt);
  EXPECT_EQ(message_of([] { return with_fp8(unusual_stack(), "fp8-block"); }),
            "stack s has no recipe for fp8-block; it has those of fp8-current, fp8-mx");
  EXPECT_EQ(message_of([] { return with_fp8(StackSpec{.name = "t"}, "fp8"); }),
            "stack t has no recipe for fp8");
}

TEST(StackSpecJson, ReadsBackEveryOverlap) {
  for (const auto& [overlap, name] : kDataParallelOverlapNames) {
    StackSpec stack = unusual_stack();
    stack.data_parallel_overlap = overlap;
    EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << name;
  }
}

TEST(StackSpecJson, SaysHowSequencesAreSharedWhereItIsNoRing) {
  StackSpec stack = unusual_stack();
  EXPECT_THAT(dump(stack), Not(HasSubstr("context_parallel_kind")));
  for (const auto& [kind, name] : kContextParallelNames) {
    stack.context_parallel_kind = kind;
    EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << name;
  }
  EXPECT_EQ(
      message_of([&] {
        return parse<StackSpec>(replaced(dump(stack), "\"context_parallel_kind\": \"all-to-all\"",
                                         "\"context_parallel_kind\": \"p2p\""));
      }),
      "test.json: context_parallel_kind: expected one of ring, all-gather, all-to-all, got "
      "\"p2p\"");
}

TEST(StackSpecJson, SaysWhatRunsWithinProductsWhereAnythingDoes) {
  StackSpec stack = unusual_stack();
  EXPECT_THAT(dump(stack), Not(HasSubstr("tp_comm_overlap")));
  for (const auto& [kind, name] : kTpCommOverlapNames) {
    stack.tp_comm_overlap = kind;
    EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << name;
  }
  EXPECT_THAT(dump(stack), Not(HasSubstr("expert_overlap")));
  EXPECT_THAT(dump(stack), Not(HasSubstr("recompute_stops_early")));
  stack.recompute_stops_early = true;
  EXPECT_EQ(parse<StackSpec>(dump(stack)), stack);
  stack.expert_overlap = true;
  EXPECT_EQ(parse<StackSpec>(dump(stack)), stack);
  EXPECT_THAT(dump(stack), Not(HasSubstr("cuda_graphs")));
  for (const auto& [graphs, name] : kCudaGraphsNames) {
    stack.cuda_graphs = graphs;
    EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << name;
  }
  EXPECT_THAT(dump(stack), Not(HasSubstr("fused_expert_activation")));
  stack.fused_expert_activation = true;
  EXPECT_EQ(parse<StackSpec>(dump(stack)), stack);
  EXPECT_THAT(dump(stack), Not(HasSubstr("keeps_gathered_inputs")));
  stack.keeps_gathered_inputs = true;
  EXPECT_EQ(parse<StackSpec>(dump(stack)), stack);
  EXPECT_EQ(message_of([&] {
              return parse<StackSpec>(replaced(dump(stack), "\"symmetric-memory\"", "true"));
            }),
            "test.json: tp_comm_overlap: expected one of none, userbuffers, symmetric-memory, got "
            "true");
}

TEST(StackSpecJson, RefusesToOffloadAnOptimizerOfNoSize) {
  StackSpec stack = unusual_stack();
  stack.can_run.offload = {Offload::kOptimizer};
  stack.offloaded_optimizer_bytes = 8.0;
  EXPECT_EQ(parse<StackSpec>(dump(stack)), stack);
  stack.offloaded_optimizer_bytes = 0.0;
  EXPECT_EQ(message_of([&] { return parse<StackSpec>(dump(stack)); }),
            "test.json: offloaded_optimizer_bytes: expected what a host holds of optimizer_bytes, "
            "since can_run.offload has optimizer; got 0 or nothing");
}

TEST(StackSpecJson, RefusesSpellingsItDoesNotKnow) {
  EXPECT_EQ(refusal_of_stack("\"single-stage\"", "\"sometimes\""),
            "test.json: data_parallel_overlap: expected one of never, single-stage, always, got "
            "\"sometimes\"");
  EXPECT_EQ(refusal_of_stack("\"fp16\"", "\"fp8\""),
            "test.json: precision: expected one of fp16, bf16, fp32, fp64, got \"fp8\"");
  EXPECT_EQ(refusal_of_stack("\"pipeline_overlap\": \"interleaved\"", "\"pipeline_overlap\": true"),
            "test.json: pipeline_overlap: expected one of never, split-backward, interleaved, "
            "always, got true");
  EXPECT_EQ(refusal_of_stack("\"1f1b\"", "\"pipe\""),
            "test.json: can_run.schedules: expected one of 1f1b, interleaved, gpipe, looped-bfs, "
            "zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev, pipedream, pipedream-2bw, "
            "zb-auto, got \"pipe\"");
  EXPECT_EQ(refusal_of_stack("\"selective\"", "\"some\""),
            "test.json: can_run.recompute: expected one of none, selective, full, got \"some\"");
}

TEST(StackSpecJson, RefusesNumbersOutOfRange) {
  EXPECT_EQ(refusal_of_stack("\"reserve_fraction\": 0.121", "\"reserve_fraction\": 12.1"),
            "test.json: reserve_fraction: expected a number from 0.0 to 0.9 (of device memory), "
            "got 12.1");
  EXPECT_EQ(refusal_of_stack("\"overlap_slowdown\": 0.15", "\"overlap_slowdown\": 15"),
            "test.json: overlap_slowdown: expected a number from 0.0 to 1.0 (a fraction), got 15");
  EXPECT_EQ(
      refusal_of_stack("\"weight_bytes\": 1.0", "\"weight_bytes\": -1"),
      "test.json: weight_bytes: expected a number from 0.25 to 10000.0 (bytes per parameter), "
      "got -1");
  EXPECT_EQ(refusal_of_stack("\"pipeline_latency_us\": 30.0", "\"pipeline_latency_us\": 1e7"),
            "test.json: pipeline_latency_us: expected a number from 0.0 to 1000000.0 "
            "(microseconds), got 10000000.0");
  EXPECT_EQ(refusal_of_stack("\"interleaved_min_stages\": 3", "\"interleaved_min_stages\": 1"),
            "test.json: can_run.interleaved_min_stages: expected a whole number from 2 to 1000, "
            "got 1");
  EXPECT_EQ(refusal_of_stack("      1\n", "      4\n"),
            "test.json: can_run.zero_stages: expected a whole number from 0 to 3, got 4");
}

TEST(StackSpecJson, RefusesAPrecisionThatItHasAlready) {
  EXPECT_EQ(refusal_of_stack("\"precision\": \"fp64\"", "\"precision\": \"fp32\""),
            "test.json: other_precisions: fp32 is there twice, or in precision");
  EXPECT_EQ(refusal_of_stack("\"precision\": \"fp64\"", "\"precision\": \"fp16\""),
            "test.json: other_precisions: fp16 is there twice, or in precision");
}

TEST(AtPrecision, TakesWhatTheStackSaysOfIt) {
  const StackSpec stack = at_precision(unusual_stack(), Precision::kFp64);
  EXPECT_EQ(stack.precision, Precision::kFp64);
  EXPECT_EQ(stack.weight_bytes, 8.0);
  EXPECT_EQ(stack.gradient_bytes, 9.0);
  EXPECT_EQ(stack.optimizer_bytes, 20.0);
  EXPECT_EQ(stack.reduced_gradient_bytes, 10.0);
  EXPECT_EQ(stack.optimizer_traffic, 72.0);
  EXPECT_EQ(stack.loss_traffic, 32.0);
}

TEST(AtPrecision, LeadsBackOverAnyOther) {
  const StackSpec there =
      at_precision(at_precision(unusual_stack(), Precision::kFp64), Precision::kFp32);
  StackSpec without_fp8 = unusual_stack();
  without_fp8.fp8.reset();
  EXPECT_EQ(at_precision(there, Precision::kFp16), without_fp8);
  EXPECT_EQ(at_precision(unusual_stack(), Precision::kFp16), without_fp8);
  EXPECT_EQ(parse<StackSpec>(dump(there)), there);
}

TEST(AtPrecision, OfAnFp16StackWithoutAListIsBf16WithItsState) {
  StackSpec stack = unusual_stack();
  stack.other_precisions.clear();
  const StackSpec bf16 = at_precision(stack, Precision::kBf16);
  EXPECT_EQ(bf16.gradient_bytes, 4.0);
  EXPECT_EQ(bf16.optimizer_bytes, 12.0);
  EXPECT_EQ(bf16.weight_bytes, stack.weight_bytes);
}

TEST(AtPrecision, RefusesWhatTheStackDoesNotSay) {
  StackSpec stack = unusual_stack();
  stack.other_precisions.clear();
  EXPECT_EQ(message_of([&] { return at_precision(stack, Precision::kFp32); }),
            "stack s says what it keeps in fp16, not in fp32: other_precisions lacks it");
}

TEST(WithOverlap, SaysAllThatRunsBesideCompute) {
  const StackSpec nothing = with_overlap(unusual_stack(), {});
  EXPECT_EQ(nothing.pipeline_overlap, PipelineOverlap::kNever);
  EXPECT_EQ(nothing.data_parallel_overlap, DataParallelOverlap::kNever);
  EXPECT_FALSE(nothing.parameter_gather_overlap);
  EXPECT_FALSE(nothing.tensor_parallel_overlap);
  const StackSpec tensor = with_overlap(nothing, {.tensor = true});
  EXPECT_EQ(tensor.pipeline_overlap, PipelineOverlap::kNever);
  EXPECT_EQ(tensor.data_parallel_overlap, DataParallelOverlap::kNever);
  EXPECT_TRUE(tensor.tensor_parallel_overlap);
  StackSpec within = unusual_stack();
  within.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  EXPECT_EQ(with_overlap(within, {}).tp_comm_overlap, TpCommOverlap::kNone);
  StackSpec experts = unusual_stack();
  experts.expert_overlap = true;
  EXPECT_FALSE(with_overlap(experts, {}).expert_overlap);
  EXPECT_TRUE(with_overlap(experts, {.as_possible = true}).expert_overlap);
  EXPECT_EQ(with_overlap(within, {.tensor = true}).tp_comm_overlap, TpCommOverlap::kUserBuffers);
}

// Without a library's workspace it is this project's on a host.
TEST(WithOverlap, LeavesOutWhatAHostCannotWhereAllIsAskedFor) {
  StackSpec stack = unusual_stack();
  EXPECT_TRUE(with_overlap(stack, {.tensor = true, .as_possible = true}).tensor_parallel_overlap);
  stack.workspace = Bytes(0.0);
  EXPECT_FALSE(with_overlap(stack, {.tensor = true, .as_possible = true}).tensor_parallel_overlap);
  EXPECT_TRUE(with_overlap(stack, {.tensor = true}).tensor_parallel_overlap);
  stack.memory_model = MemoryModel::kMegatron;
  EXPECT_TRUE(with_overlap(stack, {.tensor = true, .as_possible = true}).tensor_parallel_overlap);
}

TEST(StackSpecJson, RefusesAMissingAndAMisspeltKey) {
  EXPECT_EQ(refusal_of_stack("\"scatter_gather\": true,", ""),
            "test.json: scatter_gather: missing");
  EXPECT_EQ(refusal_of_stack("\"context_parallel\"", "\"context_parallell\""),
            "test.json: can_run.context_parallel: missing; there is \"context_parallell\"");
  EXPECT_EQ(refusal_of_stack("\"scatter_gather\"", "\"scatter-gather\": true, \"scatter_gather\""),
            "test.json: \"scatter-gather\": unknown key; did you mean \"scatter_gather\"?");
}

}  // namespace
}  // namespace ptdp
