#include "planner/import/megatron/megatron_layers.h"

#include <algorithm>
#include <cstdint>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/recompute_modules.h"
#include "cost_model/text/in_quotes.h"
#include "planner/import/megatron/megatron_values.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostStages = 100'000;  // of a pipeline; layouts have no more either

/// Returns whether a switch stands there, and does not say that it is off.
bool is_on(const FlagList& flags, std::string_view flag) {
  const auto values = flags.values(flag);
  return values && (values->empty() || flags.truth(flag).value_or(false));
}

std::string joined_numbers(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ",") + word;
  }
  return text;
}

/// Throws Error for flags that only the number of layers gives a meaning.
void refuse_without_layers(const FlagList& flags, const MegatronSplitFlags& names) {
  for (const std::string_view name : {names.first, names.last, names.embedding, names.loss}) {
    if (name == names.first || name == names.last ? flags.has(name) : is_on(flags, name)) {
      flags.refuse(name, "needs the number of layers, which the file does not say");
    }
  }
}

/// Returns the split where first and last rank have numbers of their own. Embedding and
/// loss may count as layers.
std::vector<int> layers_of_ranks(const FlagList& flags, int num_layers, int pp,
                                 const MegatronSplitFlags& names) {
  const auto first = flags.count(names.first);
  const auto last = flags.count(names.last);
  const bool counts_embedding = is_on(flags, names.embedding);
  const bool counts_loss = is_on(flags, names.loss);
  std::vector<int> layers(static_cast<std::size_t>(pp));
  if (num_layers == 0) {
    refuse_without_layers(flags, names);
  }
  if (counts_embedding || counts_loss) {
    const int counted = num_layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
    if (counted % pp != 0) {
      flags.refuse(names.embedding,
                   std::to_string(counted) + " layers do not divide by pp " + std::to_string(pp));
    }
    std::ranges::fill(layers, counted / pp);
    layers.front() -= counts_embedding ? 1 : 0;
    layers.back() -= counts_loss ? 1 : 0;
    return layers;
  }
  if (!first && !last) {
    std::ranges::fill(layers, num_layers / pp);  // where pp does not divide, a constraint says so
    return layers;
  }
  const int others = pp - (first ? 1 : 0) - (last ? 1 : 0);
  const int left = num_layers - first.value_or(0) - last.value_or(0);
  if (others < 0 || left < 0 || (others == 0 ? left != 0 : left % others != 0)) {
    flags.refuse(names.first, std::to_string(left) + " layers are left for " +
                                  std::to_string(others) + " ranks");
  }
  std::ranges::fill(layers, others == 0 ? 0 : left / others);
  layers.front() = first.value_or(layers.front());
  layers.back() = last.value_or(layers.back());
  return layers;
}

int chunks_of(const FlagList& flags, int num_layers, int pp, const MegatronSplitFlags& names) {
  const auto stages = flags.count(names.chunks);
  const auto layers = flags.count(names.layers_per_chunk);
  if (stages || !layers) {
    return stages.value_or(1);
  }
  if (num_layers % pp != 0 || num_layers / pp % *layers != 0) {
    flags.refuse(names.layers_per_chunk, std::to_string(*layers) + " does not divide the " +
                                             std::to_string(num_layers) + " layers of " +
                                             std::to_string(pp) + " ranks");
  }
  return num_layers / pp / *layers;
}

/// Sets which layers full recomputation repeats. Returns whether there is such a method.
bool set_recomputed_layers(const std::string& method, int layers, int num_layers,
                           ParallelConfig& config) {
  const int stages = config.pp * config.vpp;
  const std::vector<int>& uneven = config.layers_per_stage;
  const int largest = num_layers == 0  ? layers
                      : uneven.empty() ? std::max(num_layers / std::max(stages, 1), 1)
                                       : *std::ranges::max_element(uneven);
  if (method == "block" && layers <= largest) {
    config.recompute_num_layers = layers;
  } else if (method == "uniform" && layers > 1) {
    config.recompute_method = RecomputeMethod::kUniform;
    config.recompute_num_layers = layers;
  }
  return method == "block" || method == "uniform";
}

}  // namespace

MegatronSplit megatron_split(const FlagList& flags, int num_layers, int pp,
                             const MegatronSplitFlags& names) {
  MegatronSplit split;
  if (const auto layout = flags.text(names.layout)) {
    const auto layers = layers_of_layout(*layout);
    if (!layers || layers->size() % static_cast<std::size_t>(pp) != 0) {
      flags.refuse(names.layout, "expected a layout of a multiple of " + std::to_string(pp) +
                                     " stages, got " + in_quotes(*layout));
    }
    split = {static_cast<int>(layers->size()) / pp, *layers};
  } else {
    split.vpp = chunks_of(flags, num_layers, pp, names);
    if (std::int64_t{1} * pp * split.vpp > kMostStages) {
      flags.refuse(names.chunks, "expected at most " + std::to_string(kMostStages) +
                                     " stages, got " +
                                     std::to_string(std::int64_t{1} * pp * split.vpp));
    }
    const std::vector<int> ranks = layers_of_ranks(flags, num_layers, pp, names);
    for (int chunk = 0; chunk < split.vpp; ++chunk) {
      for (const int layers : ranks) {
        split.layers_per_stage.push_back(layers / split.vpp);
      }
    }
  }
  const std::vector<int>& layers = split.layers_per_stage;
  if (std::ranges::all_of(layers, [&](int count) { return count == layers.front(); })) {
    split.layers_per_stage.clear();
  }
  return split;
}

