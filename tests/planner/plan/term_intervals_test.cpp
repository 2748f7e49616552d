// Tests of the intervals of terms, whose constants are formed again from the measured steps.
#include "planner/plan/term_intervals.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/csv_table.h"
#include "planner/plan/plan.h"
#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

/// The measured terms, in the order of their columns.
constexpr std::array kMeasuredTerms = {RunTerm::kMatmul, RunTerm::kAttention, RunTerm::kMemoryBound,
                                       RunTerm::kOptimizer};

/// A step of tests/golden/h200_steps.csv: ln(measured/predicted) of it and of its terms, if known.
struct Step {
  std::string card;
  double error = 0.0;
  std::vector<double> terms;
};

/// Returns the plan of a step, without calibration.
Plan plan_of(const CsvTable& table, std::size_t row, const std::string& cluster) {
  const auto count = [&](const char* column) {
    return parse_count(table.text(row, column), 1, 1'000'000, table.place_of(row, column));
  };
  const auto hidden = static_cast<int>(count("hidden"));
  TransformerConfig model = small_model(hidden, static_cast<int>(count("length")));
  model.num_layers = static_cast<int>(count("layers"));
  model.num_attention_heads = model.num_query_groups = hidden / 128;
  model.kv_channels = 128;
  model.ffn_hidden_size = 4 * hidden;
  model.vocab_size = 50304;
  model.dropout = false;
  if (table.text(row, "positions") == "none") {
    model.position_embedding = PositionEmbedding::kNone;
  }
  ParallelConfig config = layout(1, 1, 1);
  config.micro_batch_size = static_cast<int>(count("micro_batch_size"));
  config.recompute = table.text(row, "recompute") == "full" ? Recompute::kFull : Recompute::kNone;
  const Scenario scenario{.job = {.model = model, .global_batch_size = count("batch")},
                          .cluster = find_cluster(cluster),
                          .stack = find_stack("ptdp-cuda")};
  return make_plan({scenario, config}, /*gpus=*/1, /*memory_headroom=*/0.0, {});
}

std::vector<Step> steps_beside(const std::string& cluster) {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/h200_steps.csv");
  std::vector<Step> steps;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const Plan plan = plan_of(table, row, cluster);
    const auto error = [&](const char* column, Seconds predicted) {
      const double measured =
          parse_number(table.text(row, column), 0.1, 1e6, table.place_of(row, column));
      return std::log(1e-3 * measured / predicted.value());
    };
    Step& step =
        steps.emplace_back(Step{.card = table.text(row, "card"),
                                .error = error("step", plan.predicted.iteration_time.value)});
    if (!table.text(row, "matmul").empty()) {
      const RunTerms predicted = predicted_run_terms(plan, 0);
      for (const RunTerm term : kMeasuredTerms) {
        const std::string column(kRunTermNames[static_cast<std::size_t>(term)]);
        step.terms.push_back(error(column.c_str(), predicted[term]));
      }
    }
  }
  return steps;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

double squares_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - mean_of(values)) * (value - mean_of(values));
  }
  return sum;
}

/// Returns what independent values say of another one.
TermError error_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  return {.mean = mean_of(values),
          .deviation = std::sqrt(squares_of(values) / (count - 1.0) * (1.0 + 1.0 / count)),
          .degrees = count - 1.0};
}

/// Returns what steps of several cards say of a step of another card: one-way analysis of variance
/// with unequal numbers (unweighted means), degrees of freedom by Satterthwaite.
TermError error_over_cards(const std::vector<Step>& steps) {
  std::map<std::string, std::vector<double>> by_card;
  for (const Step& step : steps) {
    by_card[step.card].push_back(step.error);
  }
  std::vector<double> means;
  double within = 0.0;
  double inverse = 0.0;  // mean of 1/number
  const auto cards = static_cast<double>(by_card.size());
  for (const auto& [card, errors] : by_card) {
    means.push_back(mean_of(errors));
    within += squares_of(errors);
    inverse += 1.0 / static_cast<double>(errors.size()) / cards;
  }
  const double degrees = static_cast<double>(steps.size()) - cards;
  const double of_cards = squares_of(means) / (cards - 1.0) * (1.0 + 1.0 / cards);
  const double of_steps = within / degrees * (1.0 - inverse);
  const double variance = of_cards + of_steps;
  return {.mean = mean_of(means),
          .deviation = std::sqrt(variance),
          .degrees = variance * variance /
                     (of_cards * of_cards / (cards - 1.0) + of_steps * of_steps / degrees)};
}

void expect_near(const TermError& found, const TermError& formed, const char* what) {
  EXPECT_NEAR(found.mean, formed.mean, 1e-3) << what;
  EXPECT_NEAR(found.deviation, formed.deviation, 1e-3) << what;
  EXPECT_NEAR(found.degrees, formed.degrees, 0.05) << what;
}

