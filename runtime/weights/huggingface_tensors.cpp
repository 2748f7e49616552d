#include "runtime/weights/huggingface_tensors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

/// How tensors of several parameters are laid out in one.
enum class Fusion : std::uint8_t {
  kNone,    ///< Every parameter is a tensor.
  kBlocks,  ///< All queries, then all keys, then all values; all gates, then all values (Phi-3).
  kHeads,   ///< Query, key and value of each head side by side (GPT-NeoX).
  kColumns  ///< All queries, keys and values, in matrices [inputs, outputs] (GPT-2).
};

/// Names of a type's tensors, in front of ".weight" and ".bias". Those of a layer follow its
/// number.
struct TypeNames {
  std::string_view prefix = "model.";
  std::string_view embedding = "embed_tokens";
  std::string_view positions;
  std::string_view layers = "layers.";
  std::string_view final_norm = "norm";
  std::string_view output = "lm_head";  ///< Name without prefix.
  std::string_view norm1 = "input_layernorm";
  std::string_view norm1_behind;
  std::string_view norm2 = "post_attention_layernorm";
  std::string_view norm2_behind;
  std::string_view query = "self_attn.q_proj";  ///< Queries, or all that is fused with them.
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
  std::string_view projection = "self_attn.o_proj";
  std::string_view gate = "mlp.gate_proj";  ///< Gates, or gates and values where they are fused.
  std::string_view up = "mlp.up_proj";      ///< First product, apart from gates.
  std::string_view down = "mlp.down_proj";
  Fusion fusion = Fusion::kNone;
};

/// Names of Gemma 2, whose branches have norms at both ends.
constexpr TypeNames kGemma2 = {.norm1_behind = "post_attention_layernorm",
                               .norm2 = "pre_feedforward_layernorm",
                               .norm2_behind = "post_feedforward_layernorm"};
constexpr TypeNames kOlmo2 = {.norm1_behind = "post_attention_layernorm",
                              .norm2_behind = "post_feedforward_layernorm"};
constexpr TypeNames kPhi3 = {
    .query = "self_attn.qkv_proj", .gate = "mlp.gate_up_proj", .fusion = Fusion::kBlocks};
constexpr TypeNames kStarcoder2 = {.up = "mlp.c_fc", .down = "mlp.c_proj"};
constexpr TypeNames kGptNeox = {.prefix = "gpt_neox.",
                                .embedding = "embed_in",
                                .final_norm = "final_layer_norm",
                                .output = "embed_out",
                                .query = "attention.query_key_value",
                                .projection = "attention.dense",
                                .up = "mlp.dense_h_to_4h",
                                .down = "mlp.dense_4h_to_h",
                                .fusion = Fusion::kHeads};
constexpr TypeNames kGpt2 = {.prefix = "transformer.",
                             .embedding = "wte",
                             .positions = "wpe",
                             .layers = "h.",
                             .final_norm = "ln_f",
                             .norm1 = "ln_1",
                             .norm2 = "ln_2",
                             .query = "attn.c_attn",
                             .projection = "attn.c_proj",
                             .up = "mlp.c_fc",
                             .down = "mlp.c_proj",
                             .fusion = Fusion::kColumns};

/// Types with their names, the most usual of equal structures first.
constexpr std::array kTypes = {std::pair<std::string_view, TypeNames>{"gpt2", kGpt2},
                               std::pair<std::string_view, TypeNames>{"llama", {}},
                               std::pair<std::string_view, TypeNames>{"qwen2", {}},
                               std::pair<std::string_view, TypeNames>{"mistral", {}},
                               std::pair<std::string_view, TypeNames>{"qwen3", {}},
                               std::pair<std::string_view, TypeNames>{"gemma", {}},
                               std::pair<std::string_view, TypeNames>{"gemma2", kGemma2},
                               std::pair<std::string_view, TypeNames>{"olmo2", kOlmo2},
                               std::pair<std::string_view, TypeNames>{"gpt_neox", kGptNeox},
                               std::pair<std::string_view, TypeNames>{"nemotron", {}},
                               std::pair<std::string_view, TypeNames>{"phi3", kPhi3},
                               std::pair<std::string_view, TypeNames>{"starcoder2", kStarcoder2},
                               std::pair<std::string_view, TypeNames>{"stablelm", {}},
                               std::pair<std::string_view, TypeNames>{"granite", {}}};

/// Lists the parameters of a model with their places.
class Lister {
 public:
  Lister(const TransformerConfig& model, const TypeNames& names)
      : model_(model), names_(names), prefix_(names.prefix) {}

