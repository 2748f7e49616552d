// Tests that ranks on GPUs of their own end their training where GPUs hold programs up, and that
// each of the runtime's precautions is needed for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "cost_model/text/csv_table.h"
#include "kernels/cuda/cuda_backend.h"
#include "runtime/transport/nccl/nccl_world.h"
#include "tests/runtime/emulated_nccl/emulation.h"
#include "tests/runtime/layout_sets.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

/// What the runtime does so that ranks end; a test leaves one out.
struct Precautions {
  bool has_process_each = true;
  bool bounds_run_ahead = true;
  bool warms_up = true;  ///< With kernels that were loaded when the program began.
  bool limits_blocks = true;
};

Job hard_job() {
  return {.model = resolved({.num_layers = 8,
                             .hidden_size = 8,
                             .num_attention_heads = 4,
                             .vocab_size = 40,
                             .seq_length = 4},
                            "hard_job"),
          .global_batch_size = 8,
          .type = DataType::kFloat32,
          .dropout = 0.0,
          .uses_nccl = true};
}

/// Returns a covering set of the job's layouts of at most eight ranks, with all that may run beside
/// compute.
std::vector<Layout> hard_layouts() {
  std::vector<Layout> layouts = all_layouts(hard_job());
  std::erase_if(layouts, [](const Layout& layout) { return layout.config().world_size() > 8; });
  layouts = pairwise_covering(layouts);
  for (Layout& layout : layouts) {
    layout.messages = MessageMode::kOverlapped;
    layout.data = DataMode::kOverlapped;
    layout.overlaps_tensor = layout.tp > 1;
  }
  return layouts;
}

class Hardships : public ::testing::Test {
 protected:
  void SetUp() override {
    prepare_nccl_environment();
    ASSERT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    ::unsetenv("CUDA_MODULE_LOADING");  // NOLINT(concurrency-mt-unsafe)
    emulated_gpu::set_hardships({});
  }

  /// Trains with all hardships. Real queues hold 1024 calls: these hold an eighth, and ranks are
  /// ahead by an eighth of the operations that they are ahead in a run.
  static Trained train_hard(const Layout& layout, std::uint64_t seed, Job job = hard_job(),
                            const Precautions& precautions = {}, double patience = 20.0) {
    constexpr int share = 8;
    constexpr int most_queued = 1024 / share;
    constexpr int multiprocessors = 58;  // An L4's, fewer than any GPU of a cluster has.
    emulated_gpu::set_devices(static_cast<int>(layout.config().world_size()));
    if (!precautions.warms_up) {
      ::unsetenv("CUDA_MODULE_LOADING");  // NOLINT(concurrency-mt-unsafe)
    }
    emulated_gpu::set_hardships({.loads_lazily = true,
                                 .most_queued = most_queued,
                                 .multiprocessors = multiprocessors,
                                 .allocates_alone = true,
                                 .is_one_process = !precautions.has_process_each,
                                 .seed = seed,
                                 .patience = patience});
    emulated_nccl::reset({.ignores_most_blocks = !precautions.limits_blocks});
    job.warms_up = precautions.warms_up;
    job.steps = 0;  // one whose gradients are kept
    return train(layout, job, [&](int rank) {
      return make_cuda_backend(
          {.device = rank,
           .is_deterministic = true,
           .most_operations_ahead = precautions.bounds_run_ahead
                                        ? CudaOptions().most_operations_ahead / share
                                        : std::numeric_limits<int>::max()});
    });
  }
  /// Returns why a training does not end, or "" if it does.
  static std::string fault_of(const Layout& layout, const Precautions& precautions) {
    try {
      static_cast<void>(train_hard(layout, 0, hard_job(), precautions, /*patience=*/2.0));
      return "";
    } catch (const std::exception& fault) {
      return fault.what();
    }
  }
};

/// Returns the seeds to try with every layout, which PTDP_SEEDS asks for; 0 asks for one seed with
/// some layouts. Throws Error for what is no number of seeds.
int num_seeds() {
  const char* const asked = std::getenv("PTDP_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  return asked != nullptr ? static_cast<int>(parse_count(asked, 0, 1'000'000, "PTDP_SEEDS")) : 0;
}

// Every layout is tried with a seed before the next seed's turn, so that a campaign that is cut
// short has tried all layouts alike. No two trainings have one seed, and 0 would leave out chance.
TEST_F(Hardships, EndInACoveringSetOfLayouts) {
  const std::vector<Layout> layouts = hard_layouts();
  const int seeds = num_seeds();
  const std::size_t stride = seeds > 0 ? 1 : 4;
  for (int k = 0; k < std::max(seeds, 1); ++k) {
    for (std::size_t i = 0; i < layouts.size(); i += stride) {
      const std::uint64_t seed = 1 + i + static_cast<std::size_t>(k) * layouts.size();
      SCOPED_TRACE(to_string(layouts[i]) + ", seed " + std::to_string(seed));
      ASSERT_NO_THROW(static_cast<void>(train_hard(layouts[i], seed)));
      ASSERT_EQ(emulated_nccl::faults(), std::vector<std::string>());
    }
    if (seeds > 0) {
      std::cout << layouts.size() << " layouts ended with seed " << k + 1 << " of " << seeds
                << std::endl;
    }
  }
}

// A device that is drained has nothing queued that waits for what its rank asks for later
// (runtime/executor/LANES.md). So kernels that are loaded in the middle of a step stop nobody.
TEST_F(Hardships, EndWithoutTheWarmUp) {
  const std::vector<Layout> layouts = hard_layouts();
  for (std::size_t i = 0; i < layouts.size(); i += 7) {
    EXPECT_EQ(fault_of(layouts[i], {.warms_up = false}), "") << to_string(layouts[i]);
  }
}

/// Returns a layout whose ranks have messages both ways under way at once.
Layout hard_layout() {
  Layout layout{.pp = 4,
                .schedule = "dualpipe",
                .recompute = Recompute::kSelective,
                .messages = MessageMode::kOverlapped,
                .data = DataMode::kOverlapped};
  EXPECT_TRUE(exists(layout, hard_job()));
  return layout;
}

// Whether a load in the middle of a step stops anybody is a matter of the GPU's driver.
TEST_F(Hardships, LoadLibrariesBeforeRanksWaitForEachOther) {
  EXPECT_EQ(fault_of(hard_layout(), {.warms_up = false}), "");
  EXPECT_GT(emulated_gpu::loads_beside_meetings(), 0);
  EXPECT_EQ(fault_of(hard_layout(), {}), "");
  EXPECT_EQ(emulated_gpu::loads_beside_meetings(), 0);
}

TEST_F(Hardships, StopRanksWithoutAnyOneOfTheOtherPrecautions) {
  const Layout layout = hard_layout();
  EXPECT_EQ(fault_of(layout, {}), "");
  const auto is_stop = ::testing::HasSubstr("threads wait for each other");
  EXPECT_THAT(fault_of(layout, {.has_process_each = false}), is_stop);
  EXPECT_THAT(fault_of(layout, {.bounds_run_ahead = false}), is_stop);
  EXPECT_THAT(fault_of(layout, {.limits_blocks = false}), is_stop);
}

}  // namespace
}  // namespace ptdp::testing
