// Tests of the parameters that a rank holds, shards and updates.
#include "cost_model/pipeline_rank/rank_parameters.h"

#include <gtest/gtest.h>

#include <random>

#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

/// Returns the parameters of a layer that every tensor-parallel rank holds in full, for the models
/// below. They are two norms, the compressions of latent attention with their norms, and the router
/// of experts.
double replicated_of_layer(const TransformerConfig& model, bool is_expert) {
  const double h = model.hidden_size;
  double count = 2.0 * h;
  if (model.kv_lora_rank > 0) {
    const double q = model.q_lora_rank;
    const double c = model.kv_lora_rank;
    count += h * q + q + h * (c + model.qk_pos_emb_head_dim) + c;
  }
  if (is_expert) {
    count += model.num_experts * (h + (model.moe_router_enable_expert_bias ? 1.0 : 0.0) +
                                  (model.moe_router_bias ? 1.0 : 0.0));
  }
  return count;
}

TransformerConfig random_model(std::mt19937& random, int pp, int tp) {
  const auto one_of = [&](int a, int b) { return random() % 2 == 0 ? a : b; };
  TransformerConfig model = random() % 2 == 0 ? small_latent_model() : small_expert_model();
  model.num_layers = 2 * pp;
  model.vocab_size = 128 * tp * one_of(1, 3);
  model.first_dense_layers = static_cast<int>(random() % (2 * pp));
  model.moe_layer_freq = one_of(1, 2);
  model.moe_router_enable_expert_bias = random() % 2 == 0;
  model.moe_router_bias = random() % 2 == 0;
  model.attention_sinks = model.kv_lora_rank == 0 && random() % 2 == 0;
  model.untied_embeddings = random() % 2 == 0;
  model.mtp_num_layers = static_cast<int>(random() % 3);
  model.moe_shared_expert_intermediate_size = one_of(0, 64);
  return resolved(model, "model");
}

// What all ranks of one replica hold, less what they hold several times, is the model.
TEST(RankParameters, AddUpToTheModel) {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    const int pp = 1 << random() % 3;
    const int tp = 1 << random() % 3;
    const int ep = 1 << random() % 4;
    const int etp = 1 << random() % 2;
    const TransformerConfig model = random_model(random, pp, tp);
    const ParallelConfig config{
        .tp = tp, .pp = pp, .dp = 16, .ep = ep, .etp = etp, .sequence_parallel = true};
    const std::vector<RankParameters> all = parameters_by_rank(model, config);
    ASSERT_EQ(std::ssize(all), pp);
    double sum = 0.0;
    for (int rank = 0; rank < pp; ++rank) {
      const RankParameters held = rank_parameters(model, config, rank);
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], held);
      sum += tp * held.dense + 1.0 * ep * etp * held.experts;
    }
    const double h = model.hidden_size;
    double again = h;  // the final norm
    for (int layer = 0; layer < model.num_layers; ++layer) {
      again += replicated_of_layer(model, has_experts(model, layer));
    }
    again += model.mtp_num_layers *
             (3.0 * h + replicated_of_layer(model, has_experts(model, model.num_layers - 1)));
    // Both ends hold a tied table, and modules' tokens need the embedding at the end.
    const bool has_second_table = pp > 1 && (!model.untied_embeddings || model.mtp_num_layers > 0);
    const double table = has_second_table ? 1.0 * model.vocab_size * h : 0.0;
    EXPECT_NEAR(sum - (tp - 1) * again - table,
                static_cast<double>(parameter_count(model) + mtp_parameter_count(model)), 1e-3)
        << "round " << round;
  }
}

// BLOOM's embedding has a norm, and OPT has two rows of positions more than tokens, on the first
// rank; a norm without biases has a weight for each element. Two layers of 12·64 and two norms, 128
// words, 16 tokens and h = 8.
TEST(RankParameters, HaveWhatIsBesideTheEmbedding) {
  TransformerConfig model = {.num_layers = 2,
                             .hidden_size = 8,
                             .num_attention_heads = 2,
                             .vocab_size = 128,
                             .seq_length = 16,
                             .add_bias_linear = false,
                             .untied_embeddings = true};
  const ParallelConfig config{.pp = 2};
  const auto held = [&](int rank) {
    return rank_parameters(resolved(model, "model"), config, rank).dense;
  };
  EXPECT_EQ(held(0), 12 * 64 + 2 * 16 + 128 * 8 + 16 * 8);
  model.embedding_layernorm = true;
  EXPECT_EQ(held(0), 12 * 64 + 2 * 16 + 128 * 8 + 16 * 8 + 16);
  model.max_position_embeddings = 18;
  EXPECT_EQ(held(0), 12 * 64 + 2 * 16 + 128 * 8 + 18 * 8 + 16);
  EXPECT_EQ(held(1), 12 * 64 + 2 * 16 + 128 * 8 + 16);
  model.layernorm_bias = false;
  EXPECT_EQ(held(0), 12 * 64 + 2 * 8 + 128 * 8 + 18 * 8 + 8);
  EXPECT_EQ(held(1), 12 * 64 + 2 * 8 + 128 * 8 + 8);
  model.parallel_residual = model.shared_residual_norm = true;
  EXPECT_EQ(held(1), 12 * 64 + 8 + 128 * 8 + 8);
}