  [[nodiscard]] std::vector<PlacedParameter> list() {
    const std::int64_t h = model_.hidden_size;
    add("embedding.word.weight", prefix_ + std::string(names_.embedding) + ".weight",
        model_.vocab_size, h);
    if (model_.position_embedding == PositionEmbedding::kLearned) {
      add("embedding.position.weight", prefix_ + std::string(names_.positions) + ".weight",
          model_.seq_length, h);
      placed_.back().place.may_be_longer = true;
    }
    for (int layer = 0; layer < model_.num_layers; ++layer) {
      add_layer(layer);
    }
    add_norm("final_norm", prefix_ + std::string(names_.final_norm), h);
    if (model_.untied_embeddings) {
      add("output.weight", std::string(names_.output) + ".weight", model_.vocab_size, h);
    }
    return std::move(placed_);
  }

 private:
  void add(std::string name, std::string tensor, std::int64_t outputs, std::int64_t inputs) {
    placed_.push_back({.name = std::move(name),
                       .outputs = outputs,
                       .inputs = inputs,
                       .place = {.tensor = std::move(tensor),
                                 .outputs = outputs,
                                 .inputs = inputs,
                                 .runs = {.run = outputs, .stride = outputs}}});
  }

  void add_norm(const std::string& name, const std::string& tensor, std::int64_t width) {
    add(name + ".gamma", tensor + ".weight", width, 0);
    if (model_.normalization == Normalization::kLayerNorm) {
      add(name + ".beta", tensor + ".bias", width, 0);
    }
  }

  /// Adds a matrix and, with `has_bias`, its bias.
  void add_linear(const std::string& name, const std::string& tensor, std::int64_t outputs,
                  std::int64_t inputs, bool has_bias) {
    add(name + ".weight", tensor + ".weight", outputs, inputs);
    placed_.back().place.is_transposed = names_.fusion == Fusion::kColumns;
    if (has_bias) {
      add(name + ".bias", tensor + ".bias", outputs, 0);
    }
  }

  /// Makes the parameters from number `from` on parts of tensors with `outputs` rows: the rows from
  /// `first` on, in runs of `run` that are `stride` apart.
  void fuse(std::size_t from, std::int64_t outputs, std::int64_t first, std::int64_t run,
            std::int64_t stride) {
    for (std::size_t i = from; i < placed_.size(); ++i) {
      ParameterPlace& place = placed_[i].place;
      place.outputs = outputs;
      place.runs = {.first = first, .run = run, .stride = stride};
    }
  }

  void add_layer(int layer) {
    const std::string own = "layers." + std::to_string(layer) + ".";
    const std::string there = prefix_ + std::string(names_.layers) + std::to_string(layer) + ".";
    const std::int64_t h = model_.hidden_size;
    const bool has_before = model_.norm_placement != NormPlacement::kBehind;
    const bool has_behind = model_.norm_placement != NormPlacement::kBefore;
    if (has_before) {
      add_norm(own + "ln1", there + std::string(names_.norm1), h);
      add_norm(own + "ln2", there + std::string(names_.norm2), h);
    }
    if (has_behind) {
      add_norm(own + "ln1_behind", there + std::string(names_.norm1_behind), h);
      add_norm(own + "ln2_behind", there + std::string(names_.norm2_behind), h);
    }
    add_attention(own + "attention.", there);
    add_mlp(own + "mlp.", there);
  }

  void add_attention(const std::string& own, const std::string& there) {
    const std::int64_t h = model_.hidden_size;
    const std::int64_t d = model_.kv_channels;
    const bool has_bias = model_.add_bias_linear || model_.add_qkv_bias;
    const std::array names = {names_.query, names_.key, names_.value};
    const std::array widths = {query_width(model_), key_width(model_), key_width(model_)};
    const std::array own_names = {"query", "key", "value"};
    const std::int64_t all = widths[0] + widths[1] + widths[2];
    std::int64_t first = 0;
    for (std::size_t part = 0; part < widths.size(); ++part) {
      const std::size_t from = placed_.size();
      const bool is_fused = names_.fusion != Fusion::kNone;
      add_linear(own + own_names[part], there + std::string(names[is_fused ? 0 : part]),
                 widths[part], h, has_bias);
      if (names_.fusion == Fusion::kHeads) {
        fuse(from, all, static_cast<std::int64_t>(part) * d, d, 3 * d);
      } else if (is_fused) {
        fuse(from, all, first, widths[part], widths[part]);
      }
      first += widths[part];
    }
    if (model_.qk_layernorm) {
      const bool is_of_head = model_.qk_layernorm_width == QkNormWidth::kHead;
      add_norm(own + "query_norm", there + std::string(names_.query_norm),
               is_of_head ? d : widths[0]);
      add_norm(own + "key_norm", there + std::string(names_.key_norm), is_of_head ? d : widths[1]);
    }
    add_linear(own + "projection", there + std::string(names_.projection), h, query_width(model_),
               model_.add_bias_linear || model_.add_projection_bias);
  }

