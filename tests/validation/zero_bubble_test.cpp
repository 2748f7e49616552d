// Compares gains of schedules that split the backward pass with those that Zero Bubble Pipeline
// Parallelism (arXiv:2401.10241) measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// A measured gain in throughput over 1F1B, and the predicted one [%].
struct Gain {
  std::string what;
  double measured = 0.0;
  double predicted = 0.0;

  [[nodiscard]] double error() const { return predicted - measured; }
};

double gain(Seconds time, Seconds of_one_f_one_b) {
  return 100.0 * (of_one_f_one_b / time - 1.0);
}

// Every shipped row beside that of 1F1B of the same model and microbatches.
TEST(ZeroBubbleRows, GainOverOneFOneBWhatIsMeasured) {
  std::map<std::tuple<int, std::int64_t>, CostedRun> one_f_one_b;
  std::vector<CostedRun> others;
  for (const CostedRun& run : cost_runs(read_published_runs()).costed) {
    if (run.run.group == "zero-bubble") {
      if (run.run.config.schedule == ScheduleKind::kOneFOneB) {
        one_f_one_b.insert({{run.run.model.num_layers, run.run.global_batch_size}, run});
      } else if (run.run.config.vpp == 1) {
        others.push_back(run);
      }
    }
  }
  EXPECT_EQ(others.size(), 10U);
  int compared = 0;
  for (const CostedRun& run : others) {
    const auto base = one_f_one_b.find({run.run.model.num_layers, run.run.global_batch_size});
    if (base != one_f_one_b.end()) {
      EXPECT_NEAR(gain(run.predicted, base->second.predicted),
                  gain(run.run.iteration_time, base->second.run.iteration_time), 3.0)
          << run.run.id;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 3);
}

/// A model of table 3 (layers, heads, hidden size, stages, microbatch size). Table 4 has its
/// samples per GPU and second with three numbers of microbatches.
struct Model {
  const char* name;
  int num_layers;
  int num_heads;
  int hidden_size;
  int pp;
  int micro_batch_size;
  std::array<int, 3> microbatches;
  std::array<double, 3> zb_2p;
  std::array<double, 3> zb_1p;
  std::array<double, 3> one_f_one_b;
  std::array<double, 2> memory;  // of 1F1B and ZB-2p [GB]
};
constexpr std::array kModels = {Model{"1.5B",
                                      22,
                                      24,
                                      2304,
                                      8,
                                      6,
                                      {24, 32, 64},
                                      {14.5, 14.8, 14.9},
                                      {12.9, 13.4, 14.2},
                                      {11.8, 12.5, 13.6},
                                      {30, 59}},
                                Model{"6.2B",
                                      30,
                                      32,
                                      4096,
                                      8,
                                      3,
                                      {24, 32, 64},
                                      {4.32, 4.35, 4.39},
                                      {3.88, 4.00, 4.20},
                                      {3.50, 3.70, 4.03},
                                      {39, 70}},
                                Model{"14.6B",
                                      46,
                                      40,
                                      5120,
                                      16,
                                      1,
                                      {48, 64, 128},
                                      {1.81, 1.83, 1.85},
                                      {1.61, 1.67, 1.76},
                                      {1.40, 1.49, 1.64},
                                      {32, 51}},
                                Model{"28.3B",
                                      62,
                                      48,
                                      6144,
                                      32,
                                      1,
                                      {96, 128, 256},
                                      {0.99, 1.00, 1.00},
                                      {0.87, 0.90, 0.96},
                                      {0.76, 0.80, 0.88},
                                      {43, 74}}};

Scenario scenario_of(const Model& model, int num_microbatches) {
  return {.job = {.model_name = model.name,
                  .model = resolved({.num_layers = model.num_layers,
                                     .hidden_size = model.hidden_size,
                                     .num_attention_heads = model.num_heads,
                                     .vocab_size = 32000,
                                     .seq_length = 1024},
                                    "table 3"),
                  .global_batch_size = std::int64_t{num_microbatches} * model.micro_batch_size},
          .cluster = find_cluster("roce-a100"),
          .stack = find_stack("zero-bubble-2023")};
}

// The first stage and the last hold a layer less than the others (section 5.1).
ParallelConfig config_of(const Model& model, ScheduleKind schedule) {
  ParallelConfig config{
      .pp = model.pp, .micro_batch_size = model.micro_batch_size, .schedule = schedule};
  config.layers_per_stage.assign(static_cast<std::size_t>(model.pp),
                                 (model.num_layers + 2) / model.pp);
  --config.layers_per_stage.front();
  --config.layers_per_stage.back();
  return config;
}

/// Returns the searched schedule with `times` times the memory of 1F1B.
ParallelConfig searched(const Model& model, int times) {
  ParallelConfig config = config_of(model, ScheduleKind::kZbAuto);
  config.memory_limit = times * model.pp;
  return config;
}

std::vector<Gain> gains_of(int times_the_memory, std::array<double, 3> Model::*rates) {
  std::vector<Gain> gains;
  for (const Model& model : kModels) {
    for (std::size_t i = 0; i < model.microbatches.size(); ++i) {
      const Scenario scenario = scenario_of(model, model.microbatches.at(i));
      const auto predicted = [&](const ParallelConfig& config) {
        return iteration_cost({scenario, config}).total();
      };
      gains.push_back({model.name + std::string(", ") + std::to_string(model.microbatches.at(i)),
                       100.0 * ((model.*rates).at(i) / model.one_f_one_b.at(i) - 1.0),
                       gain(predicted(searched(model, times_the_memory)),
                            predicted(config_of(model, ScheduleKind::kOneFOneB)))});
      std::cout << "ZB-" << times_the_memory << "p " << gains.back().what << ": measured "
                << gains.back().measured << " %, predicted " << gains.back().predicted << " %\n";
    }
  }
  return gains;
}

std::vector<std::string> beyond_three_points(const std::vector<Gain>& gains) {
  std::vector<std::string> beyond;
  for (const Gain& gain : gains) {
    if (std::abs(gain.error()) > 3.0) {
      beyond.push_back(gain.what);
    }
  }
  return beyond;
}

// The paper's own calculation for ZB-H1 from times that it profiled (tables 5 and 9) is above what
// it measures, too: 13.4 % and 16.7 % where 10.9 % and 14.5 % are measured (6.2B, 24; 28.3B, 96).
// The rest of what is missing is that weight gradients are predicted to take 4 to 12 % longer than
// its profile has them, and all three passes together as long.
TEST(ZeroBubbleTable4, GainsWithOneMemoryWithinThreePointsInTenOfTwelve) {
  const std::vector<Gain> gains = gains_of(1, &Model::zb_1p);
  EXPECT_EQ(beyond_three_points(gains), (std::vector<std::string>{"6.2B, 24", "28.3B, 96"}));
  for (const Gain& gain : gains) {
    EXPECT_NEAR(gain.predicted, gain.measured, 5.0) << gain.what;
  }
}

// For the smallest model, whose W takes half of F, its authors calculate bubbles of 4.3 and 0.4 %
// where ZB-H2's are 10.8 and 8.4 % (table 5); their search gains more there than ours.
TEST(ZeroBubbleTable4, GainsWithTwiceTheMemoryWithinThreePointsButForTheSmallestModel) {
  const std::vector<Gain> gains = gains_of(2, &Model::zb_2p);
  EXPECT_EQ(beyond_three_points(gains), (std::vector<std::string>{"1.5B, 24", "1.5B, 32"}));
  for (const Gain& gain : gains) {
    EXPECT_NEAR(gain.predicted, gain.measured, 5.5) << gain.what;
  }
}

// What PyTorch allocates, without what the card and NCCL need. Printed are whole gigabytes. ZB-2p
// may hold 2p microbatches, and is printed with the memory of 2p - 1: the limit of its authors
// counts that input gradients free a part of each.
TEST(ZeroBubbleTable4, TakesTheMemoryThatIsPrinted) {
  for (const Model& model : kModels) {
    const Scenario scenario = scenario_of(model, model.microbatches.back());
    for (const auto& [config, printed] :
         {std::pair(config_of(model, ScheduleKind::kOneFOneB), model.memory[0]),
          std::pair(searched(model, 2), model.memory[1])}) {
      Bytes heaviest;
      for (const MemoryBreakdown& stage : memory_by_rank({scenario, config})) {
        heaviest = std::max(heaviest, stage.total() - stage.reserve);
      }
      std::cout << model.name << ' ' << name_of(config.schedule) << ": " << heaviest.value() / kGiga
                << " GB, printed " << printed << '\n';
      const double tolerance = config.memory_limit ? 0.06 : 0.035;
      EXPECT_NEAR(heaviest.value() / kGiga / printed, 1.0, tolerance) << model.name;
    }
  }
}

}  // namespace
}  // namespace ptdp
