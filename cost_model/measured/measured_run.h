// Published and own training runs with their configurations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/csv_table.h"
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
  std::string fp8;  ///< Recipe of linear layers in 8 bits, as with_fp8() names it; empty: none.
  /// Whether the gradient reduction was overlapped, where the row says so; else the stack decides.
  std::optional<bool> data_parallel_overlap;
  /// Whether collectives of sequence parallelism ran within products; else the stack decides.
  std::optional<bool> tp_comm_overlap;
  /// How tokens got to their experts, and whether behind another microbatch; else the stack
  /// decides.
  std::optional<ExpertDispatch> expert_dispatch;
  std::optional<bool> expert_overlap;
  std::optional<CudaGraphs> cuda_graphs;  ///< Else the stack's.
  Seconds iteration_time;
  /// In use on the GPU that has most, where the source says.
  std::optional<Bytes> memory;
};

/// A row that cannot be costed, and why.
struct SkippedRun {
  std::string id;
  std::string group;
  std::string reason;
  /// The row as a table of its own, where it is one that nothing could be made of as it stands.
  std::shared_ptr<const CsvTable> row = nullptr;
};

struct MeasuredRuns {
  std::vector<MeasuredRun> runs;
  std::vector<SkippedRun> skipped;
};

/// Reads rows with the columns of profiles/published (id, layers, hidden, heads, vocab, seq,
/// cluster_key, stack_key, tp, pp, dp, vpp, mbs, gbs, recompute, iter_time_best_s required;
/// kv_heads, head_dim, ffn, gated, model, n_experts, topk, moe_ffn, mtp_num_layers,
/// layers_per_stage, cp, ep, etp, gpu_count, schedule, precision, seq_parallel, zero, dp_replicate,
/// reshard_after_forward, recompute_modules, recompute_method, recompute_num_layers,
/// offload_num_layers, dp_overlap, tp_overlap, expert_dispatch, expert_overlap, cuda_graphs,
/// n_microbatches, holdout_group, source, source_ref, memory_GB, untied, dropout optional; others
/// ignored). A row with an unknown field ("", "?") or a feature that no cost model covers is
/// skipped with the reason; a malformed number throws Error naming line and column. Columns do not
/// say all of a model with experts: it is the shipped profile of the name in `model`, in any case
/// of letters, with the row's sequences; a row that contradicts it, and one of no such name, is
/// skipped. It has mtp_num_layers layers that predict more tokens.
[[nodiscard]] MeasuredRuns read_measured_runs(const CsvTable& table);

}  // namespace ptdp
