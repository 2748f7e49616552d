// The shape of a transformer language model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {

/// How a model tells positions: learned embeddings, rotations of queries and keys, none, or numbers
/// that grow with distance and are taken off attention's scores (ALiBi, arXiv:2108.12409). Relative
/// ones add scores to attention's: each layer projects sinusoids of distances to keys of their own
/// (Transformer-XL, arXiv:1901.02860 section 3.3).
enum class PositionEmbedding { kLearned, kRope, kNone, kAlibi, kRelative };
enum class Normalization { kLayerNorm, kRmsNorm };
enum class Activation { kTanhGelu, kGelu, kRelu, kSilu, kTanh, kSquaredRelu, kQuickGelu };

inline constexpr std::array kPositionEmbeddingNames = {
    NamedValue<PositionEmbedding>{PositionEmbedding::kLearned, "learned"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kRope, "rope"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kNone, "none"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kAlibi, "alibi"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kRelative, "relative"}};
inline constexpr std::array kNormalizationNames = {
    NamedValue<Normalization>{Normalization::kLayerNorm, "layer-norm"},
    NamedValue<Normalization>{Normalization::kRmsNorm, "rms-norm"}};
/// Names of activations in Hugging Face transformers (activations.py, ACT2FN).
inline constexpr std::array kActivationNames = {
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_new"},
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_pytorch_tanh"},
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_fast"},
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_accurate"},
    NamedValue<Activation>{Activation::kGelu, "gelu"},
    NamedValue<Activation>{Activation::kGelu, "gelu_python"},
    NamedValue<Activation>{Activation::kRelu, "relu"},
    NamedValue<Activation>{Activation::kSilu, "silu"},
    NamedValue<Activation>{Activation::kSilu, "swish"},
    NamedValue<Activation>{Activation::kTanh, "tanh"},
    NamedValue<Activation>{Activation::kSquaredRelu, "relu2"},
    NamedValue<Activation>{Activation::kQuickGelu, "quick_gelu"}};

/// How rotary angles are stretched for sequences longer than those a model was first trained with.
/// Source: modeling_rope_utils.py of huggingface/transformers.
enum class RopeScaling {
  kNone,
  kLinear,   ///< All positions are divided by a factor (arXiv:2306.15595).
  kLlama3,   ///< Long wavelengths are multiplied by a factor (Llama 3.1, arXiv:2407.21783).
  kYarn,     ///< Long wavelengths are, and the angles' sines and cosines grow (arXiv:2309.00071).
  kLongRope  ///< Each wavelength has its own factor, and sines grow (arXiv:2402.13753).
};
/// Where the norms of a layer's two branches are.
enum class NormPlacement {
  kBefore,          ///< A branch's input has a norm, as in GPT-2 and Llama.
  kBehind,          ///< A branch's output has a norm (OLMo 2, arXiv:2501.00656 section 3.2).
  kBeforeAndBehind  ///< Input and output have a norm each (Gemma 2, arXiv:2408.00118).
};
/// What a norm of queries and keys reaches over.
enum class QkNormWidth {
  kHead,        ///< Every head is normalized by itself, with one weight for all heads (Qwen3).
  kAllHeads,    ///< All heads of a token are normalized together (OLMo 2).
  kEachHead,    ///< Every head is normalized by itself, with weights of its own (Command R+).
  kWeightless,  ///< Every head is normalized by itself, without weights (Llama 4).
};

inline constexpr std::array kRopeScalingNames = {
    NamedValue<RopeScaling>{RopeScaling::kNone, "none"},
    NamedValue<RopeScaling>{RopeScaling::kLinear, "linear"},
    NamedValue<RopeScaling>{RopeScaling::kLlama3, "llama3"},
    NamedValue<RopeScaling>{RopeScaling::kYarn, "yarn"},
    NamedValue<RopeScaling>{RopeScaling::kLongRope, "longrope"}};
