// Tests of software stacks: how they are read, refused, and changed by flags.
#include "cost_model/inputs/stack_spec.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/inputs/stack_precision.h"
#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns a stack whose every field differs from its default.
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
                      .split_key_heads = SplitKeyHeads::kGatherQkv,
                      .rank_orders = {RankOrder::kTpCpEpPpDp},
                      .offload = {Offload::kActivations}}};
}

/// Returns a stack with the rarely used and mutually exclusive fields that unusual_stack() leaves
/// out.
StackSpec seldom_stack() {
  StackSpec stack = unusual_stack();
  stack.fused_element_wise = false;
  stack.composed_norms = true;
  stack.deterministic = true;
  stack.fused_yarn_rotary = false;
  stack.complex_rotary = true;
  stack.copies_heads = true;
  stack.looks_up_tokens = true;
  stack.splits_gates = true;
  stack.fused_expert_biases = false;
  stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  stack.keeps_gathered_inputs = true;
  stack.copies_sequences = true;
  stack.recompute_stops_early = true;
  stack.keeps_expert_outputs = false;
  stack.fused_epilogues = true;
  stack.fused_bias_gradients = true;
  stack.gradient_bucket_size = Bytes(40e6);
  stack.offloaded_optimizer_bytes = 8.5;
  stack.host_optimizer_traffic = 28.0;
  stack.loss_scaling_traffic = 6.0;
  stack.loss_traffic = 36.5;
  stack.loss_bytes = 10.0;
  stack.split_loss_bytes = 14.5;
  stack.logged_flops = FlopCount::kCausal;
  stack.optimizer_post_validation = true;
  stack.parameter_gather_overlap = false;
  stack.copies_gathered_weights = true;
  stack.shards_matrices_apart = true;
  stack.max_reuse_distance = 1e9;
  stack.all_reduces_gradients = true;
  stack.broadcasts_weights = true;
  stack.all_reduces_shards = true;
  stack.expert_dispatch = ExpertDispatch::kHierarchical;
  stack.expert_overlap = true;
  stack.pads_expert_rows = true;
  stack.fused_expert_activation = true;
  stack.context_parallel_kind = ContextParallel::kAllGather;
  stack.microbatch_overhead = microseconds(11.0);
  stack.cuda_graphs = CudaGraphs::kStep;
  stack.can_run.hybrid_sharding = true;
  stack.can_run.optimizer_instances = true;
  stack.can_run.kept_weights = true;
  stack.other_attention = "cudnn";
  return stack;
}

std::string refusal_of_stack(const std::string& from, const std::string& to) {
  return message_of([&] { return parse<StackSpec>(replaced(dump(unusual_stack()), from, to)); });
}

TEST(StackSpecJson, ReadsBackAsItWas) {
  const std::string text = dump(unusual_stack());
  EXPECT_EQ(parse<StackSpec>(text), unusual_stack()) << text;
  EXPECT_EQ(dump(parse<StackSpec>(text)), text);
}

