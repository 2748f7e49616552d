// Published and own training runs with their configurations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/csv_table.h"
#include "cost_model/spec/parallel_config.h"
#include "cost_model/spec/stack_spec.h"
#include "cost_model/spec/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// One measured training run, as configured.
struct MeasuredRun {
  std::string id;
  std::string group;  ///< Rows of one source and set-up.
  std::string source;
  std::string cluster;  ///< Name of a profile.
  std::string stack;    ///< Name of a profile.
  TransformerConfig model;
  std::int64_t global_batch_size = 0;
  ParallelConfig config;
  Precision precision = Precision::kFp16;
  /// Whether the gradient reduction was overlapped, where the row says so; else the stack decides.
  std::optional<bool> data_parallel_overlap;
  Seconds iteration_time;
};

/// A row that cannot be costed, and why.
struct SkippedRun {
  std::string id;
  std::string group;
  std::string reason;
};

struct MeasuredRuns {
  std::vector<MeasuredRun> runs;
  std::vector<SkippedRun> skipped;
};

/// Reads rows with the columns of profiles/published (id, layers, hidden, heads, vocab, seq,
/// cluster_key, stack_key, tp, pp, dp, vpp, mbs, gbs, recompute, iter_time_best_s required;
/// kv_heads, head_dim, ffn, gated, model, n_experts, topk, moe_ffn, cp, ep, etp, gpu_count,
/// schedule, precision, seq_parallel, zero, dp_overlap, holdout_group, source, source_ref optional;
/// others ignored). A row with an unknown field ("", "?") or a feature that no cost model covers is
/// skipped with the reason; a malformed number throws Error naming line and column. Columns do not
/// say all of a model with experts: it is the shipped profile of the name in `model`, in any case
/// of letters, with the row's sequences; a row that contradicts it, and one of no such name, is
/// skipped. Layers that predict more tokens are left out: no row says that it trains them.
[[nodiscard]] MeasuredRuns read_measured_runs(const CsvTable& table);

}  // namespace ptdp
