// Counts the casts of each factor of a layer's products, and the bytes of weights in 8 bits.
#include "cost_model/layer/fp8_casts.h"

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/operations/linear_layer.h"

namespace ptdp {
namespace {

/// A factor of products: a matrix of rows (tokens) and features, of which a rank casts its own
/// rows.
struct Factor {
  double own = 0.0;        ///< Rows that this rank casts.
  double gathered = 0.0;   ///< Rows once they are gathered.
  double width = 0.0;      ///< Features of a row.
  bool is_weight = false;  ///< Whether the factor is weights, whose scales may share larger blocks.
  double pieces = 1.0;     ///< Pieces in which the factor is cast, each by a kernel.
};

/// Adds up the casts of factors under a recipe.
class CastSum {
 public:
  CastSum(const Fp8Recipe& recipe, Precision precision, const GpuSpec& gpu)
      : recipe_(recipe),
        copies_(fp8_copies(recipe.scaling, gpu)),
        element_(element_bytes(precision)) {}

  [[nodiscard]] const LayerCasts& sum() const { return sum_; }

  /// Adds the casts of a linear layer's input. `is_normed` says whether a norm puts it out, and may
  /// cast it.
  void add_input(const Factor& input, bool is_normed = false) {
    const bool norm_casts = is_normed && recipe_.norms_cast;
    if (norm_casts && recipe_.scaling == Fp8Scaling::kDelayed) {
      sum_.forward += Bytes((1.0 - element_) * input.own * input.width);
      add_transposing(input);
      return;
    }
    if (has_row_scales()) {
      add_rows(sum_.forward, sum_.forward_kernels, input, !norm_casts);
      if (recipe_.keeps_inputs) {
        add_columns(sum_.forward, sum_.forward_kernels, input, false);
      } else {
        add_columns(sum_.backward, sum_.backward_kernels, input, true);
      }
      return;
    }
    add_cast(sum_.forward, sum_.forward_kernels, input, recipe_.keeps_inputs ? copies_ : 1,
             !norm_casts);
    if (!recipe_.keeps_inputs && copies_ > 1) {
      sum_.backward +=
          Bytes((element_ + fp8_bytes(recipe_.scaling)) * input.gathered * input.width);
      sum_.backward_kernels += 1.0;
    }
  }

  /// Adds the casts of the gradient of a linear layer's output, in the backward pass.
  void add_gradient(const Factor& gradient) {
    if (has_row_scales()) {
      add_rows(sum_.backward, sum_.backward_kernels, gradient, true);
      add_columns(sum_.backward, sum_.backward_kernels, gradient, false);
      return;
    }
    add_cast(sum_.backward, sum_.backward_kernels, gradient, copies_, true);
  }

  /// Adds the casts of `weights` weights, in the forward pass; where rows have scales, that of the
  /// transposed copy in the backward pass.
  void add_weights(double weights) {
    if (has_row_scales()) {
      const Factor all = {weights, weights, 1.0, true};
      add_rows(sum_.forward, sum_.forward_kernels, all, true);
      add_columns(sum_.backward, sum_.backward_kernels, all, true);
      return;
    }
    add_cast(sum_.forward, sum_.forward_kernels, {weights, weights, 1.0, true}, copies_, true);
  }

  /// Adds the transposing of `weights` weights that are in 8 bits already, in the backward pass.
  /// Adds nothing where one copy is enough.
  void add_transposed_weights(double weights) {
    if (copies_ > 1) {
      sum_.backward += Bytes(2.0 * fp8_weight_bytes(recipe_.scaling) * weights);
      sum_.backward_kernels += 1.0;
    }
  }

 private:
  void add_transposing(const Factor& input) {
    if (copies_ > 1) {
      sum_.forward += Bytes(2.0 * input.gathered * input.width);
      sum_.forward_kernels += 1.0;
    }
  }

  [[nodiscard]] bool has_row_scales() const { return recipe_.scaling == Fp8Scaling::kRowwise; }

  /// Adds the copy with a scale per row. A kernel holds a row, so that it reads the factor once;
  /// not at all if the kernel that makes the factor casts it.
  void add_rows(Bytes& traffic, double& kernels, const Factor& factor, bool is_read) const {
    traffic += Bytes(((is_read ? element_ : 0.0) + fp8_bytes(recipe_.scaling)) * factor.own *
                     factor.width);
    kernels += is_read ? factor.pieces : 0.0;
  }

