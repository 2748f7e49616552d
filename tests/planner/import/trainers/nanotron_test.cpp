// Tests of reading runs of nanotron. Expectations follow by hand from config.py,
// parallelism_config.py and models_config.py of nanotron 0.4; that reading undoes exports has the
// plan as oracle.
#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/import/reader.h"
#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kNanotron =
    "tokens: {sequence_length: 1024, micro_batch_size: 2, batch_accumulation_per_replica: 4}\n"
    "optimizer: {zero_stage: 0}\n";

ImportedRun nanotron_run(const std::string& text, std::optional<std::int64_t> gpus = {}) {
  return read_run(kNanotron + text, "config.yaml", gpus);
}

std::string nanotron_refusal(const std::string& text, std::optional<std::int64_t> gpus = {}) {
  try {
    return "no error: " + to_string(nanotron_run(text, gpus).config);
  } catch (const Error& error) {
    return error.what();
  }
}

constexpr const char* kDegrees = "parallelism: {dp: 4, pp: 1, tp: 2}\n";

TEST(Nanotron, HasItsDefaults) {
  const ImportedRun run = nanotron_run(kDegrees);
  EXPECT_EQ(run.framework, "nanotron");
  // afab is all forward, all backward.
  EXPECT_EQ(
      run.config,
      (ParallelConfig{.tp = 2, .dp = 4, .micro_batch_size = 2, .schedule = ScheduleKind::kGPipe}));
  EXPECT_EQ(run.gpus, 8);
  EXPECT_EQ(run.global_batch_size, 32);  // 2 sequences, 4 times, on 4 replicas
  EXPECT_EQ(run.precision, "bf16");
  EXPECT_EQ(run.stack.reductions, true);
  EXPECT_EQ(run.stack.within_products, false);
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->num_layers, 32);
  EXPECT_EQ(run.model->hidden_size, 4096);
  EXPECT_EQ(run.model->ffn_hidden_size, 11008);
  EXPECT_EQ(run.model->num_query_groups, 32);
  EXPECT_EQ(run.model->vocab_size, 32000);
  EXPECT_EQ(run.model->seq_length, 1024);
  EXPECT_TRUE(run.model->gated_linear_unit);
  EXPECT_TRUE(run.model->untied_embeddings);
  EXPECT_FALSE(run.model->add_bias_linear);
  EXPECT_DOUBLE_EQ(run.model->layernorm_epsilon, 1e-6);
}

// A vocabulary from the caller stands for what a file leaves out, and contradicts none.
TEST(Nanotron, RefusesAnotherVocabularyThanItsOwn) {
  const std::string text = std::string(kNanotron) + kDegrees;
  EXPECT_EQ(read_run(text, "config.yaml", {}, {}, 32000).model->vocab_size, 32000);
  try {
    static_cast<void>(read_run(text, "config.yaml", {}, {}, 1000));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "config.yaml: says a vocabulary of 32000: expected no other --vocab-size, got "
                 "1000");
  }
}

TEST(Nanotron, ReadsItsKeys) {
  const ImportedRun run = nanotron_run(
      "optimizer: {zero_stage: 1, accumulate_grad_in_fp32: true}\n"
      "parallelism:\n  dp: 2\n  pp: 4\n  tp: 2\n  pp_engine: 1f1b\n  tp_mode: reduce_scatter\n"
      "  recompute_layer: true\n  tp_linear_async_communication: true\n"
      "  context_parallel_size: 2\n"
      "model:\n  dtype: float32\n  model_config:\n    is_llama_config: true\n"
      "    num_hidden_layers: 16\n    hidden_size: 2048\n    intermediate_size: 8192\n"
      "    num_attention_heads: 32\n    num_key_value_heads: 8\n    vocab_size: 128256\n"
      "    tie_word_embeddings: true\n    my_own: 1\n");
  EXPECT_EQ(run.gpus, 32);
  EXPECT_EQ(run.config.cp, 2);
  EXPECT_EQ(run.config.schedule, ScheduleKind::kOneFOneB);
  EXPECT_EQ(run.config.recompute, Recompute::kFull);
  EXPECT_TRUE(run.config.sequence_parallel);
  EXPECT_EQ(run.config.zero_stage, 1);
  // A layer has 4h^2 + 3hf = 67.1 M products, the logits 262.7 M: shares of 334.1 M a rank.
  EXPECT_THAT(run.config.layers_per_stage, ElementsAre(5, 5, 5, 1));
  EXPECT_EQ(run.precision, "fp32");
  EXPECT_FALSE(run.model->untied_embeddings);
  EXPECT_EQ(run.stack.reductions, false);
  EXPECT_EQ(run.stack.gathers, false);
  EXPECT_EQ(run.stack.within_products, true);
  EXPECT_THAT(run.reading.unknown_flags, ElementsAre("model.model_config.my_own"));
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("optimizer.accumulate_grad_in_fp32")));
}

TEST(Nanotron, DoesNotReadAnEvaluation) {
  const ImportedRun run =
      nanotron_run(std::string(kDegrees) + "lighteval: {parallelism: {dp: 1, pp: 8, tp: 1}}\n");
  EXPECT_EQ(run.config.pp, 1);
  EXPECT_EQ(run.gpus, 8);
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
}

