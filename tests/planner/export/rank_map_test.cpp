// Tests of the map of ranks against groups that Megatron-Core prints.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "planner/export/exporter.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) {
    cells.push_back(cell);
  }
  return cells;
}

/// Returns the row of a rank, by the names of columns.
std::map<std::string, std::string> row_of(const Plan& plan, int rank) {
  EXPECT_TRUE(rank_map_refusals(plan).empty());
  std::istringstream csv(rank_map_export(plan).files.at(0).content);
  std::string line;
  std::getline(csv, line);
  const std::vector<std::string> names = split(line);
  for (int i = 0; i <= rank; ++i) {
    std::getline(csv, line);
  }
  const std::vector<std::string> cells = split(line);
  std::map<std::string, std::string> row;
  for (std::size_t i = 0; i < names.size(); ++i) {
    row[names[i]] = cells.at(i);
  }
  return row;
}

Plan plan_of(const char* model, const ParallelConfig& config) {
  return make_plan({shipped_scenario(model, "dgx-h100", "megatron-core-2025", 64), config},
                   config.world_size(), 0.0, {});
}

// The groups of rank 5 of 64 in megatron-core 0.19.2: parallel_state.initialize_model_parallel() on
// torch's fake process group, tensor and pipeline parallel size 4.
TEST(RankMap, IsThatOfMegatronCore) {
  const auto row = row_of(plan_of("llama-3-8b", {.tp = 4, .pp = 4, .dp = 4}), 5);
  EXPECT_EQ(row.at("tp_group"), "4 5 6 7");
  EXPECT_EQ(row.at("cp_group"), "5");
  EXPECT_EQ(row.at("dp_group"), "1 5 9 13");
  EXPECT_EQ(row.at("pp_group"), "5 21 37 53");
  EXPECT_FALSE(row.contains("ep_group"));
}

// The same with order="tp-cp-ep-pp-dp".
TEST(RankMap, IsThatOfMegatronCoreWithReplicasFarthest) {
  const auto row = row_of(
      plan_of("llama-3-8b", {.tp = 4, .pp = 4, .dp = 4, .rank_order = RankOrder::kTpCpEpPpDp}), 5);
  EXPECT_EQ(row.at("dp_group"), "5 21 37 53");
  EXPECT_EQ(row.at("pp_group"), "1 5 9 13");
}

// 32 ranks, tp 2, cp 2, pp 2, ep 4, etp 2. A stage has 16 ranks: rank = etp + 2 (ep + 4 edp).
TEST(RankMap, HasAGridOfItsOwnForExperts) {
  const auto row = row_of(
      plan_of("mixtral-8x7b",
              {.tp = 2, .pp = 2, .dp = 4, .cp = 2, .ep = 4, .etp = 2, .sequence_parallel = true}),
      21);
  EXPECT_EQ(row.at("tp_group"), "20 21");
  EXPECT_EQ(row.at("cp_group"), "21 23");
  EXPECT_EQ(row.at("dp_group"), "17 21 25 29");
  EXPECT_EQ(row.at("pp_group"), "5 21");
  EXPECT_EQ(row.at("etp_group"), "20 21");
  EXPECT_EQ(row.at("ep_group"), "17 19 21 23");
  EXPECT_EQ(row.at("edp_group"), "21 29");
}

// Two nodes of eight: rank 13 is the sixth of the second one.
TEST(RankMap, SaysNodesAndPlaces) {
  const auto row = row_of(plan_of("llama-3-8b", {.tp = 2, .pp = 2, .dp = 4}), 13);
  EXPECT_EQ(row.at("node"), "1");
  EXPECT_EQ(row.at("local_rank"), "5");
  EXPECT_EQ(row.at("tp"), "1");
  EXPECT_EQ(row.at("cp"), "0");
  EXPECT_EQ(row.at("dp"), "2");
  EXPECT_EQ(row.at("pp"), "1");
}

}  // namespace
}  // namespace ptdp
