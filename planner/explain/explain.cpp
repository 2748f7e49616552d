// Reads partial configurations, compares breakdowns, and searches with and without pins.
#include "planner/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cost_model/error.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"
#include "planner/search/derived_search.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostTerms = 3;
constexpr double kSmall = 0.1;               // seconds; differences below are told in milliseconds
constexpr double kLeftOfEqualTerms = 1e-12;  // rounding left of equal terms, share of the total

/// Returns where the first item of a partial configuration ends: at a space or comma. The list of
/// layers per stage goes on as long as a number follows the comma.
std::size_t end_of_item(std::string_view text) {
  std::size_t end = text.find_first_of(", ");
  const bool is_list = text.starts_with("layers=") || text.starts_with("layers_per_stage=");
  while (is_list && end != std::string_view::npos && text[end] == ',' && end + 1 < text.size() &&
         text[end + 1] >= '0' && text[end + 1] <= '9') {
    end = text.find_first_of(", ", end + 1);
  }
  return end;
}

/// An item of a partial configuration.
struct Item {
  std::string_view written;  ///< The key as it was typed.
  std::string_view key;      ///< The full key of the field.
  std::string_view value;
};

/// Reads an item such as "tp=8", or the forms of printed plans: "interleaved", "sequence-parallel",
/// "block=2". Throws Error for anything else.
Item parse_item(std::string_view item, const std::string& place) {
  const std::size_t equals = item.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view written = item.substr(0, equals);
    std::string_view key = written;
    for_each_config_field([&](const auto& field) {
      if (written == field.short_key()) {
        key = field.key;
      }
    });
    if (find_value(written, kSpellings<RecomputeMethod>)) {
      key = "recompute_num_layers";
    }
    return {written, key, item.substr(equals + 1)};
  }
  if (find_value(item, kSpellings<ScheduleKind>)) {
    return {"schedule", "schedule", item};
  }
  if (item == "sequence-parallel") {
    return {"sequence_parallel", "sequence_parallel", "on"};
  }
  throw Error(place + ": expected key=value, got " + in_quotes(item));
}

void apply(const Item& item, SearchSpace& space, const std::string& place) {
  std::vector<std::string> known_keys;
  bool is_known = false;
  for_each_config_field([&](const auto& field) {
    known_keys.emplace_back(field.key);
    if (item.key == field.key) {
      is_known = true;
      parse_pin(item.value, field.traits, place, space.*field.pin);
    }
  });
  if (!is_known) {
    throw Error(place + ": unknown key" + did_you_mean(item.key, known_keys) +
                fmt::format(" (keys are {})", fmt::join(known_keys, ", ")));
  }
  if (const auto method = find_value(item.written, kSpellings<RecomputeMethod>)) {
    space.recompute_method = method;
  }
}

void pin_value(IntegerRanges& pin, int value) {
  pin = IntegerRanges(value);
}
template <class Choice>
void pin_value(std::vector<Choice>& pin, Choice value) {
  pin = {value};
}
template <class Value>
void pin_value(std::optional<Value>& pin, Value value) {
  pin = value;
}

/// SearchSpace fields that a printed configuration leaves out to their defaults, if they apply.
/// Layers per stage and the limit of a searched schedule stay free: nothing pins their balance.
void pin_usual(SearchSpace& space) {
  ParallelConfig printed;  // only the fields that decide which others apply
  printed.schedule = space.schedules.front();
  printed.recompute = space.recompute.front();
  printed.offload = space.offload.empty() ? Offload::kNone : space.offload.front();
  for_each_config_field([&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(printed.*field.member)>;
    if constexpr (!std::is_same_v<Value, std::vector<int>> &&
                  !std::is_same_v<Value, std::optional<int>>) {
      if (is_free(space.*field.pin) && field.applies(printed)) {
        pin_value(space.*field.pin, ParallelConfig{}.*field.member);
      }
    }
  });
}

