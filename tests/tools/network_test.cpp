// Tests of network tiers and measured curves that cannot be: F17 and F18 of the list of bad inputs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::ordered_json;

ProgramRun run_tiers(const std::string& tiers, const std::string& gpus = "16") {
  return run_plan_with(
      {.cluster = with_literal(selene_cluster(), "/network_tiers", tiers), .gpus = gpus});
}

/// Returns a cluster with one curve over eight GPUs, of points given as [bytes, microseconds].
ordered_json cluster_with_points(const std::vector<std::pair<double, double>>& points) {
  ordered_json list = ordered_json::array();
  for (const auto& [bytes, time] : points) {
    list.push_back({{"bytes", bytes}, {"time_us", time}});
  }
  ordered_json cluster = selene_cluster();
  cluster["all_reduce_curves"] = {{{"ranks", 8}, {"points", list}}};
  return cluster;
}

ProgramRun run_points(const std::vector<std::pair<double, double>>& points) {
  return run_plan_with({.cluster = cluster_with_points(points).dump()});
}

TEST(NetworkTiers, ThatGrowArePlannedWith) {
  EXPECT_TRUE(succeeds(run_tiers(
      R"([{"gpus": 160, "oversubscription": 1}, {"gpus": 4480, "oversubscription": 7}])")));
}

TEST(NetworkTiers, OfAnOversubscriptionBelowOneAreRefusedWithAHint) {
  for (const char* literal : {"0.5", "0.99999", "0", "-1", "-0.0", "5e-324", "1e30"}) {
    const std::string tiers =
        R"([{"gpus": 160, "oversubscription": )" + std::string(literal) + "}]";
    EXPECT_TRUE(is_refused(run_tiers(tiers), {"network_tiers[0].oversubscription", "1:7"}))
        << literal;
  }
}

TEST(NetworkTiers, SmallerThanWhatLiesBelowThemAreRefused) {
  for (const char* tiers :
       {R"([{"gpus": 160, "oversubscription": 1}, {"gpus": 80, "oversubscription": 7}])",
        R"([{"gpus": 160, "oversubscription": 1}, {"gpus": 160, "oversubscription": 7}])",
        R"([{"gpus": 4, "oversubscription": 1}, {"gpus": 160, "oversubscription": 1}])"}) {
    EXPECT_TRUE(is_refused(run_tiers(tiers), {"cluster.json", "network_tiers"})) << tiers;
  }
}

TEST(NetworkTiers, LessOversubscribedThanTheOneBelowAreRefused) {
  EXPECT_TRUE(is_refused(
      run_tiers(R"([{"gpus": 64, "oversubscription": 4}, {"gpus": 128, "oversubscription": 2}])"),
      {"cluster.json", "network_tiers", "128", "less oversubscribed"}));
}

TEST(NetworkTiers, WithAPartMissingOrStrangeAreRefused) {
  for (const char* tiers :
       {R"([{"gpus": 160}])", R"([{"oversubscription": 1}])", "[{}]", "[160]", "160", "null", "{}",
        R"([{"gpus": 160, "oversubscription": 1}, null])",
        R"([{"gpus": 160, "oversubscription": 1, "latency": 1}])",
        R"([{"gpus": 160.5, "oversubscription": 1}])", R"([{"gpus": 0, "oversubscription": 1}])",
        R"([{"gpus": 18446744073709551776, "oversubscription": 1}])"}) {
    EXPECT_TRUE(is_refused(run_tiers(tiers), {"cluster.json", "network_tiers"})) << tiers;
  }
}

TEST(NetworkTiers, OfFewerGpusThanWantedAreRefusedNamingBoth) {
  const ProgramRun run = run_tiers(R"([{"gpus": 160, "oversubscription": 1}])", "161");
  EXPECT_TRUE(run.status == kNothingFits || is_refused(run, {"160", "161"})) << run.errors;
}

TEST(NetworkTiers, OfJustAsManyGpusAreEnough) {
  EXPECT_TRUE(succeeds(run_tiers(R"([{"gpus": 16, "oversubscription": 1}])", "16")));
}

TEST(MeasuredCurve, ThatIsPlausibleIsPlannedWith) {
  EXPECT_TRUE(succeeds(run_points({{1e6, 50}, {4e6, 80}, {16e6, 200}})));
}

