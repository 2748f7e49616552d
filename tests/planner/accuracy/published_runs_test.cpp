// Tests of published runs that are read as far as somebody asks for them.
#include "planner/accuracy/published_runs.h"

#include <gmock/gmock.h>

#include "planner/accuracy/costed_runs.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHeader =
    "id,layers,hidden,heads,vocab,seq,cluster_key,stack_key,tp,pp,dp,vpp,mbs,gbs,recompute,"
    "iter_time_best_s\n";
/// A model, and what comes behind its place.
constexpr const char* kModel = ",24,2304,24,51200,2048,";

std::string row(const std::string& id, const std::string& place, const std::string& degrees) {
  return id + kModel + place + "," + degrees + "\n";
}

PublishedRuns of_rows(const std::string& first, const std::string& second = "") {
  std::vector<CsvTable> tables = {CsvTable::from_text(kHeader + first, "first.csv")};
  if (!second.empty()) {
    tables.push_back(CsvTable::from_text(kHeader + second, "second.csv"));
  }
  return PublishedRuns(std::move(tables));
}

std::vector<std::string> ids(const std::vector<MeasuredRun>& runs) {
  std::vector<std::string> names;
  names.reserve(runs.size());
  for (const MeasuredRun& run : runs) {
    names.push_back(run.id);
  }
  return names;
}

// The hardware of a run and how its GPUs were used do not matter.
TEST(PublishedRuns, OfAJobHaveItsModelBatchAndNumberOfGpus) {
  const PublishedRuns published = of_rows(
      row("this", "selene-a100,megatron-lm-2021", "1,1,32,1,16,512,full,3.5") +
          row("batch", "selene-a100,megatron-lm-2021", "1,1,32,1,16,1024,full,3.5") +
          row("gpus", "selene-a100,megatron-lm-2021", "1,1,16,1,16,512,full,3.5") +
          "model,25,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5\n",
      row("place", "dgx-h100,megatron-core-2024", "2,4,4,1,16,512,full,3.5"));
  const std::vector<MeasuredRun> all = published.read_all().runs;
  ASSERT_EQ(all.size(), 5U);
  EXPECT_THAT(ids(published.of_job(scenario_of(all.front()), 32)), ElementsAre("this", "place"));
}

TEST(PublishedRuns, InPlacesComeInTheOrderOfTheTables) {
  const std::string degrees = "1,1,32,1,16,512,full,3.5";
  const PublishedRuns published = of_rows(row("a", "selene-a100,megatron-lm-2022", degrees) +
                                              row("b", "selene-a100,megatron-lm-2021", degrees) +
                                              row("c", "dgx-h100,megatron-core-2024", degrees),
                                          row("d", "selene-a100,megatron-lm-2022", degrees));
  std::vector<std::string> asked;
  const auto is_wanted = [&](const std::string& cluster, const std::string& stack) {
    asked.push_back(cluster + " " + stack);
    return cluster == "selene-a100";
  };
  EXPECT_THAT(ids(published.in_places(is_wanted)), ElementsAre("a", "b", "d"));
  EXPECT_THAT(asked, testing::UnorderedElementsAre("selene-a100 megatron-lm-2022",
                                                   "selene-a100 megatron-lm-2021",
                                                   "dgx-h100 megatron-core-2024"));
}

// A row that cannot be costed is left out; a malformed one is an error of those who ask for it.
TEST(PublishedRuns, AreReadWhenTheyAreAskedFor) {
  const PublishedRuns published =
      of_rows(row("unknown", "selene-a100,megatron-lm-2021", "1,1,32,1,?,512,full,3.5") +
              row("whole", "selene-a100,megatron-lm-2021", "1,1,32,1,16,512,full,3.5") +
              row("malformed", "dgx-h100,megatron-core-2024", "1,1,32,1,16,512,full,fast"));
  const auto on = [&](const std::string& wanted) {
    return published.in_places(
        [&](const std::string& cluster, const std::string&) { return cluster == wanted; });
  };
  EXPECT_THAT(ids(on("selene-a100")), ElementsAre("whole"));
  EXPECT_THAT(ids(on("selene-a100")), ElementsAre("whole"));
  EXPECT_THAT(message_of([&] { return on("dgx-h100"); }),
              HasSubstr("first.csv: line 4: iter_time_best_s"));
}

