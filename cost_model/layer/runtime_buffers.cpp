// Computes the sizes of the runtime's buffers, and of what a layer holds.
#include "cost_model/layer/runtime_buffers.h"

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {
namespace {

constexpr double kTokenBytes = 4.0;  // size of a token's id, for the embedding and for the loss

/// Adds the scratch memory that operations on a host take for `tokens` tokens.
void add_host_scratch(const TransformerConfig& model, const ParallelConfig& config,
                      std::int64_t tokens, Precision precision, RuntimeBuffers& buffers) {
  const std::int64_t h = model.hidden_size;
  const int t = config.tp;
  const auto scratch = [&](std::int64_t outputs, std::int64_t inputs) {
    return host_linear_scratch(tokens, outputs, inputs, precision);
  };
  buffers.attending = host_attention_scratch(
      model.seq_length, model.kv_channels,
      key_heads_of_rank(model, t) < model.num_attention_heads / t, precision);
  buffers.qkv_products = scratch((query_width(model) + 2 * key_width(model)) / t, h);
  buffers.projection = scratch(h, context_width(model) / t);
  buffers.fc1 = scratch(mlp_up_width(model) / t, h);
  buffers.fc2 = scratch(h, model.ffn_hidden_size / t);
  buffers.output = scratch(padded_vocab_size(model, t) / t, h);
  buffers.norming = Bytes(4.0 * accumulator_bytes(precision) * static_cast<double>(h));
}

/// Sets what the ends of a layer's branches take, from rows and statistics.
void set_branches(const TransformerConfig& model, RuntimeBuffers& buffers) {
  const Bytes normed = buffers.rows + buffers.statistics;
  const bool has_before = model.norm_placement != NormPlacement::kBehind;
  buffers.is_parallel = model.parallel_residual;
  buffers.entered1 = has_before ? buffers.rows + normed : buffers.rows;
  buffers.entered2 = buffers.is_parallel ? normed : buffers.entered1;
  if (has_before && !buffers.is_parallel) {
    buffers.normed_middle = normed;
  }
  const bool is_normed = model.norm_placement != NormPlacement::kBefore;
  if (is_normed) {
    buffers.left = normed;
    buffers.branch = buffers.rows;
  }
  const bool is_scaled = !is_normed && model.residual_multiplier != 1.0;
  if (buffers.is_scattered || is_scaled || dropout_rates(model).hidden > 0.0) {
    buffers.summed_gradient = buffers.all_rows;
  }
}

}  // namespace

RuntimeBuffers runtime_buffers(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const Precision precision = scenario.stack.precision;
  const double t = config.tp;
  const std::int64_t tokens = std::int64_t{1} * model.seq_length * config.micro_batch_size;
  const auto n = static_cast<double>(tokens);
  const double element = element_bytes(precision);
  const double accumulator = accumulator_bytes(precision);
  RuntimeBuffers buffers;
  buffers.is_scattered = config.sequence_parallel && config.tp > 1;
  const double r = buffers.is_scattered ? n / t : n;
  buffers.rows = Bytes(r * model.hidden_size * element);
  buffers.all_rows = Bytes(n * model.hidden_size * element);
  buffers.attention = Bytes(n * static_cast<double>(query_width(model)) / t * element);
  buffers.qkv =
      buffers.attention + Bytes(2.0 * n * static_cast<double>(key_width(model)) / t * element);
  const bool shares_keys = splits_key_heads(model, config.tp);
  const auto keys_of_rank = static_cast<double>(key_width_of_rank(model, config.tp));
  if (shares_keys) {
    buffers.keys = Bytes(2.0 * n * keys_of_rank * element);
    buffers.gathered_keys = Bytes(2.0 * n * static_cast<double>(key_width(model)) * element);
  }
  buffers.log_sums = Bytes(n * model.num_attention_heads / t * accumulator);
  const double of_vector = model.normalization == Normalization::kLayerNorm ? 2.0 : 1.0;
  buffers.statistics = Bytes(of_vector * r * accumulator);
  set_branches(model, buffers);
  if (splits_norms(model, config.tp)) {
    const double sums = 2.0 * n * accumulator;
    buffers.qk_normed = buffers.attention + Bytes(sums);  // with an rstd for each sum
    if (shares_keys) {  // which are normed before they are gathered
      buffers.qk_normed_behind = buffers.qkv + Bytes(sums);
    } else {
      buffers.qk_normed += Bytes(n * keys_of_rank * element);
    }
    buffers.norm_sums = Bytes(sums + n * accumulator);
    buffers.summing_norms =
        Bytes(sums) +
        reduction_scratch(static_cast<std::int64_t>(sums), config.tp, accumulator_bytes(precision));
  } else if (model.qk_layernorm) {
    const bool is_of_heads = model.qk_layernorm_width != QkNormWidth::kAllHeads;
    const double vectors =
        is_of_heads ? model.num_attention_heads / t + key_heads_of_rank(model, config.tp) : 2.0;
    buffers.qk_normed = buffers.attention +
                        Bytes(n * keys_of_rank * element + of_vector * n * vectors * accumulator);
  }
  buffers.up = Bytes(n * static_cast<double>(mlp_up_width(model)) / t * element);
  buffers.activated = Bytes(n * model.ffn_hidden_size / t * element);
  buffers.logits =
      Bytes(n * static_cast<double>(padded_vocab_size(model, config.tp)) / t * element);
  buffers.loss = Bytes(3.0 * n * accumulator);
  buffers.tokens = Bytes(n * kTokenBytes);
  // A GPU's attention takes less than the results of the MLP, which are not there at the same time.
  if (scenario.stack.workspace.value() == 0.0) {
    buffers.replaces_qkv = !model.qk_layernorm;
    add_host_scratch(model, config, tokens, precision, buffers);
  }
  buffers.summing = reduction_scratch(static_cast<std::int64_t>(buffers.all_rows.value()),
                                      config.tp, element_bytes(precision));
  buffers.summing_keys = reduction_scratch(static_cast<std::int64_t>(buffers.gathered_keys.value()),
                                           config.tp, element_bytes(precision));
  buffers.scattered = buffers.is_scattered ? buffers.rows : Bytes(0.0);
  buffers.is_behind = config.tp > 1 && scenario.stack.tensor_parallel_overlap;
  if (buffers.is_scattered && buffers.is_behind) {
    buffers.gathered_behind = buffers.all_rows - buffers.rows;
  }
  return buffers;
}

LayerMemory layer_memory(const RuntimeBuffers& b, Recompute recompute) {
  const Bytes ends = b.entered1 + b.entered2 + 2.0 * b.left;
  const Bytes core = b.attention + b.log_sums;
  LayerMemory layer{
      .most = ends + b.qkv + b.keys + b.qk_normed + core + b.up + b.activated,
      .deferred = 2.0 * b.rows + 2.0 * b.all_rows + b.qkv + b.attention + b.up + b.activated};
  switch (repeats(recompute)) {
    case Repeats::kNothing:
      layer.kept = layer.most;
      break;
    case Repeats::kModules:
      layer.kept = layer.most - core;
      break;
    case Repeats::kLayer:
      layer.kept = b.rows;
      break;
  }
  return layer;
}

LayerMemory layer_memory(const Scenario& scenario, const ParallelConfig& config) {
  return layer_memory(runtime_buffers(scenario, config), config.recompute);
}

}  // namespace ptdp
