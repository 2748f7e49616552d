#include "planner/clusters/bench_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cost_model/error.h"
#include "cost_model/text/strict_json.h"
#include "planner/clusters/text_lines.h"

namespace ptdp {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestHeaderLine = 1000;

constexpr std::array kElementTypes = {"int8",     "uint8",    "int32",  "uint32", "int64",
                                      "uint64",   "half",     "float",  "double", "bfloat16",
                                      "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"};

std::optional<double> printed_number(const std::string& word) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size() && std::isfinite(value)
             ? std::optional<double>(value)
             : std::nullopt;
}

bool is_element_type(const std::string& word) {
  return std::find(kElementTypes.begin(), kElementTypes.end(), word) != kElementTypes.end();
}

/// Whether a number of bytes is one that a curve takes.
bool is_size(double bytes) {
  return bytes >= 1.0 && bytes <= 1e15;
}

/// Whether a rate is size over time, as far as the digits printed tell.
bool adds_up(double bytes, double time_us, double algorithm_rate) {
  const double expected = bytes / time_us / 1e3;
  return time_us >= 1e-3 && time_us <= 1e12 &&
         std::abs(expected - algorithm_rate) <= 0.02 * expected + 0.0051;
}

/// Reads a row of the table: size, count, type, the operator and the root if there are any, then
/// time and bandwidths. nullopt: the line is no such row.
std::optional<BenchRow> row_of(const std::vector<std::string>& words) {
  const auto type = std::find_if(words.begin(), words.end(), is_element_type);
  if (type - words.begin() < 2 || type == words.end()) {
    return std::nullopt;
  }
  const std::optional<double> bytes = printed_number(*(type - 2));
  if (!bytes || !printed_number(*(type - 1))) {
    return std::nullopt;
  }
  BenchRow row{.bytes = *bytes, .type = *type};
  // Up to two words stand between the type and the time: where the times add up, it begins.
  for (auto word = type + 1; word < words.end() && word <= type + 3 && words.end() - word >= 3;
       ++word) {
    const std::optional<double> time = printed_number(*word);
    const std::optional<double> algorithm = printed_number(*(word + 1));
    const std::optional<double> bus = printed_number(*(word + 2));
    const bool is_sound = *bytes == 0.0 || (is_size(*bytes) && time && algorithm &&
                                            adds_up(*bytes, *time, *algorithm));
    if (time && algorithm && bus && is_sound) {
      row.time_us = *time;
      row.algorithm_rate = *algorithm;
      row.bus_rate = *bus;
      return row;
    }
  }
  row.time_us = -1.0;  // a row, torn or of impossible numbers
  return row;
}

/// Collects what the header of a text says.
class HeaderFacts {
 public:
  /// Takes a line that begins in '#' or names the program.
  void take(const std::string& line, BenchTable& table) {
    static const std::regex rank(R"(Rank +(\d+) +(?:Group +(\d+) +)?Pid +\d+ on +(\S+) +device)");
    static const std::regex program(R"(([a-z_]+_perf)\b)");
    if (line.size() > kLongestHeaderLine) {
      return;  // a regular expression would take a stack as deep as the line is long
    }
    std::smatch match;
    if (std::regex_search(line, match, rank)) {
      if (!match[2].matched || match[2] == "0") {
        ranks_.insert(match[1]);
        hosts_.insert(match[3]);
      }
    } else if (table.program.empty() && std::regex_search(line, match, program)) {
      table.program = match[1];
    }
  }
  void finish(BenchTable& table) const {
    if (!ranks_.empty()) {
      table.ranks = static_cast<int>(ranks_.size());
      table.nodes = static_cast<int>(hosts_.size());
    }
  }

 private:
  std::set<std::string> ranks_;
  std::set<std::string> hosts_;
};

/// Says how many rows were left out because their numbers do not go together.
void note_torn(int num_torn, BenchTable& table) {
  if (num_torn > 0) {
    table.notes.push_back(
        fmt::format("left out {} in which bandwidth is not size over time",
                    num_torn == 1 ? "one row" : fmt::format("{} rows", num_torn)));
  }
}

