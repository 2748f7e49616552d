// The published runs that are shipped, read as far as somebody asks for them, with the predictions
// that are shipped with them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/text/csv_table.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// What the uncalibrated cost model says of runs, by their ids: a table as
/// predictions_csv() writes it.
class StoredPredictions {
 public:
  /// Takes a table. Throws Error if it lacks a column, and for a malformed time.
  explicit StoredPredictions(CsvTable table);

  /// Returns whether there is a prediction of the run with this id.
  [[nodiscard]] bool contains(std::string_view id) const { return rows_.contains(id); }
  /// Returns a run with its prediction, which must be there.
  [[nodiscard]] CostedRun costed(const MeasuredRun& run) const;

 private:
  struct Row {
    std::string_view precision;
    Seconds predicted;
  };
  std::shared_ptr<const CsvTable> table_;  ///< Shared, as `rows_` points into it.
  std::unordered_map<std::string_view, Row> rows_;
};

/// Returns the predictions of runs as comma-separated values with the columns id, precision and
/// predicted_s [s]; what StoredPredictions reads. Throws Error for an id that is empty or there
/// twice.
[[nodiscard]] std::string predictions_csv(const std::vector<CostedRun>& runs);

/// Runs of tables, each read when it is asked for the first time. Safe for concurrent use.
class PublishedRuns {
 public:
  /// Holds no run.
  PublishedRuns() = default;
  /// Reads the predictions of all runs that can be costed; nullopt if they are to be computed.
  using ReadPredictions = std::function<std::optional<StoredPredictions>()>;
  /// Takes tables of runs. `read_predictions` is asked once, when runs are looked for; without it
  /// predictions are computed. Throws Error for columns that check_columns() refuses.
  explicit PublishedRuns(std::vector<CsvTable> tables, ReadPredictions read_predictions = {});

  /// Decides about a cluster and a stack by the names of their profiles.
  using PlaceFilter = std::function<bool(const std::string& cluster, const std::string& stack)>;
  /// Returns the runs in the places that `is_wanted`, which is asked once about each, in the order
  /// of the tables. Rows that cannot be costed are left out. Throws Error for a malformed row.
  [[nodiscard]] std::vector<MeasuredRun> in_places(const PlaceFilter& is_wanted) const;

  /// Returns the runs of the scenario's model, batch and number of GPUs, on any cluster and stack.
  /// Throws Error for a malformed row.
  [[nodiscard]] std::vector<MeasuredRun> of_job(const Scenario& scenario, std::int64_t gpus) const;

  /// Returns runs of these tables, which their ids tell apart, with their predictions. Those that
  /// cannot be costed are left out.
  [[nodiscard]] std::vector<CostedRun> costed(const std::vector<MeasuredRun>& runs) const;

  /// Reads all rows, as read_measured_runs() does.
  [[nodiscard]] MeasuredRuns read_all() const;

 private:
  struct Row {
    std::size_t table = 0;
    std::size_t index = 0;
  };
  /// Returns the runs of rows, which it reads where nobody has. Those of no use are left out.
  [[nodiscard]] std::vector<MeasuredRun> read(const std::vector<std::size_t>& rows) const;
  /// Returns the predictions, which it reads where nobody has.
  [[nodiscard]] const std::optional<StoredPredictions>& predictions() const;

  std::vector<CsvTable> tables_;
  ReadPredictions read_predictions_;
  mutable std::once_flag has_read_predictions_;
  mutable std::optional<StoredPredictions> predictions_;
  std::vector<Row> rows_;
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> places_;
  mutable std::mutex mutex_;
  /// The runs that were read, by place in `rows_`; nullopt for a row that cannot be costed.
  mutable std::map<std::size_t, std::optional<MeasuredRun>> runs_;
  mutable RowModels models_;
};

/// Returns the shipped published runs (profiles/published/*.csv), whose tables a process reads
/// once, with the predictions in profiles/predictions.csv. Profiles of $PTDP_PROFILES may differ
/// from those that these rest on: there, they are computed. Throws Error when the directory is
/// missing.
[[nodiscard]] const PublishedRuns& published_runs();
/// Returns all of the shipped published runs, which a process reads once.
[[nodiscard]] const MeasuredRuns& read_published_runs();

}  // namespace ptdp
