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

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> result;
  for (std::int64_t candidate = 1; candidate <= number; ++candidate) {
    if (number % candidate == 0) {
      result.push_back(candidate);
    }
  }
  return result;
}

/// The batch size nearest to the scenario's that some layout on these GPUs divides.
std::int64_t nearest_batch_size(const Scenario& scenario, const SearchOptions& options) {
  const std::int64_t batch = scenario.job.global_batch_size;
  std::int64_t nearest = 0;
  for (const int tp : enumerate_tp(scenario, options.gpus, options.pins)) {
    for (const ParallelConfig& layout :
         enumerate_layouts(scenario, options.gpus, options.pins, tp)) {
      const auto violation = find_layout_violation(scenario, layout);
      if (violation.has_value() && *violation != Constraint::kBatchByDp &&
          *violation != Constraint::kDpBeyondBatch) {
        continue;
      }
      const std::int64_t below = batch / layout.dp * layout.dp;
      for (const std::int64_t size : {below, below + layout.dp}) {
        if (size > 0 && (nearest == 0 || std::abs(size - batch) < std::abs(nearest - batch))) {
          nearest = size;
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
  } else if (key == "b" || key == "micro_batch_size") {
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
  return result;
}

std::string describe_differences(const CostBreakdown& compared, const CostBreakdown& reference) {
  const std::vector<TermDifference> terms = differences(compared, reference);
  const double largest = std::abs(terms.front().difference.value());
  std::string text;
  for (std::size_t i = 0; i < kMostTerms; ++i) {
    const double seconds = terms[i].difference.value();
    if (seconds == 0.0 || std::abs(seconds) < 0.1 * largest) {
      break;
    }
    text += fmt::format("{}{:+.3g} s {}", i == 0 ? "" : ", ", seconds, terms[i].term);
  }
  return text.empty() ? "no term differs" : text;
}

Pins parse_partial_config(std::string_view text, const std::string& place) {
  Pins pins;
  std::set<std::string_view> seen;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw Error(place + ": expected key=value, got " + in_quotes(item));
    }
    const std::string_view key = item.substr(0, equals);
    const std::string key_place = place + ": " + std::string(key);
    if (!seen.insert(key == "b" ? "micro_batch_size" : key).second) {
      throw Error(key_place + ": given twice");
    }
    apply(pins, key, item.substr(equals + 1), key_place);
    if (comma == std::string_view::npos) {
      return pins;
    }
    text.remove_prefix(comma + 1);
  }
}

Explanation explain(const Scenario& scenario, const SearchOptions& options, const Pins& partial) {
  SearchOptions matching = options;
  matching.pins = partial;
  return {
      .partial = partial, .matching = search(scenario, matching), .all = search(scenario, options)};
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
        line += fmt::format("; the nearest batch that some layout divides is {}",
                            nearest_batch_size(scenario, options));
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

}  // namespace ptdp
