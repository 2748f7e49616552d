// What the fields may have been that a row of measured runs leaves out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {

/// Fields of a row by column, as text.
using RowFields = std::map<std::string, std::string>;

/// The tokens of a global batch where a row does not say: published runs of large models lie
/// between.
inline constexpr std::int64_t kFewestBatchTokens = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostBatchTokens = std::int64_t{1} << 24;

/// Rows that leave out so much that there are more ways than this are not completed.
inline constexpr std::size_t kMostCompletions = 50'000;

/// The ways to fill in a row.
struct Completions {
  std::vector<std::string> unknown;  ///< Columns that were filled in.
  std::vector<RowFields> values;     ///< Of these columns, one for each way.
};

/// Every combination of
///   tp             powers of two that divide the heads, within a node
///   pp             sizes that cut the layers (with embedding and head as one each where stacks
///                  count them so) evenly, in multiples of tp·pp·cp GPUs; 1 without a pipeline
///   dp             what is left of gpu_count
///   vpp            chunks that cut the layers evenly, more than one where the schedule says so
///   gbs            dp·2^k sequences of kFewestBatchTokens to kMostBatchTokens together
///   mbs            divisors of a replica's batch
///   recompute, zero, seq_parallel    what the stack can run
///   etp            1, tp
///   flop_convention  "model_full", "hardware", where there is a rate for a time and no convention
/// for each of these columns that says "?", or is empty though costing needs it. None where
/// there is nothing to fill in, a field is needed that is not there, or beyond kMostCompletions.
/// `row` is a table of one row. Throws Error for malformed numbers.
[[nodiscard]] Completions completions_of(const CsvTable& row, const ClusterSpec& cluster,
                                         const StackSpec& stack);

}  // namespace ptdp
