// How much cards of one kind differ, and that the slowest of a node is what a normal spread says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cost_model/inputs/gpu_spec.h"
#include "cost_model/operations/slowest_card.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

/// Times of a product on the cards of each node, relative to the mean over all cards.
using TimesOfNodes = std::map<std::string, std::vector<double>>;

TimesOfNodes relative_times(const std::string& gpu) {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/card_speeds.csv");
  TimesOfNodes times;
  double sum = 0.0;
  int cards = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (table.text(row, "gpu") == gpu) {
      const double rate =
          parse_number(table.text(row, "bf16"), 1.0, 1e4, table.place_of(row, "bf16"));
      times[table.text(row, "node")].push_back(1.0 / rate);
      sum += 1.0 / rate;
      ++cards;
    }
  }
  for (auto& [node, of_node] : times) {
    for (double& time : of_node) {
      time *= cards / sum;
    }
  }
  return times;
}

double spread(const TimesOfNodes& times) {
  double squares = 0.0;
  int cards = 0;
  for (const auto& [node, of_node] : times) {
    for (const double time : of_node) {
      squares += (time - 1.0) * (time - 1.0);
      ++cards;
    }
  }
  return std::sqrt(squares / (cards - 1));
}

TEST(CardSpread, IsThatOfTheCardsMeasured) {
  for (const char* const gpu : {"b200-180gb-sxm", "rtx-pro-6000-blackwell"}) {
    EXPECT_NEAR(find_gpu(gpu).card_spread, spread(relative_times(gpu)), 5e-5) << gpu;
  }
}

// What training steps took on four H200s over what the profile says:
// tests/validation/gpu/MEASURED.md.
TEST(CardSpread, OfHopperIsThatOfFourCards) {
  const TimesOfNodes times = {{"", {0.984, 0.989, 1.001, 1.027}}};
  EXPECT_NEAR(find_gpu("h200-141gb-sxm").card_spread, spread(times), 5e-4);
}

// The slowest of the eight cards of a node, on average over 29 and 16 nodes; and the slowest of
// all.
TEST(CardSpread, SaysHowSlowTheSlowestIs) {
  for (const char* const gpu : {"b200-180gb-sxm", "rtx-pro-6000-blackwell"}) {
    const TimesOfNodes times = relative_times(gpu);
    const double card_spread = find_gpu(gpu).card_spread;
    double of_nodes = 0.0;
    double of_all = 0.0;
    for (const auto& [node, of_node] : times) {
      ASSERT_EQ(of_node.size(), 8U) << node;
      const double slowest = *std::max_element(of_node.begin(), of_node.end());
      of_nodes += slowest / static_cast<double>(times.size());
      of_all = std::max(of_all, slowest);
    }
    EXPECT_NEAR(of_nodes, slowest_card_factor(8, card_spread), 0.001) << gpu;
    const auto cards = static_cast<std::int64_t>(8 * times.size());
    EXPECT_NEAR(of_all, slowest_card_factor(cards, card_spread), 0.006) << gpu;
  }
}

}  // namespace
}  // namespace ptdp