void read_window(const FlagList& flags, std::string_view window_flag, std::string_view skipped_flag,
                 TransformerConfig& model) {
  const auto skipped = flags.text(skipped_flag);
  const auto window = flags.values(window_flag);
  if (!window) {
    return;
  }
  std::string text;
  for (const std::string& word : *window) {
    text += word;
  }
  std::replace(text.begin(), text.end(), '(', '[');
  std::replace(text.begin(), text.end(), ')', ']');
  const auto sides = python_numbers(text.starts_with('[') ? text : "[" + text + "]");
  if (!sides || sides->size() != 2) {
    flags.refuse(window_flag, "expected (LEFT,0), got " + in_quotes(text));
  }
  model.window_size = sides->front() + 1;
  if (!skipped) {
    return;
  }
  const auto pattern = python_numbers(*skipped);
  if (!pattern) {  // every n-th layer lacks the window
    model.window_attn_skip_freq = *flags.count(skipped_flag);
    return;
  }
  const std::vector<bool> has_window(pattern->begin(), pattern->end());
  const std::optional<WindowLayers> rule = find_window_layers(has_window);
  if (!rule || std::ranges::any_of(*pattern, [](int value) { return value != 0 && value != 1; })) {
    flags.refuse(
        skipped_flag,
        "expected a number, or a list of zeros, then ones, but for every n-th layer, got " +
            in_quotes(*skipped));
  }
  model.first_window_layer = rule->first;
  model.window_attn_skip_freq = rule->skip_freq;
}

void read_expert_layers(const FlagList& flags, std::string_view flag, TransformerConfig& model) {
  const auto values = flags.values(flag);
  // A log's list comes in words: 0, 1, 1.
  std::optional<std::string> text;
  if (values && values->size() > 1) {
    text = "[" + joined_numbers(*values) + "]";
  } else {
    text = flags.text(flag);
  }
  if (!text) {
    return;
  }
  const auto pattern = python_numbers(*text);
  if (!pattern) {
    model.moe_layer_freq = *flags.count(flag);
    return;
  }
  const auto first = std::ranges::find(*pattern, 1);
  const auto second = first == pattern->end() ? first : std::find(first + 1, pattern->end(), 1);
  model.first_dense_layers = static_cast<int>(first - pattern->begin());
  model.moe_layer_freq = second == pattern->end()
                             ? std::max(model.num_layers - model.first_dense_layers, 1)
                             : static_cast<int>(second - first);
  bool is_regular = pattern->size() == static_cast<std::size_t>(model.num_layers);
  for (int layer = 0; is_regular && layer < model.num_layers; ++layer) {
    const bool has = layer >= model.first_dense_layers &&
                     (layer - model.first_dense_layers) % model.moe_layer_freq == 0;
    is_regular = (*pattern)[static_cast<std::size_t>(layer)] == (has ? 1 : 0);
  }
  if (!is_regular) {
    flags.refuse(flag, "expected experts in every n-th of " + std::to_string(model.num_layers) +
                           " layers, got " + in_quotes(*text));
  }
}

void recompute_as_said(const FlagList& flags, const RecomputeFlags& names, const std::string& kind,
                       int num_layers, ParallelConfig& config) {
  const auto modules = flags.values(names.modules);
  const std::string method = flags.text(names.method).value_or("uniform");
  const int layers = flags.count(names.num_layers).value_or(1);
  if (kind == "selective") {
    config.recompute = Recompute::kSelective;
    std::string joined;
    for (const std::string& module : modules.value_or(std::vector<std::string>{"core_attn"})) {
      joined += (joined.empty() ? "" : "+") + module;
    }
    config.recompute_modules = parse_recompute_modules(joined, std::string(names.modules));
  } else if (kind == "full") {
    config.recompute = Recompute::kFull;
    if (!set_recomputed_layers(method, layers, num_layers, config)) {
      flags.refuse(names.method, "expected block or uniform, got " + in_quotes(method));
    }
  } else if (kind != "none") {
    flags.refuse(names.granularity, "expected selective or full, got " + in_quotes(kind));
  }
}

void read_dropout(const FlagList& flags, std::string_view attention, std::string_view hidden,
                  TransformerConfig& model) {
  DropoutRates rates(kUsualDropout);
  rates.attention = flags.number(attention).value_or(kUsualDropout);
  rates.hidden = flags.number(hidden).value_or(kUsualDropout);
  rates.embedding = rates.hidden;
  const bool has_rates = rates != DropoutRates(0.0);
  if (has_rates != has_dropout(model)) {
    model.dropout = has_rates;  // otherwise positions say it
  }
  model.dropout_rates = has_rates ? rates : kUsualDropoutRates;
}

void read_context_parallel(const FlagList& flags, std::string_view flag, ImportedRun& run) {
  const auto ways = flags.values(flag);
  if (run.config.cp == 1) {
    return;
  }
  const std::string way = ways && !ways->empty() ? ways->front() : "p2p";
  run.stack.context = way == "all_gather" ? ContextParallel::kAllGather
                      : way == "a2a"      ? ContextParallel::kAllToAll
                                          : ContextParallel::kRing;
  if (way == "a2a+p2p") {
    run.reading.notes.push_back(std::string(flag) + " a2a+p2p is costed as p2p");
  }
}

}  // namespace ptdp
