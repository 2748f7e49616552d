// Reads types of models whose configurations spell most keys in a way of their own.
#include <array>
#include <string>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_keys.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp::huggingface {
namespace {

constexpr double kUsualEpsilon = 1e-5;
constexpr double kUsualDeviation = 0.02;

/// Sets rates of dropout that a file may say.
void set_dropout(const DropoutRates& rates, TransformerConfig& model) {
  const bool drops = rates != DropoutRates(0.0);
  if (drops) {
    model.dropout_rates = rates;
  }
  if (drops != has_dropout(model)) {
    model.dropout = drops;
  }
}

double rate_or(const Keys& keys, const std::string& key, double usual) {
  return keys.number_or(key, usual, kDropoutRange);
}

/// Throws Error unless the key is absent or null.
void expect_none(const Keys& keys, const std::string& key, const std::string& what) {
  if (keys.has(key)) {
    keys.refuse(key, "expected null: " + what);
  }
}

/// Throws Error unless the key has the text `usual`, if any.
void expect_text(const Keys& keys, const std::string& key, const std::string& usual,
                 const std::string& what) {
  std::string found = usual;
  if (keys.has(key)) {
    keys.reader().text(key, found);
  }
  if (found != usual) {
    keys.refuse(key, "expected " + usual + ": " + what + ", got " + in_quotes(found));
  }
}

/// Passes over what transformers writes into every object of its configurations.
void pass_over_own(const Keys& nested) {
  nested.pass_over(kPassedOverKeys);
  nested.pass_over(std::array{"model_type", "add_cross_attention", "is_encoder_decoder",
                              "pruned_heads", "tie_word_embeddings"});
}

void set_activation(Activation found, TransformerConfig& model) {
  if (found != activation_of(model)) {
    model.activation_func = found;
  }
}

/// Reads OPT, whose table of learned positions begins with two rows for tokens that pad.
TransformerConfig read_opt(const Keys& keys) {
  constexpr int padding_rows = 2;
  TransformerConfig model{
      .num_layers = keys.size("num_hidden_layers", kMostModelLayers),
      .hidden_size = keys.size("hidden_size"),
      .num_attention_heads = keys.size("num_attention_heads"),
      .ffn_hidden_size = keys.size("ffn_dim"),
      .vocab_size = keys.size("vocab_size"),
      .seq_length = keys.size_or("max_position_embeddings", 2048, kLongestSequence - padding_rows),
      .add_bias_linear = keys.flag_or("enable_bias", true),
      .untied_embeddings = !keys.flag_or("tie_word_embeddings", true),
      .init_method_std = keys.number_or("init_std", kUsualDeviation, kDeviationRange)};
  model.max_position_embeddings = model.seq_length + padding_rows;
  set_activation(activation_or(keys, "activation_function", Activation::kRelu), model);
  keys.expect("do_layer_norm_before", true, "norms stand in front of branches");
  keys.expect("_remove_final_layer_norm", false, "a norm stands in front of logits");
  keys.expect("layer_norm_elementwise_affine", true, "norms have weights");
  keys.expect_number("layerdrop", 0.0, "all layers are trained in every step");
  keys.expect_number("activation_dropout", 0.0, "transformers drops nothing there in this type");
  const int embedded = keys.size_or("word_embed_proj_dim", model.hidden_size);
  if (embedded != model.hidden_size) {
    keys.refuse("word_embed_proj_dim",
                "expected hidden_size, " + std::to_string(model.hidden_size) +
                    ": no matrix stands between embeddings and layers, got " +
                    std::to_string(embedded));
  }
  DropoutRates rates;
  rates.attention = rate_or(keys, "attention_dropout", 0.0);
  rates.hidden = rate_or(keys, "dropout", kUsualDropout);
  set_dropout(rates, model);
  return model;
}

TransformerConfig read_bloom(const Keys& keys) {
  TransformerConfig model{
      .num_layers = keys.size(keys.spelling_of({"n_layer", "num_hidden_layers"}), kMostModelLayers),
      .hidden_size = keys.size(keys.spelling_of({"hidden_size", "n_embed"})),
      .num_attention_heads = keys.size(keys.spelling_of({"n_head", "num_attention_heads"})),
      .vocab_size = keys.size("vocab_size"),
      .seq_length = keys.size_or("seq_length", 2048, kLongestSequence),
      .untied_embeddings = !keys.flag_or("tie_word_embeddings", true),
      .position_embedding = PositionEmbedding::kAlibi,
      .layernorm_epsilon = keys.number_or("layer_norm_epsilon", kUsualEpsilon, kEpsilonRange),
      .init_method_std = keys.number_or("initializer_range", kUsualDeviation, kDeviationRange),
      .embedding_layernorm = true};
  keys.expect("apply_residual_connection_post_layernorm", false,
              "a branch is added to what its norm takes");
  keys.pass_over(std::array{"attention_softmax_in_fp32", "bias_dropout_fusion",
                            "masked_softmax_fusion", "offset_alibi", "skip_bias_add",
                            "skip_bias_add_qkv", "slow_but_exact"});
  DropoutRates rates;
  rates.attention = rate_or(keys, "attention_dropout", 0.0);
  rates.hidden = rate_or(keys, "hidden_dropout", 0.0);
  set_dropout(rates, model);
  return model;
}

/// Reads the attention of MPT, and returns its rate of dropout, which branches have too.
double read_mpt_attention(const Keys& keys) {
  if (!keys.has("attn_config")) {
    return 0.0;
  }
  ObjectReader reader = keys.reader().child("attn_config");
  const Keys nested(reader);
  expect_text(nested, "attn_type", "multihead_attention", "transformers has no other in this type");
  expect_none(nested, "clip_qkv", "queries, keys and values have no bound");
  expect_none(nested, "softmax_scale", "scores are divided by the root of a head's width");
  nested.expect("prefix_lm", false, "a token attends to those before it");
  nested.expect("qk_ln", false, "transformers has no norms of queries and keys in this type");
  nested.expect("attn_uses_sequence_id", false, "a token attends to all before it");
  nested.expect("alibi", true, "transformers has no other positions in this type");
  nested.expect_number("alibi_bias_max", 8.0, "ALiBi's slopes end at 2 to the power of -8");
  nested.pass_over(std::array{"attn_impl"});
  pass_over_own(nested);
  const double rate = rate_or(nested, "attn_pdrop", 0.0);
  reader.finish();
  return rate;
}

/// Reads what MPT and DBRX, both of MosaicML, spell alike.
TransformerConfig read_mosaic(const Keys& keys) {
  return {.num_layers = keys.size("n_layers", kMostModelLayers),
          .hidden_size = keys.size("d_model"),
          .num_attention_heads = keys.size("n_heads"),
          .vocab_size = keys.size("vocab_size"),
          .seq_length = keys.size_or("max_seq_len", 2048, kLongestSequence),
          .add_bias_linear = false,
          .layernorm_bias = false,
          .init_method_std = keys.number_or("initializer_range", kUsualDeviation, kDeviationRange)};
}

TransformerConfig read_mpt(const Keys& keys) {
  TransformerConfig model = read_mosaic(keys);
  model.untied_embeddings = !keys.flag_or("tie_word_embeddings", true);
  model.position_embedding = PositionEmbedding::kAlibi;
  model.layernorm_epsilon = keys.number_or("layer_norm_epsilon", kUsualEpsilon, kEpsilonRange);
  model.activation_func = Activation::kGelu;
  keys.expect_number("expansion_ratio", 4.0, "an MLP has four times the model's width");
  keys.expect("no_bias", true, "transformers has no biases in this type");
  keys.expect_number("embedding_fraction", 1.0, "gradients of embeddings have no factor");
  for (const char* key : {"resid_pdrop", "emb_pdrop"}) {
    keys.expect_number(key, 0.0, "transformers drops nothing there in this type");
  }
  expect_none(keys, "logit_scale", "logits have no factor");
  keys.pass_over(std::array{"init_config", "init_device", "learned_pos_emb", "norm_type",
                            "tokenizer_name", "verbose"});
  DropoutRates rates;
  rates.attention = rates.hidden = read_mpt_attention(keys);
  set_dropout(rates, model);
  return model;
}

void read_dbrx_attention(const Keys& keys, TransformerConfig& model, DropoutRates& rates) {
  if (!keys.has("attn_config")) {
    keys.refuse("attn_config", "missing");
  }
  ObjectReader reader = keys.reader().child("attn_config");
  const Keys nested(reader);
  model.num_query_groups = nested.size_or("kv_n_heads", 1);
  model.rotary.base = nested.number_or("rope_theta", model.rotary.base, kRotaryBaseRange);
  rates.attention = rate_or(nested, "attn_pdrop", 0.0);
  nested.pass_over(std::array{"clip_qkv"});  // of a model that is read for its costs
  pass_over_own(nested);
  reader.finish();
}

void read_dbrx_experts(const Keys& keys, TransformerConfig& model) {
  if (!keys.has("ffn_config")) {
    keys.refuse("ffn_config", "missing");
  }
  ObjectReader reader = keys.reader().child("ffn_config");
  const Keys nested(reader);
  model.ffn_hidden_size = model.moe_ffn_hidden_size = nested.size("ffn_hidden_size");
  model.num_experts = nested.size("moe_num_experts", kMostExperts);
  model.moe_router_topk = nested.size("moe_top_k", kMostExperts);
  if (nested.has("ffn_act_fn")) {
    ObjectReader function = reader.child("ffn_act_fn");
    set_activation(activation_or(Keys(function), "name", Activation::kSilu), model);
    function.finish();
  }
  nested.pass_over(std::array{"hidden_size", "moe_jitter_eps", "moe_loss_weight",
                              "moe_normalize_expert_weights", "uniform_expert_assignment"});
  pass_over_own(nested);
  reader.finish();
}

TransformerConfig read_dbrx(const Keys& keys) {
  TransformerConfig model = read_mosaic(keys);
  model.gated_linear_unit = true;
  model.untied_embeddings = true;
  model.position_embedding = PositionEmbedding::kRope;
  keys.expect("tie_word_embeddings", false, "transformers has logits of their own in this type");
  DropoutRates rates;
  read_dbrx_attention(keys, model, rates);
  read_dbrx_experts(keys, model);
  rates.hidden = rate_or(keys, "resid_pdrop", 0.0);
  keys.expect_number("emb_pdrop", 0.0, "transformers drops nothing there in this type");
  keys.pass_over(std::array{"moe_loss_weight"});
  set_dropout(rates, model);
  return model;
}

/// Sets Falcon's branches. Those of the newer architecture are parallel; where branches are, they
/// share a norm unless the file says that there are two.
void read_falcon_branches(const Keys& keys, bool is_new, TransformerConfig& model) {
  const bool is_parallel = keys.flag_or("parallel_attn", true);
  if (is_new && !is_parallel) {
    keys.refuse("parallel_attn", "expected true of a file with new_decoder_architecture");
  }
  const int norms = keys.size_or("num_ln_in_parallel_attn", is_new ? 2 : 1, 2);
  if (!is_new && norms == 2) {
    keys.refuse("num_ln_in_parallel_attn", "expected 1 or new_decoder_architecture");
  }
  model.parallel_residual = is_parallel;
  model.shared_residual_norm = is_parallel && norms == 1;
  keys.expect("apply_residual_connection_post_layernorm", false,
              "a branch is added to what its norm takes");
}

TransformerConfig read_falcon(const Keys& keys) {
  const bool has_alibi = keys.flag_or("alibi", false);
  TransformerConfig model{
      .num_layers = keys.size("num_hidden_layers", kMostModelLayers),
      .hidden_size = keys.size(keys.spelling_of({"hidden_size", "n_embed"})),
      .num_attention_heads = keys.size("num_attention_heads"),
      .ffn_hidden_size = keys.size_or("ffn_hidden_size", 0),
      .vocab_size = keys.size("vocab_size"),
      .seq_length = keys.size_or("max_position_embeddings", 2048, kLongestSequence),
      .add_bias_linear = keys.flag_or("bias", false),
      .untied_embeddings = !keys.flag_or("tie_word_embeddings", true),
      .position_embedding = has_alibi ? PositionEmbedding::kAlibi : PositionEmbedding::kRope,
      .layernorm_epsilon = keys.number_or("layer_norm_epsilon", kUsualEpsilon, kEpsilonRange),
      .init_method_std = keys.number_or("initializer_range", kUsualDeviation, kDeviationRange)};
  set_activation(activation_or(keys, "activation", Activation::kGelu), model);
  const bool is_new = keys.flag_or("new_decoder_architecture", false);
  const bool has_one_key_head = keys.flag_or("multi_query", true) && !is_new;
  const int groups = keys.size_or("num_kv_heads", model.num_attention_heads);
  model.num_query_groups = has_one_key_head ? 1 : groups;
  read_falcon_branches(keys, is_new, model);
  if (has_alibi) {
    keys.pass_over(std::array{"rope_theta", "rope_scaling", "rope_parameters"});
  } else {
    read_rotary(keys, ModelType::kFalcon, model);
  }
  DropoutRates rates;
  rates.attention = rate_or(keys, "attention_dropout", 0.0);
  rates.hidden = rate_or(keys, "hidden_dropout", 0.0);
  set_dropout(rates, model);
  return model;
}

}  // namespace

std::optional<TransformerConfig> read_own_spelling(const Keys& keys, ModelType type) {
  switch (type) {
    case ModelType::kOpt:
      return read_opt(keys);
    case ModelType::kBloom:
      return read_bloom(keys);
    case ModelType::kMpt:
      return read_mpt(keys);
    case ModelType::kDbrx:
      return read_dbrx(keys);
    case ModelType::kFalcon:
      return read_falcon(keys);
    default:
      return std::nullopt;
  }
}

}  // namespace ptdp::huggingface
