// Tests of models: parameter counts, widths, attended tokens, and how they are read and refused.
#include "cost_model/inputs/transformer_config.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

constexpr int kMillion = 1'000'000;

TransformerConfig gpt2() {
  return {.num_layers = 12,
          .hidden_size = 768,
          .num_attention_heads = 12,
          .vocab_size = 50257,
          .seq_length = 1024};
}

/// Returns a model with the common features of Llama and Mistral and the given sizes.
TransformerConfig llama(TransformerConfig sizes) {
  sizes.seq_length = 4096;
  sizes.gated_linear_unit = true;
  sizes.add_bias_linear = false;
  sizes.untied_embeddings = true;
  sizes.position_embedding = PositionEmbedding::kRope;
  sizes.normalization = Normalization::kRmsNorm;
  return sizes;
}

/// Returns a model whose every field differs from its default.
TransformerConfig unusual_model() {
  return {.num_layers = 2,
          .hidden_size = 64,
          .num_attention_heads = 8,
          .num_query_groups = 2,
          .kv_channels = 16,
          .ffn_hidden_size = 100,
          .vocab_size = 1000,
          .seq_length = 128,
          .gated_linear_unit = true,
          .add_bias_linear = false,
          .untied_embeddings = true,
          .position_embedding = PositionEmbedding::kNone,
          .normalization = Normalization::kRmsNorm,
          .add_qkv_bias = true,
          .add_projection_bias = true,
          .add_mlp_bias = true,
          .qk_layernorm = true,
          .window_size = 64,
          .first_window_layer = 1,
          .q_lora_rank = 24,
          .kv_lora_rank = 12,
          .qk_head_dim = 10,
          .qk_pos_emb_head_dim = 6,
          .v_head_dim = 7,
          .num_experts = 4,
          .moe_router_topk = 2,
          .moe_ffn_hidden_size = 50,
          .moe_shared_expert_intermediate_size = 30,
          .moe_shared_expert_gate = true,
          .moe_router_enable_expert_bias = true,
          .moe_router_num_groups = 2,
          .moe_router_group_topk = 1,
          .first_dense_layers = 1,
          .moe_layer_freq = 2,
          .moe_load_imbalance = 1.25,
          .mtp_num_layers = 3};
}

std::string refusal_of_model(const TransformerConfig& model) {
  return message_of([&] { return resolved(model, "m.json: m"); });
}

// Narayanan et al., SC'21 (arXiv:2104.04473), table 1, which rounds to 0.1 billion.
TEST(ParameterCount, MatchesTableOneOfSc21) {
  struct Row {
    std::string model;
    double billions;
  };
  for (const Row& row : std::vector<Row>{{"1.7B", 1.7},
                                         {"3.6B", 3.6},
                                         {"7.5B", 7.5},
                                         {"18B", 18.4},
                                         {"39B", 39.1},
                                         {"76B", 76.1},
                                         {"145B", 145.6},
                                         {"310B", 310.1},
                                         {"530B", 529.6},
                                         {"1T", 1008.0}}) {
    const auto count = static_cast<double>(parameter_count(find_model(row.model).config));
    EXPECT_NEAR(count / 1e9, row.billions, 0.05) << row.model;
  }
}

// The released weights of GPT-2 hold 124,439,808 numbers (n_positions 1024, vocabulary 50257).
TEST(ParameterCount, MatchesTheReleasedGpt2) {
  EXPECT_EQ(parameter_count(resolved(gpt2(), "test")), 124'439'808);
}

