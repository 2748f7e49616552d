#include "planner/clusters/nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/measured_curve.h"
#include "cost_model/network/collectives.h"
#include "planner/clusters/bench_rows.h"

namespace ptdp {
namespace {

constexpr double kWidestGap = 16.0;  // of MeasuredCurve: growth from one size to the next

std::string listed_collectives() {
  std::string names;
  for (const auto& named : kBenchedCollectives) {
    names += (names.empty() ? "" : ", ") + std::string(named.name);
  }
  return names;
}

/// Returns a name in small letters without underscores and hyphens.
std::string plain_name(std::string text) {
  std::erase(text, '_');
  std::erase(text, '-');
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

/// Returns the collective that a program measures: "all_reduce_perf"; nullopt: the program is
/// unknown. Throws Error at `place` for one whose times no cluster's file can hold.
std::optional<BenchedCollective> collective_of_program(const std::string& program,
                                                       const std::string& place) {
  if (program.empty()) {
    return std::nullopt;
  }
  const std::string name = plain_name(program.substr(0, program.rfind("_perf")));
  for (const auto& named : kBenchedCollectives) {
    if (plain_name(std::string(named.name)) == name) {
      return named.value;
    }
  }
  throw Error(fmt::format("{}: expected times of {}, got those of {}", place, listed_collectives(),
                          program));
}

/// Returns the collective whose name is part of a file's; nullopt: none is.
std::optional<BenchedCollective> collective_in_name(const std::string& file) {
  const std::string name = plain_name(file);
  for (const auto& named : kBenchedCollectives) {
    if (name.find(plain_name(std::string(named.name))) != std::string::npos) {
      return named.value;
    }
  }
  return std::nullopt;
}

/// Returns the row of the largest size; the end without rows.
std::vector<BenchRow>::const_iterator largest_of(const std::vector<BenchRow>& rows) {
  return std::max_element(rows.begin(), rows.end(),
                          [](const BenchRow& a, const BenchRow& b) { return a.bytes < b.bytes; });
}

/// Returns the collective that bandwidths tell: the bus moves more than the buffer in an all-reduce
/// alone; nullopt for all others, which they do not tell apart.
std::optional<BenchedCollective> collective_of_ratio(const std::vector<BenchRow>& rows) {
  const auto largest = largest_of(rows);
  const bool is_all_reduce =
      largest != rows.end() && largest->bus_rate > 1.1 * largest->algorithm_rate;
  return is_all_reduce ? std::optional(BenchedCollective::kAllReduce) : std::nullopt;
}

/// Returns the number of GPUs that bus and algorithm bandwidth tell, at the largest size.
std::optional<int> ranks_of_ratio(BenchedCollective collective, const std::vector<BenchRow>& rows) {
  const auto largest = largest_of(rows);
  if (largest == rows.end() || largest->algorithm_rate <= 0.0 ||
      collective == BenchedCollective::kSendReceive) {
    return std::nullopt;
  }
  const double halves = collective == BenchedCollective::kAllReduce ? 2.0 : 1.0;
  const double left_out = 1.0 - largest->bus_rate / largest->algorithm_rate / halves;  // 1/n
  return left_out > 1e-3 ? std::optional<int>(std::lround(1.0 / left_out)) : std::nullopt;
}

/// Returns the rows of the type that most rows have, the first of equals.
std::vector<BenchRow> rows_of_one_type(const std::vector<BenchRow>& rows,
                                       std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, int>> counts;
  for (const BenchRow& row : rows) {
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& count) { return count.first == row.type; });
    if (found == counts.end()) {
      counts.emplace_back(row.type, 1);
    } else {
      ++found->second;
    }
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (counts.size() > 1) {
    notes.push_back(fmt::format("of {} types the rows of {} count", counts.size(), most->first));
  }
  std::vector<BenchRow> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept),
               [&](const BenchRow& row) { return row.type == most->first; });
  return kept;
}

/// Returns the median time of each size, growing.
std::vector<MeasuredPoint> median_points(const std::vector<BenchRow>& rows) {
  std::map<double, std::vector<double>> by_size;
  for (const BenchRow& row : rows) {
    by_size[row.bytes].push_back(row.time_us);
  }
  std::vector<MeasuredPoint> points;
  points.reserve(by_size.size());
  for (auto& [bytes, times] : by_size) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
    std::nth_element(times.begin(), middle, times.end());
    points.push_back({.size = Bytes(bytes), .time = microseconds(*middle)});
  }
  return points;
}

/// Leaves out times that are longer than those of larger messages.
std::vector<MeasuredPoint> without_spikes(const std::vector<MeasuredPoint>& points,
                                          std::vector<std::string>& notes) {
  std::vector<MeasuredPoint> kept;
  int num_left_out = 0;
  for (const MeasuredPoint& point : points) {
    while (!kept.empty() && point.time < kept.back().time * kDeepestDip) {
      kept.pop_back();
      ++num_left_out;
    }
    kept.push_back(point);
  }
  if (num_left_out > 0) {
    notes.push_back(
        fmt::format("left out {} that took longer than a larger message",
                    num_left_out == 1 ? "one size" : fmt::format("{} sizes", num_left_out)));
  }
  return kept;
}

