// Tests what the runtime refuses of plans, field by field.
#include "runtime/model/executed_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cost_model/text/object_writer.h"
#include "tests/runtime/model/stage_run.h"
#include "tests/runtime/model_types.h"

namespace ptdp {
namespace {

struct ConfigCase {
  std::function<void(ParallelConfig&)> change;
  std::string refused;  ///< The refusal's text; empty if the field is executed.
};

TEST(ExecutedFields, NameWhatOfAConfigurationIsNotExecuted) {
  for (const ConfigCase& row : std::vector<ConfigCase>{
           {[](auto& /*c*/) {}, ""},
           {[](auto& c) { c.tp = 8, c.pp = 4, c.dp = 3, c.vpp = 2, c.micro_batch_size = 4; }, ""},
           {[](auto& c) { c.recompute = Recompute::kFull; }, ""},
           {[](auto& c) { c.cp = 2; }, "config.cp: ptdp-run executes 1, got 2"},
           {[](auto& c) { c.ep = 4; }, "config.ep: ptdp-run executes 1, got 4"},
           {[](auto& c) { c.etp = 2; }, "config.etp: ptdp-run executes 1, got 2"},
           {[](auto& c) { c.schedule = ScheduleKind::kPipeDream; },
            "config.schedule: ptdp-run executes synchronous schedules, got pipedream, which trains "
            "with stale weights"},
           {[](auto& c) { c.recompute_modules = {RecomputeModule::kMlp}; },
            "config.recompute_modules: ptdp-run executes core_attn alone, got mlp"},
           {[](auto& c) { c.recompute_num_layers = 2; },
            "config.recompute_num_layers: ptdp-run executes all layers, one at a time, got 2"},
           {[](auto& c) { c.dp_replicate = 2; }, "config.dp_replicate: ptdp-run executes 1, got 2"},
           {[](auto& c) { c.rank_order = RankOrder::kTpCpEpPpDp; },
            "config.rank_order: ptdp-run executes tp-cp-ep-dp-pp, got tp-cp-ep-pp-dp"},
           {[](auto& c) { c.offload = Offload::kOptimizer; },
            "config.offload: ptdp-run executes none, got optimizer"},
           {[](auto& c) { c.offload_num_layers = 1; },
            "config.offload_num_layers: ptdp-run executes 0, got 1"}}) {
    ParallelConfig config;
    row.change(config);
    EXPECT_EQ(find_unexecuted(config), row.refused) << to_string(config);
  }
}

struct ModelCase {
  std::function<void(TransformerConfig&)> change;
  std::string refused;
};

TEST(ExecutedFields, SayWhatOfAModelIsNotExecuted) {
  for (const ModelCase& row : std::vector<ModelCase>{
           {[](auto& /*m*/) {}, ""},
           {[](auto& m) { m.position_embedding = PositionEmbedding::kNone; }, ""},
           {[](auto& m) { m.untied_embeddings = true, m.add_bias_linear = false; }, ""},
           {[](auto& m) { m.dropout_rates = 0.3, m.layernorm_epsilon = 1e-3; }, ""},
           {[](auto& m) { m = testing::as_type("gemma2", m); }, ""},
           {[](auto& m) { m.add_qkv_bias = true, m.num_query_groups = 2; }, ""},
           {[](auto& m) { m.kv_lora_rank = 4; }, "has latent attention"},
           {[](auto& m) { m.num_experts = 8; }, "has 8 experts"},
           {[](auto& m) { m.num_experts = 1; }, "has 1 experts"},  // with a router before it
           {[](auto& m) { m.mtp_num_layers = 1; }, "predicts 1 more tokens"},
           {[](auto& m) { m.position_embedding = PositionEmbedding::kAlibi; },
            "has ALiBi positions"},
           {[](auto& m) { m.position_embedding = PositionEmbedding::kRelative; },
            "has relative positions"},
           {[](auto& m) { m.max_position_embeddings = 34; }, "has 34 rows of learned positions"},
           {[](auto& m) { m.layernorm_bias = false; }, "has layer norms without biases"},
           {[](auto& m) { m.parallel_residual = m.shared_residual_norm = true; },
            "has one norm for both branches of a layer"},
           {[](auto& m) { m.embedding_layernorm = true; }, "has a norm of embeddings"},
           {[](auto& m) { m.rotary.interleaved = true; },
            "turns neighbors of a head's elements together"},
           {[](auto& m) { m.rotary.window_base = 9.0; },
            "has other rotary angles in layers with a window"},
           {[](auto& m) { m.rotary.no_rope_freq = 4; },
            "has layers without rotary positions among others"},
           {[](auto& m) { m.qk_layernorm_width = QkNormWidth::kEachHead; },
            "has norms of queries and keys with weights of their own for each head"},
           {[](auto& m) { m.qk_layernorm_width = QkNormWidth::kWeightless; },
            "has norms of queries and keys without weights"},
           {[](auto& m) { m.chunked_attention = true; }, "attends within chunks"}}) {
    TransformerConfig model = small_task().model;
    row.change(model);
    EXPECT_EQ(find_unsupported_feature(model), row.refused);
  }
}

TEST(ExecutedFields, SayWhichNormsReachOverNoOtherRank) {
  TransformerConfig model = testing::as_type("olmo2", small_task().model);
  EXPECT_EQ(find_unexecuted(model, {.tp = 2}), "");
  EXPECT_EQ(find_unexecuted(model, {.tp = 2, .cp = 2}), "config.cp: ptdp-run executes 1, got 2");
  model.normalization = Normalization::kLayerNorm;
  EXPECT_EQ(find_unexecuted(model, {.tp = 2}),
            "config.tp: ptdp-run executes 1 where layer norms of queries and keys reach over all "
            "heads, got 2");
  EXPECT_EQ(find_unexecuted(model, {}), "");
  model.qk_layernorm_width = QkNormWidth::kHead;
  EXPECT_EQ(find_unexecuted(model, {.tp = 2}), "");
}

/// Returns the keys of a document that the project writes.
template <class T>
std::vector<std::string> keys_of(const T& value) {
  ObjectWriter writer;
  describe(writer, value);
  std::vector<std::string> keys;
  const nlohmann::json document = nlohmann::json::parse(writer.dump());
  for (const auto& [key, unused] : document.items()) {
    keys.push_back(key);
  }
  return keys;
}

bool has_row(const std::vector<ExecutedField>& fields, const std::string& key) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const ExecutedField& field) { return field.key == key; });
}

