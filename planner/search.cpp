#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "cost_model/analytic/iteration.h"
#include "cost_model/analytic/memory.h"
#include "cost_model/analytic/partition.h"
#include "cost_model/analytic/rank_parameters.h"
#include "cost_model/analytic/spread.h"
#include "cost_model/analytic/stage.h"
#include "cost_model/spec/parameter_counts.h"
#include "planner/costs_cache.h"
#include "planner/finalists.h"

namespace ptdp {
namespace {

constexpr double kMostWalkedActions = 2e5;  // of a schedule whose memory is walked through
constexpr double kMostKeptActions = 2e6;    // of all of them: 32 MB

bool is_smaller(const MemoryShortfall& a, const MemoryShortfall& b) {
  return std::tie(a.missing, a.config) < std::tie(b.missing, b.config);
}

/// What one tensor-parallel size contributes; merged in order of size, so that the number of
/// threads leaves no trace.
struct PartialResult {
  SearchResult tally;  // without best and pareto
  std::vector<Candidate> feasible;
  std::vector<Candidate> bounded;  ///< Feasible too, with a lower bound of their time.
};

/// Searches all candidates of one tensor-parallel size.
class TensorParallelSearch {
 public:
  TensorParallelSearch(const Scenario& scenario, const SearchOptions& options,
                       const std::vector<Replicas>& replicas)
      : scenario_(scenario),
        options_(options),
        replicas_(replicas),
        capacity_(usable_memory(scenario.cluster.gpu, options.memory_headroom)),
        costs_(scenario),
        is_exact_(scenario.stack.memory_model == MemoryModel::kPtdp),
        is_uniform_(has_one_kind(scenario.job.model)) {}

  PartialResult run(int tp) {
    for (const ParallelConfig& split :
         enumerate_splits(scenario_, options_.gpus, options_.pins, tp)) {
      if (const auto violation = find_split_violation(scenario_, split)) {
        reject(*violation);
        continue;
      }
      for (const ParallelConfig& variant : enumerate_variants(scenario_, options_.pins, split)) {
        if (const auto violation = find_variant_violation(scenario_, variant)) {
          reject(*violation);
        } else {
          search_replicas(variant);
        }
      }
    }
    return std::move(result_);
  }

 private:
  void search_replicas(ParallelConfig config) {
    for (const Replicas& replicas : replicas_) {
      config.dp = replicas.dp;
      if (is_candidate(scenario_, config, options_.gpus, options_.pins)) {
        if (config.layers_per_stage.empty() && !is_exact_ && is_uniform_) {
          search_micro_batch_sizes(config, replicas.micro_batch_sizes);
        } else {
          search_one_by_one(config, replicas.micro_batch_sizes);
        }
      }
    }
  }

  void search_micro_batch_sizes(ParallelConfig config, const std::vector<int>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      config.micro_batch_size = sizes[i];
      if (const auto violation = find_batch_violation(scenario_, config)) {
        reject(*violation);
        continue;
      }
      const Bytes first = stage_memory(scenario_, config, 0).total();
      const Bytes last = stage_memory(scenario_, config, config.pp - 1).total();
      const Bytes memory = std::max(first, last);
      if (memory > capacity_) {
        note_shortfall({config, memory - capacity_});
        reject_larger(config, sizes, i, first > capacity_);
        return;
      }
      keep(config, costs_.find(config), memory);
    }
  }

  /// The same where memory may fall with the size, as where layers per stage that depend on the
  /// microbatch move: sizes count without being looked at only beyond one at which no split fits.
  void search_one_by_one(ParallelConfig config, const std::vector<int>& sizes) {
    std::optional<Constraint> beyond_any_split;
    for (const int size : sizes) {
      config.micro_batch_size = size;
      if (const auto violation = find_batch_violation(scenario_, config)) {
        reject(*violation);
        continue;
      }
      if (beyond_any_split) {
        reject(*beyond_any_split);
        continue;
      }
      if (!config.layers_per_stage.empty()) {
        config.layers_per_stage = balanced_layers_of(config);
      }
      const MemoryViolation memory = find_memory_violation(config);
      if (!memory.constraint) {
        keep(config, costs_.find(config), memory.largest);
        continue;
      }
      note_shortfall({config, memory.largest - capacity_});
      reject(*memory.constraint);
      if (least_memory_of_any_split(config) > capacity_) {
        beyond_any_split = memory.constraint;
      }
    }
  }

  /// The largest memory that was looked at, and whose it is if it does not fit.
  struct MemoryViolation {
    Bytes largest;
    std::optional<Constraint> constraint = std::nullopt;
  };

