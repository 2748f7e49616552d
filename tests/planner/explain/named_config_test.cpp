// Tests of the configuration that named keys stand for.
#include "planner/explain/named_config.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/explain/explain.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

ParallelConfig named(const std::string& text, std::int64_t gpus = 64) {
  return named_config(parse_partial_config(text, "--config"), Scenario{}, gpus, "--config");
}

std::string refusal_of(const std::string& text) {
  try {
    return to_string(named(text));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(NamedConfig, TakesEveryNamedKey) {
  const ParallelConfig config = named(
      "tp=4,pp=2,dp=3,cp=2,ep=2,etp=4,vpp=2,b=5,schedule=interleaved,recompute=full,block=2,"
      "sequence_parallel=on,zero=1,order=tp-cp-ep-pp-dp,offload=optimizer");
  EXPECT_EQ(config, (ParallelConfig{.tp = 4,
                                    .pp = 2,
                                    .dp = 3,
                                    .cp = 2,
                                    .ep = 2,
                                    .etp = 4,
                                    .vpp = 2,
                                    .micro_batch_size = 5,
                                    .schedule = ScheduleKind::kInterleaved,
                                    .recompute = Recompute::kFull,
                                    .recompute_num_layers = 2,
                                    .sequence_parallel = true,
                                    .zero_stage = 1,
                                    .rank_order = RankOrder::kTpCpEpPpDp,
                                    .offload = Offload::kOptimizer}));
}

TEST(NamedConfig, HasAsManyReplicasAsThereIsRoomFor) {
  EXPECT_EQ(named("tp=8,pp=2", 64).dp, 4);
  EXPECT_EQ(named("tp=8,pp=3", 64).dp, 2);
  EXPECT_EQ(named("tp=8,dp=2", 64).dp, 2);
}

TEST(NamedConfig, InterleavesSeveralChunks) {
  EXPECT_EQ(named("pp=4,vpp=2").schedule, ScheduleKind::kInterleaved);
  EXPECT_EQ(named("pp=4").schedule, ScheduleKind::kOneFOneB);
  EXPECT_EQ(named("pp=4,schedule=zb-v").vpp, 2);
}

TEST(NamedConfig, HasNoListForEqualStages) {
  EXPECT_TRUE(named("pp=4,layers=4x6").layers_per_stage.empty());
  EXPECT_THAT(named("pp=3,layers=6,2x5").layers_per_stage, testing::ElementsAre(6, 5, 5));
}

TEST(NamedConfig, RefusesWhatIsNoSingleConfiguration) {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : {Row{"tp=4:8", "tp: expected one value"},
                         Row{"schedule=interleaved", "expected vpp beside it"},
                         Row{"schedule=1f1b,vpp=2", "does not go with vpp=2"},
                         Row{"modules=mlp", "recompute_modules: expected recompute"},
                         Row{"offload_num_layers=2", "offload_num_layers: expected offload"},
                         Row{"tp=64,pp=2", "needs 128 GPUs; there are 64"}}) {
    EXPECT_THAT(refusal_of(row.text), HasSubstr(row.message)) << row.text;
  }
}

}  // namespace
}  // namespace ptdp
