// A plan as command-line arguments of Megatron-LM's pretrain_gpt.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/export/exporter.h"
#include "planner/export/plain_text.h"

namespace ptdp {

/// One flag of Megatron-LM with its values, and the part of the plan that it says.
struct MegatronArgument {
  std::string part;  ///< What the plan says: "pipeline parallel"; empty: the run, not the plan.
  std::string flag;  ///< With its two dashes.
  std::vector<std::string> values = {};
};

/// Collects flags of Megatron-LM or Megatron-DeepSpeed, in the order in which they are added.
class ArgumentList {
 public:
  /// Adds a flag with its values, each spelled by plain_text().
  template <class... Value>
  void add(std::string part, std::string flag, const Value&... values) {
    list_.push_back({std::move(part), std::move(flag), {plain_text(values)...}});
  }
  /// Adds a flag without values, if `is_meant`.
  void add_if(bool is_meant, std::string part, std::string flag) {
    if (is_meant) {
      add(std::move(part), std::move(flag));
    }
  }
  /// Returns the list, and leaves none here.
  [[nodiscard]] std::vector<MegatronArgument> take() { return std::move(list_); }

 private:
  std::vector<MegatronArgument> list_;
};

/// Returns the model's shape as arguments. Source: Megatron-LM d98e8a6 and megatron-core 0.19.2,
/// megatron/training/arguments.py and transformer_config.py.
[[nodiscard]] std::vector<MegatronArgument> megatron_model_arguments(const Plan& plan);
/// Adds a model's rotary positions, if it has them. Source: as megatron_model_arguments(), and
/// megatron/core/models/common/embeddings/.
void add_megatron_positions(const TransformerConfig& model, ArgumentList& arguments);
/// Returns the root of what scores of latent attention are multiplied by, beside one over the root
/// of a head's width.
[[nodiscard]] double latent_growth(const TransformerConfig& model);
/// Returns degrees, batch, schedule, recomputation, sharding, precision, overlap and offloading as
/// arguments. Source: as megatron_model_arguments().
[[nodiscard]] std::vector<MegatronArgument> megatron_plan_arguments(const Plan& plan);

}  // namespace ptdp
