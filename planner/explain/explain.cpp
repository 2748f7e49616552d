#include "planner/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "cost_model/error.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/near_miss.h"
#include "planner/search/derived_search.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostTerms = 3;
constexpr double kLeftOfEqualTerms = 1e-12;  // of the total: what is left of equal terms
constexpr std::int64_t kLargestDegree = 100'000'000;

/// Keys that to_string() never leaves out, beside the schedule's name.
constexpr std::array<std::string_view, 5> kAlwaysPrinted = {"tp", "pp", "dp", "micro_batch_size",
                                                            "recompute"};

template <class Value>
std::vector<Value> parse_choice(std::string_view text, NamedValues<Value> names,
                                const std::string& place) {
  return {names[find_choice(text, names_of(names), place)].value};
}

/// "0,126x1,0" as the layers of 128 virtual stages.
std::vector<int> parse_layers(std::string_view text, const std::string& place) {
  std::vector<int> layers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t times = item.find('x');
    const std::int64_t count = times == std::string_view::npos
                                   ? 1
                                   : parse_count(item.substr(0, times), 1, kMostModelLayers, place);
    const std::string_view of_one = times == std::string_view::npos ? item : item.substr(times + 1);
    const std::int64_t most = 2 * std::int64_t{kMostModelLayers} - std::ssize(layers);
    if (count > most) {
      throw Error(place + ": expected at most " +
                  std::to_string(2 * std::int64_t{kMostModelLayers}) + " virtual stages");
    }
    layers.insert(layers.end(), static_cast<std::size_t>(count),
                  static_cast<int>(parse_count(of_one, 0, kMostModelLayers, place)));
    begin = end + 1;
  }
  return layers;
}

/// Where an item of a list of keys ends: at a space or comma, but that of layers goes on with every
/// number.
std::size_t end_of_item(std::string_view text) {
  std::size_t end = text.find_first_of(", ");
  while (text.starts_with("layers=") && end != std::string_view::npos && text[end] == ',' &&
         end + 1 < text.size() && text[end + 1] >= '0' && text[end + 1] <= '9') {
    end = text.find_first_of(", ", end + 1);
  }
  return end;
}

void apply(Pins& pins, std::string_view key, std::string_view value, const std::string& place) {
  static const std::vector<std::string> known_keys = {"tp",
                                                      "pp",
                                                      "dp",
                                                      "cp",
                                                      "ep",
                                                      "etp",
                                                      "vpp",
                                                      "b",
                                                      "micro_batch_size",
                                                      "schedule",
                                                      "recompute",
                                                      "sequence_parallel",
                                                      "zero_stage",
                                                      "rank_order",
                                                      "dp_replicate",
                                                      "reshard_after_forward",
                                                      "offload",
                                                      "offload_num_layers",
                                                      "recompute_modules",
                                                      "block",
                                                      "uniform",
                                                      "every",
                                                      "layers",
                                                      "limit"};
  const auto degree = [&] { return IntegerRanges(parse_count(value, 1, kLargestDegree, place)); };
  const auto off_or_on = [&] {
    static const std::vector<std::string> off_and_on = {"off", "on"};
    return find_choice(value, off_and_on, place) == 1;
  };
  if (key == "tp") {
    pins.tp = degree();
  } else if (key == "pp") {
    pins.pp = degree();
  } else if (key == "dp") {
    pins.dp = degree();
  } else if (key == "cp") {
    pins.cp = degree();
  } else if (key == "ep") {
    pins.ep = degree();
  } else if (key == "etp") {
    pins.etp = degree();
  } else if (key == "vpp") {
    pins.vpp = degree();
  } else if (key == "micro_batch_size") {
    pins.micro_batch_size = degree();
  } else if (key == "schedule") {
    pins.schedules = parse_choice(value, NamedValues<ScheduleKind>(kScheduleNames), place);
  } else if (key == "recompute") {
    pins.recompute = parse_choice(value, NamedValues<Recompute>(kRecomputeNames), place);
  } else if (key == "recompute_modules") {
    pins.recompute_modules = parse_recompute_modules(value, place);
  } else if (const auto method =
                 find_value(key, NamedValues<RecomputeMethod>(kRecomputeMethodNames))) {
    if (pins.recompute_num_layers.has_value()) {
      throw Error(place + ": recomputed layers are given twice");
    }
    pins.recompute_method = method;
    pins.recompute_num_layers = static_cast<int>(parse_count(value, 1, kLargestDegree, place));
  } else if (key == "sequence_parallel") {
    pins.sequence_parallel = off_or_on();
  } else if (key == "zero_stage") {
    pins.zero_stage = IntegerRanges(parse_count(value, 0, 3, place));
  } else if (key == "dp_replicate") {
    pins.dp_replicate = degree();
  } else if (key == "reshard_after_forward") {
    pins.reshard_after_forward = off_or_on();
  } else if (key == "rank_order") {
    pins.rank_orders = parse_choice(value, NamedValues<RankOrder>(kRankOrderNames), place);
  } else if (key == "offload") {
    pins.offload = parse_choice(value, NamedValues<Offload>(kOffloadNames), place);
  } else if (key == "offload_num_layers") {
    pins.offload_num_layers = static_cast<int>(parse_count(value, 1, kLargestDegree, place));
  } else if (key == "layers") {
    pins.layers_per_stage = parse_layers(value, place);
  } else if (key == "limit") {
    pins.memory_limit = static_cast<int>(parse_count(value, 1, kLargestDegree, place));
  } else {
    throw Error(place + ": unknown key" + did_you_mean(key, known_keys));
  }
}

