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

/// A layer of a list, or several equal layers in a row.
struct ListedLayer {
  std::string name;
  Seconds time;   ///< Time of one microbatch through one layer, forward and backward.
  Bytes memory;   ///< GPU memory that one layer takes, with its share of all that is in flight.
  int count = 1;  ///< Number of equal layers in a row.
  std::optional<Seconds> forward = {};    ///< Forward part of `time`, where the list says it.
  std::optional<double> parameters = {};  ///< Parameters of one layer, all its tp shards together.
  std::optional<Bytes> activations = {};  ///< What a GPU keeps of one microbatch.
  std::optional<Bytes> output = {};       ///< What a GPU hands on of one microbatch.
};

/// The layers of a model as a `ptdp.layers/1` file lists them.
struct LayerList {
  std::string name;
  std::string source;                    ///< Where the costs come from; may be empty.
  std::optional<ListedLayer> embedding;  ///< What the first stage holds besides layers.
  std::vector<ListedLayer> layers;       ///< In model order; at least one.
  std::optional<ListedLayer> logits;     ///< What the last stage holds besides layers.
  int tp = 1;                            ///< GPUs that share each layer.
  int micro_batch_size = 1;  ///< Sequences of the microbatch that layers are costed for.
  std::optional<double> weight_bytes = {};     ///< Weights [B per parameter]; none: the stack's.
  std::optional<double> gradient_bytes = {};   ///< Gradients [B per parameter].
  std::optional<double> optimizer_bytes = {};  ///< Optimizer states [B per parameter].
};

/// Returns the entries of a list in model order, the embedding first and the logits last. They
/// point into `list`.
[[nodiscard]] std::vector<const ListedLayer*> entries_of(const LayerList& list);

inline constexpr const char* kLayersSchema = "ptdp.layers/1";

/// Largest number of layers in a list, repetitions counted.
inline constexpr int kMostLayers = 100'000;

/// Reads a list from JSON text; `place` names the text in errors. Throws Error with the place of
/// the fault. Faults are what ObjectReader refuses, no layer, more than kMostLayers, both ways of
/// giving a time, and a list that takes no time at all.
[[nodiscard]] LayerList parse_layer_list(std::string_view text, const std::string& place);

/// Reads a list from a JSON file. Throws Error as parse_layer_list() does.
[[nodiscard]] LayerList read_layer_list(const std::filesystem::path& path);

/// Throws Error that names what a search over degrees needs and the list does not say: parameters,
/// activations and outputs. `place` names the list in it.
void check_searchable(const LayerList& list, const std::string& place);

}  // namespace ptdp
