#include "cost_model/inputs/layer_kinds.h"

#include <algorithm>

namespace ptdp {

namespace {

/// Returns the first layer after `layer` that differs from it in whether it has the window.
int end_of_window_run(const TransformerConfig& model, int layer) {
  if (layer < model.first_window_layer) {
    layer = model.first_window_layer;
    return has_window(model, layer) ? layer : layer + 1;
  }
  const int frequency = model.window_attn_skip_freq;
  if (frequency == 0) {
    return model.num_layers;
  }
  // Layers frequency − 1, 2·frequency − 1, … attend to all tokens.
  const int next_full = (layer + frequency) / frequency * frequency - 1;
  return layer == next_full ? layer + 1 : next_full;
}

/// Returns whether layers with windows are those of a rule.
bool follows(const std::vector<bool>& has_window, const WindowLayers& rule) {
  for (int i = 0; i < std::ssize(has_window); ++i) {
    if (has_window[i] !=
        (i >= rule.first && (rule.skip_freq == 0 || (i + 1) % rule.skip_freq != 0))) {
      return false;
    }
  }
  return true;
}

/// Returns the n of which every n-th layer might lack the window that layers from `first` on have;
/// 0 if none lacks it.
int skip_freq_of(const std::vector<bool>& has_window, int first) {
  const auto without = [&](std::ptrdiff_t from) {
    return std::find(has_window.begin() + from, has_window.end(), false) - has_window.begin();
  };
  const std::ptrdiff_t num_layers = std::ssize(has_window);
  const std::ptrdiff_t one = without(first);
  if (one == num_layers) {
    return 0;
  }
  const std::ptrdiff_t next = without(one + 1);
  if (next < num_layers) {
    return static_cast<int>(next - one);
  }
  // A single layer lacks it: the smallest n of which no other multiple is behind `first`.
  std::ptrdiff_t freq = 2;
  while (freq <= one &&
         ((one + 1) % freq != 0 || one + 1 - freq > first || one + 1 + freq <= num_layers)) {
    ++freq;
  }
  return static_cast<int>(freq);
}

}  // namespace

std::optional<WindowLayers> find_window_layers(const std::vector<bool>& has_window) {
  WindowLayers rule;
  rule.first =
      static_cast<int>(std::find(has_window.begin(), has_window.end(), true) - has_window.begin());
  rule.skip_freq = skip_freq_of(has_window, rule.first);
  return follows(has_window, rule) ? std::optional(rule) : std::nullopt;
}

LayerKind kind_of_layer(const TransformerConfig& model, int layer) {
  return {.has_experts = has_experts(model, layer), .has_window = has_window(model, layer)};
}

int end_of_run(const TransformerConfig& model, int layer) {
  int end = model.num_layers;
  if (has_window(model)) {
    end = std::min(end, end_of_window_run(model, layer));
  }
  if (model.num_experts == 0) {
    return end;
  }
  if (layer < model.first_dense_layers) {
    return std::min(end, model.first_dense_layers);
  }
  const int frequency = model.moe_layer_freq;
  const int behind =
      (layer - model.first_dense_layers) % frequency;  // since the last layer with experts
  return frequency == 1 ? end : std::min(end, layer + (behind == 0 ? 1 : frequency - behind));
}

bool has_one_kind(const TransformerConfig& model) {
  const int with_experts = num_expert_layers(model);
  return (with_experts == 0 || with_experts == model.num_layers) &&
         (!has_window(model) ||
          (model.first_window_layer == 0 && model.window_attn_skip_freq == 0));
}

LayerCounts count_layers(const TransformerConfig& model, int begin, int end) {
  LayerCounts counts{};
  const auto add = [&](int from, int to, bool is_windowed) {
    if (from < to) {
      const int with_experts = num_expert_layers(model, to) - num_expert_layers(model, from);
      counts[index_of({.has_experts = true, .has_window = is_windowed})] += with_experts;
      counts[index_of({.has_window = is_windowed})] += to - from - with_experts;
    }
  };
  for (int layer = begin; layer < end;) {
    const int run = has_window(model) ? std::min(end, end_of_window_run(model, layer)) : end;
    add(layer, run, has_window(model, layer));
    layer = run;
  }
  return counts;
}

LayerCounts of_one_kind(const TransformerConfig& model, double layers) {
  LayerCounts counts{};
  counts[index_of(kind_of_layer(model, 0))] = layers;
  return counts;
}

double total(const LayerCounts& counts) {
  double sum = 0.0;
  for (const double count : counts) {
    sum += count;
  }
  return sum;
}

LayerCounts& operator+=(LayerCounts& counts, const LayerCounts& others) {
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    counts[kind] += others[kind];
  }
  return counts;
}

LayerCounts operator*(LayerCounts counts, double factor) {
  for (double& count : counts) {
    count *= factor;
  }
  return counts;
}

TransformerConfig with_kind(TransformerConfig model, LayerKind kind) {
  if (!kind.has_window) {
    model.window_size = 0;
  }
  return model;
}

}  // namespace ptdp
