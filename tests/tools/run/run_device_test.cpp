// Tests which device a run is on: what is asked for, what the plan is for, and what there is. The
// GPUs are made up by this test.
#include "tools/run/run_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "planner/plan/plan.h"
#include "tests/support/scenarios.h"
#include "tools/run/run_plan.h"

namespace ptdp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool is_built_with_cuda = true;
std::vector<Gpu> gpus_here;

}  // namespace

bool has_cuda() {
  return is_built_with_cuda;
}

std::vector<Gpu> usable_gpus() {
  return gpus_here;
}

/// Stands in for the real function; nothing runs on these GPUs.
std::unique_ptr<Backend> make_gpu_backend(const GpuUse& /*use*/) {
  return nullptr;
}

namespace {

constexpr Bytes kMemory{100e9};

Plan plan_for(int num_multiprocessors) {
  Plan plan;
  plan.scenario.cluster.gpu.num_multiprocessors = num_multiprocessors;
  return plan;
}
const Plan kForGpus = plan_for(132);
const Plan kForHost = plan_for(1);

/// What choosing a device throws; "" if it does not throw.
struct Refusal {
  std::string message;
  ExitStatus status = ExitStatus::kBug;
};
Refusal refusal_of(std::optional<DeviceKind> asked, const Plan& plan) {
  try {
    static_cast<void>(choose_device(asked, plan, /*shrinks=*/false));
    return {};
  } catch (const Error& error) {
    return {error.what(), error.status()};
  }
}

class RunDeviceChoice : public testing::Test {
 protected:
  RunDeviceChoice() {
    is_built_with_cuda = true;
    gpus_here = {{"GPU A", kMemory}, {"GPU A", kMemory}};
  }
};

TEST_F(RunDeviceChoice, IsAGpuWhereThePlanIsForGpusAndOneIsThere) {
  EXPECT_TRUE(choose_device({}, kForGpus, /*shrinks=*/false).is_gpu());
  EXPECT_FALSE(choose_device({}, kForGpus, /*shrinks=*/true).is_gpu());
  EXPECT_FALSE(choose_device({}, kForHost, /*shrinks=*/false).is_gpu());
  gpus_here.clear();
  EXPECT_FALSE(choose_device({}, kForGpus, /*shrinks=*/false).is_gpu());
}

TEST_F(RunDeviceChoice, IsWhatIsAskedFor) {
  EXPECT_FALSE(choose_device(DeviceKind::kCpu, kForGpus, /*shrinks=*/false).is_gpu());
  EXPECT_TRUE(choose_device(DeviceKind::kCuda, kForHost, /*shrinks=*/false).is_gpu());
  EXPECT_TRUE(choose_device(DeviceKind::kCuda, kForGpus, /*shrinks=*/true).is_gpu());
}

TEST_F(RunDeviceChoice, RefusesAGpuThatIsNotThere) {
  gpus_here.clear();
  const Refusal none = refusal_of(DeviceKind::kCuda, kForGpus);
  EXPECT_THAT(none.message, HasSubstr("--device cuda: expected a GPU"));
  EXPECT_EQ(none.status, ExitStatus::kRuntimeFault);
  is_built_with_cuda = false;
  const Refusal not_built = refusal_of(DeviceKind::kCuda, kForGpus);
  EXPECT_THAT(not_built.message, HasSubstr("built without CUDA"));
  EXPECT_EQ(not_built.status, ExitStatus::kBadInput);
}

TEST_F(RunDeviceChoice, SpreadsRanksOverGpusAndSaysWhereTheyShare) {
  const RunDevice device = choose_device({}, kForGpus, /*shrinks=*/false);
  EXPECT_EQ(device.gpu_of(0), 0);
  EXPECT_EQ(device.gpu_of(1), 1);
  EXPECT_EQ(device.gpu_of(2), 0);
  EXPECT_EQ(device.memory(), 2.0 * kMemory);
  EXPECT_EQ(sharing_note(device, 2), "");
  EXPECT_EQ(sharing_note(device, 3),
            "3 ranks share 2 GPUs: this works, but its times say nothing of the plan");
  EXPECT_EQ(sharing_note(RunDevice(), 3), "");
}

// A kernel that adds what another rank sent reads that rank's memory.
TEST_F(RunDeviceChoice, LetsThreadsShareTheFirstGpu) {
  const RunDevice device = shared_by_threads(choose_device({}, kForGpus, /*shrinks=*/false));
  EXPECT_EQ(device.gpu_of(1), 0);
  EXPECT_EQ(device.memory(), kMemory);
  EXPECT_EQ(sharing_note(device, 2),
            "2 ranks share 1 GPU: this works, but its times say nothing of the plan");
  EXPECT_FALSE(shared_by_threads(RunDevice()).is_gpu());
}

/// Returns the message that a check throws; "" if it does not throw.
std::string refused(const std::function<void()>& check) {
  try {
    check();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    return error.what();
  }
}

// Faults F30: before anything is started.
TEST_F(RunDeviceChoice, RefusesGpusOfAnotherKindUnlessThatIsAllowed) {
  Plan plan = plan_for(108);
  plan.scenario.cluster.gpu.name = "a100-80gb-sxm";
  plan.scenario.cluster.gpu.memory = 80.0 * Bytes(kGibi);
  const auto here = [](int multiprocessors, double gibi) {
    return RunDevice{.kind = DeviceKind::kCuda,
                     .gpus = {{.name = "GPU A",
                               .memory = gibi * Bytes(kGibi),
                               .num_multiprocessors = multiprocessors}}};
  };
  // What a driver says of an A100 of 80 GB.
  EXPECT_TRUE(is_planned_gpu(here(108, 79.25), plan));
  EXPECT_EQ(refused([&] { check_gpu_type(here(108, 79.25), plan, false); }), "");
  for (const RunDevice& other : {here(108, 39.4), here(132, 79.1)}) {
    EXPECT_FALSE(is_planned_gpu(other, plan));
    EXPECT_THAT(refused([&] { check_gpu_type(other, plan, false); }),
                AllOf(HasSubstr("a100-80gb-sxm (108 multiprocessors, 86 GB)"), HasSubstr("GPU A"),
                      HasSubstr("--allow-other-gpu")));
    EXPECT_EQ(refused([&] { check_gpu_type(other, plan, true); }), "");
  }
  RunDevice mixed = here(108, 79.25);
  mixed.gpus.push_back(here(132, 79.1).gpus.front());
  EXPECT_FALSE(is_planned_gpu(mixed, plan));
  EXPECT_TRUE(is_planned_gpu(RunDevice(), kForHost));
  EXPECT_FALSE(is_planned_gpu(RunDevice(), plan));
  EXPECT_EQ(refused([&] { check_gpu_type(RunDevice(), plan, false); }), "");
}

/// Returns a plan with tensor-parallel groups of `tp` ranks, on nodes of `gpus_per_node` GPUs.
Plan plan_of(int tp, int gpus_per_node) {
  Plan plan = plan_for(132);
  plan.config.tp = tp;
  plan.scenario.cluster.gpus_per_node = gpus_per_node;
  return plan;
}

TEST_F(RunDeviceChoice, WantsAGpuForEachRankOfNccl) {
  const RunDevice two = choose_device({}, kForGpus, /*shrinks=*/false);
  const auto place = [&](int ranks, bool are_processes, const RunDevice& device) {
    return refused([&] {
      check_nccl_placement(device, plan_of(1, 8),
                           {.ranks_here = ranks, .are_processes = are_processes});
    });
  };
  EXPECT_EQ(place(2, false, two), "");
  EXPECT_EQ(place(2, true, two), "");
  EXPECT_THAT(place(3, false, two),
              AllOf(HasSubstr("3 ranks on this machine and 2 GPUs"), HasSubstr("threads")));
  EXPECT_THAT(place(3, true, two), HasSubstr("--transport mpi"));
  const RunDevice own = shared_by_threads(two);  // as srun --gpus-per-task=1 shows it
  EXPECT_EQ(place(2, true, own), "");
  EXPECT_THAT(place(2, false, own), HasSubstr("2 ranks on this machine and 1 GPU:"));
  EXPECT_THAT(place(1, false, RunDevice()), HasSubstr("the ranks run on the host"));
  EXPECT_THAT(sharing_note(own, 2, /*are_processes=*/true), HasSubstr("give --transport nccl"));
}

TEST_F(RunDeviceChoice, KeepsTensorParallelGroupsOnAMachine) {
  gpus_here.assign(4, {"GPU A", kMemory});
  const RunDevice four = choose_device({}, kForGpus, /*shrinks=*/false);
  const auto place = [&](const Plan& plan, RankPlacement rank) {
    rank.are_processes = true;
    return refused([&] { check_nccl_placement(four, plan, rank); });
  };
  // Ranks in blocks: ranks 4 to 7 are on the second of two machines.
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(place(plan_of(4, 8), {.rank = rank, .place = rank % 4, .ranks_here = 4}), "");
    EXPECT_EQ(place(plan_of(2, 8), {.rank = rank, .place = rank % 4, .ranks_here = 4}), "");
  }
  EXPECT_THAT(place(plan_of(8, 8), {.rank = 4, .place = 0, .ranks_here = 4}),
              HasSubstr("rank 4 is number 0 of 4 on its machine"));
  // Ranks in turn: rank 1 is on the second machine.
  EXPECT_THAT(place(plan_of(2, 8), {.rank = 1, .place = 0, .ranks_here = 4}),
              HasSubstr("--distribution=block"));
  EXPECT_EQ(place(plan_of(1, 8), {.rank = 1, .place = 0, .ranks_here = 4}), "");
  // NVLink between the machines of a rack.
  EXPECT_EQ(place(plan_of(8, 72), {.rank = 4, .place = 0, .ranks_here = 4}), "");
}