/// Returns `space` with the fields that `partial` fixes replaced. Throws Error when a number of
/// offloaded layers stands without offloaded activations.
SearchSpace overlay(SearchSpace space, const SearchSpace& partial) {
  if (!partial.offload.empty()) {
    space.offload_num_layers.reset();  // belongs to another kind of offloading
  }
  if (partial.recompute_num_layers.has_value()) {
    space.recompute_method.reset();  // belongs to another number of layers
  }
  for_each_config_field([&](const auto& field) {
    if (!is_free(partial.*field.pin)) {
      space.*field.pin = partial.*field.pin;
    }
  });
  if (partial.offload_num_layers.has_value() && !offloads_activations(space)) {
    throw Error("offload_num_layers: expected offload=activations beside it, or --offload");
  }
  return space;
}

}  // namespace

std::vector<TermDifference> differences(const CostBreakdown& compared,
                                        const CostBreakdown& reference) {
  std::vector<TermDifference> result;
  result.reserve(kCostTerms.size());
  for (const CostTerm& term : kCostTerms) {
    const Seconds difference = compared.*term.time - reference.*term.time;
    if (!term.is_optional || difference != Seconds(0.0)) {
      result.push_back({term.name, difference});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const TermDifference& a, const TermDifference& b) {
                     return std::abs(a.difference.value()) > std::abs(b.difference.value());
                   });
  for (TermDifference& term : result) {
    if (std::abs(term.difference.value()) < kLeftOfEqualTerms * reference.total().value()) {
      term.difference = Seconds(0.0);
    }
  }
  return result;
}

CostBreakdown counted(CostBreakdown cost, const ParallelConfig& config, Objective objective) {
  if (objective == Objective::kCost) {
    for (const CostTerm& term : kCostTerms) {
      cost.*term.time = cost.*term.time * static_cast<double>(config.world_size());
    }
  }
  return cost;
}

std::string_view unit_of(Objective objective) {
  return objective == Objective::kCost ? "GPU-s" : "s";
}

std::string describe_differences(const CostBreakdown& compared, const CostBreakdown& reference,
                                 std::string_view unit) {
  const std::vector<TermDifference> terms = differences(compared, reference);
  const double largest = std::abs(terms.front().difference.value());
  const double whole = (compared.total() - reference.total()).value();
  const bool is_equal = std::abs(whole) < kLeftOfEqualTerms * reference.total().value();
  double told = 0.0;
  std::string text;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const double seconds = terms[i].difference.value();
    const bool says_which_way = is_equal || told * whole > 0.0;
    const bool is_enough = i >= kMostTerms || std::abs(seconds) < 0.1 * largest;
    if (seconds == 0.0 || (is_enough && says_which_way)) {
      break;
    }
    told += seconds;
    const bool is_small = unit == "s" && largest < kSmall;
    text += fmt::format("{}{:+.3g} {} {}", i == 0 ? "" : ", ", is_small ? 1e3 * seconds : seconds,
                        is_small ? "ms" : unit, terms[i].term);
  }
  return text.empty() ? "no term differs" : text;
}

SearchSpace parse_partial_config(std::string_view text, const std::string& place) {
  SearchSpace space;
  std::set<std::string_view> seen;
  bool is_printed = false;  // by to_string(), which names the schedule without its key
  while (true) {
    const std::size_t end = end_of_item(text);
    const std::string_view written = text.substr(0, end);
    const Item item = parse_item(written, place);
    const std::string item_place = place + ": " + std::string(item.written);
    if (!seen.insert(item.key).second) {
      throw Error(item_place + ": given twice");
    }
    apply(item, space, item_place);
    is_printed = is_printed || (item.key == "schedule" && written == item.value);
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  if (space.recompute_method.has_value() && !space.recompute_num_layers.has_value()) {
    throw Error(place + ": recompute_method: expected recompute_num_layers beside it");
  }
  for_each_config_field([&](const auto& field) {
    is_printed = is_printed && (!field.traits.is_always_printed || seen.contains(field.key));
  });
  if (is_printed) {
    pin_usual(space);
  }
  return space;
}

Explanation explain(const Scenario& scenario, const SearchOptions& options,
                    const SearchSpace& partial) {
  const auto find = [&](const SearchOptions& searched) {
    SearchResult found = search(scenario, searched);
    derive_and_choose(scenario, searched, found);
    return found;
  };
  SearchOptions matching = options;
  matching.space = overlay(options.space, partial);
  return {.matching_options = matching, .matching = find(matching), .all = find(options)};
}

}  // namespace ptdp
