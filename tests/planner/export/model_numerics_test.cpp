// Tests that no exporter is silent about how a model computes: each value is said or refused.
#include "planner/export/model_numerics.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A change of a model that makes it compute otherwise, and the field that says so.
struct Change {
  const char* field;
  std::function<void(TransformerConfig& model)> make;
};

/// Changes that no framework but transformers has a key for.
std::vector<Change> untold_changes() {
  return {
      {"activation_func", [](auto& model) { model.activation_func = Activation::kTanhGelu; }},
      {"query_pre_attn_scalar", [](auto& model) { model.query_pre_attn_scalar = 144.0; }},
      {"attn_logit_softcapping", [](auto& model) { model.attn_logit_softcapping = 50.0; }},
      {"final_logit_softcapping", [](auto& model) { model.final_logit_softcapping = 30.0; }},
      {"embedding_multiplier", [](auto& model) { model.embedding_multiplier = 12.0; }},
      {"logits_multiplier", [](auto& model) { model.logits_multiplier = 0.125; }},
      {"residual_multiplier", [](auto& model) { model.residual_multiplier = 0.22; }},
      {"parallel_residual", [](auto& model) { model.parallel_residual = true; }},
      {"activation_func_clamp_value", [](auto& model) { model.activation_func_clamp_value = 7.0; }},
      {"glu_linear_offset", [](auto& model) { model.glu_linear_offset = 1.0; }},
      {"attention_sinks", [](auto& model) { model.attention_sinks = true; }},
      {"position_embedding",
       [](auto& model) {
         model.position_embedding = PositionEmbedding::kAlibi;
         model.rotary = {};
       }},
      {"position_embedding",
       [](auto& model) {
         model.position_embedding = PositionEmbedding::kRelative;
         model.rotary = {};
       }},
      {"rotary_interleaved", [](auto& model) { model.rotary.interleaved = true; }},
      {"rotary_window_base", [](auto& model) { model.rotary.window_base = 9.0; }},
      {"no_rope_freq", [](auto& model) { model.rotary.no_rope_freq = 4; }},
      {"layernorm_bias", [](auto& model) { model.layernorm_bias = false; }},
      {"shared_residual_norm", [](auto& model) { model.shared_residual_norm = true; }},
      {"embedding_layernorm", [](auto& model) { model.embedding_layernorm = true; }},
      {"max_position_embeddings",
       [](auto& model) { model.max_position_embeddings = model.seq_length + 2; }},
      {"chunked_attention",
       [](auto& model) {
         model.window_size = 64;
         model.chunked_attention = true;
       }},
      {"qk_layernorm_width",
       [](auto& model) {
         model.qk_layernorm = true;
         model.qk_layernorm_width = QkNormWidth::kEachHead;
       }},
      {"moe_router_bias", [](auto& model) { model.moe_router_bias = true; }},
      {"norm_placement", [](auto& model) { model.norm_placement = NormPlacement::kBehind; }}};
}

TEST(ModelNumerics, AreRefusedByAllWithoutAKey) {
  const std::vector<std::pair<const char*, std::vector<ExportRefusal> (*)(const Plan&)>> exporters =
      {{"megatron-core-2025", megatron_refusals},
       {"megatron-bridge-2025", megatron_bridge_refusals},
       {"torchtitan-2024", torchtitan_refusals},
       {"nanotron-2025", nanotron_refusals},
       {"megatron-core-2025", deepspeed_refusals}};
  for (const auto& [stack, refusals] : exporters) {
    Plan plan = plan_of(shipped_scenario("llama-2-7b", "dgx-h100", stack, 128),
                        {.dp = 8, .zero_stage = std::string(stack) == "torchtitan-2024" ? 3 : 1});
    const std::vector<std::string> before = fields_of(refusals(plan));
    for (const Change& change : untold_changes()) {
      Plan changed = plan;
      change.make(changed.scenario.job.model);
      EXPECT_THAT(before, Not(Contains(change.field))) << stack;
      EXPECT_THAT(fields_of(refusals(changed)), Contains(change.field)) << stack;
    }
  }
}

TEST(ModelNumerics, SayWhatIsFoundAndExpected) {
  const TransformerConfig model =
      resolved({.num_layers = 2,
                .hidden_size = 64,
                .num_attention_heads = 4,
                .vocab_size = 100,
                .seq_length = 32,
                .position_embedding = PositionEmbedding::kRope,
                .layernorm_zero_centered_gamma = true,
                .rotary = {.base = 5e5, .percent = 0.5, .scaling = RopeScaling::kLinear},
                .window_size = 8,
                .window_attn_skip_freq = 2},
               "test");
  std::vector<std::string> sentences;
  for (const ExportRefusal& refusal : numerics_refusals(model, {})) {
    sentences.push_back(refusal.field + " " + refusal.found + ", not " + refusal.instead);
  }
  EXPECT_THAT(sentences, ElementsAre("rotary_base 500000, not 10000", "rotary_percent 0.5, not 1",
                                     "rope_scaling linear, not none",
                                     "layernorm_zero_centered_gamma true, not false",
                                     "window_attn_skip_freq 2, not a window in all layers"));
  EXPECT_THAT(numerics_refusals(model, {.rotary_base = true,
                                        .rotary_percent = true,
                                        .linear_scaling = true,
                                        .zero_centered_gamma = true,
                                        .skipped_windows = true}),
              IsEmpty());
}

Plan with_angles(const char* stack, const RotaryEmbedding& rotary) {
  Plan plan = plan_of(shipped_scenario("llama-2-7b", "dgx-h100", stack, 128), {.dp = 8});
  plan.scenario.job.model.rotary = rotary;
  return plan;
}

