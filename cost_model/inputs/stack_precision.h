// In which precision a stack trains: names of precisions, and what the stack keeps in each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/stack_spec.h"

namespace ptdp {

/// Returns the stack as it trains in `precision`, with no linear layers in 8 or 4 bits.
///
/// An entry of other_precisions says what it keeps; the stack's former precision takes that entry's
/// place, so that the way back is the same. TF32 keeps what fp32 keeps. Without an entry:
///
/// - A stack of fp16 or bf16 trains in the other of the two with the state that it has, or with
///   bf16_*.
/// - It trains in fp32 without a master copy of the weights: 4 bytes for a weight, a gradient as it
///   is kept and as it is reduced, and for each of Adam's two moments. A step of the optimizer
///   moves 11 numbers of 4 bytes: weights, moments and gradients are read and all but the gradient
///   written; clipping reads the gradient for its norm, and reads and writes it once more; it is
///   zeroed at last. The loss moves twice its bytes of 16-bit logits, at most what a loss in fp32
///   moves. Attention is unfused, since fused kernels take 16-bit numbers alone, and so not context
///   parallel (TransformerEngine, get_attention_backend).
///
/// Throws Error if nothing says what the stack keeps. This project's runtime needs an entry.
[[nodiscard]] StackSpec at_precision(StackSpec stack, Precision precision);

/// Returns the stack with linear layers in 8 or 4 bits and the rest in its precision. `recipe`
/// names the recipe's scaling, or is "fp8" for the stack's usual recipe. In 4 bits no collective of
/// sequence parallelism runs within products by Userbuffers, which take fp8 alone
/// (TransformerEngine, fill_userbuffers_buffer_for_all_gather). Throws Error if the stack has no
/// such recipe.
[[nodiscard]] StackSpec with_fp8(StackSpec stack, std::string_view recipe);

/// Returns the names of all ways to train, as flags, rows and files spell them first: precisions,
/// "bf16(pure)", "fp8" and the recipes.
[[nodiscard]] std::vector<std::string> precision_names();
/// Returns the names of some precisions, in their order.
[[nodiscard]] std::vector<std::string> precision_names(std::span<const Precision> some);

/// Returns the name of precision_names() that `text` stands for, in any spelling that sources use
/// ("bfloat16", "f32") and any case of letters; nullopt if it is none. If it names two recipes, it
/// stands for the first, whose figure Megatron-Bridge's tables put first.
[[nodiscard]] std::optional<std::string> find_precision_name(std::string_view text);

/// Returns the name that find_precision_name() finds for a flag's value. Throws Error at `place`,
/// listing all names, for any other text.
[[nodiscard]] std::string choose_precision(std::string_view text, const std::string& place);
/// Returns the precision that a flag's value names. Throws Error at `place` for one that is not
/// among `computed`, those that a program computes in.
[[nodiscard]] Precision choose_precision(std::string_view text, std::span<const Precision> computed,
                                         const std::string& place);

/// Returns the name of precision_names() under which the stack trains now; "bf16(pure)" counts as
/// "bf16".
[[nodiscard]] std::string precision_name(const StackSpec& stack);

/// Returns the stack as it trains under a name of precision_names(): recipes beside bf16. An empty
/// name is the stack's own precision. With "bf16(pure)" weights are gathered, and gradients kept
/// and reduced, in bf16; shards of weights and moments stay as the stack has them (Composer's FSDP,
/// mixed_precision PURE). Throws Error if the stack does not train so.
[[nodiscard]] StackSpec with_precision(StackSpec stack, std::string_view name);

}  // namespace ptdp