/// Returns a plan for gpt-tiny on two GPUs of an H200's node.
Plan plan_for_two_gpus() {
  return make_plan({shipped_scenario("gpt-tiny", "hgx-h200", "ptdp-cuda"), {.dp = 2}}, /*gpus=*/2,
                   /*memory_headroom=*/0.0, Calibration{});
}

class PreparedOnGpus : public RunDeviceChoice {
 protected:
  PreparedOnGpus() {
    const GpuSpec& planned = plan.scenario.cluster.gpu;
    gpus_here.assign(2, {.name = "GPU A",
                         .memory = planned.memory,
                         .num_multiprocessors = planned.num_multiprocessors});
    over_links.uses_nccl = false;
    over_nccl.uses_nccl = true;
  }
  /// Returns the message that preparing the request throws; "" if it does not throw.
  [[nodiscard]] std::string refusal(const RunRequest& request) const {
    return refused([&] { static_cast<void>(prepare_run(plan, request)); });
  }

  const Plan plan = plan_for_two_gpus();
  RunRequest over_links;
  RunRequest over_nccl;
};

TEST_F(PreparedOnGpus, IsPredictedOnThePlansKindOfGpuAlone) {
  const PreparedRun run = prepare_run(plan, over_links);
  EXPECT_TRUE(run.is_predicted);
  EXPECT_THAT(run.basis, testing::StartsWith("Predicted for hgx-h200 with ptdp-cuda; "));
  EXPECT_EQ(run.device.gpus.size(), 1U) << "threads share one";
  EXPECT_FALSE(run.uses_nccl);
  RunRequest reproducible = over_links;
  reproducible.is_reproducible = true;
  EXPECT_EQ(prepare_run(plan, reproducible).basis,
            "Not predicted: --reproducible computes weight gradients apart and sums in one order");
  gpus_here.front().num_multiprocessors = 7;
  gpus_here.front().name = "GPU B";
  EXPECT_THAT(refusal(over_links), HasSubstr("--allow-other-gpu"));
  RunRequest other = over_links;
  other.allows_other_gpu = true;
  EXPECT_EQ(prepare_run(plan, other).basis, "Not predicted: the plan is for " +
                                                plan.scenario.cluster.gpu.name +
                                                ", and this ran on cuda: GPU B");
  gpus_here.clear();
  const PreparedRun on_host = prepare_run(plan, over_links);
  EXPECT_FALSE(on_host.is_predicted);
  EXPECT_EQ(on_host.basis, "Not predicted: the plan is for hgx-h200, and this ran on cpu");
}