TEST(MeasuredCurve, OfLessThanTwoPointsIsRefused) {
  EXPECT_TRUE(is_refused(run_points({}), {"cluster.json", "all_reduce_curves[0].points"}));
  EXPECT_TRUE(is_refused(run_points({{1e6, 50}}), {"cluster.json", "all_reduce_curves[0].points"}));
}

struct CurveRow {
  const char* what;
  std::vector<std::pair<double, double>> points;
};

TEST(MeasuredCurve, ThatNoNetworkHasIsRefused) {
  const std::vector<CurveRow> rows = {
      {"a gap of a thousand", {{1e6, 50}, {1e9, 10000}}},
      {"a larger message that is faster", {{1e6, 50}, {2e6, 20}, {4e6, 80}}},
      {"an outlier of a hundred times", {{1e6, 50}, {2e6, 6000}, {4e6, 8000}}},
      {"an outlier of a hundred times, back to normal", {{1e6, 50}, {2e6, 6000}, {4e6, 90}}},
      {"an outlier of a hundredth", {{1e6, 50}, {2e6, 0.6}, {4e6, 90}}},
      {"an outlier at the beginning", {{1e6, 5000}, {2e6, 60}, {4e6, 90}}},
      {"an outlier at the end", {{1e6, 50}, {2e6, 60}, {4e6, 9000}}},
      {"times of zero", {{1e6, 0}, {2e6, 0}, {4e6, 0}}},
      {"sizes of zero", {{0, 50}, {0, 60}}},
      {"one size twice", {{1e6, 50}, {1e6, 60}}},
      {"sizes that fall", {{4e6, 50}, {2e6, 60}}},
      {"a negative time", {{1e6, -50}, {2e6, 60}}},
      {"seconds for microseconds", {{1e6, 5e-5}, {2e6, 6e-5}}}};
  for (const CurveRow& row : rows) {
    EXPECT_TRUE(is_refused(run_points(row.points), {"cluster.json", "all_reduce_curves[0]"}))
        << row.what;
  }
}

TEST(MeasuredCurve, WithAPointThatIsNoNumberIsRefused) {
  const ordered_json cluster = cluster_with_points({{1e6, 50}, {4e6, 80}, {16e6, 200}});
  for (const char* literal : {"NaN", "Infinity", "1e400", "null", "\"50\"", "true", "1e30"}) {
    for (const char* pointer :
         {"/all_reduce_curves/0/points/1/bytes", "/all_reduce_curves/0/points/1/time_us"}) {
      EXPECT_TRUE(is_refused(run_plan_with({.cluster = with_literal(cluster, pointer, literal)}),
                             {"cluster.json"}))
          << pointer << " " << literal;
    }
  }
}

TEST(MeasuredCurve, OverTooFewRanksIsRefused) {
  for (const char* literal : {"1", "0", "-8", "8.5", "4294967304"}) {
    const std::string text = with_literal(selene_cluster(), "/all_reduce_curves/0/ranks", literal);
    EXPECT_TRUE(is_refused(run_plan_with({.cluster = text}), {"all_reduce_curves[0].ranks"}))
        << literal;
  }
}

// Two curves over the same ranks: which one holds, nobody can say.
TEST(MeasuredCurve, OverRanksThatHaveOneAlreadyIsRefused) {
  ordered_json cluster = selene_cluster();
  ordered_json again = cluster["all_reduce_curves"][0];
  cluster["all_reduce_curves"].push_back(again);
  EXPECT_TRUE(is_refused(run_plan_with({.cluster = cluster.dump()}), {"all_reduce_curves"}));
}

// 22B with tp = 8 reduces 100 MB at a time; the curve ends at 2 kB.
TEST(MeasuredCurve, LeftBehindByThePlansMessagesIsFlaggedAsExtrapolated) {
  const std::string cluster = cluster_with_points({{1e3, 50}, {2e3, 51}}).dump();
  const TemporaryDirectory directory;
  const ProgramRun run = run_plan({"--gpus", "8", "--model", "22B", "--tp", "8", "-v", "--cluster",
                                   directory.file("cluster.json", cluster).string()});
  ASSERT_TRUE(ends_with(run, kDone));
  EXPECT_NE((run.output + run.errors).find("xtrapolat"), std::string::npos);
}

}  // namespace
}  // namespace ptdp
