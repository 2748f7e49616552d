// What a framework can be told of how a model computes, beside what Llama and GPT-2 do.
#pragma once

#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "planner/export/exporter.h"

namespace ptdp {

/// What a framework has a flag or key for. What it lacks, a plan's model may not have: the
/// framework would train something else in silence.
struct NumericsSupport {
  bool rotary_base = false;     ///< Bases of rotary angles other than 10000.
  bool rotary_percent = false;  ///< Rotary positions of a part of a head.
  bool linear_scaling = false;
  bool llama3_scaling = false;
  bool yarn_scaling = false;
  bool zero_centered_gamma = false;
  bool skipped_windows = false;  ///< Windows that every n-th layer lacks.
  bool query_pre_attn_scalar = false;
};

/// Returns whether the model has positions that no framework is told of: ALiBi or relative ones.
[[nodiscard]] bool has_untold_positions(const TransformerConfig& model);

/// Returns what of a model a framework with `support` has no flag or key for.
[[nodiscard]] std::vector<ExportRefusal> numerics_refusals(const TransformerConfig& model,
                                                           const NumericsSupport& support);

}  // namespace ptdp
