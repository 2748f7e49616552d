// Published and own training runs with their configurations.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/units.h"

namespace ptdp {

/// One measured training run with its configuration.
struct MeasuredRun {
  std::string id;
  std::string group;  ///< Name shared by the rows of one source and set-up.
  std::string source;
  std::string cluster;  ///< Name of the cluster's profile.
  std::string stack;    ///< Name of the stack's profile.
  TransformerConfig model;
  std::int64_t global_batch_size = 0;
  ParallelConfig config;
  std::string precision;  ///< Name for with_precision(); empty: the stack's own precision.
  /// Whether the gradient reduction was overlapped; nullopt: the row does not say, and the stack
  /// decides.
  std::optional<bool> data_parallel_overlap;
  /// Whether collectives of sequence parallelism ran within products; nullopt: the stack decides.
  std::optional<bool> tp_comm_overlap;
  /// How tokens got to their experts; nullopt: the stack decides.
  std::optional<ExpertDispatch> expert_dispatch;
  /// Whether tokens traveled to experts behind another microbatch; nullopt: the stack decides.
  std::optional<bool> expert_overlap;
  /// What was launched as CUDA graphs; nullopt: the stack decides.
  std::optional<CudaGraphs> cuda_graphs;
  /// Whether messages of a pipeline were split over tensor ranks; nullopt: the stack decides.
  std::optional<bool> scatter_gather;
  /// Whether element-wise operations were fused; nullopt: the stack decides.
  std::optional<bool> fused;
  Seconds iteration_time;
  /// Memory in use on the GPU that uses most; nullopt: the source does not say.
  std::optional<Bytes> memory;
};

/// A row that cannot be costed, and why.
struct SkippedRun {
  std::string id;
  std::string group;
  std::string reason;
  /// The row as a table of its own, so that a caller can fill in what it lacks; null: none is kept.
  std::shared_ptr<const CsvTable> row = nullptr;
};

/// The rows of a table: those that can be costed, and those that cannot.
struct MeasuredRuns {
  std::vector<MeasuredRun> runs;
  std::vector<SkippedRun> skipped;

  /// Adds the rows of another table behind these.
  void append(MeasuredRuns more);
};

/// The shipped models that rows name, each read once.
class RowModels {
 public:
  /// Returns the model of this name in any case of letters; nullopt if there is none.
  [[nodiscard]] const std::optional<ModelProfile>& find(const std::string& name);

 private:
  std::map<std::string, std::optional<ModelProfile>> models_;  ///< By the name that rows say.
};

/// Reads runs from a table with the columns of profiles/published.
///
/// Required columns: id, cluster_key, stack_key, tp, pp, dp, vpp, mbs, gbs, recompute; layers,
/// hidden, heads, vocab and seq, or model; iter_time_best_s, tokens_s_gpu or tflops_per_gpu.
///
/// Optional columns: kv_heads, head_dim, ffn, gated, model, n_experts, topk, moe_ffn,
/// mtp_num_layers, layers_per_stage, cp, ep, etp, gpu_count, schedule, precision, seq_parallel,
/// zero, dp_replicate, optimizer_shards, reshard_after_forward, recompute_modules,
/// recompute_method, recompute_num_layers, offload_num_layers, dp_overlap, tp_overlap,
/// expert_dispatch, expert_overlap, cuda_graphs, scatter_gather, fused, n_microbatches,
/// holdout_group, source, source_ref, memory_GB, untied, dropout, tokens_s_gpu. Other columns are
/// ignored; one that looks like a misspelled optional column throws Error.
///
/// Where iter_time_best_s is empty, the time follows from the tokens of a GPU per second, else from
/// its FLOP/s and flop_convention. Where layers is empty, the model is the shipped one in `model`.
///
/// A row with an unknown field ("", "?") that costing needs, or a feature that no cost model
/// covers, is skipped with the reason. A malformed number throws Error naming line and column.
///
/// Columns do not say everything of a model with experts. Such a model is the shipped profile named
/// in `model`, in any case of letters. The row sets its sequences, mtp_num_layers, the modules that
/// predict more tokens, and layers: fewer than the profile's are its first ones. A row that
/// contradicts the profile, or names none, is skipped.
[[nodiscard]] MeasuredRuns read_measured_runs(const CsvTable& table);
/// Reads runs as read_measured_runs(table) does, with models that `models` has read already.
[[nodiscard]] MeasuredRuns read_measured_runs(const CsvTable& table, RowModels& models);

/// Returns the iteration time that a rate of a GPU [TFLOP/s] means for a run; nullopt for an
/// unknown convention. "model_full", "model_causal", "sc21_hw" and "hardware" are known (flops.h).
[[nodiscard]] std::optional<Seconds> time_of_rate(const MeasuredRun& run,
                                                  std::string_view convention, double tflops);

/// Reads one row of a table whose columns check_columns() has checked. Throws SkipRow for a row
/// that read_measured_runs() would skip (run_fields.h), and Error for a malformed field.
[[nodiscard]] MeasuredRun read_measured_run(const CsvTable& table, std::size_t row,
                                            RowModels& models);

}  // namespace ptdp