  void add_mlp(const std::string& own, const std::string& there) {
    const std::int64_t h = model_.hidden_size;
    const std::int64_t f = model_.ffn_hidden_size;
    const bool has_bias = model_.add_bias_linear || model_.add_mlp_bias;
    if (model_.gated_linear_unit) {
      const bool is_fused = names_.fusion == Fusion::kBlocks;
      std::size_t from = placed_.size();
      add_linear(own + "gate", there + std::string(names_.gate), f, h, has_bias);
      if (is_fused) {
        fuse(from, 2 * f, 0, f, f);
      }
      from = placed_.size();
      add_linear(own + "up", there + std::string(is_fused ? names_.gate : names_.up), f, h,
                 has_bias);
      if (is_fused) {
        fuse(from, 2 * f, f, f, f);
      }
    } else {
      add_linear(own + "fc1", there + std::string(names_.up), f, h, has_bias);
    }
    add_linear(own + "fc2", there + std::string(names_.down), h, f, has_bias);
  }

  const TransformerConfig& model_;
  const TypeNames& names_;
  std::string prefix_;
  std::vector<PlacedParameter> placed_;
};

}  // namespace

const std::vector<std::string>& huggingface_weight_types() {
  static const std::vector<std::string> types = [] {
    std::vector<std::string> names;
    names.reserve(kTypes.size());
    for (const auto& [name, unused] : kTypes) {
      names.emplace_back(name);
    }
    return names;
  }();
  return types;
}

std::vector<PlacedParameter> huggingface_parameters(const TransformerConfig& model,
                                                    std::string_view type) {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const auto& known) { return known.first == type; });
  if (found == kTypes.end()) {
    std::string known;
    for (const std::string& name : huggingface_weight_types()) {
      known += (known.empty() ? "" : ", ") + name;
    }
    throw Error("model_type: the tensors of " + in_quotes(std::string(type)) +
                " are not known; expected one of " + known);
  }
  return Lister(model, found->second).list();
}

std::vector<std::int64_t> stored_shape(const ParameterPlace& place) {
  if (place.inputs == 0) {
    return {place.outputs};
  }
  return place.is_transposed ? std::vector{place.inputs, place.outputs}
                             : std::vector{place.outputs, place.inputs};
}

ParameterPlaces places_by_name(const std::vector<PlacedParameter>& parameters) {
  ParameterPlaces places;
  for (const PlacedParameter& parameter : parameters) {
    places.emplace(parameter.name, parameter.place);
  }
  return places;
}

std::vector<double> transposed(std::span<const double> matrix, std::int64_t rows,
                               std::int64_t columns) {
  std::vector<double> result(matrix.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(column * rows + row)] =
          matrix[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return result;
}

std::vector<FileBlock> file_blocks(const ParameterPlace& place, const MatrixBlock& block,
                                   const Part& range) {
  const bool is_vector = place.inputs == 0;
  std::vector<FileBlock> blocks;
  for (const PlacedBlock& placed : placed_blocks(place.runs, is_vector, block, range)) {
    MatrixBlock stored = {.first_row = placed.first_output,
                          .first_column = placed.first_input,
                          .rows = placed.outputs,
                          .columns = placed.inputs,
                          .total_columns = place.inputs};
    if (is_vector) {
      stored = {.first_column = placed.first_output,
                .rows = 1,
                .columns = placed.outputs,
                .total_columns = place.outputs};
    } else if (place.is_transposed) {
      stored = {.first_row = placed.first_input,
                .first_column = placed.first_output,
                .rows = placed.inputs,
                .columns = placed.outputs,
                .total_columns = place.outputs};
    }
    blocks.push_back({.block = stored, .values = placed.values});
  }
  return blocks;
}

bool is_passed_over(const TransformerConfig& model, std::string_view tensor) {
  constexpr std::array tables = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                 ".attention.bias", ".attention.masked_bias"};
  return std::any_of(tables.begin(), tables.end(),
                     [&](std::string_view table) { return tensor.ends_with(table); }) ||
         (!model.untied_embeddings && (tensor == "lm_head.weight" || tensor == "embed_out.weight"));
}

}  // namespace ptdp
