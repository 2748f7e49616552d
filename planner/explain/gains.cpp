// Costs an answer with more memory, larger inputs and other software.
#include "planner/explain/gains.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "cost_model/contains.h"
#include "cost_model/inputs/config_fields.h"
#include "cost_model/memory/memory.h"
#include "planner/constraints/constraint.h"
#include "planner/explain/explain.h"
#include "planner/explain/fitting_changes.h"
#include "planner/formatting.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

constexpr double kEnough = 1024.0;      // times the memory of a GPU: no limit to any plan
constexpr double kSmallestGain = 1e-3;  // share of the time; less is no reason to change anything

/// Keys that the pins of an answer leave to a search: one thing that somebody decides.
using Keys = std::vector<std::string_view>;
const std::vector<Keys> kDecisions = {
    {"recompute", "recompute_modules", "recompute_num_layers", "recompute_method"},
    {"micro_batch_size"},
    {"vpp", "schedule", "memory_limit"},
    {"sequence_parallel"},
    {"zero_stage"},
    {"reshard_after_forward"},
    {"offload", "offload_num_layers"}};
const Keys kDegrees = {"tp", "pp", "dp", "cp", "ep", "etp"};

/// A thing that a stack can do.
struct Feature {
  std::string name;
  std::function<void(StackSpec&)> add;
};

template <class Value>
void add_missing(std::vector<Value>& values, Value value) {
  if (!contains(values, value)) {
    values.push_back(value);
  }
}

/// Returns what stacks can do and this one does not, as far as it may matter to `config`.
std::vector<Feature> missing_features(const Scenario& scenario, const ParallelConfig& config) {
  const StackSpec& stack = scenario.stack;
  const StackCapabilities& can_run = stack.can_run;
  std::vector<Feature> features;
  const auto add = [&](bool is_missing, std::string name, std::function<void(StackSpec&)> change) {
    if (is_missing) {
      features.push_back({std::move(name), std::move(change)});
    }
  };
  add(config.tp > 1 && !can_run.sequence_parallel, "sequence parallelism",
      [](StackSpec& s) { s.can_run.sequence_parallel = true; });
  add(config.dp > 1 && !contains(can_run.zero_stages, 1), "a distributed optimizer (ZeRO-1)",
      [](StackSpec& s) { add_missing(s.can_run.zero_stages, 1); });
  for (const RecomputeKind& kind : kRecomputeKinds) {
    add(!contains(can_run.recompute, kind.value), fmt::format("recompute={}", kind.name),
        [value = kind.value](StackSpec& s) { add_missing(s.can_run.recompute, value); });
  }
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    const ScheduleTraits& traits = traits_of(schedule.value);
    add(config.pp > 1 && traits.is_synchronous && !traits.is_searched &&
            !contains(can_run.schedules, schedule.value),
        fmt::format("schedule {}, which {} does not run", schedule.name, stack.name),
        [value = schedule.value](StackSpec& s) { add_missing(s.can_run.schedules, value); });
  }
  add(config.dp > 1 && !overlaps_reduction(stack, config.pp),
      "gradients reduced behind the backward pass",
      [](StackSpec& s) { s.data_parallel_overlap = DataParallelOverlap::kAlways; });
  add(config.pp > 1 && stack.pipeline_overlap != PipelineOverlap::kAlways,
      "messages between stages behind compute",
      [](StackSpec& s) { s.pipeline_overlap = PipelineOverlap::kAlways; });
  add(config.tp > 1 && !stack.tensor_parallel_overlap && can_overlap_tensor(stack),
      "tensor-parallel collectives behind products",
      [](StackSpec& s) { s.tensor_parallel_overlap = true; });
  add(config.pp > 1 && config.tp > 1 && !stack.scatter_gather,
      "messages between stages split over tensor-parallel GPUs",
      [](StackSpec& s) { s.scatter_gather = true; });
  if (stack.memory_model == MemoryModel::kMegatron) {  // the runtime's kernels are its own
    add(!stack.fused_element_wise, "fused element-wise kernels",
        [](StackSpec& s) { s.fused_element_wise = true; });
    add(!stack.fused_gradient_accumulation, "products that add gradients by themselves",
        [](StackSpec& s) { s.fused_gradient_accumulation = true; });
    const std::vector<AttentionRate>& rates = scenario.cluster.gpu.attention_rates;
    const auto fastest = std::ranges::max_element(rates, {}, &AttentionRate::forward);
    if (stack.attention == "unfused" && fastest != rates.end()) {
      add(true, fmt::format("fused attention ({})", fastest->kernel),
          [kernel = fastest->kernel](StackSpec& s) { s.attention = kernel; });
    }
  }
  return features;
}

/// Returns the pins of a search with the values of `config` for fields for which `is_kept` says so.
SearchSpace pinned(SearchSpace space, const ParallelConfig& config,
                   const std::function<bool(std::string_view)>& is_kept) {
  const SearchSpace whole = parse_partial_config(to_string(config), "the plan");
  for_each_config_field([&](const auto& field) {
    if (is_kept(field.key)) {
      space.*field.pin = whole.*field.pin;
    }
  });
  return space;
}

/// Looks for gains of one answer.
class GainSearch {
 public:
  explicit GainSearch(const Answer& answer)
      : answer_(answer), options_(answer.options.for_best_alone()) {
    options_.on_progress = {};
    options_.num_threads = 1;
    options_.to_beat =
        (1.0 - kSmallestGain) * score(answer.chosen.time, answer.chosen.config, options_.objective);
  }

  /// Adds what other values of one key would gain that memory does not allow.
  void add_memory();
  /// Adds the most that an increase of each input gains.
  void add_inputs(const Flips& flips);
  /// Adds what the software would gain by doing more.
  void add_software();

