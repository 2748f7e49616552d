// The model's shape in arguments of Megatron-LM.
#include <cmath>

#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_writer.h"
#include "planner/import/megatron/megatron.h"
#include "planner/import/megatron/megatron_layers.h"

namespace ptdp {
namespace {

constexpr int kVocabularyOfGpt2 = 50257;
constexpr int kVocabularyOfLlama2 = 32000;

void read_positions(const FlagList& flags, TransformerConfig& model, ReadingNotes& reading) {
  const std::string type = flags.text("--position-embedding-type").value_or("learned_absolute");
  const bool has_none = flags.has("--no-position-embedding");
  if (flags.has("--use-rotary-position-embeddings") || type == "rope" || type == "yarn") {
    model.position_embedding = PositionEmbedding::kRope;
  } else if (has_none || type == "none") {
    model.position_embedding = PositionEmbedding::kNone;
  } else if (type == "alibi") {
    model.position_embedding = PositionEmbedding::kAlibi;
    reading.notes.emplace_back("alibi: what it adds to attention's scores is not costed");
  } else if (type != "learned_absolute") {
    flags.refuse("--position-embedding-type",
                 "expected learned_absolute, rope, yarn, alibi or none, got " + in_quotes(type));
  }
}

void read_yarn(const FlagList& flags, TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  rotary.scaling = RopeScaling::kYarn;
  rotary.factor = flags.number("--rotary-scaling-factor").value_or(1.0);
  rotary.original_seq_length =
      flags.count("--yarn-original-max-position-embeddings").value_or(4096);
  rotary.beta_fast = flags.number("--yarn-beta-fast").value_or(32.0);
  rotary.beta_slow = flags.number("--yarn-beta-slow").value_or(1.0);
  if (flags.has("--no-yarn-correction-range-round-to-int")) {
    flags.refuse("--no-yarn-correction-range-round-to-int",
                 "expected bounds of YaRN's ramp that are whole elements");
  }
  const double all = flags.number("--mscale-all-dim").value_or(0.0);
  const double part = flags.number("--mscale").value_or(1.0);
  if (part != 1.0 || all != 0.0) {
    rotary.attention_factor =
        as_written(yarn_growth(rotary.factor, part) / yarn_growth(rotary.factor, all));
  }
}

/// Reads the angles of latent attention, which Megatron-Core stretches by 40 if no flag says
/// otherwise.
void read_latent_angles(const FlagList& flags, TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  const double factor = flags.number("--rotary-scaling-factor").value_or(40.0);
  const double part = flags.number("--mscale").value_or(1.0);
  const double all = flags.number("--mscale-all-dim").value_or(0.0);
  if (flags.text("--rope-type") == "rope" || factor <= 1.0) {
    return;
  }
  rotary.scaling = RopeScaling::kYarn;
  rotary.factor = factor;
  rotary.original_seq_length = 4096;  // no flag says another
  const double of_all = yarn_growth(factor, all);
  if (part != 1.0 || all != 0.0) {
    rotary.attention_factor = as_written(yarn_growth(factor, part) / of_all);
  }
  if (all != 0.0) {
    model.query_pre_attn_scalar = as_written(query_head_width(model) / std::pow(of_all, 4.0));
  }
}

/// Reads the angles of rotary positions. All flags count as read, whether they have an effect.
void read_angles(const FlagList& flags, TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  const auto deepspeed_base = flags.number("--rotary-position-embeddings-theta");
  const double base = flags.number("--rotary-base").value_or(deepspeed_base.value_or(rotary.base));
  const double percent = flags.number("--rotary-percent").value_or(rotary.percent);
  const auto interpolation = flags.number("--rotary-seq-len-interpolation-factor");
  const bool is_llama3 = flags.has("--use-rope-scaling");
  const double factor = flags.number("--rope-scaling-factor").value_or(8.0);
  if (model.position_embedding != PositionEmbedding::kRope) {
    return;
  }
  rotary.base = base;
  if (has_latent_attention(model)) {
    read_latent_angles(flags, model);
    return;
  }
  rotary.percent = percent;
  if (flags.text("--position-embedding-type") == "yarn") {
    read_yarn(flags, model);
  } else if (is_llama3) {
    constexpr int sequence_of_llama3 = 8192;
    rotary.scaling = RopeScaling::kLlama3;
    rotary.factor = factor;
    rotary.original_seq_length = sequence_of_llama3;
    if (interpolation) {
      flags.refuse("--rotary-seq-len-interpolation-factor",
                   "expected none with --use-rope-scaling");
    }
  } else if (interpolation) {
    rotary.scaling = RopeScaling::kLinear;
    rotary.factor = *interpolation;
  }
}

void read_attention(const FlagList& flags, TransformerConfig& model) {
  const auto groups = flags.count("--num-query-groups");
  const auto width = flags.count("--kv-channels");
  const auto q_rank = flags.count("--q-lora-rank");
  const int kv_rank = flags.count("--kv-lora-rank").value_or(32);
  const int head = flags.count("--qk-head-dim").value_or(128);
  const int rotary = flags.count("--qk-pos-emb-head-dim").value_or(64);
  const int value = flags.count("--v-head-dim").value_or(128);
  if (flags.has("--multi-latent-attention")) {
    model.q_lora_rank = q_rank.value_or(0);
    model.kv_lora_rank = kv_rank;
    model.qk_head_dim = head;
    model.qk_pos_emb_head_dim = rotary;
    model.v_head_dim = value;
  } else {
    model.kv_channels = width.value_or(0);
    // Without the switch, the number of groups means nothing.
    model.num_query_groups = flags.has("--group-query-attention") ? groups.value_or(1) : 0;
    // Megatron-DeepSpeed's name for them has no switch.
    model.num_query_groups = flags.count("--num-key-value-heads").value_or(model.num_query_groups);
  }
  // In latent attention the switch is about the norms of latents, which ptdp always has.
  model.qk_layernorm = flags.has("--qk-layernorm") && !has_latent_attention(model);
}

void read_experts(const FlagList& flags, TransformerConfig& model) {
  const auto experts = flags.count("--num-experts");
  const int topk = flags.count("--moe-router-topk").value_or(2);
  const int width = flags.count("--moe-ffn-hidden-size").value_or(0);
  const auto shared = flags.count("--moe-shared-expert-intermediate-size", 0);
  const bool has_gate = flags.has("--moe-shared-expert-gate");
  const bool has_bias = flags.has("--moe-router-enable-expert-bias");
  const auto groups = flags.count("--moe-router-num-groups");
  const auto group_topk = flags.count("--moe-router-group-topk");
  const auto capacity = flags.number("--moe-expert-capacity-factor");
  (void)flags.has("--moe-pad-expert-input-to-capacity");
  if (experts && *experts > 1 && is_megatron_deepspeed(flags)) {
    flags.refuse("--num-experts", "experts of Megatron-DeepSpeed are not read: expected 1, got " +
                                      std::to_string(*experts));
  }
  if (!experts || is_megatron_deepspeed(flags)) {
    (void)flags.has("--moe-layer-freq");
    return;
  }
  model.num_experts = *experts;
  model.moe_router_topk = topk;
  model.moe_ffn_hidden_size = width;
  model.moe_shared_expert_intermediate_size = shared.value_or(0);
  model.moe_shared_expert_gate = has_gate;
  model.moe_router_enable_expert_bias = has_bias;
  model.moe_router_num_groups = groups.value_or(0);
  model.moe_router_group_topk = group_topk.value_or(0);
  model.moe_expert_capacity_factor = capacity.value_or(0.0);
  read_expert_layers(flags, "--moe-layer-freq", model);
}

/// Returns the tokens of the vocabulary; 0 if the flags do not say it.
int read_vocabulary(const FlagList& flags, ReadingNotes& reading) {
  const auto size = flags.count("--vocab-size");
  const auto padded = flags.count("--padded-vocab-size");
  const auto padded_to = flags.count("--pad-vocab-size-to");
  if (size && *size < kWidestMatrix && is_megatron_deepspeed(flags) &&
      flags.text("--tokenizer-type") == "NullTokenizer") {
    return *size + 1;  // it adds the end of a document
  }
  if (size || padded || padded_to) {
    return size ? *size : padded ? *padded : *padded_to;
  }
  const std::string tokenizer = flags.text("--tokenizer-type").value_or("");
  const int usual = tokenizer == "GPT2BPETokenizer"  ? kVocabularyOfGpt2
                    : tokenizer == "Llama2Tokenizer" ? kVocabularyOfLlama2
                                                     : 0;
  if (usual > 0) {
    reading.notes.push_back("vocabulary " + std::to_string(usual) + ": usual with " + tokenizer);
  }
  return usual;
}

}  // namespace

TransformerConfig megatron_model(const FlagList& flags, ReadingNotes& reading,
                                 std::string& missing) {
  TransformerConfig model;
  const auto required = [&](const char* flag) {
    const auto value = flags.count(flag);
    missing += value ? "" : (missing.empty() ? "" : ", ") + std::string(flag);
    return value.value_or(0);
  };
  model.num_layers = required("--num-layers");
  model.hidden_size = required("--hidden-size");
  model.num_attention_heads = required("--num-attention-heads");
  const auto encoder_length = flags.count("--encoder-seq-length");
  model.seq_length = encoder_length ? *encoder_length : required("--seq-length");
  (void)flags.has("--seq-length");
  model.vocab_size = read_vocabulary(flags, reading);
  if (model.vocab_size == 0) {
    missing += (missing.empty() ? "" : ", ") + std::string("--vocab-size");
  }
  model.gated_linear_unit = flags.has("--swiglu");
  const int usual_width = model.gated_linear_unit
                              ? static_cast<int>(std::int64_t{8} * model.hidden_size / 3 / 64 * 64)
                              : 0;
  model.ffn_hidden_size = flags.count("--ffn-hidden-size").value_or(usual_width);
  if (flags.has("--squared-relu") && !model.gated_linear_unit) {
    model.activation_func = Activation::kSquaredRelu;
  }
  read_attention(flags, model);
  read_window(flags, "--window-size", "--window-attn-skip-freq", model);
  read_positions(flags, model, reading);
  read_angles(flags, model);
  model.layernorm_zero_centered_gamma = flags.has("--apply-layernorm-1p");
  const std::string norm = flags.text("--normalization").value_or("LayerNorm");
  const bool is_rms = norm == "RMSNorm" || norm == "rmsnorm";  // Megatron-DeepSpeed's is small
  model.normalization = is_rms ? Normalization::kRmsNorm : Normalization::kLayerNorm;
  const auto old_epsilon = flags.number("--layernorm-epsilon");
  const auto epsilon = flags.number("--norm-epsilon");
  model.layernorm_epsilon = epsilon ? *epsilon : old_epsilon.value_or(1e-5);
  model.init_method_std = flags.number("--init-method-std").value_or(0.02);
  model.add_bias_linear = !flags.has("--disable-bias-linear");
  const bool has_qkv_bias = flags.has("--add-qkv-bias");
  model.add_qkv_bias = has_qkv_bias && !model.add_bias_linear;
  model.untied_embeddings = flags.has("--untie-embeddings-and-output-weights");
  model.mtp_num_layers = flags.count("--mtp-num-layers", 0).value_or(0);
  read_dropout(flags, "--attention-dropout", "--hidden-dropout", model);
  read_experts(flags, model);
  return model;
}

}  // namespace ptdp
