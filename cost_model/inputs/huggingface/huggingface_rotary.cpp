// Reads the angles of rotary positions, which files of different ages spell differently.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_writer.h"

namespace ptdp::huggingface {
namespace {

/// Factors by which a scaling may stretch: below 1, transformers warns and YaRN's formula ends.
constexpr Range kStretchRange = {1.0, 1e9};

/// A number that a file may give at several places, which all have to agree.
class Agreed {
 public:
  explicit Agreed(double usual, const Range& range) : value_(usual), range_(range) {}

  /// Reads a place that transformers reads.
  void take(const Keys& keys, const std::string& key) {
    if (!keys.has(key)) {
      return;
    }
    take(keys, key, keys.number_or(key, value_, range_));
  }
  /// Takes a number that `key` says in another way.
  void take(const Keys& keys, const std::string& key, double found) {
    if (is_found_) {
      compare(keys, key, found);
    }
    value_ = found;
    is_found_ = true;
  }
  /// Reads a place that transformers passes over, but somebody meant it.
  void check(const Keys& keys, const std::string& key) const {
    if (keys.has(key)) {
      compare(keys, key, keys.number_or(key, value_, range_));
    }
  }
  [[nodiscard]] double value() const { return value_; }

 private:
  void compare(const Keys& keys, const std::string& key, double found) const {
    if (found != value_) {
      keys.refuse(key, "expected " + in_digits(value_) +
                           ", which the file says elsewhere or its type has, got " +
                           in_digits(found));
    }
  }
  double value_;
  Range range_;
  bool is_found_ = false;
};

/// Returns the key of the object that describes the angles; empty if the file has none.
std::string name_of_object(const Keys& keys) {
  const bool has_scaling = keys.has("rope_scaling");
  const bool has_parameters = keys.has("rope_parameters");
  if (has_scaling && has_parameters) {
    keys.refuse("rope_scaling", "expected it or rope_parameters, got both");
  }
  return has_scaling ? "rope_scaling" : has_parameters ? "rope_parameters" : "";
}

std::string scaling_of(const Keys& nested) {
  std::string name = "default";
  std::string old_name;
  if (nested.has("type")) {
    nested.reader().text("type", old_name);
    name = old_name;
  }
  if (nested.has("rope_type")) {
    nested.reader().text("rope_type", name);
    if (!old_name.empty() && old_name != name) {
      nested.refuse("type",
                    "expected rope_type, " + in_quotes(name) + ", got " + in_quotes(old_name));
    }
  }
  return name;
}

/// Reads the sequence that the model had before its angles were stretched. The key beside the
/// object overrides the one within, and without both it is the longest sequence.
int read_original_sequence(const Keys& keys, const Keys& nested, int longest) {
  const std::string key = "original_max_position_embeddings";
  const int within = nested.size_or(key, 0, kLongestSequence);
  const int beside = keys.size_or(key, 0, kLongestSequence);
  if (within != 0 && beside != 0 && within != beside) {
    keys.refuse(key, "expected " + std::to_string(within) + ", as " + nested.reader().place() +
                         " says, got " + std::to_string(beside));
  }
  return within != 0 ? within : beside != 0 ? beside : longest;
}

/// Reads DeepSeek's two scales of YaRN's growth. The one of all elements multiplies scores twice.
void read_growth_of_latents(const Keys& nested, ModelType type, TransformerConfig& model) {
  const Range scales = {0.0, 1e3};
  const double part = nested.number_or("mscale", 0.0, scales);
  const double all = nested.number_or("mscale_all_dim", 0.0, scales);
  const double of_all = yarn_growth(model.rotary.factor, all);
  if (part != 0.0 && all != 0.0 && model.rotary.attention_factor == 0.0) {
    model.rotary.attention_factor = as_written(yarn_growth(model.rotary.factor, part) / of_all);
  }
  if (type == ModelType::kDeepseekV3 && all != 0.0) {
    model.query_pre_attn_scalar = as_written(query_head_width(model) / std::pow(of_all, 4.0));
  }
}

void read_yarn(const Keys& keys, const Keys& nested, ModelType type, TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  rotary.scaling = RopeScaling::kYarn;
  nested.reader().number("factor", rotary.factor, kStretchRange);
  rotary.original_seq_length = read_original_sequence(keys, nested, model.seq_length);
  rotary.attention_factor = nested.number_or("attention_factor", 0.0, kPositiveRange);
  rotary.beta_fast = nested.number_or("beta_fast", rotary.beta_fast, kPositiveRange);
  rotary.beta_slow = nested.number_or("beta_slow", rotary.beta_slow, kPositiveRange);
  if (type == ModelType::kGptOss) {  // read for its costs
    nested.pass_over(std::array{"truncate"});
  } else {
    nested.expect("truncate", true, "bounds of YaRN's ramp are whole elements");
  }
  nested.pass_over(std::array{"finetuned"});
  if (has_latent_attention(model)) {
    read_growth_of_latents(nested, type, model);
    return;
  }
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (nested.has(key)) {
      nested.refuse(key, "expected attention_factor in place of this key, got " +
                             in_digits(nested.number_or(key, 0.0, {-1e9, 1e9})));
    }
  }
}

/// Reads LongRoPE. Phi3's class knows the sequence before from the top of the file alone.
void read_longrope(const Keys& keys, const Keys& nested, ModelType type, TransformerConfig& model) {
  constexpr int usual_of_phi3 = 4096;
  const std::string original = "original_max_position_embeddings";
  const bool is_phi3 = type == ModelType::kPhi3;
  RotaryEmbedding& rotary = model.rotary;
  rotary.scaling = RopeScaling::kLongRope;
  rotary.original_seq_length =
      read_original_sequence(keys, nested, is_phi3 ? usual_of_phi3 : model.seq_length);
  if (is_phi3 && !keys.has(original) && rotary.original_seq_length != usual_of_phi3) {
    nested.refuse(original,
                  "expected 4096, which a phi3 has whose file does not say it at its "
                  "top, got " +
                      std::to_string(rotary.original_seq_length));
  }
  nested.reader().numbers("short_factor", rotary.short_factors, kPositiveRange);
  nested.reader().numbers("long_factor", rotary.long_factors, kPositiveRange);
  const double ratio = static_cast<double>(model.seq_length) / rotary.original_seq_length;
  // Factors below 1 make sines no smaller.
  rotary.factor = std::max(nested.number_or("factor", ratio, kPositiveRange), 1.0);
  rotary.attention_factor = nested.number_or("attention_factor", 0.0, kPositiveRange);
}

void read_scaling(const Keys& keys, const Keys& nested, ModelType type, TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  const std::string name = scaling_of(nested);
  const std::string key = nested.spelling_of({"rope_type", "type"});
  if (name == "default") {
    return;
  }
  if (type == ModelType::kPhi3) {
    // The class takes the names of earlier versions for this one.
    if (name != "longrope" && name != "su" && name != "yarn") {
      nested.refuse(key, "expected default or longrope of a phi3, got " + in_quotes(name));
    }
    read_longrope(keys, nested, type, model);
  } else if (name == "longrope") {
    read_longrope(keys, nested, type, model);
  } else if (name == "linear") {
    rotary.scaling = RopeScaling::kLinear;
    nested.reader().number("factor", rotary.factor, kStretchRange);
  } else if (name == "llama3") {
    rotary.scaling = RopeScaling::kLlama3;
    nested.reader().number("factor", rotary.factor, kStretchRange);
    nested.reader().number("low_freq_factor", rotary.low_freq_factor, kPositiveRange);
    nested.reader().number("high_freq_factor", rotary.high_freq_factor, kPositiveRange);
    rotary.original_seq_length = read_original_sequence(keys, nested, model.seq_length);
  } else if (name == "yarn") {
    read_yarn(keys, nested, type, model);
  } else {
    nested.refuse(key,
                  "expected default, linear, llama3, yarn or longrope, got " + in_quotes(name));
  }
}

/// Reads one object that describes angles.
void read_angles(const Keys& keys, ObjectReader reader, ModelType type, Agreed& base,
                 Agreed& percent, TransformerConfig& model) {
  const Keys nested(reader);
  base.take(nested, "rope_theta");
  if (traits_of(type).rotary_percent_key.empty()) {
    percent.check(nested, "partial_rotary_factor");
  } else {
    percent.take(nested, "partial_rotary_factor");
  }
  read_scaling(keys, nested, type, model);
  reader.finish();
}

/// Reads the base of angles in layers with a window, which version 5 has in an object of theirs
/// beside that of the other layers.
void read_window_base(const Keys& keys, const TypeTraits& traits, const std::string& object,
                      TransformerConfig& model) {
  Agreed base(traits.rotary_window_base, kRotaryBaseRange);
  base.take(keys, "rope_local_base_freq");
  if (!object.empty()) {
    ObjectReader both = keys.reader().child(object);
    if (both.has_value("sliding_attention")) {
      ObjectReader reader = both.child("sliding_attention");
      const Keys nested(reader);
      base.take(nested, "rope_theta");
      if (scaling_of(nested) != "default") {
        nested.refuse("rope_type", "expected default in layers with a window");
      }
      reader.finish();
    }
  }
  const bool differs =
      base.value() != model.rotary.base || model.rotary.scaling != RopeScaling::kNone;
  if (model.window_size > 0 && differs) {
    model.rotary.window_base = base.value();
  }
}

/// Throws Error if the part of a head that is turned is an odd number of elements: transformers
/// then turns one more, by angles of the odd number.
void check_percent(const Keys& keys, const TypeTraits& traits, const TransformerConfig& model) {
  const bool is_whole = model.hidden_size % model.num_attention_heads == 0;
  if (has_latent_attention(model) || (model.kv_channels == 0 && !is_whole)) {
    return;  // widths that contradict each other are refused with their own words
  }
  const int head =
      model.kv_channels != 0 ? model.kv_channels : model.hidden_size / model.num_attention_heads;
  const int turned = static_cast<int>(head * model.rotary.percent);
  if (turned % 2 != 0) {
    keys.refuse(traits.rotary_percent_key.empty() ? "head_dim" : traits.rotary_percent_key,
                "expected an even number of elements of a head that are turned, got " +
                    std::to_string(turned) + " of " + std::to_string(head));
  }
}

}  // namespace

