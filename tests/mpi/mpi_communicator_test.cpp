// Tests how processes that mpirun started run ranks.
#include "runtime/transport/processes/mpi_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"
#include "tests/mpi/process_ranks.h"
#include "tests/runtime/transport/buffers.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;

TEST(RunRanks, RunsTheFirstProcessesAlone) {
  RankLaunch launch = {.size = 3,
                       .make_backend = [] { return std::make_unique<CpuBackend>(); },
                       .process = &this_process()};
  bool has_run = false;
  run_ranks(launch, [&](Communicator& world, Backend&) {
    std::vector<float> one = {1.0F};
    world.all_reduce(buffer_of(one), Reduction::kSum);
    EXPECT_THAT(one, ElementsAre(3.0F));
    has_run = true;
  });
  EXPECT_EQ(has_run, this_process().rank() < 3);
}

TEST(RunRanks, GivesEachProcessItsErrorOrAborted) {
  const RankLaunch launch = {.size = this_process().size(),
                             .make_backend = [] { return std::make_unique<CpuBackend>(); },
                             .process = &this_process()};
  std::string thrown;
  try {
    run_ranks(launch, [](Communicator& world, Backend&) {
      if (world.rank() == 2) {
        throw Error("no more", ExitStatus::kOutputFailed);
      }
      world.barrier();
    });
  } catch (const Error& error) {
    thrown = error.what();
    EXPECT_EQ(error.status(), ExitStatus::kOutputFailed);
  } catch (const Aborted&) {
    thrown = "aborted";
  }
  EXPECT_EQ(thrown, this_process().rank() == 2 ? "rank 2: no more" : "aborted");
}

TEST(RunRanks, HandsOutTheControlOfItsWorld) {
  RankLaunch launch = {.size = this_process().size(),
                       .make_backend = [] { return std::make_unique<CpuBackend>(); },
                       .process = &this_process()};
  std::function<void()> abort;
  launch.on_start = [&](const WorldControl& control) { abort = control.abort; };
  const auto body = [&](Communicator& world, Backend&) {
    if (world.rank() == 1) {
      abort();
    }
    world.barrier();
  };
  EXPECT_THROW(run_ranks(launch, body), Aborted);
}

}  // namespace
}  // namespace ptdp
