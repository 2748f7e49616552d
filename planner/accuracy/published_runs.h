// The published runs that are shipped, read as far as somebody asks for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {

/// Runs of tables, each read when it is asked for the first time. Safe for concurrent use.
class PublishedRuns {
 public:
  /// Holds no run.
  PublishedRuns() = default;
  /// Takes tables of runs. Throws Error for columns that check_columns() refuses.
  explicit PublishedRuns(std::vector<CsvTable> tables);

  /// Decides about a cluster and a stack by the names of their profiles.
  using PlaceFilter = std::function<bool(const std::string& cluster, const std::string& stack)>;
  /// Returns the runs in the places that `is_wanted`, which is asked once about each, in the order
  /// of the tables. Rows that cannot be costed are left out. Throws Error for a malformed row.
  [[nodiscard]] std::vector<MeasuredRun> in_places(const PlaceFilter& is_wanted) const;

  /// Returns the runs of the scenario's model, batch and number of GPUs, on any cluster and stack.
  /// Throws Error for a malformed row.
  [[nodiscard]] std::vector<MeasuredRun> of_job(const Scenario& scenario, std::int64_t gpus) const;

  /// Reads all rows, as read_measured_runs() does.
  [[nodiscard]] MeasuredRuns read_all() const;

 private:
  /// A row of a table, and its run once that is read.
  struct Row {
    std::size_t table = 0;
    std::size_t index = 0;
    bool is_read = false;
    std::optional<MeasuredRun> run = std::nullopt;  ///< Stays empty for a row without costs.
  };
  /// Returns the runs of rows, which it reads where nobody has.
  [[nodiscard]] std::vector<MeasuredRun> read(const std::vector<std::size_t>& rows) const;

  std::vector<CsvTable> tables_;
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> places_;
  mutable std::mutex mutex_;
  mutable std::vector<Row> rows_;
  mutable RowModels models_;
};

/// Returns the shipped published runs (profiles/published/*.csv), whose tables a process reads
/// once. Throws Error when the directory is missing.
[[nodiscard]] const PublishedRuns& published_runs();
/// Returns all of the shipped published runs, which a process reads once.
[[nodiscard]] const MeasuredRuns& read_published_runs();

}  // namespace ptdp