  /// In find_violation's order: the ends first, which most often decide.
  [[nodiscard]] MemoryViolation find_memory_violation(const ParallelConfig& config) {
    if (is_exact_) {
      const std::vector<MemoryBreakdown> stages = memory_of_stages(config);
      MemoryViolation memory{.constraint = ptdp::find_memory_violation(stages, capacity_)};
      for (const MemoryBreakdown& stage : stages) {
        memory.largest = std::max(memory.largest, stage.total());
      }
      return memory;
    }
    const Bytes first = stage_memory(scenario_, config, 0).total();
    if (first > capacity_) {
      return {first, Constraint::kMemoryFirstStage};
    }
    const Bytes last = stage_memory(scenario_, config, config.pp - 1).total();
    if (last > capacity_) {
      return {last, Constraint::kMemoryLastStage};
    }
    const Bytes largest = peak_memory(scenario_, config);
    return {largest,
            largest > capacity_ ? std::optional(Constraint::kMemoryMiddleStage) : std::nullopt};
  }

  /// By orders that several configurations share. Those that depend on durations, and long ones,
  /// are not made here, where every candidate comes by.
  std::vector<MemoryBreakdown> memory_of_stages(const ParallelConfig& config) {
    const double actions = num_actions_with_messages(scenario_, config);
    if (config.pp == 1 || config.schedule == ScheduleKind::kZbAuto ||
        actions > kMostWalkedActions) {
      std::vector<MemoryBreakdown> stages;
      stages.reserve(static_cast<std::size_t>(config.pp));
      for (int stage = 0; stage < config.pp; ++stage) {
        stages.push_back(stage_memory(scenario_, config, stage));
      }
      return stages;
    }
    const OrdersKey key = {config.schedule, config.pp, config.vpp,
                           num_microbatches(scenario_.job.global_batch_size, config)};
    auto found = orders_.find(key);
    if (found == orders_.end()) {
      num_kept_actions_ += actions;
      if (num_kept_actions_ > kMostKeptActions) {
        orders_.clear();
        num_kept_actions_ = actions;
      }
      found = orders_.emplace(key, schedule_with_messages(scenario_, config)).first;
    }
    return memory_by_stage(scenario_, config, found->second);
  }

  /// What the stage with most layers holds at least, however layers are split: the state of their
  /// matrices and the activations of one microbatch in one chunk. Grows with the microbatch.
  [[nodiscard]] Bytes least_memory_of_any_split(const ParallelConfig& config) const {
    const TransformerConfig& model = scenario_.job.model;
    const double layers = std::ceil(1.0 * model.num_layers / config.pp);
    Bytes least(std::numeric_limits<double>::infinity());
    for_each_kind(layers_of_model(model), [&](std::size_t kind, double /*count*/) {
      least = std::min(least, least_memory_of_layer(config, kLayerKinds[kind]));
    });
    return layers * least + scenario_.cluster.gpu.memory * scenario_.stack.reserve_fraction;
  }

  [[nodiscard]] Bytes least_memory_of_layer(const ParallelConfig& config, LayerKind kind) const {
    const TransformerConfig& model = scenario_.job.model;
    const LayerWeights weights = layer_matrices(model, kind.has_experts);
    const RankParameters held = {.dense = weights.split / config.tp,
                                 .experts = weights.experts / config.ep / config.etp};
    return model_state(scenario_.stack, config, held) +
           kept_by_layer(scenario_, config, kind) / config.vpp;
  }

  /// The balanced split, which neither dp nor the ZeRO stage changes; an even one where there is no
  /// balanced one.
  const std::vector<int>& balanced_layers_of(const ParallelConfig& config) {
    const BalancedShape shape = {config.tp,           config.pp,        config.vpp,
                                 config.schedule,     config.recompute, config.sequence_parallel,
                                 config.memory_limit, config.cp,        config.ep,
                                 config.etp};
    if (shape != balanced_shape_) {
      balanced_shape_ = shape;
      balanced_.clear();
    }
    const auto found = balanced_.find(config.micro_batch_size);
    if (found != balanced_.end()) {
      return found->second;
    }
    auto layers = balanced_layers(scenario_, config, costs_.find(config));
    return balanced_
        .emplace(config.micro_batch_size,
                 layers ? std::move(*layers)
                        : even_split(scenario_.job.model.num_layers, config.pp * config.vpp))
        .first->second;
  }

  void keep(const ParallelConfig& config, const MicrobatchCosts& costs, Bytes memory) {
    ++result_.tally.enumerated;
    if (is_in_closed_form(config)) {
      const Seconds time = iteration_cost(scenario_, config, costs, std::nullopt).total();
      result_.feasible.push_back({config, time, memory});
    } else {
      result_.bounded.push_back({config, least_time(scenario_, config, costs), memory});
    }
  }

  /// Counts the sizes from `too_large` on, none of which fits; where the first stage does not, it
  /// does not for any larger one.
  void reject_larger(ParallelConfig config, const std::vector<int>& sizes, std::size_t too_large,
                     bool is_first_stage) {
    for (std::size_t i = too_large; i < sizes.size(); ++i) {
      config.micro_batch_size = sizes[i];
      if (const auto violation = find_batch_violation(scenario_, config)) {
        reject(*violation);
        continue;
      }
      is_first_stage = is_first_stage || stage_memory(scenario_, config, 0).total() > capacity_;
      reject(is_first_stage ? Constraint::kMemoryFirstStage : Constraint::kMemoryLastStage);
    }
  }

