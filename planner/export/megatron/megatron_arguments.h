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
/// Returns degrees, batch, schedule, recomputation, sharding, precision, overlap and offloading as
/// arguments. Source: as megatron_model_arguments().
[[nodiscard]] std::vector<MegatronArgument> megatron_plan_arguments(const Plan& plan);

/// Returns Megatron-Core's name of the plan's attention kernel: "unfused", "fused" for cuDNN,
/// "flash", or "auto" for latent attention, whose heads of two widths not every kernel takes.
[[nodiscard]] std::string megatron_attention_backend(const Plan& plan);
/// Returns whether messages between pipeline ranks run beside compute in Megatron-Core. It does so
/// in interleaved schedules only, and over two ranks always: two messages are under way there.
[[nodiscard]] bool megatron_overlaps_messages(const Plan& plan);
/// Returns environment variables of every process, with their values. NVTE_FLASH_ATTN and its like
/// are not among them: Megatron-Core sets them by its attention backend, and refuses others.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> megatron_environment(
    const Plan& plan);

/// Returns sentences that say what Megatron-Core does differently from what the plan costs.
[[nodiscard]] std::vector<std::string> megatron_differences(const Plan& plan);

/// Returns what of the plan's model no Megatron flag expresses.
[[nodiscard]] std::vector<ExportRefusal> megatron_model_refusals(const Plan& plan);
/// Returns what of the plan's configuration Megatron-Core cannot run. It includes what its parser
/// accepts although training fails or differs: more recomputed layers than a chunk has, groups of
/// microbatches that interleaving refuses (schedules.py), experts that do not divide the ranks,
/// experts and tensor parallelism without sequence parallelism (moe_layer.py).
[[nodiscard]] std::vector<ExportRefusal> megatron_plan_refusals(const Plan& plan);

/// Returns a pipeline layout string, such as "Et*7|(t*9|)*2t*7L": E is the embedding, t a layer, m
/// a module that predicts more tokens, L the loss, and | ends a virtual stage.
[[nodiscard]] std::string megatron_layout(const Plan& plan);
/// Returns whether stages differ in their layers, so that only a layout string says them.
[[nodiscard]] bool needs_megatron_layout(const Plan& plan);

/// Returns whether gradients are held and reduced in 2 bytes, as --grad-reduce-in-bf16 does.
[[nodiscard]] bool has_bf16_gradients(const StackSpec& stack);
/// Returns whether weights of 8-bit layers are gathered from ZeRO's shards into their 8-bit place.
/// MX weights are gathered in 16 bits, into the buffer of gradients, and held in 8.
[[nodiscard]] bool gathers_fp8_weights(const Plan& plan);

/// Returns a list per layer as Python that Megatron-LM evaluates: "([0]*3+[1]*58)".
[[nodiscard]] std::string python_list(const std::vector<int>& values);

}  // namespace ptdp