void read_rotary(const Keys& keys, ModelType type, TransformerConfig& model) {
  if (type == ModelType::kGpt2) {
    return;
  }
  const TypeTraits traits = traits_of(type);
  Agreed base(traits.rotary_base, kRotaryBaseRange);
  Agreed percent(traits.rotary_percent, kRotaryPercentRange);
  const std::string object = name_of_object(keys);
  if (!object.empty()) {
    ObjectReader reader = keys.reader().child(object);
    const bool has_both =
        traits.rotary_window_base != 0.0 &&
        (reader.has_value("full_attention") || reader.has_value("sliding_attention"));
    if (!has_both) {
      read_angles(keys, std::move(reader), type, base, percent, model);
    } else {
      static_cast<void>(reader.has("sliding_attention"));  // which read_window_base() reads
      if (reader.has_value("full_attention")) {
        read_angles(keys, reader.child("full_attention"), type, base, percent, model);
      }
      reader.finish();
    }
  }
  if (type == ModelType::kMiniMaxM2 && keys.has("rotary_dim")) {
    percent.take(keys, "rotary_dim",
                 1.0 * keys.size("rotary_dim", model.kv_channels) / model.kv_channels);
  }
  base.take(keys, traits.rotary_base_key);
  if (!traits.rotary_percent_key.empty()) {
    percent.take(keys, traits.rotary_percent_key);
  }
  for (const char* key : {"rope_theta", "rotary_emb_base"}) {
    base.check(keys, key);
  }
  for (const char* key :
       {"partial_rotary_factor", "rotary_pct", "rope_percent", "rotary_percentage"}) {
    percent.check(keys, key);
  }
  model.rotary.base = base.value();
  model.rotary.percent = percent.value();
  model.rotary.interleaved = traits.interleaved;
  if (traits.rotary_window_base != 0.0) {
    read_window_base(keys, traits, object, model);
  }
  check_percent(keys, traits, model);
  keys.expect("use_mrope", false, "a token has one position");
  keys.expect("rope_interleaved", traits.interleaved, "what this type always has");
  if (has_latent_attention(model) || traits.interleaved) {
    // Pairs of neighbors are an order of the weights' rows, which costs nothing.
    keys.pass_over(std::array{"rope_interleave"});
  } else {
    keys.expect("rope_interleave", false, "elements of halves are turned together");
  }
  // Phi3's class has this key whether angles are stretched or not.
  keys.pass_over(std::array{"original_max_position_embeddings"});
}

}  // namespace ptdp::huggingface
