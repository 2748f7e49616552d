// Tests of the table that explains one-line configurations.
#include "planner/report/sections/names_section.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

/// Returns the names that the section explains.
std::set<std::string> explained(const std::vector<Plan>& plans) {
  std::vector<ParallelConfig> configs;
  std::ranges::transform(plans, std::back_inserter(configs), &Plan::config);
  const ReportSection section = names_section(configs);
  std::set<std::string> names;
  for (const auto& row : std::get<TableView>(section.view).rows) {
    EXPECT_EQ(row.size(), 2U);
    EXPECT_FALSE(row[1].empty());
    EXPECT_TRUE(names.insert(row[0]).second);
    EXPECT_LE(row[1].size(), 130U) << row[0];
  }
  return names;
}

TEST(NamesSection, ExplainsEveryNameOfOneLineConfigurations) {
  for (const Plan& plan : various_plans()) {
    const std::set<std::string> names = explained({plan});
    EXPECT_THAT(names, testing::Contains(std::string(traits_of(plan.config.schedule).name)));
    std::istringstream items(to_string(plan.config));
    for (std::string item; items >> item;) {
      const std::size_t equals = item.find('=');
      const std::string name = equals != std::string::npos   ? item.substr(0, equals)
                               : item == "sequence-parallel" ? "sequence_parallel"
                                                             : "schedule";
      EXPECT_THAT(names, testing::Contains(name)) << to_string(plan.config);
    }
  }
}

TEST(NamesSection, ExplainsModulesThatAreRecomputed) {
  Plan plan = plan_of_39b();
  plan.config.recompute = Recompute::kSelective;
  plan.config.recompute_modules = {RecomputeModule::kMoeActivation, RecomputeModule::kLayerNorm};
  EXPECT_THAT(explained({plan}),
              testing::IsSupersetOf({"recompute", "modules", "moe_act", "layernorm"}));
  EXPECT_THAT(explained({plan}), testing::Not(testing::Contains("mlp")));
}

TEST(NamesSection, LeavesOutWhatNoPlanHas) {
  EXPECT_THAT(explained({plan_of_39b()}), testing::Not(testing::Contains("ep")));
  EXPECT_THAT(explained({plan_of_39b()}), testing::Not(testing::Contains("vpp")));
  EXPECT_THAT(explained({plan_of_39b()}), testing::Not(testing::Contains("interleaved")));
  EXPECT_THAT(explained({plan_of_39b(), plan_of_39b(ScheduleKind::kInterleaved, 2)}),
              testing::Contains("vpp"));
}

}  // namespace
}  // namespace ptdp