TEST(StackSpecJson, HasEveryFieldUnderItsName) {
  const StackSpec stack = seldom_stack();
  const std::string text = dump(stack);
  EXPECT_EQ(text, R"({
  "name": "s",
  "source": "a test",
  "logged_flops": "causal",
  "precision": "fp16",
  "attention": "flash-2",
  "other_attention": "cudnn",
  "memory_model": "ptdp",
  "fused_element_wise": false,
  "composed_norms": true,
  "deterministic": true,
  "fused_yarn_rotary": false,
  "complex_rotary": true,
  "copies_heads": true,
  "looks_up_tokens": true,
  "splits_gates": true,
  "fused_expert_biases": false,
  "tensor_parallel_overlap": true,
  "tp_comm_overlap": "userbuffers",
  "keeps_gathered_inputs": true,
  "copies_sequences": true,
  "recompute_stops_early": true,
  "keeps_expert_outputs": false,
  "fused_gradient_accumulation": true,
  "fused_epilogues": true,
  "fused_bias_gradients": true,
  "weight_bytes": 1.0,
  "gradient_bytes": 2.0,
  "optimizer_bytes": 16.0,
  "other_precisions": [
    {
      "precision": "fp32",
      "weight_bytes": 4.0,
      "gradient_bytes": 4.5,
      "optimizer_bytes": 8.0,
      "reduced_gradient_bytes": 5.0,
      "optimizer_traffic": 36.0,
      "loss_traffic": 16.0
    },
    {
      "precision": "fp64",
      "weight_bytes": 8.0,
      "gradient_bytes": 9.0,
      "optimizer_bytes": 20.0,
      "reduced_gradient_bytes": 10.0,
      "optimizer_traffic": 72.0,
      "loss_traffic": 32.0
    }
  ],
  "fp8": "fp8-mx",
  "fp8_recipes": [
    {
      "scaling": "fp8-current",
      "norms_cast": true,
      "keeps_inputs": false,
      "casts_weights_once": false,
      "has_only_fp8_weights": true,
      "gathers_weights": true,
      "gathers_activations": true
    },
    {
      "scaling": "fp8-mx",
      "norms_cast": false,
      "keeps_inputs": true,
      "casts_weights_once": true,
      "has_only_fp8_weights": false,
      "gathers_weights": false,
      "gathers_activations": false
    }
  ],
  "reduced_gradient_bytes": 2.5,
  "gradient_bucket_bytes": 3.0,
  "gradient_bucket_MB": 40.0,
  "gradient_staging_traffic": 12.0,
  "optimizer_traffic": 60.0,
  "offloaded_optimizer_bytes": 8.5,
  "host_optimizer_traffic": 28.0,
  "loss_scaling_traffic": 6.0,
  "loss_traffic": 36.5,
  "loss_bytes": 10.0,
  "split_loss_bytes": 14.5,
  "optimizer_post_validation": true,
  "data_parallel_overlap": "single-stage",
  "parameter_gather_overlap": false,
  "copies_gathered_weights": true,
  "shards_matrices_apart": true,
  "max_reuse_distance": 1000000000.0,
  "all_reduces_gradients": true,
  "broadcasts_weights": true,
  "all_reduces_shards": true,
  "scatter_gather": true,
  "expert_dispatch": "hierarchical",
  "expert_overlap": true,
  "pads_expert_rows": true,
  "fused_expert_activation": true,
  "context_parallel_kind": "all-gather",
  "pipeline_overlap": "interleaved",
  "pipeline_latency_us": 30.0,
  "microbatch_overhead_us": 11.0,
  "host_time_per_kernel_us": 7.0,
  "cuda_graphs": "full_iteration",
  "overlap_slowdown": 0.15,
  "reserve_fraction": 0.121,
  "workspace_MiB": 32.0,
  "can_run": {
    "schedules": [
      "1f1b",
      "interleaved"
    ],
    "recompute": [
      "selective"
    ],
    "recompute_modules": [
      "core_attn",
      "mlp"
    ],
    "recompute_methods": [
      "block",
      "every"
    ],
    "zero_stages": [
      0,
      1
    ],
    "sequence_parallel": true,
    "context_parallel": true,
    "expert_parallel": true,
    "interleaved_min_stages": 3,
    "uneven_layers": true,
    "split_key_heads": "gather-qkv",
    "hybrid_sharding": true,
    "optimizer_instances": true,
    "kept_weights": true,
    "rank_orders": [
      "tp-cp-ep-pp-dp"
    ],
    "offload": [
      "activations"
    ]
  }
}
)");
  EXPECT_EQ(parse<StackSpec>(text), stack);
}

