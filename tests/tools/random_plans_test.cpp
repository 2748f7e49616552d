// Random plans of every stack, executed: each trains as one rank does and sends the bytes that its
// strategy means, or is refused by the name of the field that is not executed.
//
// PTDP_RANDOM_PLANS=2000 PTDP_RANDOM_SEED=7 random_plans_test   draws more of them, or others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "cost_model/error.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/runtime/training_harness.h"
#include "tests/tools/random_plans.h"
#include "tools/run/run_plan.h"

namespace ptdp::testing {
namespace {

constexpr double kTolerance = 1e-9;
constexpr std::int64_t kSteps = 2;
constexpr std::int64_t kUsualPlans = 120;
constexpr int kShrunkInAHundred = 20;

std::int64_t number_of(const char* variable, std::int64_t usual) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
  return text == nullptr ? usual : std::atoll(text);
}

BackendMaker host() {
  return [] { return std::make_unique<CpuBackend>(); };
}

/// Returns the settings of one rank that takes one sequence at a time, forward and backward.
TrainingSettings alone(TrainingSettings settings) {
  const ScheduleTraits& generator = *find_schedule("1f1b");
  settings.config = {};
  settings.schedule = complete(
      generator.generate({.num_microbatches = static_cast<int>(settings.global_batch_size)}),
      {.ties_embeddings = !settings.model.untied_embeddings});
  settings.stage_layers = {settings.model.num_layers};
  settings.messages = MessageMode::kBlocking;
  settings.data = DataMode::kBlocking;
  settings.overlaps_tensor = false;
  return settings;
}

/// The results of one rank for each job, computed once.
class LoneRuns {
 public:
  const Trained& of(const TrainingSettings& settings, const Scenario& scenario) {
    const std::string key = to_json(scenario.job.model) +
                            std::to_string(settings.global_batch_size) + ' ' +
                            std::to_string(settings.dropout.hidden);
    auto found = runs_.find(key);
    if (found == runs_.end()) {
      found = runs_.emplace(key, train(alone(settings), kSteps, host())).first;
    }
    return found->second;
  }

 private:
  static std::string to_json(const TransformerConfig& model) {
    ObjectWriter writer;
    describe(writer, model);
    return writer.dump();
  }
  std::map<std::string, Trained> runs_;
};

void expect_alike(const Trained& found, const Trained& expected, const std::string& what) {
  ASSERT_EQ(found.losses.size(), expected.losses.size()) << what;
  for (std::size_t step = 0; step < found.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], kTolerance * expected.losses[step])
        << what;
    EXPECT_NEAR(found.gradient_norms[step], expected.gradient_norms[step],
                kTolerance * expected.gradient_norms[step])
        << what;
  }
  EXPECT_LE(largest_difference(found.gradients, expected.gradients), kTolerance) << what;
}

/// Expects the bytes of all ranks in all steps, and the peaks of memory, that the strategy means.
void expect_as_meant(const Trained& found, const PreparedRun& run, const std::string& what) {
  const StepExpectation expected = expected_step(run);
  for (std::size_t group = 0; group < kTrafficGroups.size(); ++group) {
    for (std::size_t kind = 0; kind < kCollectiveNames.size(); ++kind) {
      std::int64_t sent = 0;
      for (const RankRecord& rank : found.ranks) {
        sent += (rank.*kTrafficGroups[group].sent).bytes[kind];
      }
      EXPECT_EQ(sent, kSteps * expected.sent[group][kind])
          << kTrafficGroups[group].name << ' ' << kCollectiveNames[kind] << ": " << what;
    }
  }
  const std::int64_t ranks_of_stage =
      std::int64_t{1} * run.settings.config.tp * run.settings.config.dp;
  for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) {
    const std::size_t stage = rank / static_cast<std::size_t>(ranks_of_stage);
    EXPECT_FALSE(peak_differs(expected.peak_memory[stage],
                              Bytes(static_cast<double>(found.ranks[rank].peak_bytes))))
        << found.ranks[rank].peak_bytes << " for " << expected.peak_memory[stage].value() << ": "
        << what;
  }
}

/// Counts the plans of GPT's kind that were drawn and executed, by their features.
class Tally {
 public:
  void add(const Plan& plan, bool is_executed) {
    const ParallelConfig& config = plan.config;
    if (!traits_of(config.schedule).is_synchronous) {
      return;  // another method of training, of which no execution is promised
    }
    for (const std::string& what :
         {"schedule " + std::string(name_of(config.schedule)),
          "ZeRO-" + std::to_string(config.zero_stage),
          "recompute " + std::string(name_of(config.recompute)), std::string("all")}) {
      counts_[what].drawn += 1;
      counts_[what].executed += is_executed ? 1 : 0;
    }
  }
  void expect_most_executed() const {
    constexpr std::int64_t enough = 20;
    for (const auto& [what, count] : counts_) {
      std::cout << std::setw(24) << what << std::setw(6) << count.drawn << " drawn" << std::setw(6)
                << count.executed << " executed\n";
      if (count.drawn >= enough) {
        EXPECT_GE(10 * count.executed, 6 * count.drawn) << what;
      }
    }
  }

 private:
  struct Count {
    std::int64_t drawn = 0;
    std::int64_t executed = 0;
  };
  std::map<std::string, Count> counts_;
};

bool is_named(const std::string& refusal) {
  static const std::regex names(
      "(config\\.[a-z_]+: ptdp-run executes .+, got .+|"
      "inputs\\.model: (has|attends|predicts) .+)");
  return std::regex_match(refusal, names);
}

TEST(RandomPlans, TrainAsOneRankOrAreRefusedByName) {
  PlanLottery lottery(static_cast<std::uint64_t>(number_of("PTDP_RANDOM_SEED", 1)));
  const std::int64_t plans = number_of("PTDP_RANDOM_PLANS", kUsualPlans);
  LoneRuns lone;
  Tally tally;
  std::set<std::string> distinct;
  std::map<std::string, int> refusals;
  for (std::int64_t i = 0; i < plans; ++i) {
    const DrawnPlan drawn = lottery.draw();
    const bool shrinks = i % 100 < kShrunkInAHundred;
    const std::string what = "plan " + std::to_string(i) + ": " + drawn.plan.scenario.stack.name +
                             " with " + to_string(drawn.plan.config) + (shrinks ? " shrunk" : "");
    distinct.insert(to_json(drawn.plan));
    RunRequest request{.precision = Precision::kFp64, .overlap = drawn.overlap, .shrinks = shrinks};
    std::optional<PreparedRun> run;
    try {
      run = prepare_run(drawn.plan, request);
    } catch (const Error& error) {
      EXPECT_TRUE(is_named(error.what())) << error.what() << ": " << what;
      ++refusals[error.what()];
    }
    if (drawn.is_gpt && !shrinks) {
      tally.add(drawn.plan, run.has_value());
    }
    if (run) {
      const Trained found = train(run->settings, kSteps, host());
      expect_alike(found, lone.of(run->settings, run->executed.scenario), what);
      expect_as_meant(found, *run, what);
    }
    if (HasFatalFailure()) {
      return;
    }
  }
  std::cout << distinct.size() << " distinct plans\n";
  for (const auto& [refusal, count] : refusals) {
    std::cout << std::setw(6) << count << " refused: " << refusal << '\n';
  }
  tally.expect_most_executed();
}

}  // namespace
}  // namespace ptdp::testing