TEST_F(PreparedOnGpus, HasAGpuForEachRankOfNcclAndOfProcesses) {
  const PreparedRun nccl = prepare_run(plan, over_nccl);
  EXPECT_TRUE(nccl.uses_nccl);
  EXPECT_EQ(nccl.device.gpus.size(), 2U);
  RunRequest processes = over_links;
  processes.ranks_here = 2;
  EXPECT_EQ(prepare_run(plan, processes).device.gpus.size(), 2U);
  gpus_here.resize(1);
  EXPECT_THAT(refusal(over_nccl), HasSubstr("2 ranks on this machine and 1 GPU: expected a GPU for "
                                            "each rank, or --transport threads"));
  gpus_here.clear();
  EXPECT_THAT(refusal(over_nccl), HasSubstr("--transport nccl: the ranks run on the host"));
}

TEST_F(PreparedOnGpus, RefusesPrecisionsThatTheDeviceDoesNotHave) {
  RunRequest request = over_links;
  request.precision = Precision::kFp64;
  EXPECT_EQ(refusal(request),
            "--dtype fp64: GPUs compute in fp32, bf16 and fp16 here; expected one of them, or "
            "--device cpu");
  request.precision = Precision::kFp32;
  EXPECT_EQ(refusal(request), "");
}

// Two ranks hold a few MB each; a GPU of a MB holds neither.
TEST_F(PreparedOnGpus, RefusesRanksThatDoNotFit) {
  const std::string ways_out =
      "; --shrink runs the plan's orders and messages with tiny layers, and --rehearse one rank at "
      "full size";
  gpus_here.back() = {.name = "GPU B", .memory = Bytes(1e6)};
  over_links.allows_other_gpu = true;
  over_nccl.allows_other_gpu = true;
  EXPECT_EQ(refusal(over_links), "") << "the first one is large";
  EXPECT_THAT(
      refusal(over_nccl),
      AllOf(testing::StartsWith("config: a rank needs "),
            testing::EndsWith("; expected at most the 0.0 GiB of its GPU, GPU B" + ways_out)));
  gpus_here.front().memory = Bytes(1e6);
  const std::string end = " GiB together; expected at most the 0.0 GiB of the GPUs here" + ways_out;
  EXPECT_THAT(refusal(over_links),
              AllOf(testing::StartsWith("config: 2 ranks need "), testing::EndsWith(end)));
  over_links.ranks_here = 1;
  EXPECT_THAT(refusal(over_links),
              AllOf(testing::StartsWith("config: 1 rank needs "), testing::EndsWith(end)));
}