// Flags that are alike above, each by itself.
TEST(StackSpecJson, ReadsBackEachFlag) {
  using Flags = std::vector<std::pair<bool StackSpec::*, std::string>>;
  for (const auto& [flag, key] :
       Flags{{&StackSpec::fused_element_wise, "fused_element_wise"},
             {&StackSpec::composed_norms, "composed_norms"},
             {&StackSpec::deterministic, "deterministic"},
             {&StackSpec::fused_yarn_rotary, "fused_yarn_rotary"},
             {&StackSpec::complex_rotary, "complex_rotary"},
             {&StackSpec::copies_heads, "copies_heads"},
             {&StackSpec::looks_up_tokens, "looks_up_tokens"},
             {&StackSpec::splits_gates, "splits_gates"},
             {&StackSpec::fused_expert_biases, "fused_expert_biases"},
             {&StackSpec::tensor_parallel_overlap, "tensor_parallel_overlap"},
             {&StackSpec::keeps_gathered_inputs, "keeps_gathered_inputs"},
             {&StackSpec::copies_sequences, "copies_sequences"},
             {&StackSpec::recompute_stops_early, "recompute_stops_early"},
             {&StackSpec::keeps_expert_outputs, "keeps_expert_outputs"},
             {&StackSpec::fused_gradient_accumulation, "fused_gradient_accumulation"},
             {&StackSpec::fused_epilogues, "fused_epilogues"},
             {&StackSpec::fused_bias_gradients, "fused_bias_gradients"},
             {&StackSpec::optimizer_post_validation, "optimizer_post_validation"},
             {&StackSpec::parameter_gather_overlap, "parameter_gather_overlap"},
             {&StackSpec::copies_gathered_weights, "copies_gathered_weights"},
             {&StackSpec::shards_matrices_apart, "shards_matrices_apart"},
             {&StackSpec::all_reduces_gradients, "all_reduces_gradients"},
             {&StackSpec::broadcasts_weights, "broadcasts_weights"},
             {&StackSpec::all_reduces_shards, "all_reduces_shards"},
             {&StackSpec::scatter_gather, "scatter_gather"},
             {&StackSpec::expert_overlap, "expert_overlap"},
             {&StackSpec::pads_expert_rows, "pads_expert_rows"},
             {&StackSpec::fused_expert_activation, "fused_expert_activation"}}) {
    for (const bool value : {false, true}) {
      StackSpec stack = unusual_stack();
      stack.*flag = value;
      EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << key;
      // A key is left out where it says what is usual.
      EXPECT_THAT(dump(stack), Not(HasSubstr("\"" + key + "\": " + (value ? "false" : "true"))));
    }
  }
  using Capabilities = std::vector<std::pair<bool StackCapabilities::*, std::string>>;
  for (const auto& [flag, key] :
       Capabilities{{&StackCapabilities::sequence_parallel, "sequence_parallel"},
                    {&StackCapabilities::context_parallel, "context_parallel"},
                    {&StackCapabilities::expert_parallel, "expert_parallel"},
                    {&StackCapabilities::hybrid_sharding, "hybrid_sharding"},
                    {&StackCapabilities::optimizer_instances, "optimizer_instances"},
                    {&StackCapabilities::kept_weights, "kept_weights"},
                    {&StackCapabilities::uneven_layers, "uneven_layers"}}) {
    for (const bool value : {false, true}) {
      StackSpec stack = unusual_stack();
      stack.can_run.*flag = value;
      EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << key;
      EXPECT_THAT(dump(stack), Not(HasSubstr("\"" + key + "\": " + (value ? "false" : "true"))));
    }
  }
  using Recipe = std::vector<std::pair<bool Fp8Recipe::*, std::string>>;
  for (const auto& [flag, key] : Recipe{{&Fp8Recipe::norms_cast, "norms_cast"},
                                        {&Fp8Recipe::keeps_inputs, "keeps_inputs"},
                                        {&Fp8Recipe::casts_weights_once, "casts_weights_once"},
                                        {&Fp8Recipe::has_only_fp8_weights, "has_only_fp8_weights"},
                                        {&Fp8Recipe::gathers_weights, "gathers_weights"},
                                        {&Fp8Recipe::gathers_activations, "gathers_activations"}}) {
    for (const bool value : {false, true}) {
      StackSpec stack = unusual_stack();
      stack.fp8_recipes = {Fp8Recipe{.scaling = Fp8Scaling::kMx}};
      stack.fp8_recipes.front().*flag = value;
      EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << key;
      EXPECT_THAT(dump(stack), HasSubstr("\"" + key + "\": " + (value ? "true" : "false")));
    }
  }
}