/// Whether a line begins the output of a program.
bool begins_output(const std::string& line) {
  return line.find("# nThread") != std::string::npos ||
         line.find("# Collective test starting") != std::string::npos;
}

BenchTable table_of_text(std::string_view text, const std::string& place) {
  BenchTable table;
  HeaderFacts facts;
  int num_torn = 0;
  for (const std::string& line : printed_lines(text)) {
    if (!table.rows.empty() && begins_output(line)) {
      throw Error(place +
                  ": expected the output of one program, got a second one behind its rows; "
                  "give each in a file of its own");
    }
    facts.take(line, table);
    const std::optional<BenchRow> row =
        line.find('#') == std::string::npos ? row_of(printed_words(line)) : std::nullopt;
    if (row && row->time_us < 0.0) {
      ++num_torn;
    } else if (row && row->bytes > 0.0) {
      table.rows.push_back(*row);
    }
  }
  facts.finish(table);
  note_torn(num_torn, table);
  return table;
}

/// Returns a number of an object, else `otherwise`.
double json_number(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

/// Returns a text of an object, else an empty one.
std::string json_text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Adds the row of an entry of `results`; returns false for one whose numbers do not go together.
/// Entries without times are left out.
bool add_result(BenchTable& table, const json& result) {
  if (!result.is_object()) {
    return true;
  }
  for (const char* place : {"out_of_place", "in_place"}) {
    const auto found = result.find(place);
    if (found == result.end() || !found->is_object()) {
      continue;
    }
    const BenchRow row{.bytes = json_number(result, "size", 0.0),
                       .type = json_text(result, "type"),
                       .time_us = json_number(*found, "time", json_number(*found, "cpu_time", 0.0)),
                       .algorithm_rate = json_number(*found, "alg_bw", 0.0),
                       .bus_rate = json_number(*found, "bus_bw", 0.0)};
    if (row.bytes == 0.0 || row.time_us == 0.0) {
      continue;
    }
    const bool is_sound = is_size(row.bytes) && adds_up(row.bytes, row.time_us, row.algorithm_rate);
    if (is_sound) {
      table.rows.push_back(row);
    }
    return is_sound;
  }
  return true;
}

/// Returns the name of the program that was called: that of the file in the first argument.
std::string program_of(const json& args) {
  const json* first = args.is_array() && !args.empty() ? &args.front() : &args;
  if (!first->is_string()) {
    return "";
  }
  const std::string call = first->get<std::string>();
  const std::string path = call.substr(0, call.find(' '));
  return path.substr(path.rfind('/') + 1);
}

/// Takes ranks and hosts of the first group; hosts only where all devices name theirs.
void take_devices(const json& devices, BenchTable& table) {
  std::set<std::string> hosts;
  int ranks = 0;
  for (const json& device : devices) {
    if (!device.is_object() || json_number(device, "group", 0.0) != 0.0) {
      continue;
    }
    ++ranks;
    const std::string host = json_text(device, "hostname");
    hosts.insert(host.empty() ? json_text(device, "host") : host);
  }
  if (ranks > 0) {
    table.ranks = ranks;
    if (!hosts.contains("")) {
      table.nodes = static_cast<int>(hosts.size());
    }
  }
}

BenchTable table_of_json(std::string_view text, const std::string& place) {
  check_json(text, place);
  const json document = json::parse(text);
  BenchTable table;
  if (!document.is_object()) {
    return table;
  }
  if (const auto args = document.find("args"); args != document.end()) {
    table.program = program_of(*args);
  }
  if (const auto devices = document.find("devices");
      devices != document.end() && devices->is_array()) {
    take_devices(*devices, table);
  }
  int num_torn = 0;
  if (const auto results = document.find("results");
      results != document.end() && results->is_array()) {
    for (const json& result : *results) {
      num_torn += add_result(table, result) ? 0 : 1;
    }
  }
  note_torn(num_torn, table);
  return table;
}

}  // namespace

BenchTable read_bench_table(std::string_view text, const std::string& place) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  BenchTable table = is_json ? table_of_json(text, place) : table_of_text(text, place);
  if (table.rows.empty()) {
    throw Error(place + ": expected rows of nccl-tests, a size and a time each, got none");
  }
  return table;
}

}  // namespace ptdp