  /// Adds the copy with a scale per column: the factor is transposed, and then cast row by row.
  /// Unless `is_read`, the kernel of add_rows() transposes what it has read.
  void add_columns(Bytes& traffic, double& kernels, const Factor& factor, bool is_read) const {
    const double transposing = (is_read ? 2.0 : 1.0) * element_;
    traffic += Bytes(transposing * factor.own * factor.width);
    kernels += is_read ? factor.pieces : 0.0;
    add_rows(traffic, kernels, factor, true);
  }

  void add_cast(Bytes& traffic, double& kernels, const Factor& factor, int copies,
                bool looks_for_largest) const {
    const bool reads_twice = looks_for_largest && looks_at_tensor(recipe_.scaling);
    const bool transposes_later =
        copies > 1 && is_per_tensor(recipe_.scaling) && factor.own < factor.gathered;
    const double written = transposes_later ? 1.0 : copies;
    const double cast =
        factor.is_weight ? fp8_weight_bytes(recipe_.scaling) : fp8_bytes(recipe_.scaling);
    traffic +=
        Bytes(((reads_twice ? 2.0 : 1.0) * element_ + written * cast) * factor.own * factor.width);
    kernels += factor.pieces * (reads_twice ? 2.0 : 1.0);
    if (transposes_later) {
      traffic += Bytes(2.0 * factor.gathered * factor.width);
      kernels += 1.0;
    }
  }

  const Fp8Recipe& recipe_;
  int copies_;
  double element_;
  LayerCasts sum_;
};

/// Returns whether one kernel casts the inputs of all experts: TransformerEngine's cast.cpp,
/// nvte_multi_cast_transpose and nvte_group_hadamard_transform_cast_fusion.
bool casts_experts_together(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kDelayed || scaling == Fp8Scaling::kNvfp4;
}

/// The factors of a layer's products on one rank, which it adds to a CastSum part by part.
class LayerFactors {
 public:
  LayerFactors(const Scenario& scenario, const ParallelConfig& config, const Fp8Recipe& recipe)
      : model_(scenario.job.model),
        config_(config),
        tokens_(static_cast<double>(tokens_of_rank(model_, config))),
        split_(config.sequence_parallel ? tokens_ / config.tp : tokens_),
        own_(recipe.gathers_activations ? split_ : tokens_),
        fuses_activation_(fuses_expert_activation(scenario)),
        experts_(fuses_activation_ || casts_experts_together(recipe.scaling)
                     ? 1.0
                     : experts_of_rank(model_, config_)) {}

  void add_attention(CastSum& casts) const {
    const double h = model_.hidden_size;
    const double context = static_cast<double>(context_width(model_)) / config_.tp;
    if (has_latent_attention(model_)) {
      add_latent(casts);
    } else {
      const auto heads = static_cast<double>(query_width(model_) + 2 * key_width(model_));
      casts.add_input(entering(h), true);
      casts.add_gradient(whole(heads / config_.tp));
    }
    if (has_relative_positions(model_)) {
      casts.add_input(of_positions(h));
      casts.add_gradient(of_positions(static_cast<double>(key_width(model_)) / config_.tp));
    }
    casts.add_input(whole(context));
    casts.add_gradient(entering(h));
  }

  void add_mlp(CastSum& casts, double width, bool is_normed) const {
    const double h = model_.hidden_size;
    casts.add_input(entering(h), is_normed);
    casts.add_gradient(whole((model_.gated_linear_unit ? 2.0 : 1.0) * width / config_.tp));
    casts.add_input(whole(width / config_.tp));
    casts.add_gradient(entering(h));
  }

  /// Adds the factors of the experts' products.
  void add_experts(CastSum& casts) const {
    casts.add_input(of_experts(model_.hidden_size));
    if (!fuses_activation_) {
      casts.add_gradient(of_experts((model_.gated_linear_unit ? 2.0 : 1.0) * expert_width()));
    }
    casts.add_gradient(of_experts(model_.hidden_size));
    add_activated(casts);
  }

  /// Adds what the second product of experts takes in, unless its cast is fused.
  void add_activated(CastSum& casts) const {
    if (!fuses_activation_) {
      casts.add_input(of_experts(expert_width()));
    }
  }

  /// Adds what latent attention decompresses.
  void add_compressed(CastSum& casts) const {
    casts.add_input(entering(model_.kv_lora_rank), true);
    if (model_.q_lora_rank > 0) {
      casts.add_input(entering(model_.q_lora_rank), true);
    }
  }

