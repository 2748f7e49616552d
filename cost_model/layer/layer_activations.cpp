// Adds up the tensors that a layer keeps for its backward pass.
#include "cost_model/layer/layer_activations.h"

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/expert_biases.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/layer/runtime_buffers.h"
#include "cost_model/operations/attention.h"

namespace ptdp {
namespace {

constexpr double kDropoutMaskBytes = 1.0;  // per element

// What the router keeps per token and expert, in fp32: a logit and a probability.
constexpr double kScores = 2.0;
constexpr double kScoreBytes = 4.0;

/// Returns what a layer keeps if every second product and all else but attention is recomputed.
/// These are its input, queries, values, what attention returns, and the MLP's first product. With
/// sequence parallelism they include what the projection's reduce-scatter returns.
Bytes kept_of_products(const TransformerConfig& model, const ParallelConfig& config,
                       const ActivationStorage& storage) {
  const double h = model.hidden_size;
  const bool is_split = config.sequence_parallel;
  const double whole = (is_split ? 2.0 : 1.0) * h / (is_split ? config.tp : 1);
  const auto split = static_cast<double>(query_width(model) + key_width(model) +
                                         context_width(model) + model.ffn_hidden_size);
  return Bytes(storage.element_bytes * static_cast<double>(tokens_of_rank(model, config)) *
               (whole + split / config.tp));
}

/// Returns the bytes per channel of the inputs of column-parallel layers and of what norms give
/// them.
double input_bytes(const TransformerConfig& model, LayerKind kind, RecomputeModules dropped,
                   const ActivationStorage& storage) {
  const double input = storage.fp8_input_bytes.value_or(storage.element_bytes);
  const bool drops_norms = dropped.has(RecomputeModule::kLayerNorm);
  const double of_attention = drops_norms && has_latent_attention(model) ? 0.0 : input;
  if (!kind.has_experts) {  // the norm in front of a dense MLP is part of it
    return of_attention + (cover_mlp(dropped, kind.has_experts) ? 0.0 : input);
  }
  const bool keeps_another = model.moe_shared_expert_intermediate_size > 0 &&
                             storage.fp8_input_bytes && !cover_mlp(dropped, kind.has_experts);
  return of_attention + (drops_norms ? 0.0 : storage.element_bytes) + (keeps_another ? input : 0.0);
}

/// Returns the numbers per token that single operations keep beside what fused kernels do.
/// Attention's output in another order is a copy, and a gate's activation is kept apart.
double kept_of_single_operations(const ParallelConfig& config, double context, double mlp,
                                 const ActivationStorage& storage) {
  const bool is_copied =
      storage.looks_up_tokens || (storage.copies_heads && config.micro_batch_size > 1);
  return (is_copied ? context : 0.0) + (storage.splits_gates ? mlp : 0.0);
}

/// Returns the bytes that routed experts and their router keep.
double kept_by_experts(const TransformerConfig& model, const ParallelConfig& config,
                       RecomputeModules dropped, const ActivationStorage& storage) {
  const double bytes = storage.element_bytes;
  const double input = storage.fp8_input_bytes.value_or(bytes);
  const double width = 1.0 * model.moe_ffn_hidden_size / config.etp;
  const double gates = model.gated_linear_unit ? 2.0 : 1.0;
  const double activated = dropped.has(RecomputeModule::kMoeActivation) ? 0.0 : input;
  // What is bounded is a copy of what the first product puts out.
  const bool keeps_bounded = storage.bounds_apart && !dropped.has(RecomputeModule::kMoeActivation);
  const double copies = keeps_bounded ? 2.0 : 1.0;
  const double outputs = storage.keeps_expert_outputs ? bytes : 0.0;
  return expert_rows(model, config) * ((input + outputs) * model.hidden_size +
                                       (bytes * gates * copies + activated) * width) +
         kScores * kScoreBytes * routed_tokens(model, config) * model.num_experts;
}

}  // namespace

ActivationStorage activation_storage(const TransformerConfig& model, const StackSpec& stack) {
  const Fp8Recipe* recipe = fp8_recipe(stack);
  return {.element_bytes = 1.0 * element_bytes(stack.precision),
          .fp8_input_bytes = recipe != nullptr && recipe->keeps_inputs
                                 ? std::optional(fp8_bytes(recipe->scaling))
                                 : std::nullopt,
          .stores_scores = is_unfused(model, stack),
          .keeps_gathered_inputs = stack.keeps_gathered_inputs,
          .keeps_expert_outputs = stack.keeps_expert_outputs,
          .bounds_apart = bounds_apart(model, stack),
          .copies_heads = stack.copies_heads,
          .looks_up_tokens = stack.looks_up_tokens,
          .splits_gates = stack.splits_gates && model.gated_linear_unit};
}

Bytes layer_activations(const TransformerConfig& model, int micro_batch_size, int tp,
                        Recompute recompute, bool is_sequence_parallel,
                        const ActivationStorage& storage) {
  return layer_activations(
      model,
      {.tp = tp, .micro_batch_size = micro_batch_size, .sequence_parallel = is_sequence_parallel},
      recompute, LayerKind{}, storage);
}

Bytes layer_activations(const TransformerConfig& model, const ParallelConfig& config,
                        Recompute recompute, LayerKind kind, const ActivationStorage& storage) {
  const double bytes = storage.element_bytes;
  const auto tokens = static_cast<double>(tokens_of_rank(model, config));
  const double h = model.hidden_size;
  const double sharded = config.sequence_parallel ? config.tp : 1;  // along the sequence
  if (repeats(recompute) == Repeats::kLayer) {
    return Bytes(bytes * tokens * h / sharded);
  }
  const RecomputeModules dropped =
      repeats(recompute) == Repeats::kModules ? config.recompute_modules : RecomputeModules{};
  if (dropped.has(RecomputeModule::kEverySecondProduct)) {
    return kept_of_products(model, config, storage);
  }
  const auto queries = static_cast<double>(query_width(model));
  const auto context = static_cast<double>(context_width(model));
  const bool is_latent = has_latent_attention(model);
  const double keys =
      is_latent ? queries : static_cast<double>(config.tp * key_width_of_rank(model, config.tp));
  const double values = is_latent ? context : keys;
  const bool keeps_core = !dropped.has(RecomputeModule::kCoreAttention);
  const double scores = keeps_core && storage.stores_scores
                            ? (has_dropout(model) ? 2.0 * bytes + kDropoutMaskBytes : bytes) *
                                  model.num_attention_heads * model.seq_length
                            : 0.0;
  // `whole` counts inputs of norms and of column-parallel layers, and dropout masks. `split` counts
  // outputs and inputs of the rest.
  const double input = storage.fp8_input_bytes.value_or(bytes);
  // What attention keeps of its output beside inputs in 8 bits.
  const double other_use = storage.fp8_input_bytes ? bytes : 0.0;
  const double ranks = 1.0 * model.q_lora_rank + model.kv_lora_rank;
  const bool drops_heads = is_latent && dropped.has(RecomputeModule::kMlaUpProjection);
  const double compressed =
      is_latent ? bytes * (ranks + model.qk_pos_emb_head_dim) + (drops_heads ? 0.0 : input * ranks)
                : 0.0;
  const double inputs = input_bytes(model, kind, dropped, storage);
  const double whole =
      (2.0 * bytes + inputs + (has_dropout(model) ? 2.0 * kDropoutMaskBytes : 0.0)) * h +
      compressed;
  const double normed = model.qk_layernorm ? bytes * (queries + keys) : 0.0;
  // Products with keys of tokens and of positions each keep queries that a vector was added to.
  const double added = has_relative_positions(model) && keeps_core ? bytes * queries : 0.0;
  const double heads = drops_heads ? 0.0 : bytes * (queries + keys + values) + normed + added;
  const double gates = model.gated_linear_unit ? 2.0 : 1.0;
  const double mlp = cover_mlp(dropped, kind.has_experts) ? 0.0 : dense_mlp_width(model, kind);
  const double apart = bytes * kept_of_single_operations(config, context, mlp, storage);
  const double split =
      heads + (input + other_use) * context + apart + bytes * gates * mlp + input * mlp + scores;
  const double gathered = storage.keeps_gathered_inputs ? inputs * h * (1.0 - 1.0 / sharded) : 0.0;
  const double kept = tokens * (whole / sharded + gathered + split / config.tp) +
                      kept_of_positions(model, config, recompute, storage).value();
  const bool keeps_experts = kind.has_experts && !dropped.has(RecomputeModule::kMoe);
  return Bytes(kept + (keeps_experts ? kept_by_experts(model, config, dropped, storage) : 0.0));
}

Bytes kept_by_layer(const Scenario& scenario, const ParallelConfig& config, LayerKind kind) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    return layer_memory(scenario, config).kept;
  }
  return layer_activations(scenario.job.model, config, config.recompute, kind,
                           activation_storage(scenario.job.model, scenario.stack));
}

Bytes kept_of_positions(const TransformerConfig& model, const ParallelConfig& config,
                        Recompute recompute, const ActivationStorage& storage) {
  const bool keeps = has_relative_positions(model) && repeats(recompute) != Repeats::kLayer;
  return Bytes(keeps ? storage.element_bytes * model.seq_length *
                           static_cast<double>(key_width(model)) / config.tp
                     : 0.0);
}

}  // namespace ptdp