inline constexpr std::array kNormPlacementNames = {
    NamedValue<NormPlacement>{NormPlacement::kBefore, "before"},
    NamedValue<NormPlacement>{NormPlacement::kBehind, "behind"},
    NamedValue<NormPlacement>{NormPlacement::kBeforeAndBehind, "before-and-behind"}};
inline constexpr std::array kQkNormWidthNames = {
    NamedValue<QkNormWidth>{QkNormWidth::kHead, "head"},
    NamedValue<QkNormWidth>{QkNormWidth::kAllHeads, "all-heads"},
    NamedValue<QkNormWidth>{QkNormWidth::kEachHead, "each-head"},
    NamedValue<QkNormWidth>{QkNormWidth::kWeightless, "weightless"}};

/// Rotary position embeddings: element i and element i + r/2 of a head's first r elements are
/// turned by the angle position·base^(−2i/r). Source: RoFormer (arXiv:2104.09864), in the order of
/// halves of GPT-NeoX.
struct RotaryEmbedding {
  double base = 10000.0;  ///< The base θ of the angles.
  double percent = 1.0;   ///< Part of a head's width that is turned, from its beginning.
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;            ///< Factor by which a scaling stretches.
  int original_seq_length = 0;    ///< Sequence that the model had before it was scaled [tokens].
  double low_freq_factor = 1.0;   ///< Llama 3: wavelengths above the sequence over this stretch.
  double high_freq_factor = 4.0;  ///< Llama 3: wavelengths below the sequence over this stay.
  double beta_fast = 32.0;        ///< YaRN: elements that turn more often than this stay.
  double beta_slow = 1.0;         ///< YaRN: elements that turn less often than this are stretched.
  /// Factor of sines and cosines; 0: for YaRN 0.1·ln(factor) + 1, for LongRoPE
  /// √(1 + ln(factor)/ln(original_seq_length)).
  double attention_factor = 0.0;
  /// LongRoPE: factors of wavelengths, in sequences no longer than the original.
  std::vector<double> short_factors = {};
  std::vector<double> long_factors = {};  ///< LongRoPE: factors in sequences longer than that.
  /// Whether neighbors 2i and 2i + 1 are turned together, in place of i and i + r/2 (Command R).
  bool interleaved = false;
  /// Base of the angles in layers with a window, which no scaling stretches (Gemma 3); 0: as in all
  /// layers.
  double window_base = 0.0;
  /// Number n of which every n-th layer, counted from 1, turns nothing (SmolLM3); 0: all layers do.
  int no_rope_freq = 0;

  friend bool operator==(const RotaryEmbedding&, const RotaryEmbedding&) = default;
};

/// The rate of dropout in GPT-2, and the default of Megatron-LM's flags.
inline constexpr double kUsualDropout = 0.1;

/// Rates of dropout that a file may give.
inline constexpr Range kDropoutRange = {0.0, 0.99};
/// Epsilons of norms that a file may give.
inline constexpr Range kEpsilonRange = {1e-12, 1.0};
/// Standard deviations of initial weights that a file may give.
inline constexpr Range kDeviationRange = {0.0, 1.0};
/// Bases of rotary angles that a file may give.
inline constexpr Range kRotaryBaseRange = {1.0, 1e12};
/// Parts of a head that a file may say are turned.
inline constexpr Range kRotaryPercentRange = {1e-6, 1.0};
/// Factors and other positive numbers of scalings, caps and multipliers that a file may give.
inline constexpr Range kPositiveRange = {1e-9, 1e9};

/// Probabilities with which training drops elements.
struct DropoutRates {
  double embedding;
  double attention;  ///< Rate for the probabilities of attention.
  double hidden;     ///< Rate for what both branches of a layer add.

  /// Constructs rates that are all equal.
  // NOLINTNEXTLINE(google-explicit-constructor): settings take one rate as readily as three
  constexpr DropoutRates(double all = 0.0) : embedding(all), attention(all), hidden(all) {}
  friend bool operator==(const DropoutRates&, const DropoutRates&) = default;
};

/// The default rates of dropout. Probabilities of attention keep all elements: fast kernels of GPUs
/// draw masks that differ from layout to layout, or draw none.
inline constexpr DropoutRates kUsualDropoutRates = [] {
  DropoutRates rates(kUsualDropout);
  rates.attention = 0.0;
  return rates;
}();

