#include "planner/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cost_model/error.h"
#include "cost_model/spec/csv_table.h"
#include "cost_model/spec/in_quotes.h"
#include "cost_model/spec/near_miss.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostTerms = 3;
constexpr double kRounding = 1e-12;  // of the total: what is left of equal terms
constexpr std::size_t kMostValues = 24;
constexpr std::int64_t kMostGpusToTry = 1 << 24;        // more than any cluster has
constexpr std::int64_t kMostCandidatesToTry = 200'000;  // tens of milliseconds
constexpr std::int64_t kLargestDegree = 100'000'000;

std::string join(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMostValues); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return values.size() > kMostValues ? text + ", ..." : text;
}

/// The batch nearest to the scenario's that a pinned dp and a pinned microbatch size divide.
std::int64_t nearest_batch_size(const Scenario& scenario, const Pins& pins) {
  const auto pinned = [](const IntegerRanges& pin) {
    return pin.numbers().empty() ? std::vector<std::int64_t>{1} : pin.numbers();
  };
  const std::int64_t batch = scenario.job.global_batch_size;
  std::int64_t nearest = 0;
  for (const std::int64_t dp : pinned(pins.dp)) {
    for (const std::int64_t size : pinned(pins.micro_batch_size)) {
      const std::int64_t step = dp * size;
      for (const std::int64_t multiple : {batch / step * step, batch / step * step + step}) {
        if (multiple > 0 &&
            (nearest == 0 || std::abs(multiple - batch) < std::abs(nearest - batch))) {
          nearest = multiple;
        }
      }
    }
  }
  return nearest;
}

template <class Value>
std::vector<Value> parse_choice(std::string_view text, NamedValues<Value> names,
                                const std::string& place) {
  return {names[find_choice(text, names_of(names), place)].value};
}

void apply(Pins& pins, std::string_view key, std::string_view value, const std::string& place) {
  static const std::vector<std::string> known_keys = {"tp",        "pp",        "dp",
                                                      "vpp",       "b",         "micro_batch_size",
                                                      "schedule",  "recompute", "sequence_parallel",
                                                      "zero_stage"};
  const auto degree = [&] { return IntegerRanges(parse_count(value, 1, kLargestDegree, place)); };
  if (key == "tp") {
    pins.tp = degree();
  } else if (key == "pp") {
    pins.pp = degree();
  } else if (key == "dp") {
    pins.dp = degree();
  } else if (key == "vpp") {
    pins.vpp = degree();
  } else if (key == "micro_batch_size") {
    pins.micro_batch_size = degree();
  } else if (key == "schedule") {
    pins.schedules = parse_choice(value, NamedValues<Schedule>(kScheduleNames), place);
  } else if (key == "recompute") {
    pins.recompute = parse_choice(value, NamedValues<Recompute>(kRecomputeNames), place);
  } else if (key == "sequence_parallel") {
    static const std::vector<std::string> off_and_on = {"off", "on"};
    pins.sequence_parallel = find_choice(value, off_and_on, place) == 1;
  } else if (key == "zero_stage") {
    pins.zero_stage = IntegerRanges(parse_count(value, 0, 3, place));
  } else {
    throw Error(place + ": unknown key" + did_you_mean(key, known_keys));
  }
}

}  // namespace