std::string megatron_angles(const RotaryEmbedding& rotary) {
  const Plan plan = with_angles("megatron-core-2025", rotary);
  EXPECT_THAT(megatron_refusals(plan), IsEmpty());
  const std::string text = megatron_export(plan).files.at(1).content;
  const std::size_t begin = text.find("--position-embedding-type");
  return text.substr(begin, text.find("--normalization") - begin);
}

// arguments.py and argument_utils.py of megatron-core 0.19.2.
TEST(ModelNumerics, AreFlagsOfMegatron) {
  EXPECT_EQ(megatron_angles({.base = 5e5, .percent = 0.25}),
            "--position-embedding-type rope\n--rotary-base 500000\n--rotary-percent 0.25\n");
  EXPECT_EQ(megatron_angles({.scaling = RopeScaling::kLinear, .factor = 4.0}),
            "--position-embedding-type rope\n--rotary-base 10000\n"
            "--rotary-seq-len-interpolation-factor 4\n");
  EXPECT_EQ(megatron_angles({.base = 5e5,
                             .scaling = RopeScaling::kLlama3,
                             .factor = 32.0,
                             .original_seq_length = 8192}),
            "--position-embedding-type rope\n--rotary-base 500000\n--use-rope-scaling\n"
            "--rope-scaling-factor 32\n");
  EXPECT_EQ(megatron_angles({.base = 1e6,
                             .scaling = RopeScaling::kYarn,
                             .factor = 4.0,
                             .original_seq_length = 32768}),
            "--position-embedding-type yarn\n--rotary-base 1000000\n--rotary-scaling-factor 4\n"
            "--yarn-original-max-position-embeddings 32768\n--yarn-beta-fast 32\n"
            "--yarn-beta-slow 1\n");
  Plan plan =
      plan_of(shipped_scenario("nemotron-4-15b", "dgx-h100", "megatron-core-2025", 128), {.dp = 8});
  EXPECT_THAT(megatron_export(plan).files.at(1).content, HasSubstr("\n--apply-layernorm-1p\n"));
  const auto refused_angles = [](const RotaryEmbedding& rotary) {
    return fields_of(megatron_refusals(with_angles("megatron-core-2025", rotary)));
  };
  EXPECT_THAT(refused_angles({.base = 1234.5}), ElementsAre("rotary_base"));
  EXPECT_THAT(refused_angles({.scaling = RopeScaling::kLinear, .factor = 1.5}),
              ElementsAre("rope_scaling_factor"));
  EXPECT_THAT(
      refused_angles({.scaling = RopeScaling::kLlama3, .factor = 8.0, .original_seq_length = 4096}),
      ElementsAre("rope_original_seq_length, rope_low_freq_factor and "
                  "rope_high_freq_factor"));
  EXPECT_THAT(refused_angles({.percent = 0.5,
                              .scaling = RopeScaling::kYarn,
                              .factor = 2.0,
                              .original_seq_length = 4096,
                              .attention_factor = 1.5}),
              ElementsAre("rotary_percent", "rope_attention_factor"));
}

// Latent attention is stretched by 40 unless a flag says otherwise (MLATransformerConfig).
TEST(ModelNumerics, AreFlagsOfLatentAttention) {
  Plan plan = plan_of(shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025", 2048),
                      {.dp = 64, .ep = 64, .zero_stage = 1});
  EXPECT_THAT(megatron_export(plan).files.at(1).content,
              HasSubstr("--rotary-base 10000\n--rotary-scaling-factor 1.0\n--normalization"));
  TransformerConfig& model = plan.scenario.job.model;
  model.rotary = {.scaling = RopeScaling::kYarn,
                  .factor = 40.0,
                  .original_seq_length = 4096,
                  .attention_factor = 1.0};
  // The published mscale and mscale_all_dim, both 1: m = 0.1·ln 40 + 1.
  model.query_pre_attn_scalar = 192.0 / std::pow(0.1 * std::log(40.0) + 1.0, 4.0);
  EXPECT_THAT(fields_of(megatron_refusals(plan)), Not(Contains(HasSubstr("rope"))));
  const std::string text = megatron_export(plan).files.at(1).content;
  EXPECT_THAT(text, HasSubstr("--rotary-scaling-factor 40\n--mscale 1\n--mscale-all-dim 1\n"));
  model.rotary.original_seq_length = 8192;
  EXPECT_THAT(fields_of(megatron_refusals(plan)),
              Contains("rope_original_seq_length, rope_beta_fast, rope_beta_slow and "
                       "rope_scaling_factor"));
}

TEST(ModelNumerics, AreSettingsOfTorchtitan) {
  Plan plan = plan_of(shipped_scenario("llama-3.1-405b", "dgx-h100", "torchtitan-2024", 128),
                      {.dp = 8, .zero_stage = 3});
  EXPECT_THAT(fields_of(torchtitan_refusals(plan)), IsEmpty());
  const std::string text = content_of(torchtitan_export(plan), "torchtitan_plan.py");
  EXPECT_THAT(text, HasSubstr("theta=500000, scaling=\"llama\""));
  EXPECT_THAT(text, HasSubstr("scaling_factor=8, low_freq_factor=1, high_freq_factor=4"));
  EXPECT_THAT(text, HasSubstr("original_max_position_embeddings=8192"));
  plan.scenario.job.model.rotary.scaling = RopeScaling::kLinear;
  EXPECT_THAT(fields_of(torchtitan_refusals(plan)), ElementsAre("rope_scaling"));
}

}  // namespace
}  // namespace ptdp
