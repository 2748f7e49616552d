// Kinds of layers that a model has, and how many layers of each kind there are.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// What tells layers of a model apart: layers of one kind cost the same.
struct LayerKind {
  bool has_experts = false;
  bool has_window = false;  ///< Whether tokens attend to the model's window_size tokens only.

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// All kinds of layers that there can be; a model's layers are of one or some of them.
inline constexpr std::array kLayerKinds = {LayerKind{}, LayerKind{.has_experts = true},
                                           LayerKind{.has_window = true},
                                           LayerKind{.has_experts = true, .has_window = true}};

/// Returns the index of a kind in kLayerKinds.
[[nodiscard]] constexpr std::size_t index_of(LayerKind kind) {
  return (kind.has_experts ? 1U : 0U) + (kind.has_window ? 2U : 0U);
}

/// Number of layers of each kind, in the order of kLayerKinds; a fraction if it is a mean.
using LayerCounts = std::array<double, kLayerKinds.size()>;

/// A rule of which layers have a window, as fields of TransformerConfig say it.
struct WindowLayers {
  int first = 0;      ///< First layer with the window; the number of layers if none has it.
  int skip_freq = 0;  ///< Every so many-th layer, counted from 1, lacks it; 0: none does.
};

/// Returns the rule that the layers with a window follow, one element a layer; nullopt if there is
/// no such rule. Of several rules it has the smallest numbers.
[[nodiscard]] std::optional<WindowLayers> find_window_layers(const std::vector<bool>& has_window);

/// Returns the kind of a layer; layers count from 0.
[[nodiscard]] LayerKind kind_of_layer(const TransformerConfig& model, int layer);

/// Returns the first layer after `layer` that is of another kind, or num_layers if there is none.
/// Layers count from 0.
[[nodiscard]] int end_of_run(const TransformerConfig& model, int layer);

/// Returns whether all layers of the model are of one kind.
[[nodiscard]] bool has_one_kind(const TransformerConfig& model);

/// Counts the layers `begin` … `end` − 1 of the model by kind; 0 <= begin <= end <= num_layers.
[[nodiscard]] LayerCounts count_layers(const TransformerConfig& model, int begin, int end);

/// Returns counts of `layers` layers, all of the kind of the model's first layer. The model must
/// have one kind only.
[[nodiscard]] LayerCounts of_one_kind(const TransformerConfig& model, double layers);

/// Returns the number of layers of all kinds together.
[[nodiscard]] double total(const LayerCounts& counts);

/// Calls `visit(index, count)` for each kind that has layers; `index` is the kind's place in
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

/// Returns the model as its layers of one kind have it: without a window if the kind has none, so
/// that attended_tokens() holds for these layers. Experts stay as they are.
[[nodiscard]] TransformerConfig with_kind(TransformerConfig model, LayerKind kind);

}  // namespace ptdp
