// Tries sets of modules and numbers of layers to recompute, for plans of a search.
#include "planner/search/derived_search.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "planner/search/costs_cache.h"
#include "planner/search/finalists.h"
#include "planner/search/ties.h"

namespace ptdp {
namespace {

bool is_pinned(const SearchSpace& space) {
  return !space.recompute.empty() || space.recompute_modules.has_value() ||
         space.recompute_num_layers.has_value();
}

/// Returns the modules that the stack can recompute and that save memory in the model's layers.
std::vector<RecomputeModule> useful_modules(const Scenario& scenario) {
  const TransformerConfig& model = scenario.job.model;
  const bool is_latent = has_latent_attention(model);
  const bool has_experts = model.num_experts > 0;
  const auto saves = [&](RecomputeModule module) {
    switch (module) {
      case RecomputeModule::kCoreAttention:
        return activation_storage(model, scenario.stack).stores_scores;
      case RecomputeModule::kMoeActivation:
      case RecomputeModule::kMoe:
        return has_experts;
      case RecomputeModule::kLayerNorm:
        return is_latent || has_experts;
      case RecomputeModule::kMlaUpProjection:
        return is_latent;
      case RecomputeModule::kMlp:
        return num_expert_layers(model) < model.num_layers;
      case RecomputeModule::kSharedExperts:
        return model.moe_shared_expert_intermediate_size > 0;
      case RecomputeModule::kEverySecondProduct:
        return false;  // whole layers: searched by itself
    }
    return false;
  };
  std::vector<RecomputeModule> modules = scenario.stack.can_run.recompute_modules.list();
  std::erase_if(modules, [&](RecomputeModule module) { return !saves(module); });
  return modules;
}

/// Finds, for one base configuration after another, the best plan that recomputes less.
class Derivation {
 public:
  Derivation(const Scenario& scenario, const SearchOptions& options)
      : scenario_(scenario),
        options_(options),
        capacity_(usable_memory(scenario.cluster.gpu, options.memory_headroom)),
        costs_(scenario),
        sets_(useful_module_sets(scenario)) {}

  /// Returns the best plan that recomputes less than `base` and scores below `worst`. Returns
  /// nullopt when there is none, or when `base` fits without recomputation.
  [[nodiscard]] std::optional<Candidate> best_of(const ParallelConfig& base, double worst) {
    best_.reset();
    worst_ = worst;
    ParallelConfig config = with(base, Recompute::kNone);
    if (fits(config) || bound_of(config) >= worst_) {
      return std::nullopt;
    }
    for (const RecomputeModules& modules : sets_) {
      config = with(base, Recompute::kSelective);
      config.recompute_modules = modules;
      consider(config);
    }
    for (const RecomputeMethod method : scenario_.stack.can_run.recompute_methods) {
      consider_layers(with(base, Recompute::kFull), method);
    }
    return best_;
  }

 private:
  static ParallelConfig with(ParallelConfig config, Recompute recompute) {
    config.recompute = recompute;
    config.recompute_modules = kCoreAttentionAlone;
    config.recompute_num_layers = 0;
    return config;
  }

  [[nodiscard]] bool fits(const ParallelConfig& config) const {
    return !find_violation({scenario_, config}, capacity_).has_value();
  }

  /// Returns a lower bound of the configuration's score.
  [[nodiscard]] double bound_of(const ParallelConfig& config) {
    const PlannedJob job(scenario_, config, costs_.find(config).get());
    const Seconds time = is_simulated(config) ? least_step_time(job) : iteration_cost(job).total();
    return score(time, config, options_.objective);
  }

  void consider(const ParallelConfig& config) {
    if (bound_of(config) >= worst_ || !fits(config) || options_.leaves_out(config)) {
      return;
    }
    const auto& costs = costs_.find(config);
    const PlannedJob job(scenario_, config, costs.get());
    const StepBound bound = times_.bound(job);
    count_bound(options_.limit, job, bound);
    if (score(bound.time, config, options_.objective) >= worst_) {
      return;
    }
    if (!bound.is_exact) {
      count_contended(options_.limit, job);
    }
    const Seconds time = times_.find(job);
    const double value = score(time, config, options_.objective);
    if (value < worst_) {
      worst_ = value;
      best_ = Candidate{config, time, peak_memory(job), costs};
    }
  }

