// What a type of models has by its class: names of keys, and values of keys that a file leaves out.
#pragma once

#include <string>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp::huggingface {

/// A type's names of keys and defaults, and the structure that its class always has.
///
/// Source: configuration_<type>.py and modeling_<type>.py of huggingface/transformers, in the
/// versions that read_huggingface_config() names.
struct TypeTraits {
  std::string language_model;  ///< Class of the model with logits, for the key "architectures".
  std::string epsilon_key = "rms_norm_eps";
  double epsilon = 1e-6;
  std::string activation_key = "hidden_act";
  Activation activation = Activation::kSilu;
  double init_method_std = 0.02;
  bool gated_linear_unit = true;
  Normalization normalization = Normalization::kRmsNorm;
  bool zero_centered_gamma = false;
  bool qk_layernorm = false;
  bool tied_embeddings = false;
  int heads = 0;             ///< Heads of a file that says none; 0: the file must say.
  int vocab_size = 0;        ///< Vocabulary of a file that says none; 0: the file must say.
  int seq_length = 2048;     ///< Longest sequence [tokens].
  int groups = 0;            ///< Key-value heads; 0: as many as heads, which null means too.
  int head = 0;              ///< Width of a head; 0: the model's width over its heads.
  bool has_head_key = true;  ///< Whether "head_dim" may say another width.
  double rotary_base = 10000.0;
  std::string rotary_base_key = "rope_theta";
  std::string rotary_percent_key;  ///< Key of the part of a head that is turned; empty: all is.
  double rotary_percent = 1.0;
  bool interleaved = false;         ///< Whether neighbors are turned together.
  double rotary_window_base = 0.0;  ///< Base in layers with a window; 0: as in all layers.
  std::string attention_dropout_key = "attention_dropout";
  std::string hidden_dropout_key;     ///< Key of the rate for both branches; empty: there is none.
  std::string embedding_dropout_key;  ///< Key of the rate for embeddings; empty: there is none.
  double dropout = 0.0;               ///< All three rates of a file that says none.
};

[[nodiscard]] TypeTraits traits_of(ModelType type);

}  // namespace ptdp::huggingface
