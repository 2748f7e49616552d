// Counts FLOPs by the weights and tokens that each token meets.
#include "cost_model/iteration/flops.h"

#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"

namespace ptdp {
namespace {

constexpr double kLogitPasses = 3.0;  // forward, input gradient, weight gradient

/// Returns the weights that a token meets in all layers, with those of modules that predict more
/// tokens.
double weights_met(const TransformerConfig& model) {
  const double with_experts = num_expert_layers(model);
  const double last = active_layer_weights(model, has_experts(model, model.num_layers - 1));
  const double joined = 2.0 * model.hidden_size * model.hidden_size;  // a module's own matrix
  return (model.num_layers - with_experts) * layer_weights(model) +
         with_experts * active_layer_weights(model, true) + model.mtp_num_layers * (last + joined);
}

/// Returns the number of tokens that one token attends to, summed over layers: all s, or on average
/// those before it where `is_causal`. Layers without the window attend to all.
double tokens_attended_to(const TransformerConfig& model, bool is_causal) {
  double windowed = model.mtp_num_layers;
  for (int layer = 0; layer < model.num_layers; ++layer) {
    windowed += has_window(model) && !has_window(model, layer) ? 0.0 : 1.0;
  }
  const double whole = model.num_layers + model.mtp_num_layers - windowed;
  return whole * model.seq_length / (is_causal ? 2.0 : 1.0) +
         windowed * attended_tokens(model, is_causal);
}

/// Returns 2Bs·(layer_passes·W + attention_passes·A·(Q + C) + 3Vh), the shape that all conventions
/// share. W is the weights that a token meets, and A the tokens that it attends to. Q and C are the
/// widths of its queries and of what attention returns. With relative positions Q counts twice.
Flops convention(const TransformerConfig& model, std::int64_t global_batch_size,
                 double layer_passes, double attention_passes, bool is_causal = false) {
  const double tokens = static_cast<double>(global_batch_size) * model.seq_length;
  const auto width = static_cast<double>(
      (has_relative_positions(model) ? 2 : 1) * query_width(model) + context_width(model));
  const double logits = 1.0 * model.vocab_size * model.hidden_size * (1 + model.mtp_num_layers);
  return Flops(2.0 * tokens *
               (layer_passes * weights_met(model) +
                attention_passes * tokens_attended_to(model, is_causal) * width +
                kLogitPasses * logits));
}

/// Returns the weights that a token meets again in a layer because of its recomputed modules,
/// attention apart.
double weights_met_again(const TransformerConfig& model, RecomputeModules modules,
                         bool has_experts) {
  const double h = model.hidden_size;
  const double gates = model.gated_linear_unit ? 2.0 : 1.0;
  if (modules.has(RecomputeModule::kEverySecondProduct)) {
    const auto attention = static_cast<double>(key_width(model) + context_width(model));
    return h * (attention + (gates - 1.0) * model.ffn_hidden_size);
  }
  double weights = 0.0;
  if (modules.has(RecomputeModule::kMlaUpProjection) && has_latent_attention(model)) {
    const double heads = model.num_attention_heads;
    const auto queries = static_cast<double>(query_width(model));
    weights += queries * (model.q_lora_rank > 0 ? model.q_lora_rank : h) +
               heads * (model.qk_head_dim + model.v_head_dim) * model.kv_lora_rank;
  }
  const auto mlp = [&](double width) { return (gates + 1.0) * h * width; };
  if (!has_experts) {
    return weights + (modules.has(RecomputeModule::kMlp) ? mlp(model.ffn_hidden_size) : 0.0);
  }
  const bool repeats_all = modules.has(RecomputeModule::kMoe);
  if (repeats_all) {
    weights += h * model.num_experts + model.moe_router_topk * mlp(model.moe_ffn_hidden_size);
  }
  if (repeats_all || modules.has(RecomputeModule::kSharedExperts)) {
    weights += mlp(model.moe_shared_expert_intermediate_size);
  }
  return weights;
}

Flops selective_flops(const TransformerConfig& model, std::int64_t global_batch_size,
                      RecomputeModules modules) {
  const double tokens = static_cast<double>(global_batch_size) * model.seq_length;
  double weights = 0.0;
  for_each_kind(layers_of_model(model), [&](std::size_t kind, double count) {
    weights += count * weights_met_again(model, modules, kLayerKinds[kind].has_experts);
  });
  const Flops others = modules.has(RecomputeModule::kCoreAttention)
                           ? selective_recompute_flops(model, global_batch_size)
                           : model_flops(model, global_batch_size);
  return others + Flops(2.0 * tokens * weights);
}

/// Returns hardware_flops() of what tokens take part in.
Flops flops_of_tokens(const TransformerConfig& model, std::int64_t global_batch_size,
                      const ParallelConfig& config) {
  if (repeats(config.recompute) == Repeats::kModules &&
      config.recompute_modules != kCoreAttentionAlone) {
    return selective_flops(model, global_batch_size, config.recompute_modules);
  }
  const Flops all = hardware_flops(model, global_batch_size, config.recompute);
  if (!recomputes_some(config)) {
    return all;
  }
  const double share = total(recomputed_of_model(model, config)) / total(layers_of_model(model));
  const Flops none = model_flops(model, global_batch_size);
  return none + share * (all - none);
}

/// Returns the FLOPs of projecting relative positions to keys: forward, for the weight gradient,
/// and again in layers that are recomputed; in every layer, once for each microbatch.
Flops flops_of_positions(const TransformerConfig& model, std::int64_t global_batch_size,
                         const ParallelConfig& config) {
  double layers = 2.0 * (model.num_layers + model.mtp_num_layers);
  if (repeats(config.recompute) == Repeats::kLayer) {
    layers += recomputes_some(config) ? total(recomputed_of_model(model, config))
                                      : 1.0 * model.num_layers + model.mtp_num_layers;
  }
  const double microbatches = static_cast<double>(global_batch_size) / config.micro_batch_size;
  return Flops(2.0 * microbatches * model.seq_length * layers * position_weights(model));
}

}  // namespace

Flops model_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 3.0, 3.0);
}

