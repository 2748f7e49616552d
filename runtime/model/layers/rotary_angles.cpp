#include "runtime/model/layers/rotary_angles.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ptdp {
namespace {

/// Returns the frequency [radians per position] of a pair, stretched as in Llama 3: those of long
/// waves are divided by the factor, those of short ones stay, with a straight passage in between.
double llama3_frequency(double frequency, const RotaryEmbedding& rotary) {
  const double turns = rotary.original_seq_length * frequency / (2.0 * std::numbers::pi);
  const double unchanged = std::clamp(
      (turns - rotary.low_freq_factor) / (rotary.high_freq_factor - rotary.low_freq_factor), 0.0,
      1.0);
  return unchanged * frequency + (1.0 - unchanged) * frequency / rotary.factor;
}

/// Returns the number of the pair, a fraction, that turns `turns` times over the original sequence.
double pair_that_turns(double turns, const RotaryEmbedding& rotary, int width) {
  return width * std::log(rotary.original_seq_length / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rotary.base));
}

/// Returns the frequency of pair number `pair`, stretched as in YaRN: pairs up to the one that
/// turns beta_fast times stay, and those from the one that turns beta_slow times are divided by the
/// factor.
double yarn_frequency(double frequency, int pair, const RotaryEmbedding& rotary, int width) {
  const double low = std::max(std::floor(pair_that_turns(rotary.beta_fast, rotary, width)), 0.0);
  double high = std::min(std::ceil(pair_that_turns(rotary.beta_slow, rotary, width)), width - 1.0);
  if (low == high) {
    high += 0.001;  // as transformers does, so that the passage has a length
  }
  const double stretched = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return frequency / rotary.factor * stretched + frequency * (1.0 - stretched);
}

/// Returns the frequency of a pair [radians per position].
double frequency_of(int pair, const TransformerConfig& model, int width) {
  const RotaryEmbedding& rotary = model.rotary;
  const double frequency = std::pow(rotary.base, -2.0 * pair / width);
  switch (rotary.scaling) {
    case RopeScaling::kNone:
      return frequency;
    case RopeScaling::kLinear:
      return frequency / rotary.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(frequency, rotary);
    case RopeScaling::kYarn:
      return yarn_frequency(frequency, pair, rotary, width);
    case RopeScaling::kLongRope: {
      const bool is_long = model.seq_length > rotary.original_seq_length;
      const auto& factors = is_long ? rotary.long_factors : rotary.short_factors;
      return frequency / factors[static_cast<std::size_t>(pair)];
    }
  }
  return frequency;
}

/// Returns the factor of cosines and sines.
double growth(const RotaryEmbedding& rotary) {
  const bool is_long = rotary.scaling == RopeScaling::kLongRope;
  if (rotary.scaling != RopeScaling::kYarn && !is_long) {
    return 1.0;
  }
  if (rotary.attention_factor > 0.0) {
    return rotary.attention_factor;
  }
  if (rotary.factor <= 1.0) {
    return 1.0;
  }
  return is_long ? std::sqrt(1.0 + std::log(rotary.factor) / std::log(rotary.original_seq_length))
                 : 0.1 * std::log(rotary.factor) + 1.0;
}

}  // namespace

std::vector<double> rotary_angles(const TransformerConfig& model) {
  const int width = rotary_width(model);
  const int half = width / 2;
  const double factor = growth(model.rotary);
  std::vector<double> angles(static_cast<std::size_t>(model.seq_length) *
                             static_cast<std::size_t>(width));
  for (int pair = 0; pair < half; ++pair) {
    const double frequency = frequency_of(pair, model, width);
    for (int position = 0; position < model.seq_length; ++position) {
      double* const of_position =
          angles.data() + static_cast<std::size_t>(position) * static_cast<std::size_t>(width);
      of_position[pair] = factor * std::cos(position * frequency);
      of_position[half + pair] = factor * std::sin(position * frequency);
    }
  }
  return angles;
}

}  // namespace ptdp