/// Fills wide gaps between sizes with what a curve would say in between.
std::vector<MeasuredPoint> without_gaps(const std::vector<MeasuredPoint>& points,
                                        std::vector<std::string>& notes) {
  std::vector<MeasuredPoint> filled;
  for (const MeasuredPoint& point : points) {
    if (!filled.empty()) {
      const MeasuredPoint before = filled.back();
      const double growth = point.size / before.size;
      const int steps = static_cast<int>(std::ceil(std::log(growth) / std::log(kWidestGap) - 1e-9));
      for (int i = 1; i < steps; ++i) {
        const double share = static_cast<double>(i) / steps;
        filled.push_back({.size = before.size * std::pow(growth, share),
                          .time = before.time * std::pow(point.time / before.time, share)});
      }
      if (steps > 1) {
        notes.push_back(
            fmt::format("nothing measured between {:.0f} and {:.0f} bytes: interpolated",
                        before.size.value(), point.size.value()));
      }
    }
    filled.push_back(point);
  }
  return filled;
}

/// Returns the collective that the file names, else the one given, else the one that the file's
/// name or its bandwidths tell. Throws Error at `place` if nothing tells it, and if the file names
/// another than the one given.
BenchedCollective collective_of(const BenchTable& table, const std::string& place,
                                const BenchFacts& given) {
  std::optional<BenchedCollective> collective = collective_of_program(table.program, place);
  if (collective && given.collective && *collective != *given.collective) {
    throw Error(fmt::format("{}: expected {}, as stands in front of it, got {}", place,
                            name_of<BenchedCollective>(*given.collective, kBenchedCollectives),
                            table.program));
  }
  if (!collective) {
    collective = given.collective;
  }
  if (!collective) {
    collective = collective_in_name(place.substr(place.rfind('/') + 1));
  }
  if (!collective) {
    collective = collective_of_ratio(table.rows);
  }
  if (!collective) {
    throw Error(fmt::format(
        "{}: expected the collective's name in it or in front of it, such as alltoall=FILE: {}",
        place, listed_collectives()));
  }
  return *collective;
}

/// Throws Error at `place` where a flag says another number than the file.
void check_given(const char* flag, const std::optional<int>& given, const std::optional<int>& found,
                 const std::string& place) {
  if (given && found && *given != *found) {
    throw Error(fmt::format("{}: {} says {}, its header {}", place, flag, *given, *found));
  }
}

/// Sets ranks and nodes from the file, else from what is given, else from its bandwidths.
void set_group(CollectiveBench& bench, const BenchTable& table, const BenchFacts& given) {
  check_given("--ranks", given.ranks, table.ranks, bench.place);
  check_given("--nodes", given.nodes, table.nodes, bench.place);
  std::optional<int> ranks = table.ranks ? table.ranks : given.ranks;
  if (!ranks) {
    ranks = ranks_of_ratio(bench.collective, table.rows);
    if (ranks) {
      bench.notes.push_back(fmt::format("{} ranks, as bus over algorithm bandwidth says", *ranks));
    }
  }
  if (!ranks || *ranks < 2) {
    throw Error(bench.place + ": expected its ranks, two or more, which --ranks can tell");
  }
  bench.ranks = *ranks;
  bench.nodes = table.nodes.value_or(given.nodes.value_or(1));
  if (bench.ranks % bench.nodes != 0) {
    throw Error(fmt::format("{}: expected equally many ranks on each node, got {} on {}",
                            bench.place, bench.ranks, bench.nodes));
  }
}

}  // namespace

BytesPerSecond CollectiveBench::bus_bandwidth() const {
  const MeasuredPoint& largest = points.back();
  switch (collective) {
    case BenchedCollective::kAllReduce:
      return ring_all_reduce_volume(largest.size, ranks) / largest.time;
    case BenchedCollective::kAllGather:
    case BenchedCollective::kReduceScatter:
    case BenchedCollective::kAllToAll:
      return ring_all_gather_volume(largest.size, ranks) / largest.time;
    case BenchedCollective::kSendReceive:
      return largest.size / largest.time;
  }
  return BytesPerSecond(0.0);
}

std::vector<MeasuredPoint> usable_points(const std::vector<MeasuredPoint>& points,
                                         std::vector<std::string>& notes) {
  return without_gaps(without_spikes(points, notes), notes);
}

CollectiveBench read_nccl_tests(std::string_view text, const std::string& place,
                                const BenchFacts& given) {
  const BenchTable table = read_bench_table(text, place);
  CollectiveBench bench{.place = place, .notes = table.notes};
  bench.collective = collective_of(table, place, given);
  set_group(bench, table, given);
  const std::vector<BenchRow> rows = rows_of_one_type(table.rows, bench.notes);
  bench.points = usable_points(median_points(rows), bench.notes);
  if (bench.points.size() < 2) {
    throw Error(place + ": expected the times of two sizes at least, got " +
                std::to_string(bench.points.size()));
  }
  (void)MeasuredCurve(bench.points, place);
  return bench;
}

}  // namespace ptdp