/// The most layers that a model may have, a bound that no model reaches.
inline constexpr int kMostModelLayers = 100'000;
/// The most experts that a layer may have, a bound that no model reaches.
inline constexpr int kMostExperts = 100'000;
/// The most tokens that a sequence may have, a bound that no model reaches.
inline constexpr int kLongestSequence = 100'000'000;
/// The most rows or columns that a matrix may have, a bound that no model reaches.
inline constexpr int kWidestMatrix = 10'000'000;

/// A decoder-only transformer in Megatron-LM's field names. The defaults are those of GPT-2 and
/// GPT-3. Zero stands for "follows from the others" until resolved() fills it in.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): fields stand by what they are about
struct TransformerConfig {
  int num_layers = 0;
  int hidden_size = 0;
  int num_attention_heads = 0;
  int num_query_groups = 0;  ///< Key-value heads; 0: num_attention_heads.
  int kv_channels = 0;       ///< Width of a head; 0: hidden_size / num_attention_heads.
  int ffn_hidden_size = 0;   ///< Width of a dense MLP; 0: 4 hidden_size.
  int vocab_size = 0;
  int seq_length = 0;               ///< Tokens per sequence in training.
  int max_position_embeddings = 0;  ///< Rows of learned positions; 0: seq_length (OPT has 2 more).
  bool gated_linear_unit = false;   ///< Whether an MLP has three matrices instead of two.
  bool add_bias_linear = true;      ///< Whether every linear layer has biases.
  bool untied_embeddings = false;   ///< Whether logits have a matrix of their own.
  PositionEmbedding position_embedding = PositionEmbedding::kLearned;
  Normalization normalization = Normalization::kLayerNorm;
  bool layernorm_bias = true;  ///< Whether layer norms have biases beside weights.
  /// Whether training uses dropout; nullopt: with learned positions only, as for GPT-2 and GPT-3.
  std::optional<bool> dropout = {};

  // The cost of training does not depend on these fields, but its result does.
  DropoutRates dropout_rates = kUsualDropoutRates;  ///< Rates of dropout, if training uses it.
  double layernorm_epsilon = 1e-5;                  ///< What norms add to the variance.
  /// Whether a norm's weights are stored minus 1, so that they begin as 0 (Gemma, Nemotron).
  bool layernorm_zero_centered_gamma = false;
  double init_method_std = 0.02;  ///< Standard deviation of initial weights.
  /// Activation of an MLP, or of its gate; nullopt: GELU's tanh form, or SiLU if it is gated.
  std::optional<Activation> activation_func = {};
  /// Whether attention scores are divided by the root of a head's width.
  bool scale_attn_weights = true;
  /// Whether attention scores are divided by the layer's number, counted from 1.
  bool scale_attn_by_inverse_layer_idx = false;
  /// Width whose root divides attention scores in place of a head's; 0: a head's.
  double query_pre_attn_scalar = 0.0;
  double attn_logit_softcapping = 0.0;   ///< Cap c of scores x, as c·tanh(x/c); 0: none.
  double final_logit_softcapping = 0.0;  ///< Cap c of logits x, as c·tanh(x/c); 0: none.
  double embedding_multiplier = 1.0;     ///< Factor of embeddings.
  double logits_multiplier = 1.0;        ///< Factor of logits, in front of their cap.
  double residual_multiplier = 1.0;      ///< Factor of each branch, before it is added (Granite).
  /// Bound of what goes into a gated MLP's activation and of what it weighs (GPT-OSS); 0: none.
  double activation_func_clamp_value = 0.0;
  double glu_linear_offset = 0.0;  ///< What a gated MLP adds to what its gate weighs (GPT-OSS).
  RotaryEmbedding rotary;          ///< Angles of rotary positions, if the model has them.
  /// Whether a layer's MLP takes the layer's input rather than attention's sum (GPT-NeoX).
  bool parallel_residual = false;
  /// Whether both branches take the output of one norm, with parallel_residual (Command R).
  bool shared_residual_norm = false;
  bool embedding_layernorm = false;  ///< Whether embeddings have a norm of their own (BLOOM).

