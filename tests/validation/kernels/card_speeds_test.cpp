// How much cards of one kind differ, and that the slowest of a node is what a normal spread says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

/// Mean of the values of each key.
std::map<std::string, double> means(const std::map<std::string, std::vector<double>>& values) {
  std::map<std::string, double> result;
  for (const auto& [key, of_key] : values) {
    result[key] =
        std::accumulate(of_key.begin(), of_key.end(), 0.0) / static_cast<double>(of_key.size());
  }
  return result;
}

// Training steps on four H200s. The logarithm of a step is what its configuration and its card add,
// by least squares; products and attention are the part that a card changes.
TEST(CardSpread, OfHopperIsThatOfFourCards) {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/h200_steps.csv");
  std::map<std::string, double> of_card;
  std::vector<double> shares;
  for (int round = 0; round < 100; ++round) {
    std::map<std::string, std::vector<double>> of_configurations;
    std::map<std::string, std::vector<double>> of_cards;
    const auto configuration = [&](std::size_t row) {
      std::string key;
      for (const char* const column :
           {"hidden", "layers", "length", "micro_batch_size", "batch", "recompute", "positions"}) {
        key += table.text(row, column) + ' ';
      }
      return key;
    };
    const auto number = [&](std::size_t row, const char* column) {
      return parse_number(table.text(row, column), 0.1, 1e5, table.place_of(row, column));
    };
    shares.clear();
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      of_configurations[configuration(row)].push_back(std::log(number(row, "step")) -
                                                      of_card[table.text(row, "card")]);
      if (!table.text(row, "matmul").empty()) {
        shares.push_back((number(row, "matmul") + number(row, "attention")) / number(row, "step"));
      }
    }
    const std::map<std::string, double> of_configuration = means(of_configurations);
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      of_cards[table.text(row, "card")].push_back(std::log(number(row, "step")) -
                                                  of_configuration.at(configuration(row)));
    }
    of_card = means(of_cards);
  }
  ASSERT_EQ(of_card.size(), 4U);
  double mean = 0.0;
  for (const auto& [card, effect] : of_card) {
    mean += effect / 4.0;
  }
  double squares = 0.0;
  for (const auto& [card, effect] : of_card) {
    squares += (effect - mean) * (effect - mean);
  }
  const double share = means({{"", shares}}).at("");
  EXPECT_NEAR(find_gpu("h200-141gb-sxm").card_spread, std::sqrt(squares / 3.0) / share, 5e-5);
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
    EXPECT_NEAR(of_nodes, 1.0 + card_spread * expected_largest_deviation(8), 0.001) << gpu;
    const auto cards = static_cast<std::int64_t>(8 * times.size());
    EXPECT_NEAR(of_all, 1.0 + card_spread * expected_largest_deviation(cards), 0.006) << gpu;
  }
}

}  // namespace
}  // namespace ptdp