// Optional keys are written where they differ from what is usual: here all do.
TEST(ExecutedFields, HaveARowForEveryKeyOfAPlan) {
  ParallelConfig config{.recompute = Recompute::kFull,
                        .recompute_num_layers = 1,
                        .zero_stage = 3,
                        .dp_replicate = 2,
                        .reshard_after_forward = false,
                        .offload = Offload::kBoth,
                        .offload_num_layers = 1,
                        .layers_per_stage = {1, 2},
                        .memory_limit = 3};
  const std::vector<std::string> of_config = keys_of(config);
  EXPECT_GE(of_config.size(), 18U);
  for (const std::string& key : of_config) {
    EXPECT_TRUE(has_row(executed_fields(config), key)) << key;
  }
  TransformerConfig model{.num_query_groups = 1,
                          .kv_channels = 1,
                          .ffn_hidden_size = 1,
                          .max_position_embeddings = 1,
                          .gated_linear_unit = true,
                          .add_bias_linear = false,
                          .untied_embeddings = true,
                          .position_embedding = PositionEmbedding::kRope,
                          .normalization = Normalization::kRmsNorm,
                          .layernorm_bias = false,
                          .dropout = true,
                          .dropout_rates = 0.2,
                          .layernorm_epsilon = 1e-3,
                          .layernorm_zero_centered_gamma = true,
                          .init_method_std = 0.1,
                          .activation_func = Activation::kRelu,
                          .scale_attn_weights = false,
                          .scale_attn_by_inverse_layer_idx = true,
                          .query_pre_attn_scalar = 2.0,
                          .attn_logit_softcapping = 2.0,
                          .final_logit_softcapping = 2.0,
                          .embedding_multiplier = 2.0,
                          .logits_multiplier = 2.0,
                          .residual_multiplier = 0.5,
                          .activation_func_clamp_value = 7.0,
                          .glu_linear_offset = 1.0,
                          .rotary = {.base = 2.0,
                                     .percent = 0.5,
                                     .scaling = RopeScaling::kLinear,
                                     .factor = 2.0,
                                     .original_seq_length = 1,
                                     .low_freq_factor = 2.0,
                                     .high_freq_factor = 2.0,
                                     .beta_fast = 2.0,
                                     .beta_slow = 2.0,
                                     .attention_factor = 2.0,
                                     .short_factors = {2.0},
                                     .long_factors = {2.0},
                                     .interleaved = true,
                                     .window_base = 2.0,
                                     .no_rope_freq = 2},
                          .parallel_residual = true,
                          .shared_residual_norm = true,
                          .embedding_layernorm = true,
                          .add_qkv_bias = true,
                          .add_projection_bias = true,
                          .add_mlp_bias = true,
                          .norm_placement = NormPlacement::kBehind,
                          .attention_sinks = true,
                          .qk_layernorm = true,
                          .qk_layernorm_width = QkNormWidth::kAllHeads,
                          .window_size = 1,
                          .first_window_layer = 1,
                          .window_attn_skip_freq = 1,
                          .chunked_attention = true,
                          .q_lora_rank = 1,
                          .kv_lora_rank = 1,
                          .qk_head_dim = 1,
                          .qk_pos_emb_head_dim = 1,
                          .v_head_dim = 1,
                          .num_experts = 1,
                          .moe_router_topk = 1,
                          .moe_ffn_hidden_size = 1,
                          .moe_shared_expert_intermediate_size = 1,
                          .moe_shared_expert_gate = true,
                          .moe_router_enable_expert_bias = true,
                          .moe_router_bias = true,
                          .moe_router_num_groups = 1,
                          .moe_router_group_topk = 1,
                          .first_dense_layers = 1,
                          .moe_layer_freq = 2,
                          .moe_expert_capacity_factor = 2.0,
                          .moe_load_imbalance = 2.0,
                          .mtp_num_layers = 1};
  const std::vector<std::string> of_model = keys_of(model);
  EXPECT_EQ(of_model.size(), executed_fields(model).size());
  for (const std::string& key : of_model) {
    EXPECT_TRUE(has_row(executed_fields(model), key)) << key;
  }
}

// A person reads the table in runtime/model/EXECUTED.md.
TEST(ExecutedFields, StandInTheReadme) {
  std::ifstream file(PTDP_SOURCE_DIR "/runtime/model/EXECUTED.md");
  std::stringstream text;
  text << file.rdbuf();
  const auto expect_rows = [&](const std::vector<ExecutedField>& fields) {
    for (const ExecutedField& field : fields) {
      if (field.executes != "any") {
        const std::string cell = '`' + std::string(field.key) + '`';
        EXPECT_NE(text.str().find(cell), std::string::npos) << cell;
      }
    }
  };
  expect_rows(executed_fields(ParallelConfig{}));
  expect_rows(executed_fields(small_task().model));
}

}  // namespace
}  // namespace ptdp
