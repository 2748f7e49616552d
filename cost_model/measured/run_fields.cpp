#include "cost_model/measured/run_fields.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cost_model/contains.h"
#include "cost_model/error.h"
#include "cost_model/inputs/config_fields.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::int64_t kLargestCount = 1'000'000'000;
constexpr double kLongestIteration = 1e6;  // seconds
constexpr double kHighestRate = 1e9;

/// Returns `columns` and the columns of a configuration's fields, required ones or optional ones.
std::vector<std::string> with_fields(std::vector<std::string> columns, bool is_required) {
  for_each_config_field([&](const auto& field) {
    const RunColumn& column = field.traits.run_column;
    if (!column.name.empty() && column.is_required == is_required) {
      columns.emplace_back(column.name);
    }
  });
  return columns;
}

const std::vector<std::string>& required_columns() {
  static const std::vector<std::string> columns =
      with_fields({"id", "cluster_key", "stack_key", "gbs"}, true);
  return columns;
}

/// Returns the columns that say a model's shape, where `model` does not name one.
const std::vector<std::string>& shape_columns() {
  static const std::vector<std::string> columns = {"layers", "hidden", "heads", "vocab", "seq"};
  return columns;
}

/// Returns the columns of which one says how long an iteration took.
const std::vector<std::string>& time_columns() {
  static const std::vector<std::string> columns = {"iter_time_best_s", "tokens_s_gpu",
                                                   "tflops_per_gpu"};
  return columns;
}

const std::vector<std::string>& optional_columns() {
  static const std::vector<std::string> columns =
      with_fields({"kv_heads",        "head_dim",         "ffn",
                   "gated",           "n_experts",        "topk",
                   "moe_ffn",         "mtp_num_layers",   "dp_overlap",
                   "holdout_group",   "source",           "precision",
                   "gpu_count",       "source_ref",       "tp_overlap",
                   "expert_dispatch", "expert_overlap",   "cuda_graphs",
                   "n_microbatches",  "memory_GB",        "untied",
                   "dropout",         "optimizer_shards", "scatter_gather",
                   "fused",           "tokens_s_gpu"},
                  false);
  return columns;
}

/// Returns the columns that collections of runs have and costing does not use.
const std::vector<std::string>& other_columns() {
  static const std::vector<std::string> columns = {"confidence",
                                                   "framework",
                                                   "model",
                                                   "params_B",
                                                   "gpu",
                                                   "gpus_per_node",
                                                   "cluster",
                                                   "iter_time_s",
                                                   "tflops_per_gpu",
                                                   "flop_convention",
                                                   "samples_s",
                                                   "mfu_pct",
                                                   "hfu_pct",
                                                   "iter_time_origin",
                                                   "hw_tflops_calc",
                                                   "check_ratio",
                                                   "check_note",
                                                   "fully_specified",
                                                   "assumed",
                                                   "missing",
                                                   "notes",
                                                   "model_tflops_calc",
                                                   "model_tflops_calc_causal"};
  return columns;
}

/// Throws Error for a column of an unknown name that looks like one that would change the cost.
void refuse_misspelt_columns(const CsvTable& table) {
  for (const std::string& column : table.columns()) {
    const bool is_known = contains(required_columns(), column) ||
                          contains(shape_columns(), column) || contains(time_columns(), column) ||
                          contains(optional_columns(), column) || contains(other_columns(), column);
    const std::optional<std::string> meant =
        is_known ? std::nullopt : nearest(column, optional_columns());
    if (meant.has_value() && !table.has_column(*meant)) {
      throw Error(table.place() + ": line 1: unknown column " + in_quotes(column) +
                  "; did you mean " + in_quotes(*meant) + "?");
    }
  }
}

}  // namespace

void check_columns(const CsvTable& table) {
  table.require(required_columns());
  if (!table.has_column("model")) {
    table.require(shape_columns());
  }
  if (std::ranges::none_of(time_columns(),
                           [&](const std::string& column) { return table.has_column(column); })) {
    table.require({time_columns().front()});
  }
  refuse_misspelt_columns(table);
}

std::string RunFields::text(std::string_view column) const {
  return table_.text(row_, column);
}

bool RunFields::is_given(std::string_view column) const {
  std::string value = text(column);
  if (value == "?") {
    throw SkipRow{std::string(column) + " is not given"};
  }
  return !value.empty();
}

std::string RunFields::place_of(std::string_view column) const {
  return table_.place_of(row_, column);
}

std::string RunFields::line(std::string_view column) const {
  std::string value = text(column);
  const bool has_controls = std::any_of(
      value.begin(), value.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (has_controls) {
    throw Error(table_.place_of(row_, column) + ": expected printable text, got " +
                in_quotes(value));
  }
  return value;
}

std::string RunFields::required_text(std::string_view column) const {
  std::string value = line(column);
  if (value.empty() || value == "?") {
    throw SkipRow{std::string(column) + " is not given"};
  }
  return value;
}

std::string RunFields::profile(std::string_view column) const {
  std::string name = required_text(column);
  if (name.find('/') != std::string::npos || name.ends_with(".json")) {
    throw SkipRow{std::string(column) + " is no name of a profile"};
  }
  return name;
}

int RunFields::count(std::string_view column, std::int64_t low) const {
  std::string value = required_text(column);
  const std::optional<std::int64_t> found = find_count(value, low, kLargestCount);
  // Most fields are counts, and thousands of rows are read at a start: where one stands is spelled
  // out for an error only.
  return static_cast<int>(
      found ? *found : parse_count(value, low, kLargestCount, table_.place_of(row_, column)));
}

int RunFields::count_or(std::string_view column, int otherwise) const {
  return is_given(column) ? count(column, otherwise) : otherwise;
}

int RunFields::check(std::string_view column) const {
  return text(column) == "?" ? 0 : count_or(column, 0);
}

double RunFields::seconds(std::string_view column) const {
  return parse_number(required_text(column), 1e-6, kLongestIteration,
                      table_.place_of(row_, column));
}

double RunFields::rate(std::string_view column) const {
  return parse_number(required_text(column), 1e-6, kHighestRate, table_.place_of(row_, column));
}

std::optional<Bytes> RunFields::memory(std::string_view column) const {
  if (text(column).empty() || text(column) == "?") {
    return std::nullopt;
  }
  return Bytes(
      parse_number(line(column), kLeastMemory, kMostMemory, table_.place_of(row_, column)) * kGibi);
}

std::optional<bool> RunFields::flag(std::string_view column) const {
  if (!is_given(column)) {
    return std::nullopt;
  }
  std::string value = text(column);
  if (value != "y" && value != "n") {
    throw Error(table_.place_of(row_, column) + R"(: expected "y" or "n", got )" +
                in_quotes(value));
  }
  return value == "y";
}

}  // namespace ptdp
