// Keys of Hugging Face configurations that decide neither the cost nor the result of training a
// dense model.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ptdp {

/// Keys that transformers and exporters write beside a model's shape. They say how weights are
/// initialized, how text becomes tokens, how a trained model answers, and where it was saved.
inline constexpr std::array kPassedOverKeys = {"_name_or_path",
                                               "architectures",
                                               "_attn_implementation",
                                               "attn_implementation",
                                               "_attn_implementation_autoset",
                                               "_attn_implementation_internal",
                                               "auto_map",
                                               "bad_words_ids",
                                               "begin_suppress_tokens",
                                               "bos_token_id",
                                               "chunk_size_feed_forward",
                                               "cross_attention_hidden_size",
                                               "decoder_start_token_id",
                                               "diversity_penalty",
                                               "do_sample",
                                               "dtype",
                                               "early_stopping",
                                               "encoder_no_repeat_ngram_size",
                                               "eos_token_id",
                                               "exponential_decay_length_penalty",
                                               "finetuning_task",
                                               "forced_bos_token_id",
                                               "forced_eos_token_id",
                                               "id2label",
                                               "is_decoder",
                                               "label2id",
                                               "length_penalty",
                                               "max_length",
                                               "min_length",
                                               "no_repeat_ngram_size",
                                               "num_beam_groups",
                                               "num_beams",
                                               "num_return_sequences",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "output_scores",
                                               "pad_token_id",
                                               "prefix",
                                               "problem_type",
                                               "quantization_config",
                                               "remove_invalid_values",
                                               "repetition_penalty",
                                               "return_dict",
                                               "return_dict_in_generate",
                                               "sep_token_id",
                                               "suppress_tokens",
                                               "task_specific_params",
                                               "temperature",
                                               "tf_legacy_loss",
                                               "tie_encoder_decoder",
                                               "tokenizer_class",
                                               "top_k",
                                               "top_p",
                                               "torch_dtype",
                                               "torchscript",
                                               "transformers_version",
                                               "typical_p",
                                               "use_bfloat16",
                                               "use_cache",
                                               "classifier_dropout",
                                               "gradient_checkpointing",
                                               "pretraining_tp",
                                               "reorder_and_upcast_attn",
                                               "summary_activation",
                                               "summary_first_dropout",
                                               "summary_proj_to_labels",
                                               "summary_type",
                                               "summary_use_proj",
                                               "aux_loss_alpha",
                                               "ep_size",
                                               "norm_topk_prob",
                                               "num_experts_per_group",
                                               "output_router_logits",
                                               "routed_scaling_factor",
                                               "router_aux_loss_coef",
                                               "router_jitter_noise",
                                               "scoring_func",
                                               "seq_aux",
                                               "max_sequence_length",
                                               "model_max_length",
                                               "n_ctx",
                                               "unsloth_fixed",
                                               "unsloth_version",
                                               "quantization",
                                               "unk_token_id",
                                               "_commit_hash",
                                               "name_or_path",
                                               "num_labels",
                                               "tie_last_hidden_states",
                                               "output_past",
                                               "custom_pipelines",
                                               "selective_checkpoint_enabled",
                                               "sequence_parallel_enabled",
                                               "use_flash_attention",
                                               "move_model_to_device",
                                               "fuse_qkv",
                                               "is_llama_config",
                                               "transformers.js_config",
                                               "neftune_noise_alpha",
                                               "n_special",
                                               "predict_special_tokens",
                                               "cache_implementation"};

/// Words of keys that say a model's shape. A key that nobody knows and that has one of them might
/// say a part of it.
inline constexpr std::array kShapeWords = {
    "act",      "activation", "alibi",        "attention", "attn",        "bias",      "cap",
    "causal",   "channels",   "chunk",        "clip",      "conv",        "dense",     "depth",
    "dim",      "dims",       "dropout",      "embd",      "embed",       "embedding", "embeddings",
    "encoder",  "eps",        "epsilon",      "expert",    "experts",     "factor",    "ffn",
    "freq",     "gate",       "gated",        "group",     "groups",      "head",      "heads",
    "hidden",   "inner",      "intermediate", "interval",  "kernel",      "kv",        "latent",
    "layer",    "layers",     "linear",       "lora",      "mamba",       "mask",      "mlp",
    "moe",      "mtp",        "multiplier",   "norm",      "num",         "parallel",  "pattern",
    "position", "positions",  "qk",           "qkv",       "query",       "rank",      "residual",
    "rope",     "rotary",     "router",       "scale",     "scaling",     "shared",    "sink",
    "size",     "skip",       "sliding",      "softcap",   "softcapping", "sparse",    "ssm",
    "theta",    "tie",        "vocab",        "width",     "window"};

/// Returns whether a key's name has one of kShapeWords between underscores, or is a letter before a
/// word, as in "n_layer".
[[nodiscard]] inline bool may_say_shape(std::string_view key) {
  while (!key.empty()) {
    const std::size_t end = std::min(key.find('_'), key.size());
    const std::string_view word = key.substr(0, end);
    if (word == "n" || word == "d" ||
        std::find(kShapeWords.begin(), kShapeWords.end(), word) != kShapeWords.end()) {
      return true;
    }
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return false;
}

}  // namespace ptdp
