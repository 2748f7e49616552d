// What a framework's model class can be shaped into, and what of a plan's model it cannot.
#pragma once

#include <vector>

#include "planner/export/exporter.h"

namespace ptdp {

/// What a model class can have beside Llama's parts: RMS norms, rotary positions, gated MLPs, heads
/// that share keys, and no biases.
struct ModelSupport {
  bool layer_norm = false;         ///< Layer norms; an RMS norm is then possible as well.
  bool learned_positions = false;  ///< Learned positions, or none.
  bool plain_mlp = false;          ///< MLPs of two matrices.
  bool all_biases = false;         ///< Biases of all linear layers.
  bool wide_heads = false;         ///< Heads whose widths do not add up to the hidden size.
  bool dropout = false;
};

/// Returns what of a plan's model a class with `support` lacks. No class here has experts, latent
/// attention or modules that predict more tokens.
[[nodiscard]] std::vector<ExportRefusal> model_refusals(const Plan& plan,
                                                        const ModelSupport& support);

/// Returns sentences about what a plan counts and no exported file switches on: CUDA graphs.
[[nodiscard]] std::vector<std::string> uncovered_parts(const Plan& plan);

}  // namespace ptdp
