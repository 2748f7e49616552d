// What nccl-tests measured of one collective: its table, or the JSON of `-J`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/measured_curve.h"
#include "cost_model/text/named_values.h"

namespace ptdp {

/// A collective of nccl-tests whose times a cluster's file can hold.
enum class BenchedCollective { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendReceive };
/// Names of the collectives, as nccl-tests calls its programs.
inline constexpr std::array kBenchedCollectives = {
    NamedValue<BenchedCollective>{BenchedCollective::kAllReduce, "all_reduce"},
    NamedValue<BenchedCollective>{BenchedCollective::kAllGather, "all_gather"},
    NamedValue<BenchedCollective>{BenchedCollective::kReduceScatter, "reduce_scatter"},
    NamedValue<BenchedCollective>{BenchedCollective::kAllToAll, "alltoall"},
    NamedValue<BenchedCollective>{BenchedCollective::kSendReceive, "sendrecv"}};

/// What is said beside a file of nccl-tests; it counts where the file itself does not tell.
struct BenchFacts {
  std::optional<BenchedCollective> collective = {};
  std::optional<int> ranks = {};  ///< GPUs that took part.
  std::optional<int> nodes = {};  ///< Nodes that these are on, equally many on each.
};

/// Times of one collective on one group of GPUs.
struct CollectiveBench {
  std::string place;  ///< Name of the file, for messages.
  BenchedCollective collective = BenchedCollective::kAllReduce;
  int ranks = 0;
  int nodes = 1;
  /// Out-of-place times by bytes as nccl-tests counts them, growing; in-place where it has no
  /// others. Each size once, at the median of its repetitions.
  std::vector<MeasuredPoint> points;
  std::vector<std::string> notes;  ///< What was left out or filled in, a line each.

  /// Returns the bus bandwidth of the largest size [B/s], as nccl-tests defines it.
  [[nodiscard]] BytesPerSecond bus_bandwidth() const;
};

/// Returns the points of growing sizes that a curve accepts: without those that took longer than a
/// larger one, and with interpolated ones in wide gaps. Both are noted.
[[nodiscard]] std::vector<MeasuredPoint> usable_points(const std::vector<MeasuredPoint>& points,
                                                       std::vector<std::string>& notes);

/// Reads an output of nccl-tests or rccl-tests, behind prefixes of launchers. Throws Error at
/// `place` if it has no times, or if neither it nor `given` tells the collective and its ranks.
[[nodiscard]] CollectiveBench read_nccl_tests(std::string_view text, const std::string& place,
                                              const BenchFacts& given);

}  // namespace ptdp
