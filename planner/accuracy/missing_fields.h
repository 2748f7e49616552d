// Completions of a row of measured runs: what the fields that it leaves out may have been.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {

/// The fields of a row by column, as text.
using RowFields = std::map<std::string, std::string>;

/// Fewest tokens of a global batch that a row does not tell. Published runs of large models lie
/// between this and kMostBatchTokens.
inline constexpr std::int64_t kFewestBatchTokens = std::int64_t{1} << 20;
/// Most tokens of a global batch that a row does not tell.
inline constexpr std::int64_t kMostBatchTokens = std::int64_t{1} << 24;

/// Most tokens of a global batch that a row of tokens per second does not tell: beyond it the rate
/// hardly depends on the batch.
inline constexpr std::int64_t kMostTokensOfRate = std::int64_t{1} << 21;
/// Tokens of a global batch where a row tells neither it nor the number of GPUs.
inline constexpr std::int64_t kAssumedBatchTokens = std::int64_t{1} << 21;

/// The most ways to fill in a row; a row with more is not completed.
inline constexpr std::size_t kMostCompletions = 50'000;

/// The ways to fill in a row.
struct Completions {
  std::vector<std::string> unknown;  ///< Columns that were filled in.
  std::vector<RowFields> values;     ///< The fields of `unknown`, one entry for each way.
};

/// Returns every way to fill in the columns of `row` that say "?", or are empty though costing
/// needs them. A way is a combination of
///
///   tp             powers of two that divide the heads, within a node
///   pp             sizes that cut the layers evenly, where tp·pp·cp divides the GPUs; 1 if the
///                  stack has no pipeline
///   dp             what is left of gpu_count
///   vpp            chunks that cut the layers evenly, or else the layers with embedding and head
///                  as one each; 2 and more if the schedule is interleaved
///   gbs            dp·2^k sequences of kFewestBatchTokens to kMostBatchTokens together, or to
///                  kMostTokensOfRate where the row has tokens per second in place of a time
///   mbs            divisors of a replica's batch
///   recompute, zero, seq_parallel    what the stack can run
///   recompute_modules  where recompute is filled in as selective: each of the stack's modules
///                  that the model has
///   etp            1, tp
///   flop_convention  "model_full", "hardware"; filled in when there is a rate in place of a time
///                    and its convention is not told
///
/// A row with a rate of a GPU, but neither gpu_count nor dp, is one replica (dp 1) with any pp that
/// cuts the layers evenly, and a batch of kAssumedBatchTokens.
///
/// Returns no way when there is nothing to fill in, when a needed field is not there, or beyond
/// kMostCompletions. `row` is a table of one row. Throws Error for malformed numbers.
[[nodiscard]] Completions complete_missing_fields(const CsvTable& row, const ClusterSpec& cluster,
                                                  const StackSpec& stack);

}  // namespace ptdp
