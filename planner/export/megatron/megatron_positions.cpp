// Rotary positions as arguments of Megatron-LM's pretrain_gpt.py, and what none of them says.
#include <fmt/format.h>

#include <cmath>

#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_refusals.h"
#include "planner/export/refusals.h"

namespace ptdp {
namespace {

/// Sequence for which Megatron-Core stretches angles as Llama 3 does. Source: _apply_scaling() of
/// megatron/core/models/common/embeddings/rotary_pos_embedding.py.
constexpr int kLlama3Sequence = 8192;

bool is_whole(double value) {
  return value == std::round(value);
}

/// Returns the scale s of a growth of YaRN, 0.1·s·ln f + 1, in a spelling that hides rounding.
std::string yarn_scale(double growth, double factor) {
  constexpr double per_logarithm = 0.1;
  return fmt::format("{:.10g}", (growth - 1.0) / (per_logarithm * std::log(factor)));
}

/// Adds the angles of latent attention, where YaRN is what Megatron-Core does by itself.
void add_latent_angles(const TransformerConfig& model, ArgumentList& arguments) {
  const char* const part = "rotary positions";
  const RotaryEmbedding& rotary = model.rotary;
  if (rotary.scaling != RopeScaling::kYarn) {
    arguments.add(part, "--rotary-scaling-factor", "1.0");  // angles as they are
    return;
  }
  arguments.add(part, "--rotary-scaling-factor", rotary.factor);
  const double of_all = latent_growth(model);
  const double growth = rotary.attention_factor == 0.0 ? yarn_growth(rotary.factor)
                                                       : rotary.attention_factor * of_all;
  arguments.add(part, "--mscale", yarn_scale(growth, rotary.factor));
  arguments.add(part, "--mscale-all-dim", yarn_scale(of_all, rotary.factor));
}

}  // namespace

double latent_growth(const TransformerConfig& model) {
  return model.query_pre_attn_scalar == 0.0
             ? 1.0
             : std::pow(query_head_width(model) / model.query_pre_attn_scalar, 0.25);
}

void add_megatron_positions(const TransformerConfig& model, ArgumentList& arguments) {
  const char* const part = "rotary positions";
  const RotaryEmbedding& rotary = model.rotary;
  if (model.position_embedding != PositionEmbedding::kRope) {
    return;
  }
  arguments.add(part, "--rotary-base", fmt::format("{:.0f}", rotary.base));
  if (has_latent_attention(model)) {
    add_latent_angles(model, arguments);
    return;
  }
  if (rotary.percent != 1.0) {
    arguments.add(part, "--rotary-percent", rotary.percent);
  }
  switch (rotary.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kLongRope:  // which numerics_refusals() refuses
      break;
    case RopeScaling::kLinear:
      arguments.add(part, "--rotary-seq-len-interpolation-factor",
                    fmt::format("{:.0f}", rotary.factor));
      break;
    case RopeScaling::kLlama3:
      arguments.add(part, "--use-rope-scaling");
      arguments.add(part, "--rope-scaling-factor", rotary.factor);
      break;
    case RopeScaling::kYarn:
      arguments.add(part, "--rotary-scaling-factor", rotary.factor);
      arguments.add(part, "--yarn-original-max-position-embeddings", rotary.original_seq_length);
      arguments.add(part, "--yarn-beta-fast", rotary.beta_fast);
      arguments.add(part, "--yarn-beta-slow", rotary.beta_slow);
      break;
  }
}

std::vector<ExportRefusal> megatron_position_refusals(const TransformerConfig& model) {
  Refusals refusals;
  const RotaryEmbedding& rotary = model.rotary;
  if (model.position_embedding != PositionEmbedding::kRope) {
    return {};
  }
  refusals.add_if(!is_whole(rotary.base), "rotary_base", rotary.base, "a whole number");
  const bool is_yarn = rotary.scaling == RopeScaling::kYarn;
  if (has_latent_attention(model)) {
    refusals.add_if(rotary.percent != 1.0, "rotary_percent", rotary.percent, "1");
    refusals.add_if(
        rotary.scaling != RopeScaling::kNone && !is_yarn, "rope_scaling",
        std::string(name_of(rotary.scaling, NamedValues<RopeScaling>(kRopeScalingNames))),
        "none or yarn with latent attention");
    refusals.add_if(
        is_yarn && (rotary.original_seq_length != 4096 || rotary.beta_fast != 32.0 ||
                    rotary.beta_slow != 1.0 || rotary.factor <= 1.0),
        "rope_original_seq_length, rope_beta_fast, rope_beta_slow and rope_scaling_factor",
        fmt::format("{}, {}, {} and {}", rotary.original_seq_length, rotary.beta_fast,
                    rotary.beta_slow, rotary.factor),
        "4096, 32, 1 and above 1 with latent attention");
    refusals.add_if(model.query_pre_attn_scalar != 0.0 && (!is_yarn || rotary.factor <= 1.0),
                    "query_pre_attn_scalar", model.query_pre_attn_scalar,
                    "the width of a head without yarn");
    return refusals.take();
  }
  refusals.add_if(rotary.scaling == RopeScaling::kLinear && !is_whole(rotary.factor),
                  "rope_scaling_factor", rotary.factor, "a whole number with linear scaling");
  refusals.add_if(rotary.scaling == RopeScaling::kLlama3 &&
                      (rotary.original_seq_length != kLlama3Sequence ||
                       rotary.low_freq_factor != 1.0 || rotary.high_freq_factor != 4.0),
                  "rope_original_seq_length, rope_low_freq_factor and rope_high_freq_factor",
                  fmt::format("{}, {} and {}", rotary.original_seq_length, rotary.low_freq_factor,
                              rotary.high_freq_factor),
                  "8192, 1 and 4");
  refusals.add_if(is_yarn && rotary.percent != 1.0, "rotary_percent", rotary.percent,
                  "1 with yarn");
  refusals.add_if(is_yarn && rotary.attention_factor != 0.0 &&
                      !is_close(rotary.attention_factor, yarn_growth(rotary.factor)),
                  "rope_attention_factor", rotary.attention_factor,
                  fmt::format("{:.6g}, as of the factor", yarn_growth(rotary.factor)));
  return refusals.take();
}

}  // namespace ptdp