 private:
  /// Returns a factor that a column-parallel layer gathers, or the gradient of what a row-parallel
  /// one reduced.
  [[nodiscard]] Factor entering(double width) const { return {own_, tokens_, width}; }
  /// Returns a factor that has all rows of this rank from the start.
  [[nodiscard]] Factor whole(double width) const { return {tokens_, tokens_, width}; }
  /// Returns a factor with a row for each distance in a sequence.
  [[nodiscard]] Factor of_positions(double width) const {
    return {1.0 * model_.seq_length, 1.0 * model_.seq_length, width};
  }
  /// Returns a factor of which this rank uses its part of the sequence only.
  [[nodiscard]] Factor part(double width) const { return {split_, split_, width}; }
  /// Returns a factor of the experts on this rank, cast expert by expert.
  [[nodiscard]] Factor of_experts(double width) const {
    const double rows = expert_rows(model_, config_);
    return {.own = rows, .gathered = rows, .width = width, .pieces = experts_};
  }
  [[nodiscard]] double expert_width() const {
    return 1.0 * model_.moe_ffn_hidden_size / config_.etp;
  }

  void add_latent(CastSum& casts) const {
    const double h = model_.hidden_size;
    const double queries = static_cast<double>(query_width(model_)) / config_.tp;
    const double keys_and_values =
        1.0 * model_.num_attention_heads * (model_.qk_head_dim + model_.v_head_dim) / config_.tp;
    casts.add_input(part(h));
    casts.add_gradient(part(1.0 * model_.kv_lora_rank + model_.qk_pos_emb_head_dim));
    casts.add_gradient(whole(keys_and_values));
    add_compressed(casts);
    if (model_.q_lora_rank > 0) {
      casts.add_input(part(h));
      casts.add_gradient(part(model_.q_lora_rank));
    } else {
      casts.add_input(entering(h));
    }
    casts.add_gradient(whole(queries));
  }

