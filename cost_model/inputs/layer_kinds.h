// What tells the layers of a model apart, and how many of each kind there are.
#pragma once

#include <array>
#include <cstddef>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Layers of one kind cost the same.
struct LayerKind {
  bool has_experts = false;
  bool has_window = false;  ///< Its tokens attend to window_size tokens only.

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// All kinds; a model's layers are of one or some of them.
inline constexpr std::array kLayerKinds = {LayerKind{}, LayerKind{.has_experts = true},
                                           LayerKind{.has_window = true},
                                           LayerKind{.has_experts = true, .has_window = true}};

/// The place of a kind in kLayerKinds.
[[nodiscard]] constexpr std::size_t index_of(LayerKind kind) {
  return (kind.has_experts ? 1U : 0U) + (kind.has_window ? 2U : 0U);
}

/// Layers of each kind, in the order of kLayerKinds; fractions where a mean is meant.
using LayerCounts = std::array<double, kLayerKinds.size()>;

/// The kind of a layer, counted from 0.
[[nodiscard]] LayerKind kind_of_layer(const TransformerConfig& model, int layer);

/// The first layer behind one (from 0) that is of another kind, or num_layers.
[[nodiscard]] int end_of_run(const TransformerConfig& model, int layer);

/// Whether all layers are of one kind, that of the first.
[[nodiscard]] bool has_one_kind(const TransformerConfig& model);

/// Layers `begin` … `end` − 1 of the model by kind; 0 <= begin <= end <= num_layers.
[[nodiscard]] LayerCounts count_layers(const TransformerConfig& model, int begin, int end);

/// `layers` layers of the only kind of a model that has one.
[[nodiscard]] LayerCounts of_one_kind(const TransformerConfig& model, double layers);

[[nodiscard]] double total(const LayerCounts& counts);

/// Calls `visit(index, count)` for each kind of which there are layers, by its place in
/// kLayerKinds.
template <class Visit>
void for_each_kind(const LayerCounts& counts, const Visit& visit) {
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] > 0.0) {
      visit(kind, counts[kind]);
    }
  }
}

LayerCounts& operator+=(LayerCounts& counts, const LayerCounts& others);
[[nodiscard]] LayerCounts operator*(LayerCounts counts, double factor);

/// The model with nothing but layers of a kind, of which its tables of widths then hold: without a
/// window where the kind has none.
[[nodiscard]] TransformerConfig with_kind(TransformerConfig model, LayerKind kind);

}  // namespace ptdp
