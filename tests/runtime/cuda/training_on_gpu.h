// Training runs whose ranks share one GPU, real or emulated.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/cuda_backend.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {

class OnGpuTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_cuda_devices() == 0) {
      GTEST_SKIP() << "no GPU";
    }
  }

  [[nodiscard]] static Trained train_on_gpu(const Layout& layout, const Job& job) {
    return train(layout, job, [] { return make_cuda_backend({.is_deterministic = true}); });
  }
  /// Trains with single operations in place of epilogues of products.
  [[nodiscard]] static Trained train_without_epilogues(const Layout& layout, const Job& job) {
    return train(layout, job, [] {
      return make_cuda_backend({.is_deterministic = true, .uses_epilogues = false});
    });
  }

  /// Expects losses and the first step's gradients to equal a host's, each within `allowed` of
  /// their size.
  static void expect_trains_alike(const Trained& found, const Trained& expected, double allowed,
                                  const std::string& what) {
    ASSERT_EQ(found.losses.size(), expected.losses.size()) << what;
    for (std::size_t step = 0; step < found.losses.size(); ++step) {
      EXPECT_NEAR(found.losses[step], expected.losses[step], allowed * expected.losses[step])
          << what << ", step " << step;
    }
    EXPECT_LE(largest_difference(found.gradients, expected.gradients), allowed) << what;
  }
};

}  // namespace ptdp::testing
