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

std::ostream& operator<<(std::ostream& out, const AttentionSystem& system) {
  return out << system.gpu;
}

/// Returns the system's GPU with rates of its kernel alone.
GpuSpec gpu_of(const AttentionSystem& system) {
  GpuSpec gpu = find_gpu(system.gpu);
  std::erase_if(gpu.attention_rates,
                [&](const AttentionRate& rate) { return rate.kernel != system.kernel; });
  return gpu;
}

struct MeasuredAttention : testing::TestWithParam<AttentionSystem> {
  MeasuredAttention() {
    stack.attention = GetParam().kernel;
    for (const AttentionRate& rate : gpu.attention_rates) {
      forward.push_back(rate.forward);
    }
  }

  [[nodiscard]] Seconds time_of(const MeasuredKernel& kernel) {
    for (std::size_t i = 0; i < forward.size(); ++i) {
      AttentionRate& rate = gpu.attention_rates[i];
      rate.forward = level * forward[i];
      rate.half_rate_length = half_rate_length;
      rate.start = microseconds(start);
    }
    const TransformerConfig one_layer = {.num_attention_heads = static_cast<int>(kernel.heads),
                                         .kv_channels = static_cast<int>(kernel.head_dim),
                                         .seq_length = static_cast<int>(kernel.seq),
                                         .dropout = false};
    const auto elements =
        static_cast<double>(kernel.batch * kernel.seq * kernel.kv_heads * kernel.head_dim);
    const Bytes copied(2.0 * 2.0 * 2.0 * elements);  // keys and values, read and written
    return attention_time(one_layer, static_cast<int>(kernel.batch), 1, gpu, stack).forward +
           copied / BytesPerSecond(cache_share * gpu.memory_bandwidth.value());
  }

  std::vector<MeasuredKernel> rows = measured_kernels(GetParam().name, "vllm", "attention", "bf16");
  KernelTime model = [this](const MeasuredKernel& kernel) { return time_of(kernel); };
  GpuSpec gpu = gpu_of(GetParam());
  StackSpec stack;
  std::vector<double> forward;  ///< The profile's, by width; the rows' are `level` times these.
  double half_rate_length = gpu.attention_rates.front().half_rate_length;
  double level = GetParam().level;
  double start = GetParam().start;
  double cache_share = GetParam().cache_share;
};

TEST_P(MeasuredAttention, GivesTheProfilesShape) {
  std::vector<FittedConstant> constants = {{"half_rate_length", &half_rate_length, 5000.0},
                                           {"level", &level, 5.0},
                                           {"start [us]", &start, 100.0},
                                           {"share of bandwidth of the cache", &cache_share, 1.0}};
  for (std::size_t i = 0; i < forward.size(); ++i) {
    const int width = gpu.attention_rates[i].head_width;
    ASSERT_EQ(gpu.attention_rates[i].half_rate_length, half_rate_length) << width;
    if (width != 0 && width != 128) {  // the level is that of 128
      constants.push_back({"forward of heads of " + std::to_string(width), &forward[i], 1.0});
    }
  }
  expect_refitted(rows, model, constants);
}

TEST_P(MeasuredAttention, IsAsLongAsItShouldBe) {
  const KernelErrors errors = errors_on(rows, model);
  std::cout << GetParam().gpu << ": " << errors << " %\n";
  EXPECT_LT(errors.median, 0.13);
  EXPECT_LT(errors.p90, 0.35);
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, MeasuredAttention,
    testing::Values(AttentionSystem{"a100_sxm", "a100-80gb-sxm", "flash-2", 0.867, 18.4, 0.83},
                    AttentionSystem{"b200_sxm", "b200-180gb-sxm", "cudnn", 1.26, 15.9, 0.246},
                    AttentionSystem{"gb200", "gb200-nvl72", "cudnn", 1.2, 17.3, 0.334},
                    AttentionSystem{"l40s", "l40s", "flash-2", 1.165, 12.8, 0.826},
                    AttentionSystem{"rtx_pro_6000_server", "rtx-pro-6000-blackwell", "flash-2",
                                    1.03, 16.3, 1.0}));

}  // namespace
}  // namespace ptdp
