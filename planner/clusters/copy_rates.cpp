#include "planner/clusters/copy_rates.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/strict_json.h"
#include "planner/clusters/text_lines.h"

namespace ptdp {
namespace {

/// Rates of each test [10⁹ B/s], without pairs that were not measured.
using RatesByTest = std::map<std::string, std::vector<double>, std::less<>>;

/// Adds a cell of a matrix; "N/A" and the 0.00 of a diagonal are no rate.
void add_cell(RatesByTest& rates, const std::string& test, const std::string& cell) {
  constexpr double fastest_copy = 1e5;
  const double rate = std::strtod(cell.c_str(), nullptr);
  if (rate > 0.0 && rate <= fastest_copy) {
    rates[test].push_back(rate);
  }
}

/// Reads "Running NAME.", and the rows of its matrix: the row's number, then a cell for each
/// column.
RatesByTest rates_of_text(std::string_view text) {
  RatesByTest rates;
  std::string test;
  bool is_in_matrix = false;
  for (const std::string& line : printed_lines(text)) {
    const std::vector<std::string> words = printed_words(line);
    if (words.size() == 2 && words[0] == "Running") {
      test = words[1].substr(0, words[1].rfind('.'));
      is_in_matrix = false;
    } else if (line.find("(GB/s)") != std::string::npos) {
      is_in_matrix = true;
    } else if (words.empty() || words[0] == "SUM") {
      is_in_matrix = false;
    } else if (is_in_matrix && std::any_of(words.begin(), words.end(), [](const std::string& word) {
                 return word.find('.') != std::string::npos;
               })) {
      for (std::size_t i = 1; i < words.size(); ++i) {
        add_cell(rates, test, words[i]);
      }
    }
  }
  return rates;
}

RatesByTest rates_of_json(std::string_view text, const std::string& place) {
  using nlohmann::json;
  check_json(text, place);
  const json document = json::parse(text);
  RatesByTest rates;
  const json::json_pointer path("/nvbandwidth/testcases");
  if (!document.contains(path) || !document[path].is_array()) {
    return rates;
  }
  for (const json& test : document[path]) {
    if (!test.is_object() || !test.contains("name") || !test["name"].is_string() ||
        !test.contains("bandwidth_matrix") || !test["bandwidth_matrix"].is_array()) {
      continue;
    }
    for (const json& row : test["bandwidth_matrix"]) {
      for (const json& cell : row) {
        add_cell(rates, test["name"].get<std::string>(),
                 cell.is_string() ? cell.get<std::string>() : cell.dump());
      }
    }
  }
  return rates;
}

/// Returns the mean over all pairs of some tests; nullopt if none was measured.
std::optional<BytesPerSecond> mean_rate(const RatesByTest& rates,
                                        const std::vector<std::string>& tests) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const std::string& test : tests) {
    if (const auto found = rates.find(test); found != rates.end()) {
      for (const double rate : found->second) {
        sum += rate;
        ++count;
      }
    }
  }
  return count > 0 ? std::optional(gigabytes_per_second(sum / static_cast<double>(count)))
                   : std::nullopt;
}

}  // namespace

CopyRates read_nvbandwidth(std::string_view text, const std::string& place) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  const RatesByTest rates = is_json ? rates_of_json(text, place) : rates_of_text(text);
  const CopyRates copies{
      .host_to_device = mean_rate(rates, {"host_to_device_memcpy_ce"}),
      .device_to_host = mean_rate(rates, {"device_to_host_memcpy_ce"}),
      .device_to_device = mean_rate(
          rates, {"device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"})};
  if (!copies.host_to_device && !copies.device_to_host && !copies.device_to_device) {
    throw Error(place +
                ": expected nvbandwidth's host_to_device_memcpy_ce, device_to_host_memcpy_ce or "
                "device_to_device_memcpy_read_ce, got none of them");
  }
  return copies;
}

}  // namespace ptdp
