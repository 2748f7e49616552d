// Jobs on shipped models, clusters and stacks, and configurations of them, drawn at random.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"

namespace ptdp {

/// Returns the number in an environment variable, or `usual` without the variable.
[[nodiscard]] inline std::int64_t number_of(const char* variable, std::int64_t usual) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
  return text == nullptr ? usual : std::atoll(text);
}

/// A random question to a planner.
struct RandomQuery {
  Scenario scenario;
  std::int64_t gpus = 0;
  SearchSpace space;
};

/// A random configuration that can run, whatever memory it takes.
struct RandomCandidate {
  Scenario scenario;  ///< The query's scenario with a stack that runs the candidate's schedule.
  ParallelConfig config;
};

/// Draws from one seed: equal seeds give equal queries.
class QueryLottery {
 public:
  explicit QueryLottery(std::uint64_t seed) : random_(seed) {}

  /// Draws a query on up to `most_gpus`, for the schedules of its stack or for one of all that
  /// exist.
  [[nodiscard]] RandomQuery draw_query(std::int64_t most_gpus) {
    static const std::vector<std::string> models = list_profiles(ProfileKind::kModel);
    static const std::vector<std::string> clusters = list_profiles(ProfileKind::kCluster);
    static const std::vector<std::string> stacks = list_profiles(ProfileKind::kStack);
    while (true) {
      const ModelProfile model = find_model(one_of(models));
      const std::int64_t batch =
          one_of(std::vector<std::int64_t>{model.global_batch_size, 16, 96, 128, 512, 1024});
      RandomQuery query{
          .scenario = {
              .job = {.model_name = model.name, .model = model.config, .global_batch_size = batch},
              .cluster = find_cluster(one_of(clusters)),
              .stack = find_stack(one_of(stacks))}};
      do {
        query.gpus = one_of(std::vector<std::int64_t>{8, 16, 24, 64, 96, 256, 1000, 1024, 4096});
      } while (query.gpus > most_gpus);
      if (happens(50)) {
        query.space.ignores_stack_support = true;
        query.space.schedules = {one_of(kScheduleNames).value};
      }
      if (happens(10)) {
        query.space.rank_orders = {RankOrder::kTpCpEpDpPp, RankOrder::kTpCpEpPpDp};
      }
      if (happens(10)) {
        query.space.offload = {Offload::kNone, Offload::kOptimizer, Offload::kActivations};
      }
      try {
        check(query.scenario);
        return query;
      } catch (const Error&) {
        continue;  // a stack that does not run there
      }
    }
  }

  /// Draws a candidate whose step is simulated. Some of those with a pipeline have uneven layers.
  [[nodiscard]] RandomCandidate draw_candidate(std::int64_t most_gpus) {
    while (true) {
      const RandomQuery query = draw_query(most_gpus);
      const Scenario judged =
          query.space.ignores_stack_support ? with_every_schedule(query.scenario) : query.scenario;
      std::vector<Degrees> splits = enumerate_degrees(
          judged, query.gpus, query.space, one_of(enumerate_tp(judged, query.gpus, query.space)));
      if (happens(80)) {  // one stage is the commonest choice
        std::erase_if(splits, [](const Degrees& split) { return split.pp == 1; });
      }
      if (splits.empty()) {
        continue;
      }
      const std::vector<ParallelConfig> variants = enumerate_variants(
          judged, query.space, config_of_degrees(judged, query.space, one_of(splits)));
      const std::vector<Replicas> replicas = enumerate_replicas(judged, query.gpus, query.space);
      if (variants.empty() || replicas.empty()) {
        continue;
      }
      ParallelConfig config = one_of(variants);
      const Replicas& data = one_of(replicas);
      config.dp = data.dp;
      config.micro_batch_size = one_of(data.micro_batch_sizes);
      if (happens(30)) {
        unbalance(judged, config);
      }
      if (is_candidate(judged, config, query.gpus, query.space) &&
          traits_of(config.schedule).is_synchronous && !find_shape_violation({judged, config})) {
        return {judged, config};
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
  }
  [[nodiscard]] bool happens(int percent) { return below(100) < percent; }
  template <class Container>
  [[nodiscard]] const typename Container::value_type& one_of(const Container& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

  /// Moves a layer from one virtual stage to another.
  void unbalance(const Scenario& scenario, ParallelConfig& config) {
    const int stages = config.pp * config.vpp;
    if (config.layers_per_stage.empty()) {
      config.layers_per_stage.assign(static_cast<std::size_t>(stages),
                                     scenario.job.model.num_layers / stages);
    }
    int& from = config.layers_per_stage[static_cast<std::size_t>(below(stages))];
    if (from > 1) {
      --from;
      ++config.layers_per_stage[static_cast<std::size_t>(below(stages))];
    }
  }

  std::mt19937_64 random_;
};

}  // namespace ptdp