TEST(StackSpecJson, RefusesListsThatAreEmptyOrNameOneThingTwice) {
  const std::string why = ": expected at least one choice and none twice";
  using Change = std::function<void(StackCapabilities&)>;
  struct Row {
    std::string key;
    Change twice;
    Change none;
    bool may_be_empty;
  };
  using Can = StackCapabilities;
  const std::vector<Row> rows = {
      {"schedules", [](Can& can) { can.schedules.push_back(ScheduleKind::kOneFOneB); },
       [](Can& can) { can.schedules.clear(); }, true},
      {"recompute", [](Can& can) { can.recompute.push_back(Recompute::kSelective); },
       [](Can& can) { can.recompute.clear(); }, false},
      {"recompute_modules", {}, [](Can& can) { can.recompute_modules = {}; }, false},
      {"recompute_methods",
       [](Can& can) { can.recompute_methods.push_back(RecomputeMethod::kBlock); },
       [](Can& can) { can.recompute_methods.clear(); }, true},
      {"zero_stages", [](Can& can) { can.zero_stages.push_back(0); },
       [](Can& can) { can.zero_stages.clear(); }, false},
      {"rank_orders", [](Can& can) { can.rank_orders.push_back(RankOrder::kTpCpEpPpDp); },
       [](Can& can) { can.rank_orders.clear(); }, true},
      {"offload", [](Can& can) { can.offload.push_back(Offload::kActivations); },
       [](Can& can) { can.offload.clear(); }, true}};
  for (const Row& row : rows) {
    const auto refusal = [](const Change& change) {
      StackSpec stack = unusual_stack();
      change(stack.can_run);
      return message_of([&] { return parse<StackSpec>(dump(stack)); });
    };
    if (row.twice) {
      EXPECT_EQ(refusal(row.twice), "test.json: can_run." + row.key + why);
    }
    EXPECT_EQ(refusal(row.none),
              row.may_be_empty ? "nothing was thrown" : "test.json: can_run." + row.key + why);
  }
  EXPECT_EQ(refusal_of_stack("\"core_attn\",", "\"mlp\","),
            "test.json: can_run.recompute_modules" + why);
  EXPECT_EQ(refusal_of_stack("\"recompute_methods\": [", "\"recompute_methods\": [], \"rest\": ["),
            "test.json: can_run.recompute_methods" + why);
}

TEST(StackSpecJson, RefusesRecipesThatAreTwiceOrNotThere) {
  EXPECT_EQ(refusal_of_stack("fp8-current", "fp8-mx"),
            "test.json: fp8_recipes: fp8-mx is there twice");
  EXPECT_EQ(refusal_of_stack("\"fp8\": \"fp8-mx\"", "\"fp8\": \"fp8-block\""),
            "test.json: fp8_recipes: expected fp8-block among them, which fp8 names");
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
            "test.json: precision: expected one of fp16, bf16, fp32, tf32, fp64, got \"fp8\"");
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

