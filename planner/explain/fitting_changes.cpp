// Costs the neighbours of a configuration that cannot run, fewest changed fields first.
#include "planner/explain/fitting_changes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "cost_model/contains.h"
#include "cost_model/inputs/config_fields.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "cost_model/partition/partition.h"
#include "cost_model/pipeline_rank/rank_layers.h"
#include "planner/constraints/constraint.h"
#include "planner/search/costs_cache.h"
#include "planner/search/derived_search.h"
#include "planner/search/enumerate.h"

namespace ptdp {
namespace {

constexpr int kMostTimesTheGpus = 8;

/// Another value of one field.
struct FieldChange {
  std::string_view key;
  std::function<void(ParallelConfig&)> apply;
};

bool is_allowed(const IntegerRanges& pin, int value) {
  return pin.is_any() || pin.contains(value);
}
template <class Choice>
bool is_allowed(const std::vector<Choice>& pin, Choice value) {
  return pin.empty() || contains(pin, value);
}
template <class Value>
bool is_allowed(const std::optional<Value>& pin, const Value& value) {
  return !pin || *pin == value;
}

std::vector<int> as_ints(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

/// Lists the values that each field of a configuration may be changed to, whatever the others are.
class FieldChanges {
 public:
  FieldChanges(const Scenario& scenario, const SearchSpace& space, const ParallelConfig& config,
               std::int64_t most_gpus)
      : scenario_(scenario), space_(space), config_(config), most_gpus_(most_gpus) {}

  /// Returns all changes of one field that the pins allow, in the order of kConfigFields.
  [[nodiscard]] std::vector<FieldChange> list() const {
    std::vector<FieldChange> changes;
    for_each_config_field([&](const auto& field) {
      using Value = std::remove_cvref_t<decltype(config_.*field.member)>;
      if (field.key == "recompute_num_layers") {
        add_recomputed_layers(changes);
        return;
      }
      if (field.key == "layers_per_stage") {
        add_split_of_layers(changes);
        return;
      }
      if constexpr (!std::is_same_v<Value, std::optional<int>> &&
                    !std::is_same_v<Value, std::vector<int>>) {
        for (const Value& value : values(field.key, config_.*field.member)) {
          if (value != config_.*field.member && is_allowed(space_.*field.pin, value)) {
            changes.push_back({field.key, [member = field.member, value,
                                           modules = usual_modules(scenario_.stack.can_run)](
                                              ParallelConfig& config) {
                                 config.*member = value;
                                 if constexpr (std::is_same_v<Value, Recompute>) {
                                   config.recompute_modules = modules;
                                 }
                               }});
          }
        }
      }
    });
    return changes;
  }

 private:
  [[nodiscard]] std::vector<int> values(std::string_view key, int /*current*/) const {
    const TransformerConfig& model = scenario_.job.model;
    if (key == "tp") {
      return as_ints(divisors(model.num_attention_heads));
    }
    if (key == "pp" || key == "vpp") {
      return as_ints(divisors(model.num_layers));
    }
    if (key == "dp" || key == "micro_batch_size") {
      return as_ints(divisors(scenario_.job.global_batch_size));
    }
    if (key == "cp") {
      std::vector<int> sizes;
      for (const Degrees& degrees :
           enumerate_degrees(scenario_, most_gpus_, {.pp = IntegerRanges(1)}, 1)) {
        sizes.push_back(degrees.cp);
      }
      return sizes;
    }
    if (key == "ep") {
      return model.num_experts == 0 ? std::vector(1, 1) : as_ints(divisors(model.num_experts));
    }
    if (key == "etp") {
      return {1, config_.tp};
    }
    if (key == "zero_stage") {
      return scenario_.stack.can_run.zero_stages;
    }
    if (key == "dp_replicate") {
      return {1};
    }
    return {0};  // of offload_num_layers: all but the last
  }
  [[nodiscard]] static std::array<bool, 1> values(std::string_view /*key*/, bool current) {
    return {!current};
  }
  [[nodiscard]] const std::vector<ScheduleKind>& values(std::string_view /*key*/,
                                                        ScheduleKind /*current*/) const {
    return scenario_.stack.can_run.schedules;
  }
  [[nodiscard]] const std::vector<Recompute>& values(std::string_view /*key*/,
                                                     Recompute /*current*/) const {
    return scenario_.stack.can_run.recompute;
  }
  [[nodiscard]] std::vector<RecomputeModules> values(std::string_view /*key*/,
                                                     RecomputeModules /*current*/) const {
    std::vector<RecomputeModules> sets = useful_module_sets(scenario_);
    sets.push_back(usual_modules(scenario_.stack.can_run));
    return sets;
  }
  [[nodiscard]] const std::vector<RecomputeMethod>& values(std::string_view /*key*/,
                                                           RecomputeMethod /*current*/) const {
    return scenario_.stack.can_run.recompute_methods;
  }
  [[nodiscard]] std::vector<RankOrder> values(std::string_view /*key*/,
                                              RankOrder /*current*/) const {
    std::vector<RankOrder> orders = scenario_.stack.can_run.rank_orders;
    orders.push_back(RankOrder{});
    return orders;
  }
  [[nodiscard]] std::vector<Offload> values(std::string_view /*key*/, Offload /*current*/) const {
    std::vector<Offload> kinds = scenario_.stack.can_run.offload;
    kinds.push_back(Offload::kNone);
    return kinds;
  }

  /// Adds the split of the layers whose stages are as equal as they can be; it follows pp and vpp.
  void add_split_of_layers(std::vector<FieldChange>& changes) const {
    if (!space_.layers_per_stage.empty()) {
      return;
    }
    const int num_layers = scenario_.job.model.num_layers;
    const bool can_differ = scenario_.stack.can_run.uneven_layers;
    changes.push_back({"layers_per_stage", [num_layers, can_differ](ParallelConfig& config) {
                         config.layers_per_stage.clear();
                         const std::int64_t stages = std::int64_t{config.pp} * config.vpp;
                         if (can_differ && num_layers % stages != 0 && stages < num_layers) {
                           config.layers_per_stage =
                               even_partition(num_layers, static_cast<int>(stages));
                         }
                       }});
  }

  /// Adds numbers of recomputed layers by each method, for full recomputation.
  void add_recomputed_layers(std::vector<FieldChange>& changes) const {
    std::vector<RecomputeMethod> methods = scenario_.stack.can_run.recompute_methods;
    if (config_.recomputes_by_layers()) {
      methods = {config_.recompute_method};
    }
    const auto add = [&](int number, RecomputeMethod method) {
      if (number != config_.recompute_num_layers &&
          is_allowed(space_.recompute_num_layers, number) &&
          is_allowed(space_.recompute_method, method)) {
        changes.push_back({"recompute_num_layers", [number, method](ParallelConfig& config) {
                             config.recompute_num_layers = number;
                             config.recompute_method = method;
                           }});
      }
    };
    add(0, RecomputeMethod{});
    for (const RecomputeMethod method : methods) {
      for (int number = 1; number <= longest_layer_range(scenario_.job.model, config_); ++number) {
        add(number, method);
      }
    }
  }

  const Scenario& scenario_;
  const SearchSpace& space_;
  const ParallelConfig& config_;
  std::int64_t most_gpus_;
};

/// Returns the configuration with the usual values of fields that mean nothing beside the others.
ParallelConfig settled(ParallelConfig config) {
  for_each_config_field([&](const auto& field) {
    if (!field.applies(config)) {
      config.*field.member = ParallelConfig{}.*field.member;
    }
  });
  return config;
}

/// Returns whether a search would look at the schedule with so many stages and chunks.
bool has_its_schedule(const ParallelConfig& config) {
  return has_chunks(config.schedule, config.vpp) &&
         (config.pp > 1 || config.schedule == ScheduleKind::kOneFOneB);
}

/// Returns whether two changed fields belong together, so that a third one may be changed as well.
bool belong_together(const FieldChange& a, const FieldChange& b, const ParallelConfig& from,
                     const ParallelConfig& to, std::int64_t gpus) {
  const auto are = [&](std::string_view first, std::string_view second) {
    return a.key == first && b.key == second;
  };
  const bool is_regrouping = are("tp", "dp") || are("pp", "dp") || are("dp", "cp");
  return (is_regrouping && (to.world_size() == from.world_size() || to.world_size() == gpus)) ||
         are("vpp", "schedule") || are("recompute", "recompute_modules") ||
         are("recompute", "recompute_num_layers") || b.key == "layers_per_stage";
}

/// Returns the scenario with a stack that runs the configuration's schedule and split of layers.
Scenario with_given(Scenario scenario, const ParallelConfig& config) {
  StackCapabilities& can_run = scenario.stack.can_run;
  if (!is_run_by_stack(scenario.stack, config)) {
    can_run.schedules.push_back(config.schedule);
  }
  can_run.uneven_layers = can_run.uneven_layers || !config.layers_per_stage.empty();
  std::erase_if(can_run.schedules, [&](ScheduleKind kind) {
    return traits_of(kind).is_searched && kind != config.schedule;
  });
  return scenario;
}

/// Looks at neighbours, and keeps those that are smaller or faster than all before.
class Neighbours {
 public:
  Neighbours(const Scenario& scenario, const SearchOptions& options, const ParallelConfig& config)
      : scenario_(with_given(scenario, config)),
        options_(options),
        from_(config),
        capacity_(usable_memory(scenario.cluster.gpu, options.memory_headroom)),
        costs_(scenario_),
        most_gpus_(most_gpus()),
        changes_(FieldChanges(scenario_, options.space, from_, most_gpus_).list()) {}

  FittingChanges find() && {
    for (const int num_fields : {1, 2, 3}) {
      look_at(num_fields, 0, options_.gpus);
    }
    for (int times = 2; times <= kMostTimesTheGpus; times *= 2) {
      const std::int64_t gpus = options_.gpus * times;
      look_at(1, gpus / 2, std::min(gpus, most_gpus_));
    }
    return std::move(result_);
  }

 private:
  /// A neighbour that can run, with a lower bound of its score or the score itself.
  struct Neighbour {
    double score = 0.0;
    FittingChange change;
    bool is_exact = false;
  };
  struct IsWorse {
    bool operator()(const Neighbour& a, const Neighbour& b) const {
      return a.score != b.score ? a.score > b.score
                                : b.change.candidate.config < a.change.candidate.config;
    }
  };

  [[nodiscard]] std::int64_t most_gpus() const {
    const std::int64_t of_cluster = scenario_.cluster.max_gpus();
    const std::int64_t most = options_.gpus * kMostTimesTheGpus;
    return of_cluster > 0 ? std::min(most, of_cluster) : most;
  }
  [[nodiscard]] bool is_done() const { return result_.found.size() >= kMostFittingChanges; }

  /// Finds what changes so many fields, on more than `fewer` and at most `most` GPUs.
  void look_at(int num_fields, std::int64_t fewer, std::int64_t most) {
    if (is_done() || !result_.is_complete || fewer >= most) {
      return;
    }
    num_fields_ = static_cast<std::size_t>(num_fields);
    fewer_ = fewer;
    most_ = most;
    for (std::size_t a = 0; a < changes_.size(); ++a) {
      if (num_fields == 1) {
        consider({a});
        continue;
      }
      for (std::size_t b = a + 1; b < changes_.size(); ++b) {
        if (changes_[a].key == changes_[b].key) {
          continue;
        }
        if (num_fields == 2) {
          consider({a, b});
        } else if (belong_together(changes_[a], changes_[b], from_, changed({a, b}),
                                   options_.gpus)) {
          for (std::size_t c = 0; c < changes_.size(); ++c) {
            if (changes_[c].key != changes_[a].key && changes_[c].key != changes_[b].key) {
              consider({a, b, c});
            }
          }
        }
      }
    }
    take_best();
  }

  /// Returns the configuration with these changes, applied in the order of the fields.
  [[nodiscard]] ParallelConfig changed(std::vector<std::size_t> places) const {
    std::ranges::sort(places);
    ParallelConfig config = from_;
    for (const std::size_t place : places) {
      changes_[place].apply(config);
    }
    return settled(std::move(config));
  }

  void consider(const std::vector<std::size_t>& places) {
    if (!result_.is_complete || options_.limit.is_over()) {
      result_.is_complete = false;
      return;
    }
    FittingChange change{.candidate = {.config = changed(places)}};
    const ParallelConfig& config = change.candidate.config;
    if (config.world_size() <= fewer_ || config.world_size() > most_ || !has_its_schedule(config)) {
      return;
    }
    change.fields = changed_fields(from_, config, scenario_.stack.can_run);
    if (change.fields.size() != num_fields_ || !seen_.insert(config).second ||
        find_violation({scenario_, config}, capacity_) || options_.leaves_out(config)) {
      return;
    }
    change.candidate.costs = costs_.find(config);
    const PlannedJob job(scenario_, config, change.candidate.costs.get());
    const Seconds least = is_simulated(config) ? least_step_time(job) : iteration_cost(job).total();
    open_.push({score(least, config, options_.objective), std::move(change), false});
  }

  /// Returns whether a change that was found needs no other fields and is as good; on more GPUs
  /// than there are, whether it needs no other fields.
  [[nodiscard]] bool is_beaten(const Neighbour& neighbour) const {
    const FittingChange& change = neighbour.change;
    return std::ranges::any_of(result_.found, [&](const FittingChange& found) {
      const double found_score =
          score(found.candidate.time, found.candidate.config, options_.objective);
      return (fewer_ > 0 || found_score <= neighbour.score) &&
             std::ranges::all_of(found.fields, [&](std::string_view field) {
               return contains(change.fields, field);
             });
    });
  }

  /// Takes the best of what was considered, simulated only where no bound decides.
  void take_best() {
    while (!open_.empty() && !is_done()) {
      Neighbour neighbour = open_.top();
      open_.pop();
      if (is_beaten(neighbour)) {
        continue;
      }
      Candidate& candidate = neighbour.change.candidate;
      if (neighbour.is_exact) {
        result_.found.push_back(std::move(neighbour.change));
        continue;
      }
      const PlannedJob job(scenario_, candidate.config, candidate.costs.get());
      candidate.time = times_.find(job);
      candidate.memory = peak_memory(job);
      neighbour.score = score(candidate.time, candidate.config, options_.objective);
      neighbour.is_exact = true;
      open_.push(std::move(neighbour));
    }
    open_ = {};
  }

  Scenario scenario_;
  const SearchOptions& options_;
  ParallelConfig from_;
  Bytes capacity_;
  CostsCache costs_;
  IterationTimes times_;
  std::int64_t most_gpus_;
  std::vector<FieldChange> changes_;
  std::set<ParallelConfig> seen_;
  std::priority_queue<Neighbour, std::vector<Neighbour>, IsWorse> open_;
  FittingChanges result_;
  std::size_t num_fields_ = 1;  ///< Fields that are changed in what is looked at.
  std::int64_t fewer_ = 0;      ///< What is looked at takes more than so many GPUs.
  std::int64_t most_ = 0;       ///< What is looked at takes at most so many GPUs.
};

}  // namespace

std::vector<std::string_view> changed_fields(const ParallelConfig& from, const ParallelConfig& to,
                                             const StackCapabilities& can_run) {
  std::vector<std::string_view> fields;
  for_each_config_field([&](const auto& field) {
    const bool is_implied =
        (field.key == "recompute_modules" && from.recompute != to.recompute &&
         to.recompute_modules == usual_modules(can_run)) ||
        (field.key == "recompute_method" && from.recompute_num_layers != to.recompute_num_layers) ||
        (field.key == "memory_limit" && from.schedule != to.schedule);
    if (from.*field.member != to.*field.member && field.applies(to) && !is_implied) {
      fields.push_back(field.key);
    }
  });
  return fields;
}

FittingChanges smallest_fitting_changes(const Scenario& scenario, const SearchOptions& options,
                                        const ParallelConfig& config) {
  return Neighbours(scenario, options, config).find();
}

}  // namespace ptdp