  // Biases of some linear layers, for models without add_bias_linear.
  /// Whether QKV (Qwen2), or the compressions of latent attention, have biases.
  bool add_qkv_bias = false;
  bool add_projection_bias = false;  ///< Whether attention's projection has biases.
  bool add_mlp_bias = false;         ///< Whether the MLP's matrices have biases.

  NormPlacement norm_placement = NormPlacement::kBefore;
  /// Whether each head learns a number, a sink, whose exponential its softmax adds to the sum of
  /// those of the scores (GPT-OSS; Megatron-Core's --softmax-type learnable).
  bool attention_sinks = false;
  bool qk_layernorm = false;  ///< Whether queries and keys have a norm.
  QkNormWidth qk_layernorm_width = QkNormWidth::kHead;
  int window_size = 0;         ///< Tokens that each attends to, itself included; 0: all before it.
  int first_window_layer = 0;  ///< First layer with the window; layers before it attend to all.
  /// Number n of which every n-th layer, counted from 1, attends to all tokens; 0: none does.
  int window_attn_skip_freq = 0;
  /// Whether windows are chunks: a token attends to those before it in its own window_size tokens,
  /// counted from the sequence's beginning (Llama 4).
  bool chunked_attention = false;

  // Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434 section 2.1), in models with
  // kv_lora_rank. Query heads are num_attention_heads; groups and kv_channels mean nothing then.
  int q_lora_rank = 0;   ///< Width of the compressed queries; 0: they are not compressed.
  int kv_lora_rank = 0;  ///< Width of the compressed keys and values; 0: no latent attention.
  /// Width of a query or key head without its rotary part, in latent attention.
  int qk_head_dim = 0;
  /// Width of a head's rotary part in latent attention; the keys of all heads share one.
  int qk_pos_emb_head_dim = 0;
  int v_head_dim = 0;  ///< Width of a value head in latent attention.

  // Mixture of experts.
  int num_experts = 0;          ///< Experts per layer; 0: a dense model.
  int moe_router_topk = 0;      ///< Experts that each token visits.
  int moe_ffn_hidden_size = 0;  ///< Width of one expert; 0: ffn_hidden_size.
  /// Width of all shared experts together, which every token visits; 0: there are none.
  int moe_shared_expert_intermediate_size = 0;
  /// Whether a gate weighs the shared experts' output (Qwen2-MoE).
  bool moe_shared_expert_gate = false;
  /// Whether the router adds a number per expert that balances the load.
  bool moe_router_enable_expert_bias = false;
  bool moe_router_bias = false;   ///< Whether the router's linear layer has biases (GPT-OSS).
  int moe_router_num_groups = 0;  ///< Groups of experts; 0: no groups.
  int moe_router_group_topk = 0;  ///< Groups that a token's experts may be in.
  int first_dense_layers = 0;     ///< Number of layers, the first ones, without experts.
  /// Step between layers with experts: from layer first_dense_layers on, every so many-th has them.
  int moe_layer_freq = 1;

  /// Room of an expert [tokens] over the mean number of tokens: it drops more and pads fewer. 0: it
  /// takes all that come (dropless), and the fullest rank has moe_load_imbalance times the mean.
  double moe_expert_capacity_factor = 0.0;
  /// Tokens of the fullest rank's experts over the mean, in models without a capacity factor.
  double moe_load_imbalance = 1.0;