TEST(AtPrecision, AllReducesGradientsWhereItsEntrySaysSo) {
  StackSpec stack = unusual_stack();
  stack.all_reduces_gradients = false;
  stack.other_precisions.back().all_reduces_gradients = true;
  EXPECT_EQ(parse<StackSpec>(dump(stack)), stack);
  EXPECT_TRUE(at_precision(stack, Precision::kFp64).all_reduces_gradients);
  EXPECT_FALSE(at_precision(stack, Precision::kFp32).all_reduces_gradients);
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

TEST(AtPrecision, OfAStackThatSaysNothingElseKeepsWhatItHas) {
  StackSpec stack = unusual_stack();
  stack.other_precisions.clear();
  const StackSpec bf16 = at_precision(stack, Precision::kBf16);
  EXPECT_EQ(bf16.precision, Precision::kBf16);
  EXPECT_EQ(bf16.gradient_bytes, 2.0);
  EXPECT_EQ(bf16.optimizer_bytes, 16.0);
}

TEST(Fp8RecipeOfAStack, IsTheOneThatIsUsed) {
  StackSpec stack = unusual_stack();
  ASSERT_NE(fp8_recipe(stack), nullptr);
  EXPECT_EQ(*fp8_recipe(stack), stack.fp8_recipes[1]);
  EXPECT_FALSE(has_delayed_scaling(stack));
  stack.fp8_recipes.push_back(Fp8Recipe{.scaling = Fp8Scaling::kDelayed});
  EXPECT_FALSE(has_delayed_scaling(stack));
  stack.fp8 = Fp8Scaling::kDelayed;
  EXPECT_EQ(fp8_recipe(stack), &stack.fp8_recipes[2]);
  EXPECT_TRUE(has_delayed_scaling(stack));
  stack.fp8.reset();
  EXPECT_EQ(fp8_recipe(stack), nullptr);
  EXPECT_FALSE(has_delayed_scaling(stack));
}

TEST(StackSpec, OverlapsReductionsAndGathersAsItSays) {
  StackSpec stack = unusual_stack();
  stack.parameter_gather_overlap = true;
  const std::vector<std::tuple<DataParallelOverlap, bool, bool>> rows = {
      {DataParallelOverlap::kNever, false, false},
      {DataParallelOverlap::kSingleStage, true, false},
      {DataParallelOverlap::kAlways, true, true}};
  for (const auto& [overlap, alone, in_a_pipeline] : rows) {
    stack.data_parallel_overlap = overlap;
    stack.parameter_gather_overlap = true;
    EXPECT_EQ(overlaps_reduction(stack, 1), alone);
    EXPECT_EQ(overlaps_reduction(stack, 2), in_a_pipeline);
    EXPECT_EQ(overlaps_gathering(stack, 1), alone);
    EXPECT_EQ(overlaps_gathering(stack, 2), in_a_pipeline);
    stack.parameter_gather_overlap = false;
    EXPECT_EQ(overlaps_reduction(stack, 1), alone);
    EXPECT_FALSE(overlaps_gathering(stack, 1));
  }
}

TEST(UsualModules, AreOfTheAttentionCoreWhereTheStackRunsThat) {
  using Module = RecomputeModule;
  const auto usual = [](RecomputeModules modules) {
    return usual_modules(StackCapabilities{.recompute_modules = modules});
  };
  EXPECT_EQ(usual({Module::kMlp, Module::kCoreAttention, Module::kEverySecondProduct}),
            kCoreAttentionAlone);
  EXPECT_EQ(usual({Module::kMlp, Module::kEverySecondProduct}),
            RecomputeModules{Module::kEverySecondProduct});
  EXPECT_EQ(usual({Module::kMlp, Module::kMoe}), (RecomputeModules{Module::kMlp, Module::kMoe}));
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

TEST(WithOverlap, SetsEachPartByItself) {
  struct Row {
    Overlap overlap;
    PipelineOverlap messages;
    DataParallelOverlap reductions;
    bool gathers;
  };
  const std::vector<Row> rows = {
      {{.messages = true}, PipelineOverlap::kAlways, DataParallelOverlap::kNever, false},
      {{.reductions = true}, PipelineOverlap::kNever, DataParallelOverlap::kAlways, false},
      {{.gathers = true}, PipelineOverlap::kNever, DataParallelOverlap::kNever, true}};
  for (const Row& row : rows) {
    const StackSpec stack = with_overlap(seldom_stack(), row.overlap);
    EXPECT_EQ(stack.pipeline_overlap, row.messages);
    EXPECT_EQ(stack.data_parallel_overlap, row.reductions);
    EXPECT_EQ(stack.parameter_gather_overlap, row.gathers);
    EXPECT_FALSE(stack.tensor_parallel_overlap);
    EXPECT_EQ(stack.tp_comm_overlap, TpCommOverlap::kNone);
    EXPECT_FALSE(stack.expert_overlap);
  }
}

// A stack without a library's workspace is this project's runtime on a host.
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

// An element of one byte, beside which 128 share four bytes or 32 one byte; 128 by 128 weights
// share four.
TEST(Fp8Bytes, AreThoseOfAnElementAndItsPartOfAScale) {
  struct Row {
    Fp8Scaling scaling;
    bool is_per_tensor;
    double bytes;
    double weight_bytes;
  };
  for (const Row& row :
       {Row{Fp8Scaling::kDelayed, true, 1.0, 1.0}, Row{Fp8Scaling::kCurrent, true, 1.0, 1.0},
        Row{Fp8Scaling::kBlock, false, 1.03125, 1.000244140625},
        Row{Fp8Scaling::kMx, false, 1.03125, 1.03125}}) {
    EXPECT_EQ(is_per_tensor(row.scaling), row.is_per_tensor) << name_of(row.scaling);
    EXPECT_EQ(fp8_bytes(row.scaling), row.bytes) << name_of(row.scaling);
    EXPECT_EQ(fp8_weight_bytes(row.scaling), row.weight_bytes) << name_of(row.scaling);
  }
}

}  // namespace
}  // namespace ptdp
