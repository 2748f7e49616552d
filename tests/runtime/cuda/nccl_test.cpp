// Tests a world of one rank over the real NCCL: every call that an executor makes, and a training.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/transport/nccl/nccl_world.h"
#include "tests/runtime/cuda/training_on_gpu.h"
#include "tests/runtime/transport/device_values.h"

namespace ptdp::testing {
namespace {

class OnGpuNccl : public OnGpuTraining {
 protected:
  void SetUp() override {
    OnGpuTraining::SetUp();
    if (!has_nccl()) {
      GTEST_SKIP() << "built without NCCL";
    }
  }

  static void on_one_rank(const RankBody& body) {
    run_ranks({.size = 1,
               .make_backend = [] { return make_cuda_backend({}); },
               .uses_nccl = true,
               .make_host_backend = [] { return std::make_unique<CpuBackend>(); }},
              body);
  }
};

TEST_F(OnGpuNccl, LeavesWhatOneRankHasAlone) {
  on_one_rank([](Communicator& world, Backend& backend, const HostSide& host) {
    const auto group = world.group(std::array{0}, 1);
    EXPECT_TRUE(group->is_queued());
    const std::vector<double> values = {3.0, -1.0, 2.0, 7.0, 5.0};
    for (Communicator* const end : {&world, group.get()}) {
      for (const DataType type : {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16,
                                  DataType::kFloat16, DataType::kInt32}) {
        for (int lane = 0; lane < kNumBackendLanes; ++lane) {
          backend.use_lane(lane);
          const Tensor x = uploaded(backend, type, values);
          end->all_reduce(x, Reduction::kSum);
          end->all_reduce(x, Reduction::kMaximum);
          end->reduce_scatter(x);
          end->all_gather(x);
          end->wait(end->begin_all_reduce(x, Reduction::kSum));
          end->wait(end->begin_reduce_scatter(x));
          end->wait(end->begin_all_gather(x));
          EXPECT_EQ(downloaded(backend, x), values) << name_of(type);
        }
      }
      end->barrier();
      end->check();
    }
    host.world.barrier();
  });
}

TEST_F(OnGpuNccl, CarriesMessagesToItself) {
  on_one_rank([](Communicator& world, Backend& backend) {
    for (const std::int64_t size : {1, 1000, 3'000'001}) {
      const std::vector<double> values(static_cast<std::size_t>(size), 4.0);
      const Tensor from = uploaded(backend, DataType::kFloat32, values);
      const Tensor to(backend, DataType::kFloat32, size);
      const Request sent = world.send(from, 0);
      world.wait(world.receive(to, 0));
      world.wait(sent);
      EXPECT_EQ(downloaded(backend, to), values);
    }
  });
}

TEST_F(OnGpuNccl, EndsWithAnAbort) {
  EXPECT_THROW(on_one_rank([](Communicator& world, Backend& backend) {
                 const Tensor x = uploaded(backend, DataType::kFloat32, {1.0});
                 world.all_reduce(x, Reduction::kSum);
                 world.abort(ExitStatus::kRuntimeFault);
                 world.all_reduce(x, Reduction::kSum);
               }),
               Aborted);
}

TEST_F(OnGpuNccl, SaysItsVersion) {
  EXPECT_TRUE(has_nccl());
  EXPECT_EQ(nccl_version().substr(0, 2), "2.");
}

TEST_F(OnGpuNccl, TrainsAsAHostDoes) {
  Job job = small_job();
  job.model.num_layers = 2;
  job.global_batch_size = 4;
  job.type = DataType::kFloat32;
  job.steps = 5;
  const Trained expected = train({}, job);
  job.uses_nccl = true;
  expect_trains_alike(train_on_gpu({}, job), expected, 1e-5, "");
}

}  // namespace
}  // namespace ptdp::testing