/// Holds the errors of terms against those of `num_steps` steps, and that of attention against
/// those of the `num_attention` steps of `attention_card`, which is any if empty.
void expect_terms_near(const StepErrors& found, const std::vector<Step>& steps,
                       std::size_t num_steps, std::size_t num_attention,
                       const std::string& attention_card) {
  for (std::size_t term = 0; term < kMeasuredTerms.size(); ++term) {
    const bool is_attention = kMeasuredTerms[term] == RunTerm::kAttention;
    std::vector<double> errors;
    for (const Step& step : steps) {
      const bool is_other_card = !attention_card.empty() && step.card != attention_card;
      if (!step.terms.empty() && !(is_attention && is_other_card)) {
        errors.push_back(step.terms[term]);
      }
    }
    ASSERT_EQ(errors.size(), is_attention ? num_attention : num_steps);
    expect_near(*found.of(kMeasuredTerms[term]), error_of(errors),
                std::string(kRunTermNames[static_cast<std::size_t>(kMeasuredTerms[term])]).c_str());
  }
}

TEST(StepErrors, AreThoseOfTheMeasuredStepsBesideTheDataSheet) {
  const std::vector<Step> steps = steps_beside("hgx-h200");
  expect_near(kErrorsByDataSheet.step, error_over_cards(steps), "step");
  expect_terms_near(kErrorsByDataSheet, steps, 17, 9, "a");
}

TEST(StepErrors, AreThoseOfOneCardBesideItsProfile) {
  std::vector<Step> steps = steps_beside("hgx-h200-measured");
  std::erase_if(steps, [](const Step& step) { return step.card != "d"; });
  std::vector<double> errors;
  errors.reserve(steps.size());
  for (const Step& step : steps) {
    errors.push_back(step.error);
  }
  expect_near(kErrorsByProfile.step, error_of(errors), "step");
  expect_terms_near(kErrorsByProfile, steps, 8, 8, "");
}

// t of 8 degrees of freedom is 1.8595 at 95 % (any table).
TEST(TermErrors, BecomeAnIntervalByStudentsDistribution) {
  const RelativeInterval interval = TermError{0.1, 0.05, 8.0}.interval();
  EXPECT_NEAR(interval.low, std::exp(0.1 - 1.8595 * 0.05), 1e-5);
  EXPECT_NEAR(interval.high, std::exp(0.1 + 1.8595 * 0.05), 1e-5);
}

TEST(StepErrors, SpeakOfOneGpuOfAMeasuredKindUnderThisRuntimeAlone) {
  Scenario scenario = host_scenario(small_model(128, 64), 16);
  EXPECT_EQ(step_errors({scenario, layout(1, 1, 1)}), nullptr) << "a host";
  scenario.stack = find_stack("ptdp-cuda");
  scenario.cluster = find_cluster("hgx-h200");
  EXPECT_EQ(step_errors({scenario, layout(1, 1, 1)}), &kErrorsByDataSheet);
  EXPECT_EQ(step_errors({scenario, layout(2, 1, 1)}), nullptr) << "two GPUs";
  scenario.cluster = find_cluster("dgx-h100");
  EXPECT_EQ(step_errors({scenario, layout(1, 1, 1)}), nullptr) << "no step of an H100";
  scenario.cluster = find_cluster("hgx-h200-measured");
  EXPECT_EQ(step_errors({scenario, layout(1, 1, 1)}), &kErrorsByProfile);
  scenario.stack = find_stack("megatron-core-2025");
  EXPECT_EQ(step_errors({scenario, layout(1, 1, 1)}), nullptr) << "another program";
  EXPECT_EQ(kErrorsByProfile.of(RunTerm::kTensorParallel), nullptr);
}

TEST(Predict, TakesTheIntervalOfMeasuredStepsUnlessRunsAreBehindIt) {
  Scenario scenario = host_scenario(small_model(128, 64), 16);
  scenario.stack = find_stack("ptdp-cuda");
  scenario.cluster = find_cluster("hgx-h200");
  const ParallelConfig config = layout(1, 1, 1);
  const PlannedJob job(scenario, config);
  const Prediction alone = predict(job, {.interval = {0.5, 2.0}});
  EXPECT_NEAR(alone.iteration_time.high / alone.iteration_time.value,
              kErrorsByDataSheet.step.interval().high, 1e-12);
  EXPECT_EQ(alone.basis(job),
            "not calibrated: data sheets and published measurements of parts; interval: steps of "
            "this runtime on four H200, their terms on two");
  const Prediction calibrated =
      predict(job, {.support = {.num_runs = 1, .all_runs = 1}, .interval = {0.5, 2.0}});
  EXPECT_NEAR(calibrated.iteration_time.high / calibrated.iteration_time.value, 2.0, 1e-12);
}

}  // namespace
}  // namespace ptdp