/// Returns SC21's plan of 1T parameters for 3072 GPUs, with 512 microbatches.
Plan plan_of_many_ranks() {
  return make_plan({selene_2021("1T"),
                    {.tp = 8,
                     .pp = 64,
                     .dp = 6,
                     .micro_batch_size = 1,
                     .schedule = ScheduleKind::kOneFOneB,
                     .recompute = Recompute::kFull}},
                   /*gpus=*/3072, /*memory_headroom=*/0.0, Calibration{});
}

// 8·128 passes of a layer a microbatch, so that a filling of 64 takes 65,536 of the 150,000 that a
// few seconds are for: two fillings.
TEST_F(RunDeviceChoice, IsOfFewMicrobatchesWhereAPlanIsShrunk) {
  const Plan plan = plan_of_many_ranks();
  RunRequest request;
  request.shrinks = true;
  const auto microbatches = [&](std::optional<int> asked) {
    request.microbatches = asked;
    const PreparedRun run = prepare_run(plan, request);
    EXPECT_EQ(run.executed.scenario.job.global_batch_size, run.executed.schedule.num_microbatches);
    EXPECT_EQ(run.settings.schedule.num_microbatches, run.executed.schedule.num_microbatches);
    return run.executed.schedule.num_microbatches;
  };
  EXPECT_EQ(microbatches({}), 128);
  EXPECT_EQ(microbatches(64), 64);
  EXPECT_EQ(microbatches(512), 512);
  EXPECT_EQ(microbatches(1000), 512) << "no more than the plan has";
  request.microbatches = 64;
  const PreparedRun run = prepare_run(plan, request);
  EXPECT_EQ(run.settings.config.world_size(), 8 * 64);
  EXPECT_EQ(run.precision, Precision::kFp32);
  EXPECT_FALSE(run.device.is_gpu());
  EXPECT_FALSE(run.is_predicted);
  EXPECT_EQ(run.basis, "Not predicted: the layers are shrunk to tiny ones");
}

TEST_F(RunDeviceChoice, HasNoMoreRanksThanAProcessHasThreadsFor) {
  const Plan plan = plan_of_many_ranks();
  RunRequest request;
  request.device = DeviceKind::kCpu;
  EXPECT_EQ(refused([&] { static_cast<void>(prepare_run(plan, request)); }),
            "config: 3072 ranks are too many for the threads of one process; expected at most "
            "1024; --shrink runs the plan's orders and messages with tiny layers, and --rehearse "
            "one rank at full size");
  request.ranks_here = 3071;
  EXPECT_THAT(refused([&] { static_cast<void>(prepare_run(plan, request)); }),
              testing::StartsWith("config: 3071 ranks need "));
}

TEST_F(RunDeviceChoice, NamesEachKindOfGpuOnce) {
  EXPECT_EQ(choose_device({}, kForGpus, /*shrinks=*/false).name(), "cuda: GPU A");
  gpus_here.push_back({"GPU B", kMemory});
  EXPECT_EQ(choose_device({}, kForGpus, /*shrinks=*/false).name(), "cuda: GPU A, GPU B");
  EXPECT_EQ(RunDevice().name(), "cpu");
}

}  // namespace
}  // namespace ptdp