// `num_parameters` of the released checkpoints (Hugging Face model cards of meta-llama and
// mistralai).
TEST(ParameterCount, MatchesTheReleasedLlamasAndMistrals) {
  struct Row {
    std::string name;
    TransformerConfig model;
    std::int64_t parameters;
  };
  const std::vector<Row> rows = {{"Llama-2-7B",
                                  {.num_layers = 32,
                                   .hidden_size = 4096,
                                   .num_attention_heads = 32,
                                   .ffn_hidden_size = 11008,
                                   .vocab_size = 32000},
                                  6'738'415'616},
                                 {"Llama-3-8B",
                                  {.num_layers = 32,
                                   .hidden_size = 4096,
                                   .num_attention_heads = 32,
                                   .num_query_groups = 8,
                                   .ffn_hidden_size = 14336,
                                   .vocab_size = 128256},
                                  8'030'261'248},
                                 {"Llama-3-70B",
                                  {.num_layers = 80,
                                   .hidden_size = 8192,
                                   .num_attention_heads = 64,
                                   .num_query_groups = 8,
                                   .ffn_hidden_size = 28672,
                                   .vocab_size = 128256},
                                  70'553'706'496},
                                 {"Llama-3.1-405B",
                                  {.num_layers = 126,
                                   .hidden_size = 16384,
                                   .num_attention_heads = 128,
                                   .num_query_groups = 8,
                                   .ffn_hidden_size = 53248,
                                   .vocab_size = 128256},
                                  405'853'388'800},
                                 {"Mistral-7B",
                                  {.num_layers = 32,
                                   .hidden_size = 4096,
                                   .num_attention_heads = 32,
                                   .num_query_groups = 8,
                                   .ffn_hidden_size = 14336,
                                   .vocab_size = 32000},
                                  7'241'732'096},
                                 {"Mixtral-8x7B",
                                  {.num_layers = 32,
                                   .hidden_size = 4096,
                                   .num_attention_heads = 32,
                                   .num_query_groups = 8,
                                   .ffn_hidden_size = 14336,
                                   .vocab_size = 32000,
                                   .num_experts = 8,
                                   .moe_router_topk = 2},
                                  46'702'792'704}};
  for (const Row& row : rows) {
    EXPECT_EQ(parameter_count(resolved(llama(row.model), row.name)), row.parameters) << row.name;
  }
}

// By hand, h=4, one layer, one head, vocabulary 10, no positions, biases and layer norms:
// attention 4·4·4 + 16, MLP 2·4·16 + 20, three norms of 8, embedding 40.
TEST(ParameterCount, LeavesOutPositionsWhereThereAreNone) {
  const TransformerConfig model = {.num_layers = 1,
                                   .hidden_size = 4,
                                   .num_attention_heads = 1,
                                   .vocab_size = 10,
                                   .seq_length = 1000,
                                   .position_embedding = PositionEmbedding::kNone};
  EXPECT_EQ(parameter_count(resolved(model, "test")), 64 + 16 + 128 + 20 + 24 + 40);
}

// By hand, h=8, one layer: 2 heads of width 3 and one group: q 8·6, k and v 8·3 each, out 6·8.
// An expert of width 5 has 2·8·5, two of them and a router of 8 each; norms 3·8, embedding 80.
/// Returns a model of the kind of Gopher and Chinchilla with MLPs four times as wide as the model.
TransformerConfig gopher(int num_layers, int hidden_size, int num_heads, int kv_channels) {
  return resolved({.num_layers = num_layers,
                   .hidden_size = hidden_size,
                   .num_attention_heads = num_heads,
                   .kv_channels = kv_channels,
                   .vocab_size = 32000,
                   .seq_length = 2048,
                   .add_bias_linear = false,
                   .position_embedding = PositionEmbedding::kRelative,
                   .normalization = Normalization::kRmsNorm,
                   .add_projection_bias = true,
                   .add_mlp_bias = true},
                  "gopher");
}

// Rae et al. (arXiv:2112.11446) table 1, to the printed digits.
TEST(ParameterCount, MatchesTheGopherFamily) {
  struct Row {
    TransformerConfig model;
    double parameters = 0.0;
    double digit = 0.0;
  };
  for (const Row& row :
       {Row{gopher(8, 512, 16, 32), 44e6, 1e6}, Row{gopher(12, 768, 12, 64), 117e6, 1e6},
        Row{gopher(12, 1536, 12, 128), 417e6, 1e6}, Row{gopher(24, 2048, 16, 128), 1.4e9, 0.1e9},
        Row{gopher(32, 4096, 32, 128), 7.1e9, 0.1e9},
        Row{gopher(80, 16384, 128, 128), 280e9, 1e9}}) {
    EXPECT_NEAR(static_cast<double>(parameter_count(row.model)), row.parameters, row.digit / 2.0)
        << row.model.hidden_size;
  }
}

// Hoffmann et al. (arXiv:2203.15556) table A9 in millions. In some models all heads together are
// not as wide as the model. A tolerance of 0.53 is half a million of rounding, and 0.03 of biases
// of logits, which no key says.
TEST(ParameterCount, MatchesTheFiftyModelsOfChinchilla) {
  struct Row {
    double millions;
    int width;
    int kv_channels;
    int heads;
    int layers;
  };
  for (const Row& row :
       {Row{44, 512, 64, 8, 8},        Row{57, 576, 64, 9, 9},        Row{74, 640, 64, 10, 10},
        Row{90, 640, 64, 10, 13},      Row{106, 640, 64, 10, 16},     Row{117, 768, 64, 12, 12},
        Row{140, 768, 64, 12, 15},     Row{163, 768, 64, 12, 18},     Row{175, 896, 64, 14, 14},
        Row{196, 896, 64, 14, 16},     Row{217, 896, 64, 14, 18},     Row{251, 1024, 64, 16, 16},
        Row{278, 1024, 64, 16, 18},    Row{306, 1024, 64, 16, 20},    Row{425, 1280, 128, 10, 18},
        Row{489, 1280, 128, 10, 21},   Row{509, 1408, 128, 11, 18},   Row{552, 1280, 128, 10, 24},
        Row{587, 1408, 128, 11, 21},   Row{632, 1536, 128, 12, 19},   Row{664, 1408, 128, 11, 24},
        Row{724, 1536, 128, 12, 22},   Row{816, 1536, 128, 12, 25},   Row{893, 1792, 128, 14, 20},
        Row{1018, 1792, 128, 14, 23},  Row{1143, 1792, 128, 14, 26},  Row{1266, 2048, 128, 16, 22},
        Row{1424, 2176, 128, 17, 22},  Row{1429, 2048, 128, 16, 25},  Row{1593, 2048, 128, 16, 28},
        Row{1609, 2176, 128, 17, 25},  Row{1731, 2304, 128, 18, 24},  Row{1794, 2176, 128, 17, 28},
        Row{2007, 2304, 128, 18, 28},  Row{2283, 2304, 128, 18, 32},  Row{2298, 2560, 128, 20, 26},
        Row{2639, 2560, 128, 20, 30},  Row{2980, 2560, 128, 20, 34},  Row{3530, 2688, 128, 22, 36},
        Row{3802, 2816, 128, 22, 36},  Row{4084, 2944, 128, 22, 36},  Row{4516, 3072, 128, 24, 36},
        Row{6796, 3584, 128, 28, 40},  Row{9293, 4096, 128, 32, 42},  Row{11452, 4352, 128, 32, 47},
        Row{12295, 4608, 128, 36, 44}, Row{12569, 4608, 128, 32, 47}, Row{13735, 4864, 128, 32, 47},
        Row{14940, 4992, 128, 32, 49}, Row{16183, 5120, 128, 40, 47}}) {
    const TransformerConfig model = gopher(row.layers, row.width, row.heads, row.kv_channels);
    EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e6, row.millions, 0.53)
        << row.millions;
  }
}

TEST(ParameterCount, TakesHeadWidthAndExpertWidthAsGiven) {
  const TransformerConfig model = {.num_layers = 1,
                                   .hidden_size = 8,
                                   .num_attention_heads = 2,
                                   .num_query_groups = 1,
                                   .kv_channels = 3,
                                   .vocab_size = 10,
                                   .seq_length = 1000,
                                   .add_bias_linear = false,
                                   .position_embedding = PositionEmbedding::kRope,
                                   .normalization = Normalization::kRmsNorm,
                                   .num_experts = 2,
                                   .moe_router_topk = 1,
                                   .moe_ffn_hidden_size = 5};
  EXPECT_EQ(parameter_count(resolved(model, "test")), 48 + 48 + 48 + 2 * (80 + 8) + 24 + 80);
}

// 12·10^5·(10^6)² = 1.2e18, and the widest model that JSON may spell.
TEST(ParameterCount, RefusesMoreThanAQuintillion) {
  const TransformerConfig large = {.num_layers = 100'000,
                                   .hidden_size = kMillion,
                                   .num_attention_heads = 1000,
                                   .vocab_size = 1,
                                   .seq_length = 1};
  const TransformerConfig largest = {.num_layers = 100'000,
                                     .hidden_size = 10 * kMillion,
                                     .num_attention_heads = 10 * kMillion,
                                     .kv_channels = 10 * kMillion,
                                     .ffn_hidden_size = 10 * kMillion,
                                     .vocab_size = 10 * kMillion,
                                     .seq_length = 100 * kMillion,
                                     .num_experts = 100'000,
                                     .moe_router_topk = 1};
  for (const TransformerConfig& model : {large, largest}) {
    EXPECT_EQ(refusal_of_model(model), "m.json: m: the model has more than 1e18 parameters");
  }
  EXPECT_EQ(message_of([&] { return parameter_count(largest); }),
            "the model has more than 1e18 parameters");
}

// Eq. 2 leaves out the final norm, 2h. In doubles, 1e12 is exact to 1e-4.
TEST(Sc21ParameterCount, IsTheExactCountLessTheFinalNorm) {
  for (const std::string model : {"1.7B", "18B", "145B", "1T", "gpt2-124m"}) {
    const TransformerConfig config = find_model(model).config;
    EXPECT_NEAR(sc21_parameter_count(config) + 2.0 * config.hidden_size,
                static_cast<double>(parameter_count(config)), 0.01)
        << model;
  }
}

TEST(Resolved, FillsInWhatFollowsFromTheOthers) {
  TransformerConfig expected = gpt2();
  expected.num_query_groups = 12;
  expected.kv_channels = 64;
  expected.ffn_hidden_size = 3072;
  EXPECT_EQ(resolved(gpt2(), "test"), expected);
}

TEST(Resolved, GivesExpertsTheWidthOfTheMlp) {
  TransformerConfig model = gpt2();
  model.num_experts = 8;
  model.moe_router_topk = 2;
  EXPECT_EQ(resolved(model, "test").moe_ffn_hidden_size, 3072);
}

TEST(Resolved, KeepsWhatIsGiven) {
  EXPECT_EQ(resolved(unusual_model(), "test"), unusual_model());
}

TEST(Resolved, ChangesNothingTheSecondTime) {
  const TransformerConfig once = resolved(gpt2(), "test");
  EXPECT_EQ(resolved(once, "test"), once);
}

TEST(Resolved, RefusesHeadsThatDoNotFit) {
  TransformerConfig model = gpt2();
  model.num_attention_heads = 7;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: num_attention_heads 7 does not divide hidden_size 768; give kv_channels if "
            "that is meant");
  model.kv_channels = 100;
  EXPECT_EQ(refusal_of_model(model), "nothing was thrown");
}

TEST(Resolved, RefusesGroupsThatDoNotFit) {
  TransformerConfig model = gpt2();
  model.num_query_groups = 5;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: num_query_groups 5 does not divide num_attention_heads 12");
}

TEST(Resolved, RefusesAWidthWhoseFourfoldIsOutOfRange) {
  TransformerConfig model = gpt2();
  model.hidden_size = 3 * kMillion;
  EXPECT_EQ(
      refusal_of_model(model),
      "m.json: m: hidden_size 3000000 is too wide for the usual ffn_hidden_size of four times "
      "that");
}

TEST(Resolved, RefusesExpertsThatContradictEachOther) {
  TransformerConfig model = gpt2();
  model.num_experts = 4;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: num_experts needs moe_router_topk, the experts each token visits");
  model.moe_router_topk = 5;
  EXPECT_EQ(refusal_of_model(model), "m.json: m: moe_router_topk 5 exceeds num_experts 4");
  model.num_experts = 0;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: moe_router_topk and moe_ffn_hidden_size need num_experts");
  model.moe_router_topk = 0;
  model.moe_ffn_hidden_size = 64;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: moe_router_topk and moe_ffn_hidden_size need num_experts");
}

TEST(Resolved, RefusesFeaturesThatContradictEachOther) {
  TransformerConfig model = gpt2();
  model.add_mlp_bias = true;
  EXPECT_THAT(refusal_of_model(model), HasSubstr("are for models with add_bias_linear false"));
  model = gpt2();
  model.v_head_dim = 64;
  EXPECT_THAT(refusal_of_model(model), HasSubstr("v_head_dim need kv_lora_rank"));
  model.kv_lora_rank = 512;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: kv_lora_rank needs qk_head_dim, qk_pos_emb_head_dim and v_head_dim");
  model = gpt2();
  model.first_window_layer = 3;
  EXPECT_THAT(refusal_of_model(model), HasSubstr("first_window_layer needs window_size"));
  model = gpt2();
  model.moe_layer_freq = 2;
  EXPECT_EQ(refusal_of_model(model), "m.json: m: keys of a mixture of experts need num_experts");
  model.moe_layer_freq = 1;
  model.num_experts = 4;
  model.moe_router_topk = 1;
  model.first_dense_layers = 12;
  EXPECT_THAT(refusal_of_model(model), HasSubstr("leave none of the 12 layers with experts"));
  model.first_dense_layers = 0;
  model.moe_shared_expert_gate = true;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: moe_shared_expert_gate needs moe_shared_expert_intermediate_size");
}

// By hand, 12 experts: four groups of three.
TEST(Resolved, RefusesGroupsOfExpertsThatContradictEachOther) {
  TransformerConfig model = gpt2();
  model.num_experts = 12;
  model.moe_router_topk = 3;
  const auto refusal = [&](int groups, int visited) {
    model.moe_router_num_groups = groups;
    model.moe_router_group_topk = visited;
    return refusal_of_model(model);
  };
  for (const auto& [groups, visited] :
       {std::pair(0, 2), std::pair(4, 0), std::pair(4, 5), std::pair(5, 2)}) {
    EXPECT_EQ(refusal(groups, visited), "m.json: m: moe_router_group_topk " +
                                            std::to_string(visited) + " of moe_router_num_groups " +
                                            std::to_string(groups) +
                                            " is no choice among groups of num_experts 12");
  }
  EXPECT_EQ(refusal(4, 1), "nothing was thrown");
  EXPECT_EQ(refusal(4, 4), "nothing was thrown");
  model.moe_router_topk = 7;
  EXPECT_EQ(refusal(4, 2),
            "m.json: m: moe_router_topk 7 exceeds the experts of moe_router_group_topk 2 groups");
  model.moe_router_topk = 6;
  EXPECT_EQ(refusal(4, 2), "nothing was thrown");
}

TEST(Resolved, RefusesEachKeyThatNeedsAnother) {
  using Change = std::function<void(TransformerConfig&)>;
  const auto expect_refusals = [](const Change& before, const std::vector<Change>& changes,
                                  const std::string& why) {
    TransformerConfig allowed = gpt2();
    before(allowed);
    EXPECT_EQ(refusal_of_model(allowed), "nothing was thrown");
    for (std::size_t i = 0; i < changes.size(); ++i) {
      TransformerConfig model = allowed;
      changes[i](model);
      EXPECT_EQ(refusal_of_model(model), "m.json: m: " + why) << "change " << i;
    }
  };
  using Model = TransformerConfig;
  expect_refusals([](Model&) {},
                  {[](Model& model) { model.moe_shared_expert_intermediate_size = 1; },
                   [](Model& model) { model.moe_shared_expert_gate = true; },
                   [](Model& model) { model.moe_router_enable_expert_bias = true; },
                   [](Model& model) { model.moe_router_bias = true; },
                   [](Model& model) { model.first_dense_layers = 1; },
                   [](Model& model) { model.moe_layer_freq = 2; },
                   [](Model& model) { model.moe_router_num_groups = 1; },
                   [](Model& model) { model.moe_router_group_topk = 1; },
                   [](Model& model) { model.moe_expert_capacity_factor = 1.5; },
                   [](Model& model) { model.moe_load_imbalance = 1.5; }},
                  "keys of a mixture of experts need num_experts");
  expect_refusals([](Model&) {},
                  {[](Model& model) { model.activation_func_clamp_value = 7.0; },
                   [](Model& model) { model.glu_linear_offset = 1.0; }},
                  "activation_func_clamp_value and glu_linear_offset need gated_linear_unit");
  expect_refusals(
      [](Model& model) {
        model.kv_lora_rank = model.qk_head_dim = model.qk_pos_emb_head_dim = model.v_head_dim = 8;
      },
      {[](Model& model) { model.attention_sinks = true; }},
      "attention_sinks is not for latent attention");
  expect_refusals(
      [](Model&) {},
      {[](Model& model) { model.q_lora_rank = 1; }, [](Model& model) { model.qk_head_dim = 1; },
       [](Model& model) { model.qk_pos_emb_head_dim = 1; },
       [](Model& model) { model.v_head_dim = 1; }},
      "q_lora_rank, qk_head_dim, qk_pos_emb_head_dim and v_head_dim need kv_lora_rank, "
      "the width of compressed keys and values");
  expect_refusals(
      [](Model& model) {
        model.kv_lora_rank = model.qk_head_dim = model.qk_pos_emb_head_dim = model.v_head_dim = 8;
      },
      {[](Model& model) { model.qk_head_dim = 0; },
       [](Model& model) { model.qk_pos_emb_head_dim = 0; },
       [](Model& model) { model.v_head_dim = 0; }},
      "kv_lora_rank needs qk_head_dim, qk_pos_emb_head_dim and v_head_dim");
  expect_refusals([](Model&) {},
                  {[](Model& model) { model.add_qkv_bias = true; },
                   [](Model& model) { model.add_projection_bias = true; },
                   [](Model& model) { model.add_mlp_bias = true; }},
                  "add_qkv_bias, add_projection_bias and add_mlp_bias are for models with "
                  "add_bias_linear false, which stands for all of them");
  expect_refusals([](Model& model) { model.dropout = false; },
                  {[](Model& model) { model.dropout_rates.hidden = 0.2; },
                   [](Model& model) { model.dropout_rates.attention = 0.2; },
                   [](Model& model) { model.dropout_rates.embedding = 0.2; }},
                  "hidden_dropout, attention_dropout and embedding_dropout are for models with "
                  "dropout, which this one lacks");
  expect_refusals([](Model&) {}, {[](Model& model) { model.shared_residual_norm = true; }},
                  "shared_residual_norm needs parallel_residual");
  expect_refusals([](Model& model) { model.normalization = Normalization::kRmsNorm; },
                  {[](Model& model) { model.layernorm_bias = false; }},
                  "layernorm_bias false needs normalization layer-norm");
  expect_refusals([](Model& model) { model.position_embedding = PositionEmbedding::kAlibi; },
                  {[](Model& model) { model.max_position_embeddings = 9; }},
                  "max_position_embeddings needs position_embedding learned");
  expect_refusals([](Model& model) { model.position_embedding = PositionEmbedding::kRelative; },
                  {[](Model& model) { model.num_query_groups = 1; },
                   [](Model& model) {
                     model.kv_lora_rank = model.qk_head_dim = model.qk_pos_emb_head_dim =
                         model.v_head_dim = 8;
                   }},
                  "position_embedding relative needs keys of their own for all query heads");
  expect_refusals([](Model&) {}, {[](Model& model) { model.chunked_attention = true; }},
                  "chunked_attention needs window_size, the tokens of a chunk");
  expect_refusals([](Model& model) { model.position_embedding = PositionEmbedding::kRope; },
                  {[](Model& model) { model.rotary.window_base = 9.0; }},
                  "rotary_window_base needs window_size, the tokens that each attends to");
  expect_refusals([](Model&) {},
                  {[](Model& model) { model.rotary.interleaved = true; },
                   [](Model& model) { model.rotary.no_rope_freq = 4; }},
                  "keys of rotary positions need position_embedding rope");
  expect_refusals([](Model&) {}, {[](Model& model) { model.first_window_layer = 1; }},
                  "first_window_layer needs window_size, the tokens that each attends to");
  expect_refusals(
      [](Model& model) {
        model.num_experts = 2;
        model.moe_router_topk = 2;
        model.moe_load_imbalance = 1.5;
      },
      {[](Model& model) { model.moe_expert_capacity_factor = 1.0; }},
      "moe_load_imbalance is for experts that take all tokens; with moe_expert_capacity_factor all "
      "have as many");
}

TEST(Resolved, WantsALayerWithExperts) {
  TransformerConfig model = gpt2();
  model.num_experts = 4;
  model.moe_router_topk = 1;
  model.moe_layer_freq = 5;
  model.first_dense_layers = 12;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: first_dense_layers 12 and moe_layer_freq 5 leave none of the 12 layers "
            "with experts");
  model.first_dense_layers = 11;
  EXPECT_EQ(refusal_of_model(model), "nothing was thrown");
}

TEST(Resolved, TakesTheWidestModelWhoseMlpFitsAMatrix) {
  TransformerConfig model = gpt2();
  model.num_attention_heads = 1;
  model.hidden_size = 2'500'000;
  EXPECT_EQ(resolved(model, "test").ffn_hidden_size, 10 * kMillion);
  model.hidden_size = 2'500'001;
  EXPECT_EQ(refusal_of_model(model),
            "m.json: m: hidden_size 2500001 is too wide for the usual ffn_hidden_size of four "
            "times that");
}

// The width of a latent head need not divide anything.
TEST(Resolved, TakesTheHeadsOfLatentAttentionAsTheyAre) {
  TransformerConfig model = gpt2();
  model.num_attention_heads = 7;
  model.kv_lora_rank = 64;
  model.qk_head_dim = 20;
  model.qk_pos_emb_head_dim = 12;
  model.v_head_dim = 24;
  const TransformerConfig full = resolved(model, "test");
  EXPECT_EQ(full.kv_channels, 32);
  EXPECT_EQ(query_width(full), 7 * 32);
  EXPECT_EQ(context_width(full), 7 * 24);
}

// By hand, a token at position i attends to min(i + 1, w) tokens, about w − w²/(2s) on average.
TEST(AttendedTokens, AreThoseOfTheWindow) {
  TransformerConfig model = gpt2();
  EXPECT_EQ(attended_tokens(model, false), 1024.0);
  EXPECT_EQ(attended_tokens(model, true), 512.0);
  model.window_size = 100;
  EXPECT_EQ(attended_tokens(model, false), 100.0);
  double sum = 0.0;
  for (int i = 0; i < 1024; ++i) {
    sum += std::min(i + 1, 100);
  }
  EXPECT_NEAR(attended_tokens(model, true), sum / 1024.0, 0.5);
  model.window_size = 1024;
  EXPECT_FALSE(has_window(model));
  EXPECT_EQ(attended_tokens(model, true), 512.0);
}

// A token attends to those before it in its own chunk and to itself, which counts half, so that a
// whole sequence counts as s/2.
TEST(AttendedTokens, AreThoseOfTheChunk) {
  TransformerConfig model = gpt2();
  model.chunked_attention = true;
  for (const int chunk : {1, 100, 256, 1000}) {
    model.window_size = chunk;
    double pairs = 0.0;
    for (int i = 0; i < 1024; ++i) {
      EXPECT_DOUBLE_EQ(attended_pairs(model, i), pairs) << chunk << ' ' << i;
      pairs += i % chunk + 0.5;
    }
    EXPECT_DOUBLE_EQ(attended_tokens(model, true), pairs / 1024.0) << chunk;
  }
  model.window_size = 2048;
  EXPECT_EQ(attended_tokens(model, true), 512.0);
}

// By hand, h = 8, two heads of 4, an MLP of 32, 16 tokens, 10 words, no biases of matrices. A layer
// has 4·64 + 2·8·32 weights and its norms.
TEST(ParameterCount, OfNormsAndPositionsBesideGpt2s) {
  TransformerConfig model = {.num_layers = 3,
                             .hidden_size = 8,
                             .num_attention_heads = 2,
                             .vocab_size = 10,
                             .seq_length = 16,
                             .add_bias_linear = false,
                             .parallel_residual = true};
  const auto counted = [&model] { return parameter_count(resolved(model, "model")); };
  const std::int64_t matrices = 3 * (4 * 64 + 2 * 8 * 32) + 10 * 8;
  EXPECT_EQ(counted(), matrices + 16 * 8 + 3 * 2 * 16 + 16);
  model.shared_residual_norm = true;
  EXPECT_EQ(counted(), matrices + 16 * 8 + 3 * 16 + 16);
  model.embedding_layernorm = true;
  EXPECT_EQ(counted(), matrices + 16 * 8 + 3 * 16 + 2 * 16);
  model.layernorm_bias = false;
  EXPECT_EQ(counted(), matrices + 16 * 8 + 3 * 8 + 2 * 8);
  model.max_position_embeddings = 18;
  EXPECT_EQ(counted(), matrices + 18 * 8 + 3 * 8 + 2 * 8);
  model.max_position_embeddings = 15;  // a longer sequence needs a row for each token
  EXPECT_EQ(counted(), matrices + 16 * 8 + 3 * 8 + 2 * 8);
  model.max_position_embeddings = 0;
  model.position_embedding = PositionEmbedding::kAlibi;
  EXPECT_EQ(counted(), matrices + 3 * 8 + 2 * 8);
  model.qk_layernorm = true;
  EXPECT_EQ(counted(), matrices + 3 * 8 + 2 * 8 + 3 * 2 * 4);
  model.qk_layernorm_width = QkNormWidth::kEachHead;
  EXPECT_EQ(counted(), matrices + 3 * 8 + 2 * 8 + 3 * 2 * 8);
  model.qk_layernorm_width = QkNormWidth::kWeightless;
  EXPECT_EQ(counted(), matrices + 3 * 8 + 2 * 8);
}

// By hand, h = 8, a head of widths 3 + 2 and 4 for values, ranks 6 and 5, an MLP of 10: compression
// 8·6 and 8·(5 + 2), of which norms of 6 and 5; 6·5 and 5·(3 + 4) out of them; projection 4·8.
// Three experts of width 2 with 3·2·8 each and a number to balance them, a shared one of 3·3·8 with
// a gate of 8, a router of 3·8. Norms 2·8 a layer.
TEST(LayerParameters, TellWhatIsSplit) {
  const TransformerConfig model = resolved({.num_layers = 2,
                                            .hidden_size = 8,
                                            .num_attention_heads = 1,
                                            .ffn_hidden_size = 10,
                                            .vocab_size = 100,
                                            .seq_length = 16,
                                            .gated_linear_unit = true,
                                            .add_bias_linear = false,
                                            .position_embedding = PositionEmbedding::kRope,
                                            .normalization = Normalization::kRmsNorm,
                                            .q_lora_rank = 6,
                                            .kv_lora_rank = 5,
                                            .qk_head_dim = 3,
                                            .qk_pos_emb_head_dim = 2,
                                            .v_head_dim = 4,
                                            .num_experts = 3,
                                            .moe_router_topk = 2,
                                            .moe_ffn_hidden_size = 2,
                                            .moe_shared_expert_intermediate_size = 3,
                                            .moe_shared_expert_gate = true,
                                            .moe_router_enable_expert_bias = true,
                                            .first_dense_layers = 1,
                                            .mtp_num_layers = 1},
                                           "test");
  const std::int64_t compressions = 48 + 56 + 6 + 5;
  const std::int64_t heads = 30 + 35 + 32;
  EXPECT_EQ(layer_parameters(model, false),
            (LayerParameters{.split = heads + 240, .replicated = compressions + 16}));
  EXPECT_EQ(
      layer_parameters(model, true),
      (LayerParameters{
          .split = heads + 72, .replicated = compressions + 16 + 24 + 3 + 8, .experts = 3 * 48}));
  const std::int64_t dense = heads + 240 + compressions + 16;
  const std::int64_t expert = heads + 72 + compressions + 16 + 35 + 144;
  EXPECT_EQ(parameter_count(model), dense + expert + 800 + 8);
  EXPECT_EQ(active_parameter_count(model), dense + expert - 48 + 800 + 8);
  EXPECT_EQ(mtp_parameter_count(model), expert + 2 * 64 + 3 * 8);
  // The matrices that a token meets: no norms, and not the number that balances.
  EXPECT_EQ(active_layer_weights(model, true), 48 + 56 + heads + 72 + 24 + 8 + 2 * 48);
  EXPECT_EQ(active_layer_weights(model, false), 48 + 56 + heads + 240);
}

// By hand, 4 heads and 2 groups of width 3 on h = 8, experts of width 5 with biases and sinks: QKV
// 8·24 + 24, projection 12·8 + 8, a sink for each head, two norms of 8, router 3·8 + 3, and three
// experts of 8·10 + 10 and 5·8 + 8.
TEST(LayerParameters, CountSinksAndBiasesOfRoutersAndExperts) {
  const TransformerConfig model = resolved({.num_layers = 2,
                                            .hidden_size = 8,
                                            .num_attention_heads = 4,
                                            .num_query_groups = 2,
                                            .kv_channels = 3,
                                            .ffn_hidden_size = 5,
                                            .vocab_size = 100,
                                            .seq_length = 16,
                                            .gated_linear_unit = true,
                                            .untied_embeddings = true,
                                            .position_embedding = PositionEmbedding::kNone,
                                            .normalization = Normalization::kRmsNorm,
                                            .attention_sinks = true,
                                            .num_experts = 3,
                                            .moe_router_topk = 2,
                                            .moe_router_bias = true},
                                           "test");
  EXPECT_EQ(layer_parameters(model, true), (LayerParameters{.split = 192 + 24 + 96 + 4,
                                                            .replicated = 8 + 16 + 24 + 3,
                                                            .experts = 3 * (80 + 10 + 40 + 8)}));
}

// By hand, 4 heads and 2 groups of width 3 on h = 8, an MLP of 10: QKV 8·(12 + 2·6), projection
// 12·8, gate, up and down 3·8·10.
// By hand, h = 48, 4 heads of 8 in all: attention's four matrices and the one of positions are 48
// by 32, the MLP's 48 by 192. Split are the matrices, the vectors added to queries, 32 each, and
// the 192 biases of the MLP's first matrix; not split two norms and two biases of 48.
TEST(LayerParameters, SplitWhatRelativePositionsAddByHeads) {
  TransformerConfig model = gopher(1, 48, 4, 8);
  const std::int64_t matrices = 5 * 48 * 32 + 2 * 48 * 192;
  EXPECT_EQ(layer_parameters(model, false),
            (LayerParameters{.split = matrices + 2 * 32 + 192, .replicated = 4 * 48}));
  EXPECT_EQ(layer_matrices(model, false).split, matrices);
  // No token meets the matrix of positions.
  EXPECT_EQ(position_weights(model), 48 * 32);
  EXPECT_EQ(layer_weights(model), matrices - 48 * 32);
}

TEST(LayerWeights, CountQueryGroupsAndGates) {
  TransformerConfig model;
  model.hidden_size = 8;
  model.num_attention_heads = 4;
  model.num_query_groups = 2;
  model.kv_channels = 3;
  model.ffn_hidden_size = 10;
  model.gated_linear_unit = true;
  EXPECT_EQ(layer_weights(model), 8 * 24 + 12 * 8 + 3 * 80);
  EXPECT_EQ(layer_weights(resolved(gpt2(), "test")), 12.0 * 768 * 768);
}

TEST(TransformerConfigJson, ReadsBackAsItWas) {
  for (const TransformerConfig& model : {gpt2(), resolved(gpt2(), "test"), unusual_model()}) {
    const std::string text = dump(model);
    EXPECT_EQ(parse<TransformerConfig>(text), model) << text;
    EXPECT_EQ(dump(parse<TransformerConfig>(text)), text);
  }
}

// A third of six channels is two, and of its first fifteen digits not quite two: no pair.
TEST(TransformerConfigJson, KeepsNumbersToTheLastBit) {
  TransformerConfig model = gpt2();
  model.kv_channels = 6;
  model.position_embedding = PositionEmbedding::kRope;
  model.rotary.percent = 1.0 / 3.0;
  model.embedding_multiplier = std::sqrt(2048.0);
  model.rotary.scaling = RopeScaling::kLongRope;
  model.rotary.original_seq_length = 64;
  model.rotary.short_factors = {1.0 / 7.0};
  model.rotary.long_factors = {10.0 / 7.0};
  const auto read = parse<TransformerConfig>(dump(model));
  EXPECT_EQ(read, model);
  EXPECT_EQ(rotary_width(read), 2);
}

TEST(TransformerConfigJson, HasEveryFieldUnderItsName) {
  EXPECT_EQ(dump(unusual_model()), R"({
  "num_layers": 2,
  "hidden_size": 64,
  "num_attention_heads": 8,
  "num_query_groups": 2,
  "kv_channels": 16,
  "ffn_hidden_size": 100,
  "vocab_size": 1000,
  "seq_length": 128,
  "gated_linear_unit": true,
  "add_bias_linear": false,
  "untied_embeddings": true,
  "position_embedding": "none",
  "normalization": "rms-norm",
  "add_qkv_bias": true,
  "add_projection_bias": true,
  "add_mlp_bias": true,
  "qk_layernorm": true,
  "window_size": 64,
  "first_window_layer": 1,
  "q_lora_rank": 24,
  "kv_lora_rank": 12,
  "qk_head_dim": 10,
  "qk_pos_emb_head_dim": 6,
  "v_head_dim": 7,
  "num_experts": 4,
  "moe_router_topk": 2,
  "moe_ffn_hidden_size": 50,
  "moe_shared_expert_intermediate_size": 30,
  "moe_shared_expert_gate": true,
  "moe_router_enable_expert_bias": true,
  "moe_router_num_groups": 2,
  "moe_router_group_topk": 1,
  "first_dense_layers": 1,
  "moe_layer_freq": 2,
  "moe_load_imbalance": 1.25,
  "mtp_num_layers": 3
}
)");
  // The flags one by one, for all are alike above; and what excludes the imbalance.
  using Model = TransformerConfig;
  const std::vector<std::pair<bool Model::*, std::string>> flags = {
      {&Model::gated_linear_unit, "gated_linear_unit"},
      {&Model::untied_embeddings, "untied_embeddings"},
      {&Model::add_qkv_bias, "add_qkv_bias"},
      {&Model::add_projection_bias, "add_projection_bias"},
      {&Model::add_mlp_bias, "add_mlp_bias"},
      {&Model::parallel_residual, "parallel_residual"},
      {&Model::shared_residual_norm, "shared_residual_norm"},
      {&Model::embedding_layernorm, "embedding_layernorm"},
      {&Model::chunked_attention, "chunked_attention"},
      {&Model::attention_sinks, "attention_sinks"},
      {&Model::qk_layernorm, "qk_layernorm"},
      {&Model::moe_shared_expert_gate, "moe_shared_expert_gate"},
      {&Model::moe_router_enable_expert_bias, "moe_router_enable_expert_bias"},
      {&Model::moe_router_bias, "moe_router_bias"}};
  // Rates of dropout are written last, and not at all where they are equal and usual.
  Model usual_model = gpt2();
  usual_model.dropout_rates = kUsualDropout;
  const std::string usual = dump(usual_model);
  for (const auto& [flag, key] : flags) {
    Model model = usual_model;
    model.*flag = true;
    EXPECT_EQ(dump(model), usual.substr(0, usual.size() - 3) + ",\n  \"" + key + "\": true\n}\n");
    EXPECT_EQ(parse<Model>(dump(model)), model) << key;
  }
  Model clamped = unusual_model();
  clamped.activation_func_clamp_value = 7.0;
  clamped.glu_linear_offset = 1.5;
  EXPECT_THAT(dump(clamped),
              HasSubstr("\"activation_func_clamp_value\": 7.0,\n  \"glu_linear_offset\": 1.5"));
  EXPECT_EQ(parse<Model>(dump(clamped)), clamped);
  Model positions = usual_model;
  positions.max_position_embeddings = 1026;
  positions.layernorm_bias = false;
  EXPECT_THAT(dump(positions), HasSubstr("\"max_position_embeddings\": 1026"));
  EXPECT_THAT(dump(positions), HasSubstr("\"layernorm_bias\": false"));
  EXPECT_EQ(parse<Model>(dump(positions)), positions);
  Model turned = usual_model;
  turned.position_embedding = PositionEmbedding::kRope;
  turned.dropout = true;
  turned.rotary = {.interleaved = true, .window_base = 5000.5, .no_rope_freq = 4};
  EXPECT_THAT(dump(turned), HasSubstr("\"rotary_interleaved\": true,\n  \"rotary_window_base\": "
                                      "5000.5,\n  \"no_rope_freq\": 4"));
  EXPECT_EQ(parse<Model>(dump(turned)), turned);
  for (const QkNormWidth width : {QkNormWidth::kEachHead, QkNormWidth::kWeightless}) {
    Model normed = usual_model;
    normed.qk_layernorm = true;
    normed.qk_layernorm_width = width;
    EXPECT_EQ(parse<Model>(dump(normed)), normed);
  }
  Model model = usual_model;
  model.moe_expert_capacity_factor = 1.5;
  EXPECT_EQ(dump(model),
            usual.substr(0, usual.size() - 3) + ",\n  \"moe_expert_capacity_factor\": 1.5\n}\n");
  EXPECT_EQ(parse<Model>(dump(model)), model);
}

TEST(TransformerConfigJson, BoundsEachNumber) {
  const std::string text = dump(unusual_model());
  const auto refusal = [&](const std::string& key, const std::string& value) {
    const std::string start = '"' + key + "\": ";
    const std::string edited = replaced(text, start, start + value + ", \"rest\": ");
    return message_of([&] { return parse<TransformerConfig>(edited); });
  };
  const std::vector<std::pair<std::string, int>> most = {
      {"num_layers", 100'000},
      {"hidden_size", 10 * kMillion},
      {"num_attention_heads", 10 * kMillion},
      {"num_query_groups", 10 * kMillion},
      {"kv_channels", 10 * kMillion},
      {"ffn_hidden_size", 10 * kMillion},
      {"vocab_size", 10 * kMillion},
      {"seq_length", 100 * kMillion},
      {"window_size", 100 * kMillion},
      {"first_window_layer", 100'000},
      {"q_lora_rank", 10 * kMillion},
      {"kv_lora_rank", 10 * kMillion},
      {"qk_head_dim", 10 * kMillion},
      {"qk_pos_emb_head_dim", 10 * kMillion},
      {"v_head_dim", 10 * kMillion},
      {"num_experts", 100'000},
      {"moe_router_topk", 100'000},
      {"moe_ffn_hidden_size", 10 * kMillion},
      {"moe_shared_expert_intermediate_size", 10 * kMillion},
      {"moe_router_num_groups", 100'000},
      {"moe_router_group_topk", 100'000},
      {"first_dense_layers", 100'000},
      {"moe_layer_freq", 100'000},
      {"mtp_num_layers", 100'000}};
  for (const auto& [key, bound] : most) {
    const std::string beyond = std::to_string(bound + 1);
    for (const std::string& value : {std::string("0"), beyond}) {
      EXPECT_EQ(refusal(key, value), std::string("test.json: ")
                                         .append(key)
                                         .append(": expected a whole number from 1 to ")
                                         .append(std::to_string(bound))
                                         .append(", got ")
                                         .append(value));
    }
    EXPECT_EQ(refusal(key, std::to_string(bound)), "test.json: \"rest\": unknown key") << key;
  }
  EXPECT_EQ(refusal("moe_load_imbalance", "0.5"),
            "test.json: moe_load_imbalance: expected a number from 1.0 to 1000.0, got 0.5");
}

TEST(TransformerConfigJson, SaysWhetherDropoutIsTrainedWithWhereThatIsSaid) {
  TransformerConfig model = gpt2();
  EXPECT_TRUE(has_dropout(model));
  model.dropout = false;
  EXPECT_FALSE(has_dropout(model));
  EXPECT_THAT(dump(model), HasSubstr("\"dropout\": false"));
  EXPECT_EQ(parse<TransformerConfig>(dump(model)), model);
  model.position_embedding = PositionEmbedding::kRope;
  model.dropout.reset();
  EXPECT_FALSE(has_dropout(model));
  model.dropout = true;
  EXPECT_TRUE(has_dropout(model));
  EXPECT_EQ(parse<TransformerConfig>(dump(model)), model);
}

// A document that says nothing of probabilities drops them as hidden states; a model file does not.
TEST(TransformerConfigJson, DropsProbabilitiesWhereADocumentSaysNothingOfThem) {
  EXPECT_THAT(dump(gpt2()), HasSubstr(R"("attention_dropout": 0)"));
  TransformerConfig model = gpt2();
  model.dropout_rates = kUsualDropout;
  EXPECT_THAT(dump(model), testing::Not(HasSubstr("attention_dropout")));
  EXPECT_EQ(parse<TransformerConfig>(dump(model)), model);
  model.dropout = false;
  model.dropout_rates = kUsualDropoutRates;
  EXPECT_EQ(parse<TransformerConfig>(dump(model)), model);
  EXPECT_EQ(find_model("gpt2-124m").config.dropout_rates, kUsualDropoutRates);
}

TEST(TransformerConfigJson, SaysWhatTrainsOtherwiseThanGpt2) {
  TransformerConfig model = gpt2();
  model.dropout_rates = 0.25;
  model.dropout_rates.attention = 0.5;
  model.layernorm_epsilon = 1e-6;
  model.init_method_std = 0.01;
  model.activation_func = Activation::kQuickGelu;
  model.scale_attn_weights = false;
  model.scale_attn_by_inverse_layer_idx = true;
  const std::string text = dump(model);
  for (const char* line :
       {R"("hidden_dropout": 0.25)", R"("attention_dropout": 0.5)", R"("embedding_dropout": 0.25)",
        R"("layernorm_epsilon": 1e-06)", R"("init_method_std": 0.01)",
        R"("activation_func": "quick_gelu")", R"("scale_attn_weights": false)",
        R"("scale_attn_by_inverse_layer_idx": true)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(parse<TransformerConfig>(text), model) << text;
}

TEST(TransformerConfigJson, RefusesRatesOfAModelWithoutDropout) {
  TransformerConfig model = gpt2();
  model.dropout = false;
  model.dropout_rates.hidden = 0.2;
  EXPECT_THAT(message_of([&] { return resolved(model, "test"); }),
              HasSubstr("test: hidden_dropout, attention_dropout and embedding_dropout"));
}

TEST(TransformerConfigJson, LeavesOutWhatIsUsual) {
  EXPECT_EQ(dump(gpt2()), R"({
  "num_layers": 12,
  "hidden_size": 768,
  "num_attention_heads": 12,
  "vocab_size": 50257,
  "seq_length": 1024,
  "attention_dropout": 0.0
}
)");
}

TEST(TransformerConfigJson, RefusesNumbersOutOfRange) {
  const std::string text = dump(unusual_model());
  for (const std::string key :
       {"num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels",
        "ffn_hidden_size", "vocab_size", "seq_length", "num_experts", "moe_router_topk",
        "moe_ffn_hidden_size"}) {
    for (const std::string value : {"0", "1000000000"}) {
      const std::string start = '"' + key + "\": ";
      const std::string edited = replaced(text, start, start + value + ", \"rest\": ");
      EXPECT_THAT(message_of([&] { return parse<TransformerConfig>(edited); }),
                  HasSubstr("test.json: " + key + ": expected a whole number from 1 to "))
          << value;
    }
  }
}

TEST(TransformerConfigJson, ListsTheSpellingsItKnows) {
  const std::string text = dump(unusual_model());
  EXPECT_EQ(
      message_of([&] { return parse<TransformerConfig>(replaced(text, "\"none\"", "\"t5\"")); }),
      "test.json: position_embedding: expected one of learned, rope, none, alibi, relative, got "
      "\"t5\"");
  EXPECT_EQ(message_of([&] {
              return parse<TransformerConfig>(replaced(text, "\"rms-norm\"", "\"rms\""));
            }),
            "test.json: normalization: expected one of layer-norm, rms-norm, got \"rms\"");
}

struct NamedDropout {
  DropoutRates rates;
};
template <class Fields>
void describe(Fields& fields, Described<Fields, NamedDropout>& dropout) {
  describe_dropout(fields, dropout.rates);
}

// One rate for all dropouts, and rates that differ.
TEST(DropoutRatesJson, ReadsBackAsItWas) {
  DropoutRates rates = 0.25;
  EXPECT_EQ(dump(NamedDropout{rates}), "{\n  \"dropout\": 0.25\n}\n");
  EXPECT_EQ(parse<NamedDropout>("{\"dropout\": 0.25}").rates, rates);
  rates.attention = 0.0;
  EXPECT_EQ(dump(NamedDropout{rates}),
            "{\n  \"dropout\": 0.25,\n  \"attention_dropout\": 0.0\n}\n");
  EXPECT_EQ(parse<NamedDropout>(dump(NamedDropout{rates})).rates, rates);
  rates.embedding = 0.5;
  EXPECT_EQ(dump(NamedDropout{rates}),
            "{\n  \"dropout\": 0.25,\n  \"attention_dropout\": 0.0,\n  \"embedding_dropout\": "
            "0.5\n}\n");
  EXPECT_EQ(parse<NamedDropout>(dump(NamedDropout{rates})).rates, rates);
  for (const std::string key : {"dropout", "attention_dropout", "embedding_dropout"}) {
    EXPECT_EQ(message_of([&] {
                const std::string start = '"' + key + "\": ";
                return parse<NamedDropout>(
                    replaced(dump(NamedDropout{rates}), start, start + "1.5, \"rest\": "));
              }),
              "test.json: " + key + ": expected a number from 0.0 to 1.0 (a fraction), got 1.5");
  }
}

// The fullest rank's, or what each expert is given room for.
TEST(ExpertLoad, IsTheImbalanceOrTheRoomThatThereIs) {
  TransformerConfig model;
  EXPECT_EQ(expert_load(model), 1.0);
  model.moe_load_imbalance = 1.5;
  EXPECT_EQ(expert_load(model), 1.5);
  model.moe_expert_capacity_factor = 1.25;
  EXPECT_EQ(expert_load(model), 1.25);
}

}  // namespace
}  // namespace ptdp
