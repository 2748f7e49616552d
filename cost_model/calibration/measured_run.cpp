#include "cost_model/calibration/measured_run.h"

#include <set>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr std::int64_t kLargestCount = 1'000'000'000;
constexpr double kLongestIteration = 1e6;  // seconds

/// Thrown inside read_run only: the row is well formed but nothing that can be costed.
struct Skip {
  std::string reason;
};

/// The fields of one row, by column.
class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  [[nodiscard]] const std::string& text(std::string_view column) const {
    return table_.text(row_, column);
  }
  [[nodiscard]] bool is_known(std::string_view column) const {
    return !text(column).empty() && text(column) != "?";
  }
  /// A number that costing needs.
  [[nodiscard]] int count(std::string_view column) const {
    if (!is_known(column)) {
      throw Skip{std::string(column) + " is not given"};
    }
    return count_or(column, 0);
  }
  [[nodiscard]] int count_or(std::string_view column, int otherwise) const {
    if (!is_known(column)) {
      return otherwise;
    }
    return static_cast<int>(
        parse_count(text(column), 0, kLargestCount, table_.place_of(row_, column)));
  }
  [[nodiscard]] double seconds(std::string_view column) const {
    if (!is_known(column)) {
      throw Skip{std::string(column) + " is not given"};
    }
    return parse_number(text(column), 1e-6, kLongestIteration, table_.place_of(row_, column));
  }
  /// "y" or "n"; nothing where the source does not say.
  [[nodiscard]] std::optional<bool> flag(std::string_view column) const {
    if (!is_known(column)) {
      return std::nullopt;
    }
    if (text(column) != "y" && text(column) != "n") {
      throw Error(table_.place_of(row_, column) + R"(: expected "y" or "n", got ")" + text(column) +
                  '"');
    }
    return text(column) == "y";
  }

 private:
  const CsvTable& table_;
  std::size_t row_;
};

TransformerConfig read_model(const RowReader& row, const std::string& place) {
  TransformerConfig model;
  model.num_layers = row.count("layers");
  model.hidden_size = row.count("hidden");
  model.num_attention_heads = row.count("heads");
  model.num_query_groups = row.count_or("kv_heads", 0);
  model.kv_channels = row.count_or("head_dim", 0);
  model.ffn_hidden_size = row.count_or("ffn", 0);
  model.vocab_size = row.count("vocab");
  model.seq_length = row.count("seq");
  model.gated_linear_unit = row.flag("gated").value_or(false);
  if (row.count_or("n_experts", 0) > 0) {
    throw Skip{"mixture of experts is not covered"};
  }
  for (const int value : {model.num_layers, model.hidden_size, model.num_attention_heads,
                          model.vocab_size, model.seq_length}) {
    if (value == 0) {
      throw Error(place + ": expected a model without zeros");
    }
  }
  model = resolved(model, place);
  const std::string uncovered = find_uncovered_feature(model);
  if (!uncovered.empty()) {
    throw Skip{"the model " + uncovered};
  }
  return model;
}

Recompute read_recompute(const std::string& text) {
  for (const auto& entry : kRecomputeNames) {
    if (text == entry.name) {
      return entry.value;
    }
  }
  throw Skip{"recompute \"" + text + "\" is not covered"};
}

/// 1F1B and its interleaved form under the spellings that sources use; "none" means no pipeline.
Schedule read_schedule(const std::string& text, int pp, int vpp) {
  static const std::set<std::string> covered = {
      "", "1f1b", "1F1B", "1F1B-I", "1f1b-interleaved", "interleaved"};
  if (!covered.contains(text) && !(text == "none" && pp == 1)) {
    throw Skip{"schedule \"" + text + "\" is not covered"};
  }
  return vpp > 1 ? Schedule::kInterleaved : Schedule::kOneFOneB;
}

ParallelConfig read_config(const RowReader& row, const std::string& place) {
  ParallelConfig config;
  config.tp = row.count("tp");
  config.pp = row.count("pp");
  config.dp = row.count("dp");
  config.cp = row.count_or("cp", 1);
  config.ep = row.count_or("ep", 1);
  config.vpp = row.count("vpp");
  config.micro_batch_size = row.count("mbs");
  for (const int value : {config.tp, config.pp, config.dp, config.cp, config.ep, config.vpp,
                          config.micro_batch_size}) {
    if (value == 0) {
      throw Error(place + ": expected degrees and microbatch of at least 1, got 0");
    }
  }
  if (config.cp > 1 || config.ep > 1) {
    throw Skip{"context and expert parallelism are not covered"};
  }
  config.schedule = read_schedule(row.text("schedule"), config.pp, config.vpp);
  config.recompute = read_recompute(row.text("recompute"));
  config.sequence_parallel = row.flag("seq_parallel").value_or(false) && config.tp > 1;
  if (row.text("zero") == "?") {
    throw Skip{"zero is not given"};
  }
  config.zero_stage = config.dp > 1 ? row.count_or("zero", 0) : 0;
  if (config.zero_stage > 1) {
    throw Skip{"ZeRO stage " + std::to_string(config.zero_stage) + " is not covered"};
  }
  return config;
}

MeasuredRun read_run(const RowReader& row, const std::string& place) {
  MeasuredRun run;
  run.id = row.text("id");
  run.group = row.text("holdout_group");
  run.source = row.text("source");
  if (row.is_known("source_ref")) {
    run.source += ", " + row.text("source_ref");
  }
  run.cluster = row.text("cluster_key");
  run.stack = row.text("stack_key");
  run.model = read_model(row, place);
  run.global_batch_size = row.count("gbs");
  run.config = read_config(row, place);
  const std::string& precision = row.text("precision");
  if (precision == "bf16") {
    run.precision = Precision::kBf16;
  } else if (precision != "fp16" && !precision.empty()) {
    throw Skip{"precision \"" + precision + "\" is not covered"};
  }
  const std::int64_t gpus = row.count_or("gpu_count", 0);
  if (gpus != 0 && gpus != run.config.world_size()) {
    throw Skip{"tp, pp, dp and cp make " + std::to_string(run.config.world_size()) +
               " GPUs, gpu_count is " + std::to_string(gpus)};
  }
  run.data_parallel_overlap = row.flag("dp_overlap");
  run.iteration_time = Seconds(row.seconds("iter_time_best_s"));
  return run;
}

}  // namespace

MeasuredRuns read_measured_runs(const CsvTable& table) {
  table.require({"id", "layers", "hidden", "heads", "vocab", "seq", "cluster_key", "stack_key",
                 "tp", "pp", "dp", "vpp", "mbs", "gbs", "recompute", "iter_time_best_s"});
  MeasuredRuns result;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const RowReader reader(table, row);
    try {
      result.runs.push_back(read_run(reader, table.place_of(row, reader.text("id"))));
    } catch (const Skip& skip) {
      result.skipped.push_back({reader.text("id"), reader.text("holdout_group"), skip.reason});
    }
  }
  return result;
}

}  // namespace ptdp
