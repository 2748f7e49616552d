// What Megatron-Core does with a plan's kernels, messages and gradients, and in what environment.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/plan/plan.h"

namespace ptdp {

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

/// Returns whether gradients are held and reduced in 2 bytes, as --grad-reduce-in-bf16 does.
[[nodiscard]] bool has_bf16_gradients(const StackSpec& stack);
/// Returns whether weights of 8-bit layers are gathered from ZeRO's shards into their 8-bit place.
/// MX weights are gathered in 16 bits, into the buffer of gradients, and held in 8.
[[nodiscard]] bool gathers_fp8_weights(const Plan& plan);

/// Returns what --cp-comm-type calls a kind of context parallelism.
[[nodiscard]] std::string_view megatron_cp_comm_type(ContextParallel kind);
/// Returns what --fp8-recipe, or --fp4-recipe, calls a scaling; empty if there is none.
[[nodiscard]] std::string_view megatron_fp8_recipe(Fp8Scaling scaling);
/// Returns Python that makes Megatron-Bridge's configuration of a stack's precision.
[[nodiscard]] std::string bridge_mixed_precision(const StackSpec& stack);

}  // namespace ptdp
