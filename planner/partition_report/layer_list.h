// The layers of any architecture with what each costs, `ptdp.layers/1`, described in
// FORMATS.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/units.h"

namespace ptdp {

/// A layer, or several that are equal and follow one another.
struct ListedLayer {
  std::string name;
  Seconds time;   ///< Of one microbatch, forward and backward.
  Bytes memory;   ///< Of the GPU that holds it, with its share of all that is in flight.
  int count = 1;  ///< How many.
};

struct LayerList {
  std::string name;
  std::string source;                    ///< Where the costs come from; may be empty.
  std::optional<ListedLayer> embedding;  ///< What the first stage holds besides layers.
  std::vector<ListedLayer> layers;       ///< In model order; at least one.
  std::optional<ListedLayer> logits;     ///< What the last stage holds besides.
};

inline constexpr const char* kLayersSchema = "ptdp.layers/1";

/// Most layers that a list holds, repetitions counted.
inline constexpr int kMostLayers = 100'000;

/// Throws Error with the place of every fault: what ObjectReader refuses, no layer, more than
/// kMostLayers, both ways of giving a time, and a list that takes no time at all.
[[nodiscard]] LayerList parse_layer_list(std::string_view text, const std::string& place);

/// The same from a file.
[[nodiscard]] LayerList read_layer_list(const std::filesystem::path& path);

}  // namespace ptdp