  /// Number of modules that predict one more token each (DeepSeek-V3, arXiv:2412.19437
  /// section 2.2).
  int mtp_num_layers = 0;

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

/// Returns whether attention is multi-head latent attention.
[[nodiscard]] constexpr bool has_latent_attention(const TransformerConfig& model) {
  return model.kv_lora_rank > 0;
}
/// Returns whether attention has scores of relative positions beside those of tokens.
[[nodiscard]] constexpr bool has_relative_positions(const TransformerConfig& model) {
  return model.position_embedding == PositionEmbedding::kRelative;
}
/// Returns the width of a query or key head. The model must be resolved.
[[nodiscard]] constexpr int query_head_width(const TransformerConfig& model) {
  return has_latent_attention(model) ? model.qk_head_dim + model.qk_pos_emb_head_dim
                                     : model.kv_channels;
}
/// Returns the width of a value head. The model must be resolved.
[[nodiscard]] constexpr int value_head_width(const TransformerConfig& model) {
  return has_latent_attention(model) ? model.v_head_dim : model.kv_channels;
}
/// Returns the width of all query heads together.
[[nodiscard]] constexpr std::int64_t query_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_attention_heads * query_head_width(model);
}
/// Returns the width of all heads' outputs together, which attention's projection takes.
[[nodiscard]] constexpr std::int64_t context_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_attention_heads * value_head_width(model);
}
/// Returns the width of all key heads together, which is also that of all value heads. It does not
/// hold for latent attention.
[[nodiscard]] constexpr std::int64_t key_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_query_groups * model.kv_channels;
}
/// Returns the outputs of a dense MLP's first linear layer: gate and value if it is gated.
[[nodiscard]] constexpr std::int64_t mlp_up_width(const TransformerConfig& model) {
  return (model.gated_linear_unit ? std::int64_t{2} : std::int64_t{1}) * model.ffn_hidden_size;
}
/// Returns the activation of a model that names none.
[[nodiscard]] constexpr Activation usual_activation(bool gated_linear_unit) {
  return gated_linear_unit ? Activation::kSilu : Activation::kTanhGelu;
}
/// Returns the activation of an MLP, or of its gate.
[[nodiscard]] constexpr Activation activation_of(const TransformerConfig& model) {
  return model.activation_func.value_or(usual_activation(model.gated_linear_unit));
}
/// Returns the width of the part of a head that rotary positions turn, an even number; 0 without
/// rotary positions. The model must be resolved.
[[nodiscard]] int rotary_width(const TransformerConfig& model);
/// Returns how much sines and cosines grow with YaRN: 0.1·scale·ln(factor) + 1, and 1 for factors
/// up to 1. Source: get_mscale of modeling_rope_utils.py, with the scale 1 if there is none.
[[nodiscard]] double yarn_growth(double factor, double scale = 1.0);
/// Whether rotary positions multiply sines and cosines by YaRN's growth. Latent attention, whose
/// rotary kernels take it as an argument, counts as without.
[[nodiscard]] bool grows_rotary(const TransformerConfig& model);
/// Returns the rows of learned positions.
[[nodiscard]] constexpr int learned_positions(const TransformerConfig& model) {
  return model.max_position_embeddings > model.seq_length ? model.max_position_embeddings
                                                          : model.seq_length;
}
/// Returns the parameters of a norm for each element: a weight, and a bias in layer norms.
[[nodiscard]] constexpr int parameters_of_norm(const TransformerConfig& model) {
  return model.normalization == Normalization::kLayerNorm && model.layernorm_bias ? 2 : 1;
}
/// Returns the number of norms of width hidden_size in a layer.
[[nodiscard]] constexpr int norms_of_layer(const TransformerConfig& model) {
  return model.norm_placement == NormPlacement::kBeforeAndBehind ? 4
         : model.shared_residual_norm                            ? 1
                                                                 : 2;
}
/// Returns whether tokens of any layer attend to fewer tokens than the sequence has.
[[nodiscard]] constexpr bool has_window(const TransformerConfig& model) {
  return model.window_size > 0 && model.window_size < model.seq_length &&
         model.first_window_layer < model.num_layers && model.window_attn_skip_freq != 1;
}
/// Returns whether tokens of a layer attend to fewer tokens than the sequence has; layers count
/// from 0.
[[nodiscard]] constexpr bool has_window(const TransformerConfig& model, int layer) {
  return has_window(model) && layer >= model.first_window_layer &&
         (model.window_attn_skip_freq == 0 || (layer + 1) % model.window_attn_skip_freq != 0);
}
/// Returns the pairs of one of the first `queries` tokens and a token that it attends to, with a
/// causal mask. The layer has the window w if the model has one: a token sees w tokens before it,
/// or those before it in its chunk of w.
[[nodiscard]] constexpr double attended_pairs(const TransformerConfig& model, double queries) {
  const double w = has_window(model) ? model.window_size : model.seq_length;
  if (queries <= w) {
    return queries * queries / 2.0;
  }
  if (!model.chunked_attention) {
    return w * queries - w * w / 2.0;
  }
  const auto chunks = static_cast<double>(static_cast<std::int64_t>(queries / w));
  const double rest = queries - chunks * w;
  return (chunks * w * w + rest * rest) / 2.0;
}
/// Returns the tokens that a token attends to, in a layer that has the window w if the model has
/// one. Without a causal mask they are w, or the sequence s. With one they are the mean of the
/// tokens before it: w − w²/(2s), or s/2 (as it is usually counted) without a window; w/2 in whole
/// chunks of w.
[[nodiscard]] constexpr double attended_tokens(const TransformerConfig& model, bool is_causal) {
  const double s = model.seq_length;
  const double w = has_window(model) ? model.window_size : s;
  if (is_causal && has_window(model) && model.chunked_attention) {
    return attended_pairs(model, s) / s;
  }
  return is_causal ? w - w * w / (2.0 * s) : w;
}
/// Returns whether any layer has experts.
[[nodiscard]] constexpr bool has_experts(const TransformerConfig& model) {
  return model.num_experts > 0;
}
/// Returns whether a layer has experts; layers count from 0.
[[nodiscard]] constexpr bool has_experts(const TransformerConfig& model, int layer) {
  return model.num_experts > 0 && layer >= model.first_dense_layers &&
         (layer - model.first_dense_layers) % model.moe_layer_freq == 0;
}
/// Returns the tokens that the busiest rank's experts work on, over the mean of all ranks.
[[nodiscard]] constexpr double expert_load(const TransformerConfig& model) {
  return model.moe_expert_capacity_factor > 0.0 ? model.moe_expert_capacity_factor
                                                : model.moe_load_imbalance;
}
/// Returns the number of layers with experts among the first `layers` layers.
[[nodiscard]] int num_expert_layers(const TransformerConfig& model, int layers);
/// Returns the number of layers with experts.
[[nodiscard]] int num_expert_layers(const TransformerConfig& model);
/// Returns whether training uses dropout.
[[nodiscard]] constexpr bool has_dropout(const TransformerConfig& model) {
  return model.dropout.value_or(model.position_embedding == PositionEmbedding::kLearned);
}
/// Returns the rates of dropout that the model is trained with; all are 0 without dropout.
[[nodiscard]] constexpr DropoutRates dropout_rates(const TransformerConfig& model) {
  return has_dropout(model) ? model.dropout_rates : DropoutRates(0.0);
}
/// Returns whether this project's runtime sums gradients of the biases at branches' ends within the
/// gradients of the norms in front of them. These norms read what is summed, as it passes them by,
/// where nothing changes it on its way. `hidden_dropout` is the rate at the ends of branches.
[[nodiscard]] bool sums_biases_in_norms(const TransformerConfig& model, double hidden_dropout);

/// Returns the model with every zero replaced that "follows from the others". Throws Error, naming
/// `place`, if numbers contradict each other (such as heads that do not divide the hidden size). It
/// also does so above 10^18 parameters, which could not be counted exactly.
[[nodiscard]] TransformerConfig resolved(TransformerConfig model, const std::string& place);

/// Reads or writes a model's JSON; `fields` is an ObjectReader or an ObjectWriter. Reading does not
/// resolve the model.
template <class Fields>
void describe(Fields& fields, Described<Fields, TransformerConfig>& model);

/// Reads or writes a run's rates of dropout: the key `dropout`, and two more if not all rates are
/// equal. `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe_dropout(Fields& fields, Described<Fields, DropoutRates>& rates);

}  // namespace ptdp
