#include "runtime/rehearsal/shrink.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/rank_sizes.h"
#include "runtime/model/executed_fields.h"

namespace ptdp {

TransformerConfig shrunk(const TransformerConfig& model, const ParallelConfig& config) {
  constexpr int channels = 2;
  constexpr int vocabulary = 64;
  const bool shares_keys =
      !has_latent_attention(model) && model.num_query_groups < model.num_attention_heads;
  // Ranks that share a key head do so in the small model, too.
  const int sharers = splits_key_heads(model, config.tp) ? config.tp / model.num_query_groups : 1;
  TransformerConfig small = {.num_layers = model.num_layers,
                             .hidden_size = config.tp * channels,
                             .num_attention_heads = (shares_keys ? 2 : 1) * config.tp,
                             .num_query_groups = config.tp / sharers,
                             .kv_channels = channels * sharers,
                             .ffn_hidden_size = 4 * config.tp * channels,
                             .vocab_size = vocabulary,
                             .seq_length = config.tp,
                             .gated_linear_unit = model.gated_linear_unit,
                             .add_bias_linear = model.add_bias_linear,
                             .untied_embeddings = model.untied_embeddings,
                             .position_embedding = model.position_embedding,
                             .normalization = model.normalization,
                             .dropout = model.dropout,
                             .layernorm_zero_centered_gamma = model.layernorm_zero_centered_gamma,
                             .activation_func = model.activation_func,
                             .attn_logit_softcapping = model.attn_logit_softcapping,
                             .final_logit_softcapping = model.final_logit_softcapping,
                             .parallel_residual = model.parallel_residual,
                             .add_qkv_bias = model.add_qkv_bias,
                             .add_projection_bias = model.add_projection_bias,
                             .add_mlp_bias = model.add_mlp_bias,
                             .norm_placement = model.norm_placement,
                             .qk_layernorm = model.qk_layernorm};
  if (model.position_embedding == PositionEmbedding::kAlibi || has_relative_positions(model)) {
    small.position_embedding = PositionEmbedding::kNone;
  }
  const bool is_of_all = model.qk_layernorm_width == QkNormWidth::kAllHeads;
  if (is_of_all && (config.tp == 1 || model.normalization == Normalization::kRmsNorm)) {
    small.qk_layernorm_width = model.qk_layernorm_width;
  }
  if (model.window_size > 0) {
    small.window_size = 1;
    small.first_window_layer = model.first_window_layer;
    small.window_attn_skip_freq = model.window_attn_skip_freq;
  }
  return small;
}

ParallelConfig shrunk(ParallelConfig config) {
  for_each_config_field([&](const auto& field) {
    if (!field.traits.executes.empty()) {
      config.*field.member = ParallelConfig{}.*field.member;
    }
  });
  config.dp = 1;
  config.micro_batch_size = 1;
  return config;
}

std::string left_out(const TransformerConfig& model, const ParallelConfig& config) {
  std::vector<std::string> parts;
  for (const ExecutedField& field : executed_fields(model)) {
    const std::string part = "the model " + field.found;
    if (!field.is_executed && std::find(parts.begin(), parts.end(), part) == parts.end()) {
      parts.push_back(part);
    }
  }
  if (model.qk_layernorm_width == QkNormWidth::kAllHeads &&
      shrunk(model, config).qk_layernorm_width != model.qk_layernorm_width) {
    parts.emplace_back("the model has layer norms of queries and keys over all heads");
  }
  const std::vector<ExecutedField> small = executed_fields(shrunk(config));
  const std::vector<ExecutedField> fields = executed_fields(config);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].is_executed && small[i].is_executed) {
      parts.push_back(fmt::format("the plan has {} {}", fields[i].key, fields[i].found));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace ptdp
