// Tests that every place which spells configuration fields knows all of them.
#include "cost_model/inputs/config_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/round_trip.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Returns a configuration with as many fields as possible at once away from their defaults.
ParallelConfig with_every_field() {
  return {.tp = 2,
          .pp = 3,
          .dp = 4,
          .cp = 5,
          .ep = 6,
          .etp = 7,
          .vpp = 8,
          .micro_batch_size = 9,
          .schedule = ScheduleKind::kZbAuto,
          .recompute = Recompute::kFull,
          .recompute_method = RecomputeMethod::kUniform,
          .recompute_num_layers = 10,
          .sequence_parallel = true,
          .zero_stage = 3,
          .dp_replicate = 11,
          .reshard_after_forward = false,
          .rank_order = RankOrder::kTpCpEpPpDp,
          .offload = Offload::kActivations,
          .offload_num_layers = 12,
          .layers_per_stage = {1, 1, 2},
          .memory_limit = 13};
}

TEST(ConfigFields, HaveEachMemberOnceUnderItsName) {
  // The order is that of ParallelConfig's declarations, except for one field that is read after its
  // number.
  std::vector<std::string> keys;
  for_each_config_field([&](const auto& field) { keys.emplace_back(field.key); });
  EXPECT_THAT(
      keys, ElementsAre("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "micro_batch_size", "schedule",
                        "recompute", "recompute_modules", "recompute_num_layers",
                        "recompute_method", "sequence_parallel", "zero_stage", "dp_replicate",
                        "reshard_after_forward", "rank_order", "offload", "offload_num_layers",
                        "layers_per_stage", "memory_limit"));
}

TEST(ConfigFields, AreAllInTheFileOfAPlan) {
  const nlohmann::json written = nlohmann::json::parse(dump(with_every_field()));
  EXPECT_EQ(written, nlohmann::json::parse(R"({
    "tp": 2, "pp": 3, "dp": 4, "cp": 5, "ep": 6, "etp": 7, "vpp": 8, "micro_batch_size": 9,
    "schedule": "zb-auto", "recompute": "full", "recompute_num_layers": 10,
    "recompute_method": "uniform", "sequence_parallel": true, "zero_stage": 3, "dp_replicate": 11,
    "reshard_after_forward": false, "rank_order": "tp-cp-ep-pp-dp", "offload": "activations",
    "offload_num_layers": 12, "layers_per_stage": [1, 1, 2], "memory_limit": 13})"));
}

TEST(ConfigFields, AreAllInTheLineThatNamesAPlan) {
  EXPECT_EQ(to_string(with_every_field()),
            "tp=2 pp=3 dp=4 cp=5 ep=6 etp=7 vpp=8 b=9 zb-auto limit=13 recompute=full uniform=10 "
            "sequence-parallel zero=3 dp_replicate=11 reshard_after_forward=off "
            "order=tp-cp-ep-pp-dp offload=activations offload_num_layers=12 layers=2x1,2");
}

TEST(ConfigFields, ShareNoNameAndNoColumn) {
  std::set<std::string_view> names;
  std::set<std::string_view> columns;
  for_each_config_field([&](const auto& field) {
    EXPECT_TRUE(names.insert(field.key).second) << field.key;
    EXPECT_TRUE(field.short_key() == field.key || names.insert(field.short_key()).second);
    const std::string_view column = field.traits.run_column.name;
    EXPECT_TRUE(column.empty() || columns.insert(column).second) << column;
  });
}

TEST(ConfigFields, HaveFlagsByGroups) {
  std::vector<std::string> keys;
  for_each_flag([&](const auto& field) { keys.emplace_back(field.key); });
  EXPECT_THAT(keys, ElementsAre("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "micro_batch_size",
                                "zero_stage", "dp_replicate", "reshard_after_forward", "schedule",
                                "layers_per_stage", "recompute", "recompute_modules",
                                "recompute_num_layers", "recompute_method", "sequence_parallel",
                                "offload", "offload_num_layers", "rank_order"));
}

}  // namespace
}  // namespace ptdp
