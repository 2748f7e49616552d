// Tests of the models whose operations a profile measures.
#include "runtime/profiling/profiled_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "runtime/profiling/profiled_device.h"

namespace ptdp {
namespace {

constexpr double kAll = std::numeric_limits<double>::infinity();

/// Returns the sizes of a layer's forward products.
std::vector<OperationSizes> products_of(const TransformerConfig& model, double tokens) {
  const double h = model.hidden_size;
  const auto queries = static_cast<double>(query_width(model));
  const double ffn = model.ffn_hidden_size;
  return {{tokens, 3.0 * queries, h}, {tokens, h, queries}, {tokens, ffn, h}, {tokens, h, ffn}};
}

bool is_within(const OperationSizes& a, const OperationSizes& b, double factor) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > factor * b[i] || b[i] > factor * a[i]) {
      return false;
    }
  }
  return true;
}

// What MeasuredOperation::covers() asks for, and no plan should extrapolate.
TEST(GpuModels, CoverTheProductsThatPlansUse) {
  std::vector<OperationSizes> measured;
  for (const ProfiledModel& profiled : gpu_models(kAll)) {
    const double tokens = profiled.micro_batch_size * profiled.model.seq_length;
    for (const OperationSizes& sizes : products_of(profiled.model, tokens)) {
      measured.push_back(sizes);
    }
  }
  for (const int hidden : {1024, 1600, 2048, 2560, 4096, 5120, 6144, 8192, 12288}) {
    for (const int tp : {1, 2, 4, 8}) {
      for (const double tokens : {1024.0, 4096.0, 16384.0, 65536.0}) {
        const TransformerConfig model{.hidden_size = hidden,
                                      .num_attention_heads = hidden / 64 / tp,
                                      .kv_channels = 64,
                                      .ffn_hidden_size = 4 * hidden / tp};
        for (const OperationSizes& sizes : products_of(model, tokens)) {
          EXPECT_TRUE(std::any_of(measured.begin(), measured.end(),
                                  [&](const auto& other) { return is_within(sizes, other, 4.0); }))
              << "hidden " << hidden << " over " << tp << ": " << sizes[0] << ' ' << sizes[1] << ' '
              << sizes[2];
        }
      }
    }
  }
}

// A factor of 64 is a gap, which the reader of a profile refuses.
TEST(GpuModels, LeaveNoGapInAttention) {
  for (const double dropout : {0.0, 0.1}) {
    std::vector<OperationSizes> measured;
    for (const ProfiledModel& profiled : gpu_models(kAll)) {
      if (profiled.dropout == dropout) {
        measured.push_back({1.0 * profiled.micro_batch_size * profiled.model.num_attention_heads,
                            1.0 * profiled.model.seq_length, 1.0 * profiled.model.kv_channels});
      }
    }
    ASSERT_GE(measured.size(), 4U);
    for (const OperationSizes& sizes : measured) {
      EXPECT_TRUE(std::any_of(
          measured.begin(), measured.end(),
          [&](const auto& other) { return other != sizes && is_within(sizes, other, 16.0); }))
          << sizes[0] << ' ' << sizes[1] << ' ' << sizes[2];
    }
  }
}

TEST(GpuModels, AreFewWhereThereIsLittleTime) {
  EXPECT_LT(gpu_models(1e12).size(), gpu_models(kAll).size());
  EXPECT_GE(gpu_models(0.0).size(), 4U);
}

// An H200 has 141 GB.
TEST(StepMemory, LetsAnH200MeasureAllModels) {
  for (const ProfiledModel& profiled : gpu_models(kAll)) {
    EXPECT_LT(step_memory(profiled, Precision::kBf16).value(), 0.9 * 131.3 * kGibi)
        << profiled.model.hidden_size;
  }
}

// 18 bytes per parameter: bf16 weights; gradients, masters and two moments in f32.
TEST(StepMemory, IsStateAndActivations) {
  ProfiledModel profiled = profiled_model({1024, 16, 64, 4096, 128, 1, 128, 2, 0.0});
  const double state = 18.0 * static_cast<double>(parameter_count(profiled.model));
  // A host's norm sums the gradients of gain and bias in four rows of f32, however many tokens.
  const double fixed = state + 4.0 * 1024.0 * 4.0;
  const double one = step_memory(profiled, Precision::kBf16).value() - fixed;
  EXPECT_GT(one, 0.0);
  profiled.micro_batch_size = 2;
  const double two = step_memory(profiled, Precision::kBf16).value() - fixed;
  EXPECT_NEAR(two, 2.0 * one, 1e-6 * one);
}

TEST(FindKnownGpu, NamesProfilesThatAreShippedAndBelongTogether) {
  for (const char* name :
       {"NVIDIA H200", "NVIDIA B200", "NVIDIA GB200", "NVIDIA GB300", "NVIDIA B300 SXM6 AC",
        "NVIDIA H800", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"}) {
    const std::optional<KnownGpu> known = find_known_gpu(name);
    ASSERT_TRUE(known.has_value()) << name;
    EXPECT_EQ(find_cluster(known->cluster).gpu.name, find_gpu(known->gpu).name) << name;
  }
  EXPECT_EQ(find_known_gpu("NVIDIA H200")->cluster, "hgx-h200");
  EXPECT_EQ(find_known_gpu("NVIDIA GB200")->gpu, "gb200-nvl72");
  EXPECT_FALSE(find_known_gpu("NVIDIA GeForce RTX 4090").has_value());
}

}  // namespace
}  // namespace ptdp
