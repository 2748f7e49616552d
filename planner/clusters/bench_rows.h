// The rows and the header of an output of nccl-tests, as text or JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// One size of a table: what nccl-tests printed.
struct BenchRow {
  double bytes = 0.0;
  std::string type;             ///< As nccl-tests spells it: "float".
  double time_us = 0.0;         ///< Out of place [us]; in place where there is no other.
  double algorithm_rate = 0.0;  ///< Size over time [10⁹ B/s].
  double bus_rate = 0.0;        ///< Bus bandwidth [10⁹ B/s].
};

/// What an output of nccl-tests says.
struct BenchTable {
  std::string program;             ///< Name of the program: "all_reduce_perf"; empty: unknown.
  std::optional<int> ranks;        ///< GPUs that the header lists; nullopt: no header.
  std::optional<int> nodes;        ///< Hosts that these are on.
  std::vector<BenchRow> rows;      ///< Rows of at least a byte.
  std::vector<std::string> notes;  ///< What was left out, a line each.
};

/// Reads an output of nccl-tests: the JSON of `-J`, else text. Throws Error at `place` for broken
/// JSON, and for an output without rows.
[[nodiscard]] BenchTable read_bench_table(std::string_view text, const std::string& place);

}  // namespace ptdp
