// How a stack trains linear layers in 8 or 4 bits.
#pragma once

#include <array>
#include <string_view>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {

/// Which elements of a factor in 8 or 4 bits share a scale, and where the scale comes from. All but
/// kNvfp4 have 8 bits.
enum class Fp8Scaling {
  /// One scale per tensor, from the largest elements of earlier steps (arXiv:2209.05433 section 4).
  kDelayed,
  /// One scale per tensor, from its own largest element; finding it reads the tensor once more.
  kCurrent,
  /// One scale per row along the inner dimension of each product (torchao, Float8LinearConfig).
  kRowwise,
  /// One scale per 128 elements, or per 128·128 of weights (arXiv:2412.19437 section 3.3.2).
  kBlock,
  /// One scale per 32 elements, in the GPU's hardware (OCP Microscaling Formats, v1.0).
  kMx,
  /// 4 bits with one scale per 16 elements, in the GPU's hardware, and one per tensor, from its own
  /// largest element (arXiv:2509.25149).
  kNvfp4
};
inline constexpr std::array kFp8ScalingNames = {
    NamedValue<Fp8Scaling>{Fp8Scaling::kDelayed, "fp8-delayed"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kCurrent, "fp8-current"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kRowwise, "fp8-rowwise"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kBlock, "fp8-block"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kMx, "fp8-mx"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kNvfp4, "nvfp4"}};
[[nodiscard]] std::string_view name_of(Fp8Scaling scaling);

/// Returns whether all elements of a tensor share one scale.
[[nodiscard]] constexpr bool is_per_tensor(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kDelayed || scaling == Fp8Scaling::kCurrent;
}

/// Returns whether finding a scale reads the whole tensor before it is cast.
[[nodiscard]] constexpr bool looks_at_tensor(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kCurrent || scaling == Fp8Scaling::kNvfp4;
}

/// Returns how many bits an element has.
[[nodiscard]] constexpr int bits_of(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kNvfp4 ? 4 : 8;
}

/// Returns the size of an element [B] with its part of a scale. A scale takes 4 bytes for 128
/// elements, or one byte for 32, or for 16 of 4 bits; one per tensor or row counts as nothing.
[[nodiscard]] constexpr double fp8_bytes(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kDelayed:
    case Fp8Scaling::kCurrent:
    case Fp8Scaling::kRowwise:
      return 1.0;
    case Fp8Scaling::kBlock:
    case Fp8Scaling::kMx:
      return 1.0 + 1.0 / 32.0;
    case Fp8Scaling::kNvfp4:
      return 1.0 / 2.0 + 1.0 / 16.0;
  }
  return 1.0;
}

/// Returns the size of a weight [B] with its part of a scale. kBlock shares a scale of 4 bytes
/// among 128·128 weights; otherwise the size is fp8_bytes(), since kNvfp4 stores a scale of 16·16
/// weights in each of their rows.
[[nodiscard]] constexpr double fp8_weight_bytes(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kBlock ? 1.0 + 4.0 / (128.0 * 128.0) : fp8_bytes(scaling);
}

/// How linear layers are trained in 8 or 4 bits: those of attention, of the MLP and of the experts,
/// in all three products. Embedding, logits, router and attention itself stay in the stack's
/// precision, as do all results of products.
///
/// What the fields say of 8 bits holds for 4 bits with kNvfp4. Random Hadamard transforms of
/// factors of weight gradients and stochastic rounding of gradients are part of casts, and move
/// nothing of their own.
struct Fp8Recipe {
  Fp8Scaling scaling = Fp8Scaling::kDelayed;
  /// Whether a norm does the first step of casting the next layer's input. With delayed scaling it
  /// writes the input in 8 bits, with rows' scales beside 16 bits; with current scaling it finds
  /// the largest element.
  bool norms_cast = false;
  /// Whether inputs are kept for backward passes in 8 bits; else they are cast again there.
  bool keeps_inputs = true;
  /// Whether weights are cast once per iteration and kept; else every forward pass casts them.
  bool casts_weights_once = true;
  /// Whether 8-bit layers' weights exist only in 8 bits and as the optimizer's copies.
  bool has_only_fp8_weights = false;
  /// Whether 8-bit layers' weights are gathered from ZeRO's or FSDP's shards in 8 bits.
  bool gathers_weights = false;
  /// Whether sequence parallelism gathers inputs and gradients of linear layers in 8 bits.
  bool gathers_activations = false;

  friend bool operator==(const Fp8Recipe&, const Fp8Recipe&) = default;
};

/// Reads or writes a recipe's JSON; `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, Fp8Recipe>& recipe);

}  // namespace ptdp