/// "tp=8" as its two halves; "interleaved" and "sequence-parallel", as plans are printed, as
/// schedule=interleaved and sequence_parallel=on.
std::pair<std::string_view, std::string_view> key_and_value(std::string_view item,
                                                            const std::string& place) {
  const std::size_t equals = item.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view key = item.substr(0, equals);
    return {key == "b"         ? "micro_batch_size"
            : key == "zero"    ? "zero_stage"
            : key == "order"   ? "rank_order"
            : key == "modules" ? "recompute_modules"
                               : key,
            item.substr(equals + 1)};
  }
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    if (item == schedule.name) {
      return {"schedule", item};
    }
  }
  if (item == "sequence-parallel") {
    return {"sequence_parallel", "on"};
  }
  throw Error(place + ": expected key=value, got " + in_quotes(item));
}

/// What a printed configuration leaves out, which is then as usual.
void pin_usual(Pins& pins) {
  for (IntegerRanges Pins::*degree :
       {&Pins::cp, &Pins::ep, &Pins::etp, &Pins::vpp, &Pins::dp_replicate}) {
    if ((pins.*degree).is_any()) {
      pins.*degree = IntegerRanges(1);
    }
  }
  if (pins.zero_stage.is_any()) {
    pins.zero_stage = IntegerRanges(0);
  }
  if (pins.rank_orders.empty()) {
    pins.rank_orders = {RankOrder{}};
  }
  if (pins.offload.empty()) {
    pins.offload = {Offload::kNone};
  }
  if (!pins.offload_num_layers.has_value() && offloads_activations(pins)) {
    pins.offload_num_layers = 0;  // all but the last
  }
  if (!pins.recompute_modules.has_value() && pins.recompute.front() == Recompute::kSelective) {
    pins.recompute_modules = kCoreAttentionAlone;
  }
  if (!pins.recompute_num_layers.has_value() && pins.recompute.front() == Recompute::kFull) {
    pins.recompute_num_layers = 0;  // all
  }
  pins.sequence_parallel = pins.sequence_parallel.value_or(false);
  pins.reshard_after_forward = pins.reshard_after_forward.value_or(true);
}

/// `pins` with what `partial` fixes in their place.
Pins overlay(Pins pins, const Pins& partial) {
  for (IntegerRanges Pins::*pin :
       {&Pins::tp, &Pins::pp, &Pins::dp, &Pins::cp, &Pins::ep, &Pins::etp, &Pins::vpp,
        &Pins::micro_batch_size, &Pins::zero_stage, &Pins::dp_replicate}) {
    if (!(partial.*pin).is_any()) {
      pins.*pin = partial.*pin;
    }
  }
  if (!partial.schedules.empty()) {
    pins.schedules = partial.schedules;
  }
  if (!partial.recompute.empty()) {
    pins.recompute = partial.recompute;
  }
  if (!partial.rank_orders.empty()) {
    pins.rank_orders = partial.rank_orders;
  }
  if (partial.reshard_after_forward.has_value()) {
    pins.reshard_after_forward = partial.reshard_after_forward;
  }
  if (!partial.offload.empty()) {
    pins.offload = partial.offload;
    pins.offload_num_layers.reset();  // of what was offloaded instead
  }
  if (partial.offload_num_layers.has_value()) {
    pins.offload_num_layers = partial.offload_num_layers;
    if (!offloads_activations(pins)) {
      throw Error("offload_num_layers: expected offload=activations beside it, or --offload");
    }
  }
  if (partial.recompute_modules.has_value()) {
    pins.recompute_modules = partial.recompute_modules;
  }
  if (partial.recompute_num_layers.has_value()) {
    pins.recompute_num_layers = partial.recompute_num_layers;
    pins.recompute_method = partial.recompute_method;
  }
  if (!partial.layers_per_stage.empty()) {
    pins.layers_per_stage = partial.layers_per_stage;
  }
  if (partial.memory_limit.has_value()) {
    pins.memory_limit = partial.memory_limit;
  }
  if (partial.sequence_parallel.has_value()) {
    pins.sequence_parallel = partial.sequence_parallel;
  }
  return pins;
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
  std::string text;
  for (std::size_t i = 0; i < kMostTerms; ++i) {
    const double seconds = terms[i].difference.value();
    if (seconds == 0.0 || std::abs(seconds) < 0.1 * largest) {
      break;
    }
    text += fmt::format("{}{:+.3g} {} {}", i == 0 ? "" : ", ", seconds, unit, terms[i].term);
  }
  return text.empty() ? "no term differs" : text;
}

Pins parse_partial_config(std::string_view text, const std::string& place) {
  Pins pins;
  std::set<std::string_view> seen;
  bool names_schedule = false;  // without its key, as to_string() does
  while (true) {
    const std::size_t end = end_of_item(text);
    const std::string_view item = text.substr(0, end);
    const auto [key, value] = key_and_value(item, place);
    const std::string key_place = place + ": " + std::string(key);
    if (!seen.insert(key).second) {
      throw Error(key_place + ": given twice");
    }
    apply(pins, key, value, key_place);
    names_schedule = names_schedule || (key == "schedule" && item == value);
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  if (names_schedule && std::ranges::all_of(kAlwaysPrinted, [&](std::string_view key) {
        return seen.contains(key);
      })) {
    pin_usual(pins);
  }
  return pins;
}

Explanation explain(const Scenario& scenario, const SearchOptions& options, const Pins& partial) {
  const auto find = [&](const SearchOptions& searched) {
    SearchResult found = search(scenario, searched);
    add_derived_plans(scenario, searched, found);
    return found;
  };
  SearchOptions matching = options;
  matching.pins = overlay(options.pins, partial);
  return {.matching_options = matching, .matching = find(matching), .all = find(options)};
}

}  // namespace ptdp
