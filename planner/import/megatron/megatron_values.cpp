#include "planner/import/megatron/megatron_values.h"

#include <algorithm>
#include <charconv>

#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostItems = 100'000;
constexpr int kDeepestTerm = 50;

/// Reads a number at the start of `text` and removes it.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > kMostItems) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Removes a character that stands at the start of `text`; returns whether it does.
bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

template <class Sequence>
bool append_repeated(Sequence& result, const Sequence& part, std::size_t times) {
  if (part.size() * times + result.size() > kMostItems) {
    return false;
  }
  for (std::size_t i = 0; i < times; ++i) {
    result.insert(result.end(), part.begin(), part.end());
  }
  return true;
}

std::optional<std::vector<int>> python_sum(std::string_view& text, int depth);

/// Reads "[1,0]", "(...)", each with "*N" behind it.
std::optional<std::vector<int>> python_term(std::string_view& text, int depth) {
  std::optional<std::vector<int>> items;
  if (take(text, '(')) {
    items = python_sum(text, depth + 1);
    if (!items || !take(text, ')')) {
      return std::nullopt;
    }
  } else if (take(text, '[')) {
    items.emplace();
    while (!take(text, ']')) {
      const auto number = take_number(text);
      if (!number || items->size() > kMostItems) {
        return std::nullopt;
      }
      items->push_back(static_cast<int>(*number));
      take(text, ',');
    }
  } else {
    return std::nullopt;
  }
  while (take(text, '*')) {
    const auto times = take_number(text);
    std::vector<int> repeated;
    if (!times || !append_repeated(repeated, *items, *times)) {
      return std::nullopt;
    }
    items = std::move(repeated);
  }
  return items;
}

std::optional<std::vector<int>> python_sum(std::string_view& text, int depth) {
  if (depth > kDeepestTerm) {
    return std::nullopt;
  }
  std::optional<std::vector<int>> sum = python_term(text, depth);
  while (sum && take(text, '+')) {
    const auto term = python_term(text, depth);
    if (!term || !append_repeated(*sum, *term, 1)) {
      return std::nullopt;
    }
  }
  return sum;
}

std::string without_blanks(std::string_view text) {
  std::string result;
  std::copy_if(text.begin(), text.end(), std::back_inserter(result),
               [](char c) { return c != ' ' && c != '\t' && c != '\n'; });
  return result;
}

/// Writes a layout out: "t*2|" as "tt|".
std::optional<std::string> written_out(std::string_view& text, int depth) {
  std::string result;
  while (!text.empty() && text.front() != ')') {
    std::string part(1, text.front());
    if (take(text, '(')) {
      const auto inner = depth < kDeepestTerm ? written_out(text, depth + 1) : std::nullopt;
      if (!inner || !take(text, ')')) {
        return std::nullopt;
      }
      part = *inner;
    } else {
      text.remove_prefix(1);
      if (std::string_view("EtmL|,").find(part[0]) == std::string_view::npos) {
        return std::nullopt;
      }
    }
    std::size_t times = 1;
    if (take(text, '*')) {
      const auto number = take_number(text);
      if (!number) {
        return std::nullopt;
      }
      times = *number;
    }
    if (!append_repeated(result, part, times)) {
      return std::nullopt;
    }
  }
  return result;
}

/// Returns the split where first and last rank have numbers of their own. Embedding and
/// loss may count as layers.
std::vector<int> layers_of_ranks(const FlagList& flags, int num_layers, int pp) {
  const auto first = flags.count("--decoder-first-pipeline-num-layers");
  const auto last = flags.count("--decoder-last-pipeline-num-layers");
  const bool counts_embedding = flags.has("--account-for-embedding-in-pipeline-split");
  const bool counts_loss = flags.has("--account-for-loss-in-pipeline-split");
  std::vector<int> layers(static_cast<std::size_t>(pp));
  if (counts_embedding || counts_loss) {
    const int counted = num_layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
    if (counted % pp != 0) {
      flags.refuse("--account-for-embedding-in-pipeline-split",
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
    flags.refuse(
        "--decoder-first-pipeline-num-layers",
        std::to_string(left) + " layers are left for " + std::to_string(others) + " ranks");
  }
  std::ranges::fill(layers, others == 0 ? 0 : left / others);
  layers.front() = first.value_or(layers.front());
  layers.back() = last.value_or(layers.back());
  return layers;
}

int chunks_of(const FlagList& flags, int num_layers, int pp) {
  const auto stages = flags.count("--num-virtual-stages-per-pipeline-rank");
  const auto layers = flags.count("--num-layers-per-virtual-pipeline-stage");
  if (stages || !layers) {
    return stages.value_or(1);
  }
  if (num_layers % pp != 0 || num_layers / pp % *layers != 0) {
    flags.refuse("--num-layers-per-virtual-pipeline-stage",
                 std::to_string(*layers) + " does not divide the " + std::to_string(num_layers) +
                     " layers of " + std::to_string(pp) + " ranks");
  }
  return num_layers / pp / *layers;
}

}  // namespace

std::optional<std::vector<int>> python_numbers(std::string_view text) {
  const std::string plain = without_blanks(text);
  std::string_view rest = plain;
  auto numbers = python_sum(rest, 0);
  return rest.empty() ? numbers : std::nullopt;
}

std::optional<std::vector<int>> layers_of_layout(std::string_view layout) {
  const std::string plain = without_blanks(layout);
  std::string_view rest = plain;
  const auto written = written_out(rest, 0);
  if (!written || !rest.empty()) {
    return std::nullopt;
  }
  std::vector<int> layers(1);
  for (const char c : *written) {
    if (c == '|') {
      layers.push_back(0);
    }
    layers.back() += c == 't' ? 1 : 0;
  }
  return layers;
}

MegatronSplit megatron_split(const FlagList& flags, int num_layers, int pp) {
  constexpr const char* kLayout = "--pipeline-model-parallel-layout";
  MegatronSplit split;
  if (const auto layout = flags.text(kLayout)) {
    const auto layers = layers_of_layout(*layout);
    if (!layers || layers->size() % static_cast<std::size_t>(pp) != 0) {
      flags.refuse(kLayout, "expected a layout of a multiple of " + std::to_string(pp) +
                                " stages, got " + in_quotes(*layout));
    }
    split = {static_cast<int>(layers->size()) / pp, *layers};
  } else {
    split.vpp = chunks_of(flags, num_layers, pp);
    const std::vector<int> ranks = layers_of_ranks(flags, num_layers, pp);
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

}  // namespace ptdp
