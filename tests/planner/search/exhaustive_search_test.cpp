// Compares the search with its specification, on small jobs of every kind. search_test and
// family_search_test compare the specification with loops over all degrees.
#include "planner/search/exhaustive_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

struct Job {
  const char* name;
  const char* model;
  const char* cluster;
  const char* stack;
  std::int64_t batch;
  std::int64_t gpus;
  std::function<void(Scenario&, SearchOptions&)> change;
};

void leave_as_it_is(Scenario& /*scenario*/, SearchOptions& /*options*/) {}

std::vector<Job> small_jobs() {
  return {{"a GPT", "gpt2-1.5b", "selene-a100", "megatron-lm-2022", 12, 8, leave_as_it_is},
          {"fewer GPUs count", "gpt2-1.5b", "selene-a100", "megatron-lm-2022", 12, 10,
           [](Scenario& /*scenario*/, SearchOptions& options) {
             options.objective = Objective::kCost;
           }},
          {"little memory", "7.5B", "selene-a100", "megatron-core-2025", 16, 8,
           [](Scenario& /*scenario*/, SearchOptions& options) { options.memory_headroom = 0.4; }},
          {"layers that do not divide", "gpt2-1.5b", "selene-a100", "megatron-lm-2022", 8, 8,
           [](Scenario& scenario, SearchOptions& /*options*/) {
             scenario.job.model.num_layers = 7;
             scenario.stack.can_run.uneven_layers = true;
           }},
          {"pinned schedules", "gpt2-1.5b", "selene-a100", "megatron-lm-2022", 8, 4,
           [](Scenario& scenario, SearchOptions& options) {
             scenario.job.model.num_layers = 8;
             scenario.stack.can_run.schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kZbH1,
                                                 ScheduleKind::kGPipe};
             options.space.schedules = {ScheduleKind::kZbH1, ScheduleKind::kGPipe};
           }},
          {"full sharding", "llama-3-8b", "dgx-h100", "torchtitan-2024", 16, 16, leave_as_it_is},
          {"offloading", "gpt2-1.5b", "dgx-h100", "megatron-core-2025", 8, 4,
           [](Scenario& /*scenario*/, SearchOptions& options) {
             options.space.offload = {Offload::kNone, Offload::kOptimizer, Offload::kActivations};
           }},
          {"some left out", "gpt2-1.5b", "selene-a100", "megatron-lm-2022", 8, 8,
           [](Scenario& /*scenario*/, SearchOptions& options) {
             options.is_left_out = [](const ParallelConfig& config) {
               return config.micro_batch_size == 1 || config.pp == 2;
             };
           }}};
}

/// Returns the jobs of which everything is looked at. Looking at everything takes a sanitizer
/// seconds a job, so that it has one, with schedules of its own.
std::vector<Job> exhausted_jobs() {
  std::vector<Job> jobs = small_jobs();
#ifdef __SANITIZE_ADDRESS__
  std::erase_if(jobs,
                [](const Job& job) { return job.name != std::string_view("pinned schedules"); });
#endif
  return jobs;
}

TEST(Search, FindsWhatLookingAtEverythingFinds) {
  for (const Job& job : exhausted_jobs()) {
    SCOPED_TRACE(job.name);
    Scenario scenario = shipped_scenario(job.model, job.cluster, job.stack, job.batch);
    SearchOptions options{.gpus = job.gpus, .num_best = 20};
    job.change(scenario, options);
    const std::vector<Candidate> expected = exhaustive_search(scenario, options);
    ASSERT_GE(expected.size(), 20);
    const SearchResult found = search(scenario, options);
    EXPECT_EQ(found.feasible, std::ssize(expected));
    ASSERT_EQ(found.best.size(), 20);
    for (std::size_t i = 0; i < found.best.size(); ++i) {
      EXPECT_EQ(found.best[i].config, expected[i].config)
          << "place " << i << ": " << to_string(found.best[i].config) << ", expected "
          << to_string(expected[i].config);
      EXPECT_EQ(found.best[i].time, expected[i].time) << "place " << i;
      EXPECT_EQ(found.best[i].memory, expected[i].memory) << "place " << i;
    }
  }
}

// A plan of a candidate is made with the costs that the search had: they are those of its
// configuration.
TEST(Search, GivesCandidatesTheirCosts) {
  for (const Job& job : small_jobs()) {
    SCOPED_TRACE(job.name);
    Scenario scenario = shipped_scenario(job.model, job.cluster, job.stack, job.batch);
    SearchOptions options{.gpus = job.gpus};
    job.change(scenario, options);
    for (const Candidate& candidate : search(scenario, options).best) {
      ASSERT_NE(candidate.costs, nullptr) << to_string(candidate.config);
      const MicrobatchCosts expected = microbatch_costs(scenario, candidate.config);
      EXPECT_EQ(candidate.costs->logits.total(), expected.logits.total());
      EXPECT_EQ(candidate.costs->embedding.total(), expected.embedding.total());
      EXPECT_EQ(candidate.costs->logits_weight_gradient, expected.logits_weight_gradient);
      for (std::size_t kind = 0; kind < expected.layers.size(); ++kind) {
        EXPECT_EQ(candidate.costs->layers[kind].forward.total(),
                  expected.layers[kind].forward.total());
        EXPECT_EQ(candidate.costs->layers[kind].backward.total(),
                  expected.layers[kind].backward.total());
      }
    }
  }
}

// Every place between the best scores is what has to be beaten once, and the best one itself.
TEST(Search, FindsWhatBeatsAScoreAsLookingAtEverythingDoes) {
  for (const Job& job : exhausted_jobs()) {
    SCOPED_TRACE(job.name);
    Scenario scenario = shipped_scenario(job.model, job.cluster, job.stack, job.batch);
    SearchOptions options{.gpus = job.gpus};
    job.change(scenario, options);
    options = options.for_best_alone();
    options.num_best = 2;
    const std::vector<Candidate> all = exhaustive_search(scenario, options);
    for (const std::size_t place : {0, 1, 7}) {
      options.to_beat = score(all[place].time, all[place].config, options.objective);
      const SearchResult found = search(scenario, options);
      const auto beating = std::ranges::count_if(all, [&](const Candidate& one) {
        return score(one.time, one.config, options.objective) < options.to_beat;
      });
      ASSERT_EQ(std::ssize(found.best), std::min<std::ptrdiff_t>(beating, 2));
      for (std::size_t i = 0; i < found.best.size(); ++i) {
        EXPECT_EQ(found.best[i].config, all[i].config);
        EXPECT_EQ(found.best[i].time, all[i].time);
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