Flops causal_model_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 3.0, 3.0, /*is_causal=*/true);
}

Flops linear_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 3.0, 0.0);
}

Flops sc21_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 4.0, 4.0);
}

Flops selective_recompute_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 3.0, 6.0);
}

Flops hardware_flops(const TransformerConfig& model, std::int64_t global_batch_size,
                     Recompute recompute) {
  switch (repeats(recompute)) {
    case Repeats::kNothing:
      return model_flops(model, global_batch_size);
    case Repeats::kModules:
      return selective_recompute_flops(model, global_batch_size);
    case Repeats::kLayer:
      return sc21_flops(model, global_batch_size);
  }
  return {};
}

Flops hardware_flops(const TransformerConfig& model, std::int64_t global_batch_size,
                     const ParallelConfig& config) {
  return flops_of_tokens(model, global_batch_size, config) +
         flops_of_positions(model, global_batch_size, config);
}

Flops counted_flops(FlopCount count, const TransformerConfig& model, std::int64_t global_batch_size,
                    const ParallelConfig& config) {
  switch (count) {
    case FlopCount::kHardware:
      return hardware_flops(model, global_batch_size, config);
    case FlopCount::kModel:
      return model_flops(model, global_batch_size);
    case FlopCount::kCausal:
      return causal_model_flops(model, global_batch_size);
  }
  return {};
}

double utilization(Flops flops, Seconds time, std::int64_t gpus, FlopsPerSecond peak) {
  return flops.value() / (time.value() * static_cast<double>(gpus) * peak.value());
}

Seconds sc21_training_time(double tokens, double parameters, std::int64_t gpus,
                           FlopsPerSecond achieved_per_gpu) {
  return Seconds(8.0 * tokens * parameters /
                 (static_cast<double>(gpus) * achieved_per_gpu.value()));
}

}  // namespace ptdp