// arXiv:2412.19437: 256 experts of 7168 by 2048, gated, over 64 GPUs: four on each.
TEST(RankParameters, OfDeepSeekV3sExperts) {
  const TransformerConfig model = resolved({.num_layers = 61,
                                            .hidden_size = 7168,
                                            .num_attention_heads = 128,
                                            .ffn_hidden_size = 18432,
                                            .vocab_size = 129280,
                                            .seq_length = 4096,
                                            .gated_linear_unit = true,
                                            .add_bias_linear = false,
                                            .num_experts = 256,
                                            .moe_router_topk = 8,
                                            .moe_ffn_hidden_size = 2048,
                                            .first_dense_layers = 3},
                                           "model");
  const ParallelConfig config{.dp = 64, .ep = 64};
  const double of_layer = 4.0 * 3 * 7168 * 2048;
  EXPECT_EQ(layer_parameters_of_rank(model, config, {.has_experts = true}).experts, of_layer);
  EXPECT_EQ(layer_parameters_of_rank(model, config, {}).experts, 0.0);
  EXPECT_EQ(rank_parameters(model, config, 0).experts, 58.0 * of_layer);
}

// ZeRO shards the dense parameters over tp·dp/tp GPUs, those of experts over as many as hold the
// same: 2·16/(4·2).
TEST(RankParameters, AreShardedByThoseWhoHoldTheSame) {
  const ParallelConfig config{
      .tp = 2, .pp = 2, .dp = 16, .ep = 4, .etp = 2, .sequence_parallel = true};
  EXPECT_DOUBLE_EQ(shard_of({.dense = 1600.0, .experts = 800.0}, config), 100.0 + 200.0);
  EXPECT_DOUBLE_EQ(shard_of({.dense = 1600.0}, {.dp = 16}), 100.0);
  // Both directions of a bidirectional pipeline hold every layer.
  const ParallelConfig both_ways{.pp = 2, .dp = 16, .schedule = ScheduleKind::kDualPipe};
  EXPECT_DOUBLE_EQ(shard_of({.dense = 1600.0}, both_ways), 50.0);
}

// By hand: two replicas of shards over eight ranks; without ZeRO a rank updates all it holds.
TEST(RankParameters, AreUpdatedByThoseWhoHoldThem) {
  const ParallelConfig config{.tp = 2, .dp = 8, .cp = 2, .zero_stage = 1, .dp_replicate = 2};
  EXPECT_DOUBLE_EQ(updated_by_rank({.dense = 1600.0}, config), 200.0);
  ParallelConfig whole = config;
  whole.zero_stage = 0;
  EXPECT_DOUBLE_EQ(updated_by_rank({.dense = 1600.0, .experts = 80.0}, whole), 1680.0);
  // There are 2·2·8/2 ranks that share shards; two by two they share the experts, so four hold the
  // same ones.
  ParallelConfig with_experts = config;
  with_experts.ep = 2;
  with_experts.etp = 2;
  EXPECT_DOUBLE_EQ(updated_by_rank({.dense = 1600.0, .experts = 80.0}, with_experts), 220.0);
}

TEST(RankParameters, HaveReplicasWhereMoreThanOneRankHoldsThem) {
  TransformerConfig dense;
  TransformerConfig experts;
  experts.num_experts = 4;
  EXPECT_FALSE(has_replicas(dense, {.tp = 4, .pp = 4}));
  EXPECT_TRUE(has_replicas(dense, {.dp = 2}));
  EXPECT_TRUE(has_replicas(dense, {.cp = 2}));
  // Experts that are not split over the tensor-parallel ranks are on all of them.
  EXPECT_TRUE(has_replicas(experts, {.tp = 4}));
  EXPECT_FALSE(has_replicas(experts, {.tp = 4, .ep = 2, .etp = 2}));
}

TEST(RankParameters, AreAddedAndMultipliedPartByPart) {
  RankParameters sum{.dense = 1.0, .experts = 10.0, .matrices = 100.0};
  sum += {.dense = 2.0, .experts = 30.0, .matrices = 400.0};
  const RankParameters doubled = sum * 2.0;
  EXPECT_EQ(doubled.dense, 6.0);
  EXPECT_EQ(doubled.experts, 80.0);
  EXPECT_EQ(doubled.matrices, 1000.0);
  EXPECT_EQ(doubled.total(), 86.0) << "matrices are part of the dense ones";
}

}  // namespace
}  // namespace ptdp
