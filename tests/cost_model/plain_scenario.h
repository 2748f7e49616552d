// Scenarios in which times of products and of passes over memory can be worked out by hand.
#pragma once

#include "tests/support/scenarios.h"

namespace ptdp {

inline constexpr double kPlainFlops = 1e12;
inline constexpr double kPlainBandwidth = 1e12;

/// Returns a scenario in which products take FLOPs / kPlainFlops and passes bytes /
/// kPlainBandwidth. Launching kernels takes no time. The stack keeps and moves elements of 2 bytes.
inline Scenario plain_scenario(const TransformerConfig& model,
                               std::int64_t global_batch_size = 64) {
  Scenario scenario = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2025", global_batch_size);
  scenario.job.model = resolved(model, "model");
  GpuSpec& gpu = scenario.cluster.gpu;
  gpu.num_multiprocessors = 1;
  gpu.matmul_efficiency = 1.0;
  gpu.matmul_sustained = 1.0;
  gpu.card_spread = 0.0;
  gpu.matmul_start = Seconds(0.0);
  gpu.matmul_startup_depth = 0.0;
  gpu.matmul_output_depth = 0.0;
  gpu.matmul_wave_overlap = 0.0;
  gpu.matmul_tile = MatmulTile{.rows = 1, .columns = 1};
  gpu.matmul_memory_efficiency = 1e9;  // never the bound
  gpu.memory_bandwidth = BytesPerSecond(kPlainBandwidth);
  gpu.memory_efficiency = 1.0;
  gpu.cast_efficiency.reset();
  gpu.cast_start.reset();
  gpu.kernel_latency = Seconds(0.0);
  gpu.measured_operations.clear();
  for (FlopsPerSecond* peak : {&gpu.peak_fp16, &gpu.peak_bf16}) {
    *peak = FlopsPerSecond(kPlainFlops);
  }
  scenario.stack.host_time_per_kernel = Seconds(0.0);
  return scenario;
}

/// Returns a model of Llama's kind with eight experts in every layer, of which each token visits
/// two.
inline TransformerConfig small_expert_model() {
  return {.num_layers = 4,
          .hidden_size = 64,
          .num_attention_heads = 4,
          .ffn_hidden_size = 192,
          .vocab_size = 1024,
          .seq_length = 256,
          .gated_linear_unit = true,
          .add_bias_linear = false,
          .untied_embeddings = true,
          .position_embedding = PositionEmbedding::kRope,
          .normalization = Normalization::kRmsNorm,
          .num_experts = 8,
          .moe_router_topk = 2,
          .moe_ffn_hidden_size = 128};
}

/// Returns small_expert_model() with a dense MLP in every layer.
inline TransformerConfig small_dense_model() {
  TransformerConfig model = small_expert_model();
  model.num_experts = model.moe_router_topk = model.moe_ffn_hidden_size = 0;
  return model;
}

/// Returns a model of Gopher's kind: relative positions, 4 heads of 16, an MLP of 256, no dropout.
inline TransformerConfig small_relative_model() {
  return {.num_layers = 4,
          .hidden_size = 64,
          .num_attention_heads = 4,
          .vocab_size = 1024,
          .seq_length = 256,
          .add_bias_linear = false,
          .position_embedding = PositionEmbedding::kRelative,
          .normalization = Normalization::kRmsNorm,
          .add_projection_bias = true,
          .add_mlp_bias = true};
}

/// Returns small_expert_model() with latent attention (q 48, c 32, heads of 16 + 8 and 24). Its
/// first layer is dense, and the others have a shared expert.
inline TransformerConfig small_latent_model() {
  TransformerConfig model = small_expert_model();
  model.q_lora_rank = 48;
  model.kv_lora_rank = 32;
  model.qk_head_dim = 16;
  model.qk_pos_emb_head_dim = 8;
  model.v_head_dim = 24;
  model.first_dense_layers = 1;
  model.moe_shared_expert_intermediate_size = 128;
  return model;
}

}  // namespace ptdp