  /// Considers the fewest recomputed layers that fit: fewer are faster. The uniform method is
  /// skipped, since it recomputes all layers.
  void consider_layers(ParallelConfig config, RecomputeMethod method) {
    if (method == RecomputeMethod::kUniform) {
      return;
    }
    config.recompute_method = method;
    const int most = longest_layer_range(scenario_.job.model, config);
    for (int fewest = 1; fewest < most; ++fewest) {
      config.recompute_num_layers = method == RecomputeMethod::kEvery ? most - fewest + 1 : fewest;
      if (fits(config) && !options_.leaves_out(config)) {
        consider(config);
        return;
      }
    }
  }

  const Scenario& scenario_;
  const SearchOptions& options_;
  Bytes capacity_;
  CostsCache costs_;
  IterationTimes times_;
  std::vector<RecomputeModules> sets_;
  double worst_ = 0.0;  ///< Score that a plan has to stay below.
  std::optional<Candidate> best_;
};

/// Updates the ties of a search whose best have changed; these are in order.
void merge_ties(const SearchOptions& options, SearchResult& found) {
  if (options.tie == 0.0) {
    return;
  }
  const auto score_of = [&](const Candidate& candidate) {
    return score(candidate.time, candidate.config, options.objective);
  };
  const double most = (1.0 + options.tie) * score_of(found.best.front());
  std::erase_if(found.ties, [&](const Candidate& tie) { return score_of(tie) > most; });
  std::set<ParallelConfig> known;
  for (const Candidate& tie : found.ties) {
    known.insert(tie.config);
  }
  for (const Candidate& candidate : found.best) {
    if (score_of(candidate) <= most && known.insert(candidate.config).second) {
      found.ties.push_back(candidate);
    }
  }
  std::ranges::sort(found.ties, [&](const Candidate& a, const Candidate& b) {
    return score_of(a) != score_of(b) ? score_of(a) < score_of(b) : a.config < b.config;
  });
}

}  // namespace

std::vector<RecomputeModules> useful_module_sets(const Scenario& scenario) {
  const std::vector<RecomputeModule> modules = useful_modules(scenario);
  std::vector<RecomputeModules> sets;
  for (unsigned bits = 1; bits < 1U << modules.size(); ++bits) {
    RecomputeModules set;
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if ((bits >> i & 1U) != 0) {
        set.add(modules[i]);
      }
    }
    const bool is_redundant =
        set.has(RecomputeModule::kMoe) &&
        (set.has(RecomputeModule::kMoeActivation) || set.has(RecomputeModule::kSharedExperts));
    if (!is_redundant && set != usual_modules(scenario.stack.can_run)) {
      sets.push_back(set);
    }
  }
  return sets;
}

void add_derived_plans(const Scenario& scenario, const SearchOptions& options,
                       SearchResult& found) {
  if (is_pinned(options.space) || found.best.empty()) {
    return;
  }
  const auto score_of = [&](const Candidate& candidate) {
    return score(candidate.time, candidate.config, options.objective);
  };
  const auto num_best = static_cast<std::size_t>(options.num_best);
  const double worst = found.best.size() < num_best ? std::numeric_limits<double>::infinity()
                                                    : score_of(found.best.back());
  std::set<ParallelConfig> seen;
  Derivation derivation(scenario, options);
  const auto derive = [&](const ParallelConfig& base, double to_beat) -> std::optional<Candidate> {
    if (options.limit.is_over()) {
      found.unseen = found.unseen.value_or(Unseen{});
      found.is_proven = false;
      return std::nullopt;
    }
    ParallelConfig but_recompute = base;
    but_recompute.recompute = Recompute::kNone;
    but_recompute.recompute_modules = kCoreAttentionAlone;
    return seen.insert(but_recompute).second ? derivation.best_of(base, to_beat) : std::nullopt;
  };
  std::vector<Candidate> bases = found.best;
  bases.insert(bases.end(), found.pareto.begin(), found.pareto.end());
  for (const Candidate& base : bases) {
    if (const auto derived = derive(base.config, std::min(worst, score_of(base)))) {
      found.best.push_back(*derived);
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : found.best) {
    best = std::min(best, score_of(candidate));
  }
  for (const ParallelConfig& base : found.recomputing) {
    if (const auto derived = derive(base, best)) {
      best = score_of(*derived);
      found.best.push_back(*derived);
    }
  }
  std::sort(found.best.begin(), found.best.end(), [&](const Candidate& a, const Candidate& b) {
    return score_of(a) != score_of(b) ? score_of(a) < score_of(b) : a.config < b.config;
  });
  merge_ties(options, found);
  found.best.resize(std::min(found.best.size(), num_best));
}

void derive_and_choose(const Scenario& scenario, const SearchOptions& options,
                       SearchResult& found) {
  add_derived_plans(scenario, options, found);
  choose_among_ties(scenario, options, found);
}

}  // namespace ptdp