std::vector<TermDifference> differences(const CostBreakdown& compared,
                                        const CostBreakdown& reference) {
  std::vector<TermDifference> result;
  result.reserve(kCostTerms.size());
  for (const CostTerm& term : kCostTerms) {
    result.push_back({term.name, compared.*term.time - reference.*term.time});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const TermDifference& a, const TermDifference& b) {
                     return std::abs(a.difference.value()) > std::abs(b.difference.value());
                   });
  for (TermDifference& term : result) {
    if (std::abs(term.difference.value()) < kRounding * reference.total().value()) {
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

namespace {

/// "tp=8" as its two halves; "interleaved" and "sequence-parallel", as plans are printed, as
/// schedule=interleaved and sequence_parallel=on.
std::pair<std::string_view, std::string_view> key_and_value(std::string_view item,
                                                            const std::string& place) {
  const std::size_t equals = item.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view key = item.substr(0, equals);
    return {key == "b"      ? "micro_batch_size"
            : key == "zero" ? "zero_stage"
                            : key,
            item.substr(equals + 1)};
  }
  for (const NamedValue<Schedule>& schedule : kScheduleNames) {
    if (item == schedule.name) {
      return {"schedule", item};
    }
  }
  if (item == "sequence-parallel") {
    return {"sequence_parallel", "on"};
  }
  throw Error(place + ": expected key=value, got " + in_quotes(item));
}

}  // namespace

Pins parse_partial_config(std::string_view text, const std::string& place) {
  Pins pins;
  std::set<std::string_view> seen;
  while (true) {
    const std::size_t comma = text.find_first_of(", ");
    const std::string_view item = text.substr(0, comma);
    const auto [key, value] = key_and_value(item, place);
    const std::string key_place = place + ": " + std::string(key);
    if (!seen.insert(key).second) {
      throw Error(key_place + ": given twice");
    }
    apply(pins, key, value, key_place);
    if (comma == std::string_view::npos) {
      return pins;
    }
    text.remove_prefix(comma + 1);
  }
}

namespace {

/// `pins` with what `partial` fixes in their place.
Pins overlay(Pins pins, const Pins& partial) {
  for (IntegerRanges Pins::*pin :
       {&Pins::tp, &Pins::pp, &Pins::dp, &Pins::vpp, &Pins::micro_batch_size, &Pins::zero_stage}) {
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
  if (partial.sequence_parallel.has_value()) {
    pins.sequence_parallel = partial.sequence_parallel;
  }
  return pins;
}

}  // namespace

Explanation explain(const Scenario& scenario, const SearchOptions& options, const Pins& partial) {
  SearchOptions matching = options;
  matching.pins = overlay(options.pins, partial);
  return {.matching_options = matching,
          .matching = search(scenario, matching),
          .all = search(scenario, options)};
}

std::optional<LargerCluster> gpus_that_would_do(const Scenario& scenario, SearchOptions options) {
  const std::int64_t cluster_size = scenario.cluster.max_gpus();
  const std::int64_t most = cluster_size > 0 ? cluster_size : kMostGpusToTry;
  options.num_best = 1;
  std::int64_t enumerated = 0;
  while (options.gpus <= most / 2 && enumerated < kMostCandidatesToTry) {
    options.gpus *= 2;
    const SearchResult result = search(scenario, options);
    if (!result.best.empty()) {
      return LargerCluster{.gpus = options.gpus, .config = result.best.front().config};
    }
    enumerated += result.enumerated;
  }
  return std::nullopt;
}

namespace {

/// Why no configuration can match the pins, whatever the model; empty where some can.
std::string contradiction(const SearchOptions& options) {
  const Pins& pins = options.pins;
  const bool wants_interleaving = pins.schedules == std::vector<Schedule>{Schedule::kInterleaved};
  const bool wants_one_chunk = pins.schedules == std::vector<Schedule>{Schedule::kOneFOneB};
  if ((wants_one_chunk && !pins.vpp.contains(1)) ||
      (wants_interleaving && pins.vpp == IntegerRanges(1))) {
    return "schedule and vpp contradict each other: 1f1b has vpp=1, interleaved more";
  }
  if (wants_interleaving && pins.pp == IntegerRanges(1)) {
    return "schedule interleaved and pp=1 contradict each other: there is nothing to interleave";
  }
  if (pins.sequence_parallel.value_or(false) && pins.tp == IntegerRanges(1)) {
    return "sequence parallelism and tp=1 contradict each other: it splits over tp";
  }
  const std::int64_t tp = pins.tp.smallest();
  const std::int64_t pp = pins.pp.smallest();
  const std::int64_t dp = pins.dp.smallest();
  if (tp > options.gpus / pp / dp) {
    return fmt::format("tp={} pp={} dp={}, the smallest asked for, need more than {} GPUs", tp, pp,
                       dp, options.gpus);
  }
  return "";
}

std::vector<std::string> nearest_feasible(const Scenario& scenario, const SearchOptions& options,
                                          const SearchResult& result) {
  std::vector<std::pair<Constraint, std::int64_t>> violated(result.violations.begin(),
                                                            result.violations.end());
  std::stable_sort(violated.begin(), violated.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const TransformerConfig& model = scenario.job.model;
  std::vector<std::string> lines;
  for (const auto& [constraint, count] : violated) {
    std::string line = fmt::format("{}: {}", text_of(constraint).description, count);
    switch (constraint) {
      case Constraint::kHeadsByTp:
        line += fmt::format("; tp can be {}", join(divisors(model.num_attention_heads)));
        break;
      case Constraint::kFfnByTp:
        line += fmt::format("; tp must divide {}", model.ffn_hidden_size);
        break;
      case Constraint::kLayersByPp:
      case Constraint::kLayersByPpVpp:
        line +=
            fmt::format("; {} can be {}", constraint == Constraint::kLayersByPp ? "pp" : "pp * vpp",
                        join(divisors(model.num_layers)));
        break;
      case Constraint::kDpBeyondBatch:
      case Constraint::kBatchByDp:
        line += fmt::format("; dp * micro_batch_size can be {}",
                            join(divisors(scenario.job.global_batch_size)));
        if (const std::int64_t nearest = nearest_batch_size(scenario, options.pins);
            nearest != scenario.job.global_batch_size) {
          line += fmt::format("; the nearest batch that would do is {}", nearest);
        }
        break;
      case Constraint::kNotRunByStack:
        line += fmt::format("; stack {} can run what `ptdp-plan list stacks` shows",
                            scenario.stack.name);
        break;
      case Constraint::kSequenceByTp:
        line += fmt::format("; tp must divide {}", model.seq_length);
        break;
      case Constraint::kInterleavedMinStages:
        line += fmt::format("; it needs pp >= {}", scenario.stack.can_run.interleaved_min_stages);
        break;
      case Constraint::kMicrobatchesByPp:
        line += "; batch / (dp * micro_batch_size) must be a multiple of pp";
        break;
      case Constraint::kMemoryFirstStage:
      case Constraint::kMemoryLastStage:
        line += fmt::format("; {} misses the least, by {:.0f} bytes ({:.2f} GiB)",
                            to_string(result.shortfall->config),
                            std::ceil(result.shortfall->missing.value()),
                            result.shortfall->missing.value() / kGibi);
        break;
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::string why_nothing_fits(const Scenario& scenario, const SearchOptions& options,
                             const SearchResult& result) {
  const std::string contradicted = contradiction(options);
  if (!contradicted.empty()) {
    return "  " + contradicted + "\n";
  }
  if (result.enumerated == 0) {
    return fmt::format("  no degrees that are asked for match a model of {} layers and {} heads\n",
                       scenario.job.model.num_layers, scenario.job.model.num_attention_heads);
  }
  std::string text;
  for (const std::string& line : nearest_feasible(scenario, options, result)) {
    text += "  " + line + "\n";
  }
  return text;
}

}  // namespace ptdp
