#include "cost_model/inputs/huggingface/huggingface_traits.h"

namespace ptdp::huggingface {
namespace {

constexpr int kQwenSequence = 32768;
constexpr int kMistralSequence = 131072;

/// Returns the traits of types whose blocks are LayerNorm and an MLP of two matrices, and of
/// stablelm and cohere's kind, whose MLP is gated.
TypeTraits traits_with_layer_norm(ModelType type) {
  TypeTraits traits = {.language_model = "GPT2LMHeadModel",
                       .epsilon_key = "layer_norm_epsilon",
                       .epsilon = 1e-5,
                       .activation_key = "activation_function",
                       .activation = Activation::kTanhGelu,
                       .gated_linear_unit = false,
                       .normalization = Normalization::kLayerNorm,
                       .tied_embeddings = true,
                       .seq_length = 1024,
                       .has_head_key = false,
                       .attention_dropout_key = "attn_pdrop",
                       .hidden_dropout_key = "resid_pdrop",
                       .embedding_dropout_key = "embd_pdrop",
                       .dropout = kUsualDropout};
  if (type == ModelType::kGpt2) {
    return traits;
  }
  if (type == ModelType::kGptBigCode) {
    traits.language_model = "GPTBigCodeForCausalLM";
    return traits;
  }
  traits.activation_key = "hidden_act";
  traits.attention_dropout_key = "attention_dropout";
  traits.hidden_dropout_key.clear();
  traits.embedding_dropout_key.clear();
  traits.dropout = 0.0;
  traits.tied_embeddings = false;
  traits.seq_length = 4096;
  traits.rotary_percent_key = "partial_rotary_factor";
  if (type == ModelType::kGptNeox) {
    traits.language_model = "GPTNeoXForCausalLM";
    traits.epsilon_key = "layer_norm_eps";
    traits.activation = Activation::kGelu;
    traits.seq_length = 2048;
    traits.rotary_base_key = "rotary_emb_base";
    traits.rotary_percent_key = "rotary_pct";
    traits.rotary_percent = 0.25;
    traits.hidden_dropout_key = traits.embedding_dropout_key = "hidden_dropout";
  } else if (type == ModelType::kNemotron) {
    traits.language_model = "NemotronForCausalLM";
    traits.epsilon_key = "norm_eps";
    traits.activation = Activation::kSquaredRelu;
    traits.init_method_std = 0.0134;
    traits.zero_centered_gamma = true;
    traits.has_head_key = true;
    traits.rotary_percent = 0.5;
  } else if (type == ModelType::kStarcoder2) {
    traits.language_model = "Starcoder2ForCausalLM";
    traits.epsilon_key = "norm_epsilon";
    traits.init_method_std = 0.018042;
    traits.tied_embeddings = true;
    traits.groups = 2;
    traits.has_head_key = true;
    traits.rotary_percent_key.clear();
    traits.hidden_dropout_key = "residual_dropout";
    traits.embedding_dropout_key = "embedding_dropout";
  } else if (is_one_of(type, {ModelType::kCohere, ModelType::kCohere2})) {
    const bool is_first = type == ModelType::kCohere;
    traits.language_model = is_first ? "CohereForCausalLM" : "Cohere2ForCausalLM";
    traits.epsilon_key = "layer_norm_eps";
    traits.activation = Activation::kSilu;
    traits.gated_linear_unit = true;
    traits.tied_embeddings = true;
    traits.seq_length = 8192;
    traits.has_head_key = true;
    traits.rotary_base = is_first ? 500000.0 : 10000.0;
    traits.rotary_percent_key.clear();
    traits.interleaved = true;
  } else {
    traits.language_model = "StableLmForCausalLM";
    traits.epsilon_key = "layer_norm_eps";
    traits.activation = Activation::kSilu;
    traits.gated_linear_unit = true;
    traits.groups = 32;
    traits.rotary_percent = 0.25;
  }
  return traits;
}

}  // namespace

TypeTraits traits_of(ModelType type) {
  switch (type) {
    case ModelType::kGpt2:
    case ModelType::kGptBigCode:
    case ModelType::kGptNeox:
    case ModelType::kNemotron:
    case ModelType::kStarcoder2:
    case ModelType::kStableLm:
    case ModelType::kCohere:
    case ModelType::kCohere2:
      return traits_with_layer_norm(type);
    case ModelType::kOpt:
      return {.language_model = "OPTForCausalLM"};
    case ModelType::kBloom:
      return {.language_model = "BloomForCausalLM"};
    case ModelType::kMpt:
      return {.language_model = "MptForCausalLM"};
    case ModelType::kFalcon:
      return {.language_model = "FalconForCausalLM"};
    case ModelType::kDbrx:
      return {.language_model = "DbrxForCausalLM"};
    case ModelType::kLlama:
      return {.language_model = "LlamaForCausalLM"};
    case ModelType::kMistral:
      return {.language_model = "MistralForCausalLM", .seq_length = kMistralSequence, .groups = 8};
    case ModelType::kMixtral:
      return {.language_model = "MixtralForCausalLM",
              .epsilon = 1e-5,
              .seq_length = kMistralSequence,
              .groups = 8,
              .rotary_base = 1e6};
    case ModelType::kQwen2:
      return {.language_model = "Qwen2ForCausalLM", .seq_length = kQwenSequence, .groups = 32};
    case ModelType::kQwen2Moe:
      return {.language_model = "Qwen2MoeForCausalLM", .seq_length = kQwenSequence, .groups = 16};
    case ModelType::kQwen3:
      return {.language_model = "Qwen3ForCausalLM",
              .qk_layernorm = true,
              .seq_length = kQwenSequence,
              .groups = 32,
              .head = 128};
    case ModelType::kQwen3Moe:
      return {.language_model = "Qwen3MoeForCausalLM",
              .qk_layernorm = true,
              .seq_length = kQwenSequence,
              .groups = 4};
    case ModelType::kDeepseekV2:
      return {.language_model = "DeepseekV2ForCausalLM"};
    case ModelType::kDeepseekV3:
      return {.language_model = "DeepseekV3ForCausalLM", .seq_length = 4096};
    case ModelType::kGptOss:
      return {.language_model = "GptOssForCausalLM",
              .epsilon = 1e-5,
              .seq_length = 131072,
              .groups = 8,
              .head = 64,
              .rotary_base = 150000.0};
    case ModelType::kGemma:
      return {.language_model = "GemmaForCausalLM",
              .activation = Activation::kTanhGelu,
              .zero_centered_gamma = true,
              .tied_embeddings = true,
              .seq_length = 8192,
              .groups = 16,
              .head = 256};
    case ModelType::kGemma2:
      return {.language_model = "Gemma2ForCausalLM",
              .activation_key = "hidden_activation",
              .activation = Activation::kTanhGelu,
              .zero_centered_gamma = true,
              .tied_embeddings = true,
              .seq_length = 8192,
              .groups = 4,
              .head = 256};
    case ModelType::kGemma3:
      return {.language_model = "Gemma3ForCausalLM",
              .activation_key = "hidden_activation",
              .activation = Activation::kTanhGelu,
              .zero_centered_gamma = true,
              .qk_layernorm = true,
              .tied_embeddings = true,
              .heads = 8,
              .vocab_size = 262208,
              .seq_length = 131072,
              .groups = 4,
              .head = 256,
              .rotary_base = 1e6,
              .rotary_window_base = 10000.0};
    case ModelType::kPhi3:
      return {.language_model = "Phi3ForCausalLM",
              .epsilon = 1e-5,
              .seq_length = 4096,
              .rotary_percent_key = "partial_rotary_factor",
              .hidden_dropout_key = "resid_pdrop"};
    case ModelType::kOlmo2:
      return {.language_model = "Olmo2ForCausalLM", .epsilon = 1e-5, .qk_layernorm = true};
    case ModelType::kOlmoe:
      return {.language_model = "OlmoeForCausalLM",
              .epsilon = 1e-5,
              .qk_layernorm = true,
              .seq_length = 4096};
    case ModelType::kGranite:
      return {.language_model = "GraniteForCausalLM"};
    case ModelType::kGraniteMoe:
      return {.language_model = "GraniteMoeForCausalLM"};
    case ModelType::kSmolLm3:
      return {.language_model = "SmolLM3ForCausalLM",
              .tied_embeddings = true,
              .seq_length = 32768,
              .groups = 4,
              .rotary_base = 2e6};
    case ModelType::kGlm4:
      return {.language_model = "Glm4ForCausalLM",
              .epsilon = 1.5625e-7,
              .seq_length = 131072,
              .groups = 2,
              .head = 128,
              .rotary_percent_key = "partial_rotary_factor",
              .rotary_percent = 0.5,
              .interleaved = true};
    case ModelType::kGlm4Moe:
      return {.language_model = "Glm4MoeForCausalLM",
              .epsilon = 1e-5,
              .seq_length = 131072,
              .groups = 8,
              .rotary_percent_key = "partial_rotary_factor",
              .rotary_percent = 0.5};
    case ModelType::kExaone4:
      return {.language_model = "Exaone4ForCausalLM",
              .epsilon = 1e-5,
              .qk_layernorm = true,
              .groups = 32};
    case ModelType::kSeedOss:
      return {.language_model = "SeedOssForCausalLM",
              .seq_length = 524288,
              .groups = 8,
              .head = 128,
              .hidden_dropout_key = "residual_dropout",
              .dropout = kUsualDropout};
    case ModelType::kErnie45:
      return {.language_model = "Ernie4_5ForCausalLM",
              .epsilon = 1e-5,
              .tied_embeddings = true,
              .seq_length = 131072,
              .groups = 2,
              .head = 128,
              .rotary_base = 500000.0,
              .interleaved = true};
    case ModelType::kMiniMaxM2:
      return {.language_model = "MiniMaxM2ForCausalLM",
              .qk_layernorm = true,
              .seq_length = 196608,
              .groups = 8,
              .head = 128,
              .rotary_base = 5e6,
              .rotary_percent_key = "partial_rotary_factor"};
    case ModelType::kLlama4:
      return {.language_model = "Llama4ForCausalLM",
              .epsilon = 1e-5,
              .qk_layernorm = true,
              .seq_length = 131072,
              .groups = 8,
              .head = 128,
              .rotary_base = 500000.0,
              .interleaved = true};
  }
  return {};
}

}  // namespace ptdp::huggingface
