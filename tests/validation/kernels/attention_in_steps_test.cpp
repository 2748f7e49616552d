// Attention between products, at the clock that a power limit leaves, against what an H200
// measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/operations/attention.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

const CsvTable& passes() {
  static const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/attention_in_steps.csv");
  return table;
}

int count(std::size_t row, const char* column) {
  return static_cast<int>(
      parse_count(passes().text(row, column), 1, 1'000'000, passes().place_of(row, column)));
}

double number(std::size_t row, const char* column) {
  return parse_number(passes().text(row, column), 0.1, 1e6, passes().place_of(row, column));
}

/// Returns the catalog's time of the pass in `row` over what was measured between products.
double relative_time(std::size_t row) {
  StackSpec stack;
  stack.attention = passes().text(row, "kernel");
  const TransformerConfig one_layer = {.num_attention_heads = count(row, "heads"),
                                       .kv_channels = count(row, "head_size"),
                                       .seq_length = count(row, "seq"),
                                       .dropout = false};
  const AttentionTime time =
      attention_time(one_layer, count(row, "batch"), 1, find_gpu(passes().text(row, "gpu")), stack);
  const bool is_forward = passes().text(row, "pass") == "forward";
  return (is_forward ? time.forward : time.backward).value() * 1e6 / number(row, "between_us");
}

// Long sequences make most of the measured loop attention, which then has a faster clock.
// FlashAttention-2 takes so long that this begins at 8192 tokens.
TEST(AttentionInSteps, IsTheCatalogsWherePowerLimitsIt) {
  int num_rows = 0;
  for (std::size_t row = 0; row < passes().num_rows(); ++row) {
    const int tokens = count(row, "seq");
    if (tokens <= 8192) {
      const bool is_short = tokens <= 4096 || passes().text(row, "kernel") == "cudnn";
      EXPECT_NEAR(relative_time(row), 1.0, is_short ? 0.02 : 0.13) << row;
      ++num_rows;
    }
  }
  EXPECT_EQ(num_rows, 24);
}

/// Expects each rate of attention that both GPUs have to be `share` of the other's; returns how
/// many there are. Dropout's rates, which one of them measured alone, do not count.
int expect_share_of_rates(const GpuSpec& gpu, const GpuSpec& other, double share,
                          double tolerance) {
  int num_entries = 0;
  for (const AttentionRate& there : other.attention_rates) {
    for (const AttentionRate& here : gpu.attention_rates) {
      if (here.kernel == there.kernel && here.head_width == there.head_width &&
          here.kernel != "ptdp-cuda-dropout") {
        EXPECT_NEAR(here.forward, share * there.forward, tolerance) << here.kernel;
        EXPECT_NEAR(here.backward, share * there.backward, tolerance) << here.kernel;
        EXPECT_EQ(here.half_rate_length, there.half_rate_length);
        EXPECT_EQ(here.backward_half_rate_length, there.backward_half_rate_length);
        ++num_entries;
      }
    }
  }
  return num_entries;
}

// An H100 has the multiprocessors of an H200, and a power limit that leaves its products more.
TEST(AttentionInSteps, OfAnH100IsThatOfAnH200ByTheirProducts) {
  const GpuSpec h100 = find_gpu("h100-80gb-sxm");
  const GpuSpec h200 = find_gpu("h200-141gb-sxm");
  const double share = h100.matmul_sustained / h200.matmul_sustained;
  EXPECT_EQ(expect_share_of_rates(h100, h200, share, 2e-4), 10);
  for (const AttentionRate& entry : find_gpu("h800-80gb-sxm").attention_rates) {
    EXPECT_EQ(std::count(h100.attention_rates.begin(), h100.attention_rates.end(), entry), 1)
        << entry.kernel << " " << entry.head_width;
  }
}

// Power as C·V²·f and voltage as the clock make the clock the cube root of power.
TEST(AttentionInSteps, OfACappedH100IsTheCubeRootOfItsPower) {
  const GpuSpec h100 = find_gpu("h100-80gb-sxm");
  const GpuSpec capped = find_gpu("h100-96gb-hbm2e");
  const double share = std::cbrt(500.0 / 700.0);
  EXPECT_NEAR(capped.matmul_sustained, share * h100.matmul_sustained, 1e-4);
  for (std::size_t i = 0; i < capped.low_bit_products.size(); ++i) {
    const LowBitProducts& here = capped.low_bit_products[i];
    const LowBitProducts& there = h100.low_bit_products.at(i);
    EXPECT_EQ(here.efficiency, there.efficiency);
    ASSERT_EQ(here.sustained.has_value(), there.sustained.has_value());
    if (here.sustained) {
      EXPECT_NEAR(*here.sustained, share * *there.sustained, 1e-4);
    }
  }
  EXPECT_EQ(expect_share_of_rates(capped, h100, share, 1e-4), 6);
}

}  // namespace
}  // namespace ptdp
