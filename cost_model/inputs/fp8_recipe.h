// How a stack trains linear layers in 8 bits.
#pragma once

#include <array>
#include <string_view>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {

/// What shares a scale among the factors of a product in 8 bits, and where that comes from.
enum class Fp8Scaling {
  kDelayed,  ///< A tensor, by the largest elements of earlier steps (arXiv:2209.05433 section 4).
  kCurrent,  ///< A tensor, by its own largest element, for which it is read once more.
  kBlock,    ///< 128 elements, or 128·128 of weights (arXiv:2412.19437 section 3.3.2).
  kMx        ///< 32 elements, in the GPU's hardware (OCP Microscaling Formats, v1.0).
};
inline constexpr std::array kFp8ScalingNames = {
    NamedValue<Fp8Scaling>{Fp8Scaling::kDelayed, "fp8-delayed"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kCurrent, "fp8-current"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kBlock, "fp8-block"},
    NamedValue<Fp8Scaling>{Fp8Scaling::kMx, "fp8-mx"}};
[[nodiscard]] std::string_view name_of(Fp8Scaling scaling);

/// One scale for all of a tensor.
[[nodiscard]] constexpr bool is_per_tensor(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kDelayed || scaling == Fp8Scaling::kCurrent;
}

/// Size of an element [B] with its part of a scale: 4 bytes for 128, or one byte for 32.
[[nodiscard]] constexpr double fp8_bytes(Fp8Scaling scaling) {
  return is_per_tensor(scaling) ? 1.0 : 1.0 + 1.0 / 32.0;
}

/// The same of a weight, whose blocks are of 128 by 128.
[[nodiscard]] constexpr double fp8_weight_bytes(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kBlock ? 1.0 + 4.0 / (128.0 * 128.0) : fp8_bytes(scaling);
}

/// Covers the linear layers of attention and MLP and the experts; embedding, logits, router and
/// attention itself stay in the stack's precision, as do all results of products.
struct Fp8Recipe {
  Fp8Scaling scaling = Fp8Scaling::kDelayed;
  /// Whether a norm does the first step of casting the input of the layer that follows it: writes
  /// it in 8 bits where scaling is delayed, finds its largest element where it is current.
  bool norms_cast = false;
  /// Whether inputs are kept for backward passes in 8 bits; else they are cast again there.
  bool keeps_inputs = true;
  /// Whether weights are cast once in an iteration, and kept; else in every forward pass.
  bool casts_weights_once = true;
  /// Whether the weights that it covers exist in 8 bits and as the optimizer's copies only.
  bool has_only_fp8_weights = false;
  /// Whether they are gathered from ZeRO's or FSDP's shards in 8 bits.
  bool gathers_weights = false;
  /// Whether sequence parallelism gathers inputs and gradients of linear layers in 8 bits.
  bool gathers_activations = false;

  friend bool operator==(const Fp8Recipe&, const Fp8Recipe&) = default;
};

/// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, Fp8Recipe>& recipe);

}  // namespace ptdp