  void reject(Constraint constraint) {
    ++result_.tally.enumerated;
    ++result_.tally.violations[constraint];
  }

  void note_shortfall(const MemoryShortfall& shortfall) {
    std::optional<MemoryShortfall>& smallest = result_.tally.shortfall;
    if (!smallest.has_value() || is_smaller(shortfall, *smallest)) {
      smallest = shortfall;
    }
  }

  using OrdersKey = std::tuple<ScheduleKind, int, int, std::int64_t>;
  using BalancedShape =
      std::tuple<int, int, int, ScheduleKind, Recompute, bool, std::optional<int>, int, int, int>;

  const Scenario& scenario_;
  const SearchOptions& options_;
  const std::vector<Replicas>& replicas_;
  Bytes capacity_;
  CostsCache costs_;
  BalancedShape balanced_shape_ = {};         // what balanced_ is for
  std::map<int, std::vector<int>> balanced_;  // by microbatch size
  bool is_exact_;                             // memory by the orders of schedules
  bool is_uniform_;                           // layers all alike
  std::map<OrdersKey, Schedule> orders_;
  double num_kept_actions_ = 0.0;
  PartialResult result_;
};

void merge(SearchResult& total, const SearchResult& part) {
  total.enumerated += part.enumerated;
  for (const auto& [constraint, count] : part.violations) {
    total.violations[constraint] += count;
  }
  if (part.shortfall.has_value() &&
      (!total.shortfall.has_value() || is_smaller(*part.shortfall, *total.shortfall))) {
    total.shortfall = part.shortfall;
  }
}

std::vector<Candidate> best_of(std::vector<Candidate>& candidates, const SearchOptions& options) {
  // Equal scores fall back to the configuration itself, so that a search is reproducible.
  const auto is_better = [&](const Candidate& a, const Candidate& b) {
    const double score_a = score(a.time, a.config, options.objective);
    const double score_b = score(b.time, b.config, options.objective);
    return score_a != score_b ? score_a < score_b : a.config < b.config;
  };
  const auto count = std::min<std::size_t>(options.num_best, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates.end(), is_better);
  return {candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Candidate> pareto_front(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.memory, a.config) < std::tie(b.time, b.memory, b.config);
  });
  std::vector<Candidate> front;
  for (const Candidate& candidate : candidates) {
    if (front.empty() || candidate.memory < front.back().memory) {
      front.push_back(candidate);
    }
  }
  return front;
}

/// Runs task(0) to task(count − 1), each once, on up to `num_threads` threads, and throws what the
/// first of them to fail threw.
void run_tasks(std::size_t count, int num_threads, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;  // joined at the end of the block
    try {
      for (std::size_t i = 1; i < std::min<std::size_t>(num_threads, count); ++i) {
        helpers.emplace_back(work);
      }
    } catch (const std::system_error&) {
      // The system has no more threads to give; those that run do the work.
    }
    work();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

}  // namespace

double score(Seconds time, const ParallelConfig& config, Objective objective) {
  const bool counts_gpus = objective == Objective::kCost;
  return time.value() * (counts_gpus ? static_cast<double>(config.world_size()) : 1.0);
}

double loss(const Candidate& candidate, const Candidate& best, Objective objective) {
  return score(candidate.time, candidate.config, objective) /
             score(best.time, best.config, objective) -
         1.0;
}

SearchResult search(const Scenario& scenario, const SearchOptions& options) {
  WaitsCache simulations;
  return search(scenario, options, simulations);
}

SearchResult search(const Scenario& scenario, const SearchOptions& options,
                    WaitsCache& simulations) {
  const Pins& pins = options.pins;
  const Scenario widened = pins.any_stack             ? with_every_schedule(scenario)
                           : pins.allow_stale_weights ? with_stale_weights(scenario)
                                                      : scenario;
  const std::vector<int> sizes = enumerate_tp(widened, options.gpus, options.pins);
  const std::vector<Replicas> replicas = enumerate_replicas(widened, options.gpus, options.pins);
  std::vector<PartialResult> parts(sizes.size());
  run_tasks(sizes.size(), options.num_threads, [&](std::size_t i) {
    parts[i] = TensorParallelSearch(widened, options, replicas).run(sizes[i]);
  });

  SearchResult result;
  std::vector<Candidate> feasible;
  std::vector<Candidate> bounded;
  for (PartialResult& part : parts) {
    merge(result, part.tally);
    feasible.insert(feasible.end(), std::make_move_iterator(part.feasible.begin()),
                    std::make_move_iterator(part.feasible.end()));
    bounded.insert(bounded.end(), std::make_move_iterator(part.bounded.begin()),
                   std::make_move_iterator(part.bounded.end()));
  }
  result.feasible = static_cast<std::int64_t>(feasible.size() + bounded.size());
  feasible =
      simulate_finalists(widened, options, std::move(feasible), std::move(bounded), simulations);
  result.best = best_of(feasible, options);
  if (options.wants_front) {
    result.pareto = pareto_front(feasible);
  }
  return result;
}

}  // namespace ptdp