// A run without a stored prediction is one that cannot be costed; those that have one are not
// costed again.
TEST(PublishedRuns, HaveThePredictionsThatAreStored) {
  const std::string degrees = "1,1,32,1,16,512,full,3.5";
  const std::string rows = row("a", "selene-a100,megatron-lm-2022", degrees) +
                           row("b", "selene-a100,megatron-lm-2022", degrees);
  int times_read = 0;
  const PublishedRuns published({CsvTable::from_text(kHeader + rows, "runs.csv")}, [&] {
    ++times_read;
    return StoredPredictions(
        CsvTable::from_text("id,precision,predicted_s\nb,bf16,3.25\n", "predictions.csv"));
  });
  EXPECT_EQ(published.read_all().runs.size(), 2U);
  EXPECT_EQ(times_read, 0);  // whoever reads all runs costs them
  const std::vector<MeasuredRun> found =
      published.in_places([](const std::string&, const std::string&) { return true; });
  EXPECT_THAT(ids(found), ElementsAre("b"));
  const std::vector<CostedRun> costed = published.costed(of_rows(rows).read_all().runs);
  ASSERT_EQ(costed.size(), 1U);
  EXPECT_EQ(costed.front().run.id, "b");
  EXPECT_EQ(costed.front().predicted, Seconds(3.25));
  EXPECT_EQ(costed.front().precision, "bf16");
  EXPECT_EQ(times_read, 1);
}

TEST(StoredPredictions, RefuseWhatNothingWrites) {
  const auto refusal = [](const std::string& text) {
    return message_of(
        [&] { return StoredPredictions(CsvTable::from_text(text, "predictions.csv")); });
  };
  EXPECT_THAT(refusal("id,precision\na,bf16\n"), HasSubstr("predictions.csv: line 1: no column"));
  EXPECT_THAT(refusal("id,precision,predicted_s\na,bf16,soon\n"),
              HasSubstr("predictions.csv: line 2: predicted_s: expected a number"));
  EXPECT_THAT(refusal("id,precision,predicted_s\na,bf16,1\na,bf16,2\n"),
              HasSubstr("predictions.csv: line 3: id: \"a\" is there twice"));
}

TEST(StoredPredictions, AreNotWrittenWithoutAnIdOfTheirOwn) {
  const auto written = [](const std::string& first, const std::string& second) {
    return [=] {
      return predictions_csv({{.run = {.id = first}, .predicted = Seconds(1.0)},
                              {.run = {.id = second}, .predicted = Seconds(2.0)}});
    };
  };
  EXPECT_EQ(written("a", "b")(), "id,precision,predicted_s\na,,1\nb,,2\n");
  EXPECT_THAT(message_of(written("a", "a")), HasSubstr("no other run has, got \"a\""));
  EXPECT_THAT(message_of(written("a", "")), HasSubstr("no other run has, got \"\""));
}

// `ptdp-calibrate --predictions` writes the file.
TEST(ShippedPredictions, AreThoseOfTheCostModel) {
  const std::vector<CostedRun>& computed = costed_published_runs().costed;
  const std::vector<MeasuredRun> found =
      published_runs().in_places([](const std::string&, const std::string&) { return true; });
  const std::vector<CostedRun> shipped = published_runs().costed(found);
  ASSERT_GT(shipped.size(), 1800U);
  ASSERT_EQ(shipped.size(), computed.size());
  for (std::size_t i = 0; i < shipped.size(); ++i) {
    EXPECT_EQ(shipped[i].run.id, computed[i].run.id);
    EXPECT_EQ(shipped[i].precision, computed[i].precision) << shipped[i].run.id;
    EXPECT_NEAR(shipped[i].predicted / computed[i].predicted, 1.0, 1e-7) << shipped[i].run.id;
  }
}

}  // namespace
}  // namespace ptdp