TEST(Nanotron, ReadsExperts) {
  const std::string text = std::string(kDegrees) +
                           "model: {model_config: {is_qwen2_config: true, num_hidden_layers: 4, "
                           "moe_config: {top_k: 1, enable_shared_expert: true";
  const ImportedRun run = nanotron_run(text + "}}}\n");
  EXPECT_EQ(run.model->num_experts, 8);
  EXPECT_EQ(run.model->moe_router_topk, 1);
  EXPECT_EQ(run.model->moe_ffn_hidden_size, 1408);
  EXPECT_EQ(run.model->moe_shared_expert_intermediate_size, 5632);
  EXPECT_EQ(run.config.etp, 1);
  EXPECT_EQ(run.stack.dispatch, ExpertDispatch::kAllToAll);
  EXPECT_EQ(nanotron_run(text + ", layers: [1, 2, 3]}}}\n").model->first_dense_layers, 1);
  EXPECT_THAT(nanotron_refusal(text + ", layers: [0, 3, 1]}}}\n"),
              HasSubstr("expected experts in every n-th of 4 layers"));
}

TEST(Nanotron, AsksForModelsThatItDoesNotKnow) {
  const ImportedRun run =
      nanotron_run(std::string(kDegrees) + "model: {model_config: {is_mamba_config: true}}\n");
  EXPECT_FALSE(run.model);
  EXPECT_THAT(run.missing, HasSubstr("is_mamba_config"));
  EXPECT_EQ(run.seq_length, 1024);
}

TEST(Nanotron, RefusesWhatCannotBe) {
  struct NanotronRefusal {
    const char* text;
    const char* message;
  };
  for (const NanotronRefusal& row :
       {NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 0}\n",
                        "parallelism.tp: expected a whole number"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: '${TP}'}\n", "which its program fills in"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: null}\n",
                        "no run of a framework that is known"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 2, pp_engine: zb}\n",
                        "expected 1f1b or afab"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 2, tp_mode: x}\n",
                        "expected ALL_REDUCE or"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 2, expert_parallel_size: 2}\n",
                        "parallelism.expert_parallel_size: expected 1, got 2"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 2}\noptimizer: {zero_stage: 3}\n",
                        "optimizer.zero_stage: expected 0 or 1, got 3"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 2}\nmodel: {dtype: fp8}\n",
                        "model.dtype: expected bfloat16, float16 or float32"},
        NanotronRefusal{"parallelism: {dp: 4, pp: 1, tp: 2}\ntokens: {sequence_length: 8}\n",
                        "tokens.micro_batch_size: is missing"}}) {
    EXPECT_THAT(nanotron_refusal(row.text), HasSubstr(row.message)) << row.text;
  }
  EXPECT_THAT(nanotron_refusal(kDegrees, 16), HasSubstr("expected --gpus 8, got 16"));
  EXPECT_THAT(nanotron_refusal(kDegrees, 8), HasSubstr("no error"));
}

TEST(NanotronRoundTrip, GivesThePlanBack) {
  for (const ParallelConfig& config :
       {ParallelConfig{
            .tp = 2, .dp = 8, .micro_batch_size = 2, .sequence_parallel = true, .zero_stage = 1},
        ParallelConfig{.tp = 4, .dp = 2}, ParallelConfig{.dp = 16, .micro_batch_size = 4},
        ParallelConfig{
            .tp = 8, .dp = 4, .schedule = ScheduleKind::kGPipe, .sequence_parallel = true}}) {
    SCOPED_TRACE(to_string(config));
    Plan plan = llama_plan("nanotron-2025", config);
    plan.scenario.job.model.rotary = {};  // nanotron has no key for another base
    ASSERT_THAT(fields_of(nanotron_refusals(plan)), IsEmpty());
    const ImportedRun run =
        read_run(content_of(nanotron_export(plan), "config.yaml"), "config.yaml", std::nullopt);
    EXPECT_EQ(run.config, plan.config);
    EXPECT_EQ(run.gpus, plan.config.world_size());
    EXPECT_EQ(run.global_batch_size, plan.scenario.job.global_batch_size);
    ASSERT_TRUE(run.model);
    EXPECT_EQ(*run.model, plan.scenario.job.model);
    EXPECT_EQ(run.precision, "bf16");
    EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
  }
}

// nanotron balances the pipeline by itself: the export refuses other layers, so the plan has these.
TEST(NanotronRoundTrip, GivesItsOwnBalanceBack) {
  // A layer has 4h^2 + 3hf = 243.3 M products, the logits 525.3 M: shares of 2077.5 M a rank.
  const ParallelConfig config = {
      .tp = 2, .pp = 4, .dp = 2, .sequence_parallel = true, .layers_per_stage = {9, 9, 8, 6}};
  Plan plan = llama_plan("nanotron-2025", config);
  plan.scenario.job.model.rotary = {};
  ASSERT_THAT(fields_of(nanotron_refusals(plan)), IsEmpty());
  const ImportedRun run =
      read_run(content_of(nanotron_export(plan), "config.yaml"), "config.yaml", std::nullopt);
  EXPECT_EQ(run.config, plan.config);
}

}  // namespace
}  // namespace ptdp