  const TransformerConfig& model_;
  const ParallelConfig& config_;
  double tokens_;  ///< Tokens of a microbatch on this rank.
  /// Tokens of the part of the sequence that falls to this rank, where it is split over tp.
  double split_;
  double own_;  ///< Tokens that a rank casts before they are gathered.
  /// Whether the activation of experts, with its casts, is part of their products.
  bool fuses_activation_;
  /// Experts of a rank that have casts of their own.
  double experts_;
};

/// Whether the weights that a recipe covers come from other ranks' shards in 8 bits.
bool gathers_in_fp8(const Fp8Recipe& recipe, const ParallelConfig& config) {
  return recipe.gathers_weights && shards_optimizer(config);
}

/// Adds `more` bytes for each of the parameters in `held` that recipes for 8 bits cover.
void add_to_covered(RankParameters& bytes, double more, const RankParameters& held) {
  bytes.dense += more * held.matrices;
  bytes.experts += more * held.experts;
}

}  // namespace

int fp8_copies(Fp8Scaling scaling, const GpuSpec& gpu) {
  return is_per_tensor(scaling) && gpu.fp8_any_layout ? 1 : 2;
}

LayerCasts layer_casts(const Scenario& scenario, const ParallelConfig& config, LayerKind kind) {
  const StackSpec& stack = scenario.stack;
  const Fp8Recipe* recipe = fp8_recipe(stack);
  if (recipe == nullptr) {
    return {};
  }
  const TransformerConfig& model = scenario.job.model;
  CastSum casts(*recipe, stack.precision, scenario.cluster.gpu);
  const LayerFactors factors(scenario, config, *recipe);
  factors.add_attention(casts);
  if (const int width = dense_mlp_width(model, kind); width > 0) {
    factors.add_mlp(casts, width, !kind.has_experts);
  }
  if (kind.has_experts) {
    factors.add_experts(casts);
  }
  const RankParameters held = layer_parameters_of_rank(model, config, kind);
  const double weights = held.matrices + held.experts;
  if (shards_weights(config) && gathers_in_fp8(*recipe, config)) {
    casts.add_transposed_weights(weights);
  } else if (shards_weights(config) || !recipe->casts_weights_once) {
    casts.add_weights(weights);
  }
  return casts.sum();
}

double gathered_activation_bytes(const StackSpec& stack) {
  const Fp8Recipe* recipe = fp8_recipe(stack);
  return recipe != nullptr && recipe->gathers_activations ? fp8_bytes(recipe->scaling)
                                                          : element_bytes(stack.precision);
}

Seconds cast_time(Bytes traffic, double kernels, const GpuSpec& gpu, LowBitFormat format) {
  double efficiency = gpu.cast_efficiency.value_or(gpu.memory_efficiency);
  for (const LowBitProducts& products : gpu.low_bit_products) {
    if (products.format == format) {
      efficiency = products.cast_efficiency.value_or(efficiency);
    }
  }
  return traffic / BytesPerSecond(efficiency * gpu.memory_bandwidth.value()) +
         kernels * gpu.cast_start.value_or(Seconds(0.0));
}

CastTimes cast_times(const LayerCasts& casts, const Scenario& scenario) {
  if (!scenario.stack.fp8) {
    return {};
  }
  const GpuSpec& gpu = scenario.cluster.gpu;
  const LowBitFormat format = format_of(*scenario.stack.fp8);
  return {.forward = cast_time(casts.forward, casts.forward_kernels, gpu, format),
          .backward = cast_time(casts.backward, casts.backward_kernels, gpu, format)};
}

LayerCasts repeated_casts(const Scenario& scenario, const ParallelConfig& config, LayerKind kind) {
  const StackSpec& stack = scenario.stack;
  const Fp8Recipe* recipe = fp8_recipe(stack);
  if (recipe == nullptr) {
    return {};
  }
  const TransformerConfig& model = scenario.job.model;
  const RecomputeModules modules = config.recompute_modules;
  CastSum casts(*recipe, stack.precision, scenario.cluster.gpu);
  const LayerFactors factors(scenario, config, *recipe);
  if (modules.has(RecomputeModule::kMlaUpProjection) && has_latent_attention(model)) {
    factors.add_compressed(casts);
  }
  const int width = dense_mlp_width(model, kind);
  if (cover_mlp(modules, kind.has_experts) && width > 0) {
    factors.add_mlp(casts, width, !kind.has_experts);
  }
  if (kind.has_experts && modules.has(RecomputeModule::kMoe)) {
    factors.add_experts(casts);
  } else if (kind.has_experts && modules.has(RecomputeModule::kMoeActivation)) {
    factors.add_activated(casts);
  }
  LayerCasts forward = casts.sum();
  forward.backward = Bytes(0.0);
  forward.backward_kernels = 0.0;
  return forward;
}

bool casts_shards(const StackSpec& stack, const ParallelConfig& config) {
  return fp8_recipe(stack) != nullptr && shards_weights(config);
}

Bytes weight_cast_traffic(const Scenario& scenario, const ParallelConfig& config,
                          const RankParameters& held) {
  const Fp8Recipe* recipe = fp8_recipe(scenario.stack);
  if (recipe == nullptr || shards_weights(config) || !recipe->casts_weights_once) {
    return Bytes(0.0);
  }
  CastSum casts(*recipe, scenario.stack.precision, scenario.cluster.gpu);
  const double weights = held.matrices + held.experts;
  if (gathers_in_fp8(*recipe, config)) {
    casts.add_transposed_weights(weights);
  } else {
    casts.add_weights(weights);
  }
  return casts.sum().forward + casts.sum().backward;
}

RankParameters stored_weights(const StackSpec& stack, const GpuSpec& gpu,
                              const RankParameters& held) {
  RankParameters bytes = held * stack.weight_bytes;
  if (const Fp8Recipe* recipe = fp8_recipe(stack)) {
    const double kept = recipe->casts_weights_once
                            ? fp8_copies(recipe->scaling, gpu) * fp8_weight_bytes(recipe->scaling)
                            : 0.0;
    const double more = kept - (recipe->has_only_fp8_weights ? stack.weight_bytes : 0.0);
    add_to_covered(bytes, more, held);
  }
  return bytes;
}

RankParameters weights_in_shards(const StackSpec& stack, const RankParameters& held) {
  RankParameters bytes = held * stack.weight_bytes;
  const Fp8Recipe* recipe = fp8_recipe(stack);
  if (recipe != nullptr && recipe->has_only_fp8_weights) {
    add_to_covered(bytes, fp8_weight_bytes(recipe->scaling) - stack.weight_bytes, held);
  }
  return bytes;
}

RankParameters gathered_weights(const StackSpec& stack, const RankParameters& parameters) {
  RankParameters bytes = parameters * element_bytes(stack.precision);
  const Fp8Recipe* recipe = fp8_recipe(stack);
  if (recipe != nullptr && recipe->gathers_weights) {
    add_to_covered(bytes, fp8_weight_bytes(recipe->scaling) - element_bytes(stack.precision),
                   parameters);
  }
  return bytes;
}

}  // namespace ptdp
