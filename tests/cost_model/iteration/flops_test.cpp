// Tests of FLOPs, utilization and training time against the papers.
#include "cost_model/iteration/flops.h"

#include <gtest/gtest.h>

#include "cost_model/inputs/catalog/catalog.h"

namespace ptdp {
namespace {

constexpr double kTokensOfBatch = 450e9;
constexpr double kDay = 86400.0;

// SC21 (arXiv:2104.04473) table 1: achieved TFLOP/s per GPU and PFLOP/s in all are printed for the
// batch and the number of GPUs; eq. 3 gives the FLOPs between them. 1T: 163 TFLOP/s, 502 PFLOP/s.
TEST(Sc21Flops, ReproduceTheAggregateOfTheTrillionParameterRun) {
  const ModelProfile model = find_model("1T");
  const Flops flops = sc21_flops(model.config, 3072);
  // 96 · 3072 · 2048 · 128 · 25600² · (1 + 2048/(6·25600) + 51200/(16·128·25600))
  const double by_hand = 96.0 * 3072 * 2048 * 128 * 25600.0 * 25600.0 *
                         (1.0 + 2048.0 / 153600.0 + 51200.0 / 52428800.0);
  EXPECT_NEAR(flops.value() / by_hand, 1.0, 1e-12);
  // 502 PFLOP/s for the measured 102.6 s is off by the rounding of 163 to an integer, 0.3 %.
  EXPECT_NEAR(flops.value() / 102.63 / kPeta, 502.0, 2.0);
}

// Korthikanti et al. (arXiv:2205.05198) table 5 times with the MFU and HFU of Megatron-LM's README.
TEST(Utilization, ReproducesThePublishedMfuAndHfu) {
  struct Row {
    const char* model;
    std::int64_t batch;
    std::int64_t gpus;
    double seconds;
    double mfu;
    double hfu;
  };
  for (const Row& row :
       {Row{"22B", 4, 8, 1.10, 41.5, 43.7}, Row{"gpt3-175b", 64, 64, 13.75, 51.4, 52.8},
        Row{"530B", 280, 280, 37.83, 56.0, 57.0}, Row{"1T", 512, 512, 71.49, 56.3, 57.0}}) {
    const TransformerConfig model = find_model(row.model).config;
    const FlopsPerSecond peak = teraflops(312.0);
    const Seconds time(row.seconds);
    EXPECT_NEAR(100.0 * utilization(model_flops(model, row.batch), time, row.gpus, peak), row.mfu,
                0.25)
        << row.model;
    EXPECT_NEAR(100.0 * utilization(hardware_flops(model, row.batch, Recompute::kSelective), time,
                                    row.gpus, peak),
                row.hfu, 0.25)
        << row.model;
  }
}

TEST(HardwareFlops, FollowTheKindOfRecomputation) {
  const TransformerConfig model = find_model("145B").config;
  EXPECT_EQ(hardware_flops(model, 8, Recompute::kNone), model_flops(model, 8));
  EXPECT_EQ(hardware_flops(model, 8, Recompute::kSelective), selective_recompute_flops(model, 8));
  EXPECT_EQ(hardware_flops(model, 8, Recompute::kFull), sc21_flops(model, 8));
}

// Counting products: a layer's forward pass is 24bsh² + 4bs²h, the logits 2bshV; backward is twice
// that, and full recomputation repeats the layers only.
TEST(Flops, AreTheSumOfTheProducts) {
  const TransformerConfig model = find_model("7.5B").config;
  const double b = 3.0;
  const double s = model.seq_length;
  const double h = model.hidden_size;
  const double layers = model.num_layers * (24.0 * b * s * h * h + 4.0 * b * s * s * h);
  const double logits = 2.0 * b * s * h * model.vocab_size;
  EXPECT_NEAR(model_flops(model, 3).value() / (3.0 * (layers + logits)), 1.0, 1e-12);
  EXPECT_NEAR(sc21_flops(model, 3).value() / (4.0 * layers + 3.0 * logits), 1.0, 1e-12);
}

// SC21 section 5.1: GPT-3 on 1024 A100s at 140 TFLOP/s takes 34 days for 300 B tokens, the 1T model
// on 3072 at 163 TFLOP/s 84 days for 450 B.
TEST(TrainingTime, ReproducesThePaperExamples) {
  EXPECT_NEAR(sc21_training_time(300e9, 175e9, 1024, teraflops(140.0)).value() / kDay, 34.0, 0.5);
  EXPECT_NEAR(sc21_training_time(kTokensOfBatch, 1e12, 3072, teraflops(163.0)).value() / kDay, 84.0,
              1.0);
}

// By hand for Llama 2 70B (80 layers, h = 8192, 64 heads in 8 groups, MLP 28672, V = 32000) and one
// sequence of 4096: per token and layer 2·(8192·(8192 + 2·1024) + 8192² + 3·8192·28672) FLOPs of
// products and 4·4096·8192 of attention, 2·32000·8192 for the logits, three times over.
TEST(ModelFlops, CountQueryGroupsAndGates) {
  TransformerConfig model;
  model.num_layers = 80;
  model.hidden_size = 8192;
  model.num_attention_heads = 64;
  model.num_query_groups = 8;
  model.ffn_hidden_size = 28672;
  model.gated_linear_unit = true;
  model.vocab_size = 32000;
  model.seq_length = 4096;
  const double layer = 2.0 * (8192.0 * 10240 + 8192.0 * 8192 + 3.0 * 8192 * 28672);
  const double token = 80.0 * (layer + 4.0 * 4096 * 8192) + 2.0 * 32000 * 8192;
  EXPECT_NEAR(model_flops(resolved(model, "test"), 1) / Flops(3.0 * 4096 * token), 1.0, 1e-12);
  const double causal = token - 80.0 * 2.0 * 4096 * 8192;
  EXPECT_NEAR(causal_model_flops(resolved(model, "test"), 1) / Flops(3.0 * 4096 * causal), 1.0,
              1e-12);
}

// By hand for DeepSeek-V3 (arXiv:2412.19437 section 4.2) and one sequence of 4096. A token meets in
// each layer 7168·1536 + 1536·128·192 + 7168·576 + 512·128·256 + 128·128·7168 weights of attention,
// in 3 layers 3·7168·18432, in 58 nine experts of 3·7168·2048 and a router of 7168·256; the module
// that predicts a second token has one such layer, 2·7168² and logits of its own.
TEST(ModelFlops, CountExpertsLatentAttentionAndWhatPredictsMore) {
  TransformerConfig model = {.num_layers = 61,
                             .hidden_size = 7168,
                             .num_attention_heads = 128,
                             .ffn_hidden_size = 18432,
                             .vocab_size = 129280,
                             .seq_length = 4096,
                             .gated_linear_unit = true,
                             .add_bias_linear = false,
                             .untied_embeddings = true,
                             .position_embedding = PositionEmbedding::kRope,
                             .normalization = Normalization::kRmsNorm,
                             .q_lora_rank = 1536,
                             .kv_lora_rank = 512,
                             .qk_head_dim = 128,
                             .qk_pos_emb_head_dim = 64,
                             .v_head_dim = 128,
                             .num_experts = 256,
                             .moe_router_topk = 8,
                             .moe_ffn_hidden_size = 2048,
                             .moe_shared_expert_intermediate_size = 2048,
                             .first_dense_layers = 3};
  model = resolved(model, "test");
  const double h = 7168.0;
  const double attention =
      h * 1536 + 1536.0 * 128 * 192 + h * 576 + 512.0 * 128 * 256 + 128.0 * 128 * h;
  const double dense = 3.0 * h * 18432;
  const double experts = 9.0 * 3.0 * h * 2048 + h * 256;
  const double scores = 4096.0 * 128 * (192 + 128);
  const double logits = 129280.0 * h;
  const double weights = 61.0 * attention + 3.0 * dense + 58.0 * experts;
  const double forward = 2.0 * 4096;
  EXPECT_NEAR(model_flops(model, 1).value() / (3.0 * forward * (weights + 61.0 * scores + logits)),
              1.0, 1e-12);
  EXPECT_NEAR(causal_model_flops(model, 1).value() /
                  (3.0 * forward * (weights + 61.0 * scores / 2.0 + logits)),
              1.0, 1e-12);
  model.mtp_num_layers = 1;
  EXPECT_NEAR(model_flops(model, 1).value() /
                  (3.0 * forward *
                   (weights + attention + experts + 2.0 * h * h + 62.0 * scores + 2.0 * logits)),
              1.0, 1e-12);
}

// By hand for Chinchilla (80 layers, h = 8192, V = 32000) and one sequence of 2048: a token meets
// 12h² weights in each layer and has three products of 2048 scores by 8192, of which the causal
// convention counts half; three times over with the logits. A microbatch of 4 of 8 sequences
// projects 2048 positions by an h by h matrix in each layer, forward and for that matrix's
// gradient, and once more where layers are recomputed.
TEST(ModelFlops, CountScoresOfRelativePositions) {
  const TransformerConfig model = find_model("chinchilla-70b").config;
  const double s = 2048.0;
  const double h = 8192.0;
  const double layer = 12.0 * h * h + 3.0 * s * h;
  const double logits = 32000.0 * h;
  EXPECT_NEAR(model_flops(model, 1).value() / (3.0 * 2.0 * s * (80.0 * layer + logits)), 1.0,
              1e-12);
  EXPECT_NEAR(causal_model_flops(model, 1).value() /
                  (3.0 * 2.0 * s * (80.0 * (layer - 1.5 * s * h) + logits)),
              1.0, 1e-12);
  const double positions = 2.0 * 80.0 * 2.0 * s * h * h;  // of two microbatches, a pass each
  ParallelConfig config{.micro_batch_size = 4};
  EXPECT_NEAR((hardware_flops(model, 8, config) - model_flops(model, 8)).value() / positions, 2.0,
              1e-9);
  config.recompute = Recompute::kFull;
  EXPECT_NEAR((hardware_flops(model, 8, config) - sc21_flops(model, 8)).value() / positions, 3.0,
              1e-9);
  config.recompute_num_layers = 40;
  const Flops half = model_flops(model, 8) + 0.5 * (sc21_flops(model, 8) - model_flops(model, 8));
  EXPECT_NEAR((hardware_flops(model, 8, config) - half).value() / positions, 2.5, 1e-9);
}

// A window of 1024 in the last 6 of 24 layers.
TEST(ModelFlops, CountWindows) {
  TransformerConfig model = find_model("1.7B").config;
  const double h = model.hidden_size;
  const double token = 2.0 * 24 * 12.0 * h * h + 2.0 * h * model.vocab_size;
  model.window_size = 1024;
  model.first_window_layer = 18;
  const double scores = 4.0 * h * (18.0 * 2048 + 6.0 * 1024);
  EXPECT_NEAR(model_flops(model, 1).value() / (3.0 * 2048 * (token + scores)), 1.0, 1e-12);
  const double causal = 4.0 * h * (18.0 * 1024 + 6.0 * (1024 - 256));
  EXPECT_NEAR(causal_model_flops(model, 1).value() / (3.0 * 2048 * (token + causal)), 1.0, 1e-12);
}

// GPT-OSS's rule: every second of 24 layers attends to all tokens, the others to 128.
TEST(ModelFlops, CountLayersWithoutTheWindow) {
  TransformerConfig model = find_model("1.7B").config;
  const double h = model.hidden_size;
  const double token = 2.0 * 24 * 12.0 * h * h + 2.0 * h * model.vocab_size;
  model.window_size = 128;
  model.window_attn_skip_freq = 2;
  const double scores = 4.0 * h * (12.0 * 2048 + 12.0 * 128);
  EXPECT_NEAR(model_flops(model, 1).value() / (3.0 * 2048 * (token + scores)), 1.0, 1e-12);
  const double causal = 4.0 * h * (12.0 * 1024 + 12.0 * (128 - 4));
  EXPECT_NEAR(causal_model_flops(model, 1).value() / (3.0 * 2048 * (token + causal)), 1.0, 1e-12);
}

}  // namespace
}  // namespace ptdp