  /// Returns these gains and those that were found, the largest first.
  [[nodiscard]] Gains take(Gains gains) && {
    std::ranges::move(gains_.found, std::back_inserter(gains.found));
    std::ranges::stable_sort(gains.found, std::ranges::greater{}, &Gain::saved);
    gains.is_complete = gains.is_complete && gains_.is_complete;
    return gains;
  }

 private:
  struct Wanted {
    Scenario scenario;
    SearchSpace space;
  };
  /// Returns the best of each, if anything gains by it.
  [[nodiscard]] std::vector<std::optional<Candidate>> best_of(const std::vector<Wanted>& wanted) {
    std::vector<SearchResult> found(wanted.size());
    run_tasks(wanted.size(), options_.num_workers, [&](std::size_t, std::size_t i) {
      SearchOptions options = options_;
      options.space = wanted[i].space;
      if (options.limit.is_over()) {
        found[i].unseen.emplace();
      } else {
        found[i] = search(wanted[i].scenario, options);
      }
    });
    std::vector<std::optional<Candidate>> best(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      gains_.is_complete = gains_.is_complete && !found[i].unseen;
      if (!found[i].best.empty() && !found[i].unseen) {
        best[i] = std::move(found[i].best.front());
      }
    }
    return best;
  }

  /// Returns which share of the answer's score a candidate saves that trains `sequences` times as
  /// many of them.
  [[nodiscard]] double saved_by(const Candidate& found, double sequences) const {
    return 1.0 - score(found.time, found.config, options_.objective) / sequences /
                     score(answer_.chosen.time, answer_.chosen.config, options_.objective);
  }

  void add(GainKind kind, std::string change, const Candidate& found, double sequences = 1.0) {
    const double saved = saved_by(found, sequences);
    if (saved > kSmallestGain) {
      gains_.found.push_back({kind, std::move(change), found.config, found.time, saved});
    }
  }

  /// Returns the values that a configuration has otherwise than the answer: "recompute=none".
  [[nodiscard]] std::string values_of(const ParallelConfig& config) const {
    const std::vector<std::string_view> fields =
        changed_fields(answer_.chosen.config, config, answer_.scenario.stack.can_run);
    std::string text;
    for_each_config_field([&](const auto& field) {
      if (contains(fields, field.key)) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", field.short_key(),
                            spelled(config.*field.member));
      }
    });
    return text;
  }

  const Answer& answer_;
  SearchOptions options_;
  Gains gains_;
};

void GainSearch::add_memory() {
  Scenario roomy = answer_.scenario;
  roomy.cluster.gpu.memory = roomy.cluster.gpu.memory * kEnough;
  const Bytes usable = usable_memory(answer_.scenario.cluster.gpu, answer_.options.memory_headroom);
  std::vector<Wanted> wanted;
  wanted.reserve(std::size(kDecisions));
  for (const Keys& keys : kDecisions) {
    wanted.push_back(
        {roomy, pinned(options_.space, answer_.chosen.config, [&](std::string_view key) {
           return key != "layers_per_stage" && !contains(keys, key);
         })});
  }
  const Scenario widened = as_searched(answer_.scenario, options_.space);
  for (const std::optional<Candidate>& found : best_of(wanted)) {
    const Bytes missing = found ? peak_memory({widened, found->config}) - usable : Bytes(0.0);
    if (missing > Bytes(0.0)) {
      add(GainKind::kMemory,
          fmt::format("{} more on every GPU ({})", binary_size(missing), values_of(found->config)),
          *found);
    }
  }
}

void GainSearch::add_inputs(const Flips& flips) {
  for (const InputFlips& input : flips.inputs) {
    const bool is_batch = input.input == ChangedInput::kBatch;
    const auto sequences = [&](const FlipPoint& point) {
      return is_batch ? 1.0 + point.change : 1.0;
    };
    // A number of GPUs or sequences in between may divide better than the largest.
    const auto gain = [&](const FlipPoint& point) {
      return point.change > 0.0 && point.best ? saved_by(*point.best, sequences(point)) : 0.0;
    };
    const auto most = std::ranges::max_element(input.points, {}, gain);
    if (most == input.points.end() || gain(*most) <= 0.0) {
      continue;
    }
    add(GainKind::kInput,
        most->value > 0
            ? fmt::format("{} {}", most->value, is_batch ? "sequences in a batch" : "GPUs")
            : fmt::format("{:.3g} % more {}", 100.0 * most->change, text_of(input.input).name),
        *most->best, sequences(*most));
  }
}

void GainSearch::add_software() {
  const SearchSpace space = pinned(options_.space, answer_.chosen.config,
                                   [](std::string_view key) { return contains(kDegrees, key); });
  const std::vector<Feature> features = missing_features(answer_.scenario, answer_.chosen.config);
  std::vector<Wanted> wanted = {{answer_.scenario, space}};
  for (const Feature& feature : features) {
    feature.add(wanted.emplace_back(Wanted{answer_.scenario, space}).scenario.stack);
  }
  const std::vector<std::optional<Candidate>> best = best_of(wanted);
  const std::optional<Candidate>& now = best.front();
  for (std::size_t i = 0; i < features.size(); ++i) {
    const std::optional<Candidate>& found = best[i + 1];
    // Else the gain is one of other values alone.
    if (found && (!now || found->time < now->time)) {
      add(GainKind::kSoftware, features[i].name, *found);
    }
  }
}

}  // namespace

Gains find_gains(const Answer& answer) {
  GainSearch search(answer);
  search.add_memory();
  search.add_software();
  return std::move(search).take({});
}

Gains with_inputs(Gains gains, const Answer& answer, const Flips& flips) {
  GainSearch search(answer);
  search.add_inputs(flips);
  return std::move(search).take(std::move(gains));
}

}  // namespace ptdp
