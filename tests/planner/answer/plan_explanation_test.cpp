// Tests of the explanation of a plan as sentences and as JSON.
#include "planner/answer/plan_explanation.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "planner/answer/plans_document.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns SC21's largest model, planned and explained.
const PlanningResult& explained_1t() {
  static const PlanningResult result = [] {
    PlanningResult planned = plan_training(selene_2021("1T"), {.gpus = 3072, .num_best = 2});
    planned.explanation = explain_plan(planned);
    return planned;
  }();
  return result;
}

std::string sentences_of(const PlanningResult& result) {
  std::string text;
  for (const std::string& sentence : explanation_sentences(result)) {
    text += sentence + "\n";
  }
  return text;
}

// By hand for 64 stages and 512 microbatches: 63/512 is 12.3 %.
TEST(PlanExplanation, NamesMemoryBubbleAndRunnerUp) {
  const PlanningResult& result = explained_1t();
  const std::string text = sentences_of(result);
  EXPECT_THAT(text, HasSubstr("Stage 1 of 64 holds most memory"));
  EXPECT_THAT(text, HasSubstr("63/512, 12.3 %"));
  EXPECT_THAT(text, HasSubstr("The runner-up, " + to_string(result.plans[1].config)));
  EXPECT_LE(explanation_sentences(result).size(), 6U);
}

// Made up: the runner-up takes 2 s longer, 5 s of bubble in place of 1 s. It wins with 40 % less of
// that.
TEST(PlanExplanation, SaysByHowMuchTheRunnersUpLargestTermWouldHaveToShrink) {
  PlanningResult result = explained_1t();
  result.plans[0].predicted.breakdown = {.matmul = Seconds(9.0), .bubble = Seconds(1.0)};
  result.plans[1].predicted.breakdown = {.matmul = Seconds(7.0), .bubble = Seconds(5.0)};
  EXPECT_THAT(
      sentences_of(result),
      testing::ContainsRegex("loses by 2 s \\([0-9]+ % likely better\\): its bubble, 5 s where "
                             "this plan has 1 s, would have to shrink by 40\\.0 %"));
  result.calibration = {};
  EXPECT_THAT(sentences_of(result), HasSubstr("loses by 2 s: its bubble"));
  const nlohmann::json second = nlohmann::json::parse(to_json(result))["explanation"]["runner_up"];
  EXPECT_DOUBLE_EQ(second["behind"].get<double>(), 2.0);
  EXPECT_EQ(second["term"], "bubble");
  EXPECT_DOUBLE_EQ(second["of_term"].get<double>(), 5.0);
}

TEST(PlanExplanation, IsInTheDocumentWhereItWasAskedForAndIsReadBack) {
  const PlanningResult& result = explained_1t();
  const nlohmann::json written = nlohmann::json::parse(to_json(result));
  const nlohmann::json& flips = written["explanation"]["flips"];
  EXPECT_FALSE(flips["coarse"].get<bool>());
  EXPECT_EQ(flips["inputs"].size(), result.explanation->flips.inputs.size());
  EXPECT_EQ(parse_plans_document(to_json(result), "plans.json").plans.size(), 2U);
  PlanningResult plain = result;
  plain.explanation.reset();
  nlohmann::json without = written;
  without.erase("explanation");
  EXPECT_EQ(nlohmann::json::parse(to_json(plain)), without);
}

// Other numbers of GPUs nearly always make another plan: told beside the first flip, not as it.
TEST(PlanExplanation, SaysWhichNumbersOfGpusFlipTheChoiceEarlier) {
  PlanningResult result = explained_1t();
  const Candidate other = result.search.best.back();
  result.explanation->flips = {.inputs = {{ChangedInput::kMemory, {{.change = 0.1, .best = other}}},
                                          {ChangedInput::kGpus,
                                           {{.change = -0.05, .value = 2918, .best = other},
                                            {.change = 0.2, .value = 3686, .best = other}}}}};
  EXPECT_THAT(sentences_of(result), HasSubstr("flips first with +10 % GPU memory"));
  EXPECT_THAT(
      sentences_of(result),
      HasSubstr("Another plan is needed anyway where the degrees don't divide: -5 % GPUs.\n"));
}

TEST(PlanExplanation, SaysWhatTimeDidNotSuffice) {
  PlanningResult result = explained_1t();
  result.explanation->flips = {.is_coarse = true,
                               .left_out = {ChangedInput::kBatch, ChangedInput::kGpus}};
  EXPECT_THAT(
      sentences_of(result),
      HasSubstr("No other input was searched: each search takes long (--time-limit gives more)."));
  result.explanation->flips.inputs = {
      {ChangedInput::kPeak, {{.change = 0.2, .best = {}, .is_same = true}}}};
  EXPECT_THAT(sentences_of(result),
              HasSubstr("only about -20 and +20 % were searched: each search takes long "
                        "(--time-limit gives more); not searched: batch, "
                        "GPUs. None of those searched flips the choice."));
}

}  // namespace
}  // namespace ptdp
