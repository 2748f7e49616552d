// Forward attention in 16 bits against what NVIDIA measured on single kernels of vLLM.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/operations/attention.h"
#include "tests/validation/kernels/measured_kernels.h"

namespace ptdp {
namespace {

/// A system of the measurements, our profile of its GPU, and what these rows have of their own.
struct AttentionSystem {
  std::string name;
  std::string gpu;
  std::string kernel;  ///< Whose shape the rows give.
  double level = 0.0;  ///< Their rate over the profile's: they are short runs at full clocks.
  double start = 0.0;  ///< Time of scheduling in the engine [us].
  /// Share of memory bandwidth at which the engine copies keys and values into its cache. Training
  /// copies none.
  double cache_share = 0.0;
};

void PrintTo(const AttentionSystem& system, std::ostream* out) {
  *out << system.gpu;
}

class MeasuredAttention : public testing::TestWithParam<AttentionSystem> {
 protected:
  MeasuredAttention() {
    stack_.attention = GetParam().kernel;
    std::erase_if(gpu_.attention_rates,
                  [&](const AttentionRate& rate) { return rate.kernel != GetParam().kernel; });
    for (const AttentionRate& rate : gpu_.attention_rates) {
      forward_.push_back(rate.forward);
    }
    half_rate_length_ = gpu_.attention_rates.front().half_rate_length;
  }

  [[nodiscard]] Seconds time_of(const MeasuredKernel& kernel) {
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      AttentionRate& rate = gpu_.attention_rates[i];
      rate.forward = level_ * forward_[i];
      rate.half_rate_length = half_rate_length_;
      rate.start = microseconds(start_);
    }
    const TransformerConfig model = {.num_attention_heads = static_cast<int>(kernel.heads),
                                     .kv_channels = static_cast<int>(kernel.head_dim),
                                     .seq_length = static_cast<int>(kernel.seq),
                                     .dropout = false};
    const auto elements =
        static_cast<double>(kernel.batch * kernel.seq * kernel.kv_heads * kernel.head_dim);
    const Bytes copied(2.0 * 2.0 * 2.0 * elements);  // keys and values, read and written
    return attention_time(model, static_cast<int>(kernel.batch), 1, gpu_, stack_).forward +
           copied / BytesPerSecond(cache_share_ * gpu_.memory_bandwidth.value());
  }

  std::vector<MeasuredKernel> rows_ =
      measured_kernels(GetParam().name, "vllm", "attention", "bf16");
  KernelTime model_ = [this](const MeasuredKernel& kernel) { return time_of(kernel); };
  GpuSpec gpu_ = find_gpu(GetParam().gpu);
  StackSpec stack_;
  std::vector<double> forward_;  ///< The profile's, by width; the rows' are `level_` times these.
  double half_rate_length_ = 0.0;
  double level_ = GetParam().level;
  double start_ = GetParam().start;
  double cache_share_ = GetParam().cache_share;
};

TEST_P(MeasuredAttention, GivesTheProfilesShape) {
  std::vector<FittedConstant> constants = {{"half_rate_length", &half_rate_length_, 5000.0},
                                           {"level", &level_, 5.0},
                                           {"start [us]", &start_, 100.0},
                                           {"share of bandwidth of the cache", &cache_share_, 1.0}};
  for (std::size_t i = 0; i < forward_.size(); ++i) {
    const int width = gpu_.attention_rates[i].head_width;
    ASSERT_EQ(gpu_.attention_rates[i].half_rate_length, half_rate_length_) << width;
    if (width != 0 && width != 128) {  // the level is that of 128
      constants.push_back({"forward of heads of " + std::to_string(width), &forward_[i], 1.0});
    }
  }
  expect_refitted(rows_, model_, constants);
}

TEST_P(MeasuredAttention, IsAsLongAsItShouldBe) {
  const KernelErrors errors = errors_on(rows_, model_);
  std::cout << GetParam().gpu << ": " << errors << " %\n";
  EXPECT_LT(errors.median, 0.13);
  EXPECT_LT(errors.p90, 0.35);
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, MeasuredAttention,
    testing::Values(AttentionSystem{"a100_sxm", "a100-80gb-sxm", "flash-2", 0.867, 18.4, 0.83},
                    AttentionSystem{"h100_sxm", "h100-80gb-sxm", "cudnn", 1.133, 14.8, 0.31},
                    AttentionSystem{"h200_sxm", "h200-141gb-sxm", "cudnn", 1.093, 16.7, 0.23},
                    AttentionSystem{"b200_sxm", "b200-180gb-sxm", "cudnn", 1.26, 15.9, 0.246},
                    AttentionSystem{"gb200", "gb200-nvl72", "cudnn", 1.2, 17.3, 0.334}));

}  // namespace
}  // namespace ptdp
