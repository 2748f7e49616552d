// Indexes the tables of published runs, reads the rows that are asked for and finds predictions.
#include "planner/accuracy/published_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/measured/run_fields.h"
#include "cost_model/text/csv_columns.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr const char* kIdColumn = "id";
constexpr const char* kPrecisionColumn = "precision";
constexpr const char* kPredictedColumn = "predicted_s";
constexpr double kLeastSeconds = 1e-9;
constexpr double kMostSeconds = 1e9;

std::vector<CsvTable> published_tables() {
  std::vector<CsvTable> tables;
  for (const std::string& name : files_of_profiles("published", ".csv")) {
    tables.push_back(file_of_profiles("published/" + name).table());
  }
  return tables;
}

/// Returns the predictions that are part of the program; nullopt where profiles are others.
std::optional<StoredPredictions> stored_predictions() {
  const ProfileFile file = file_of_profiles("predictions.csv");
  return file.content ? std::optional<StoredPredictions>(file.table()) : std::nullopt;
}

bool is_of_job(const MeasuredRun& run, const Scenario& scenario, std::int64_t gpus) {
  return run.model == scenario.job.model &&
         run.global_batch_size == scenario.job.global_batch_size && run.config.world_size() == gpus;
}

/// Reads a run; nullopt for a row that cannot be costed. Throws Error for a malformed row.
std::optional<MeasuredRun> read_if_costed(const CsvTable& table, std::size_t row,
                                          RowModels& models) {
  try {
    return read_measured_run(table, row, models);
  } catch (const SkipRow&) {
    return std::nullopt;
  }
}

}  // namespace

StoredPredictions::StoredPredictions(CsvTable table)
    : table_(std::make_shared<const CsvTable>(std::move(table))) {
  table_->require({kIdColumn, kPrecisionColumn, kPredictedColumn});
  const std::size_t id = table_->index_of(kIdColumn);
  const std::size_t precision = table_->index_of(kPrecisionColumn);
  const std::size_t predicted = table_->index_of(kPredictedColumn);
  rows_.reserve(table_->num_rows());
  for (std::size_t i = 0; i < table_->num_rows(); ++i) {
    const std::string_view time = table_->view(i, predicted);
    const std::optional<double> seconds = find_number(time, kLeastSeconds, kMostSeconds);
    const Row row{
        .precision = table_->view(i, precision),
        .predicted = Seconds(seconds ? *seconds
                                     : parse_number(time, kLeastSeconds, kMostSeconds,
                                                    table_->place_of(i, kPredictedColumn)))};
    if (!rows_.emplace(table_->view(i, id), row).second) {
      throw Error(table_->place_of(i, kIdColumn) + ": " + in_quotes(table_->view(i, id)) +
                  " is there twice");
    }
  }
}

CostedRun StoredPredictions::costed(const MeasuredRun& run) const {
  const Row& row = rows_.at(run.id);
  return {.run = run, .predicted = row.predicted, .precision = std::string(row.precision)};
}

std::string predictions_csv(const std::vector<CostedRun>& runs) {
  std::unordered_set<std::string_view> ids;
  for (const CostedRun& run : runs) {
    if (run.run.id.empty() || !ids.insert(run.run.id).second) {
      throw Error("predictions: expected an id that no other run has, got " +
                  in_quotes(run.run.id));
    }
  }
  return csv_text<CostedRun>(
      {{kIdColumn, [](const CostedRun& run) { return run.run.id; }},
       {kPrecisionColumn, [](const CostedRun& run) { return run.precision; }},
       {kPredictedColumn,
        [](const CostedRun& run) { return fmt::format("{:.9g}", run.predicted.value()); }}},
      runs);
}

PublishedRuns::PublishedRuns(std::vector<CsvTable> tables, ReadPredictions read_predictions)
    : tables_(std::move(tables)), read_predictions_(std::move(read_predictions)) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const CsvTable& table = tables_[t];
    check_columns(table);
    const std::size_t cluster = table.index_of("cluster_key");
    const std::size_t stack = table.index_of("stack_key");
    auto place = places_.end();
    for (std::size_t i = 0; i < table.num_rows(); ++i) {
      // A table's rows are mostly of one place.
      if (place == places_.end() || place->first.first != table.view(i, cluster) ||
          place->first.second != table.view(i, stack)) {
        place = places_
                    .try_emplace(
                        {std::string(table.view(i, cluster)), std::string(table.view(i, stack))})
                    .first;
      }
      place->second.push_back(rows_.size());
      rows_.push_back({.table = t, .index = i});
    }
  }
}

std::vector<MeasuredRun> PublishedRuns::in_places(const PlaceFilter& is_wanted) const {
  std::vector<std::size_t> wanted;
  for (const auto& [place, rows] : places_) {
    if (is_wanted(place.first, place.second)) {
      wanted.insert(wanted.end(), rows.begin(), rows.end());
    }
  }
  std::ranges::sort(wanted);
  return read(wanted);
}

std::vector<MeasuredRun> PublishedRuns::of_job(const Scenario& scenario, std::int64_t gpus) const {
  const std::int64_t batch = scenario.job.global_batch_size;
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (find_count(tables_[row.table].text(row.index, "gbs"), batch, batch)) {
      candidates.push_back(i);
    }
  }
  std::vector<MeasuredRun> runs = read(candidates);
  std::erase_if(runs, [&](const MeasuredRun& run) { return !is_of_job(run, scenario, gpus); });
  return runs;
}

const std::optional<StoredPredictions>& PublishedRuns::predictions() const {
  std::call_once(has_read_predictions_, [&] {
    if (read_predictions_) {
      predictions_ = read_predictions_();
    }
  });
  return predictions_;
}

std::vector<MeasuredRun> PublishedRuns::read(const std::vector<std::size_t>& rows) const {
  const std::optional<StoredPredictions>& stored = predictions();
  const std::lock_guard lock(mutex_);
  std::vector<MeasuredRun> runs;
  for (const std::size_t i : rows) {
    auto found = runs_.find(i);
    if (found == runs_.end()) {
      const CsvTable& table = tables_[rows_[i].table];
      const bool is_of_use = !stored || stored->contains(table.text(rows_[i].index, "id"));
      found =
          runs_
              .emplace(i, is_of_use ? read_if_costed(table, rows_[i].index, models_) : std::nullopt)
              .first;
    }
    if (found->second) {
      runs.push_back(*found->second);
    }
  }
  return runs;
}

std::vector<CostedRun> PublishedRuns::costed(const std::vector<MeasuredRun>& runs) const {
  const std::optional<StoredPredictions>& stored = predictions();
  if (!stored) {
    return cost_runs({.runs = runs}).costed;
  }
  std::vector<CostedRun> costed;
  costed.reserve(runs.size());
  for (const MeasuredRun& run : runs) {
    if (stored->contains(run.id)) {
      costed.push_back(stored->costed(run));
    }
  }
  return costed;
}

MeasuredRuns PublishedRuns::read_all() const {
  const std::lock_guard lock(mutex_);
  MeasuredRuns all;
  for (const CsvTable& table : tables_) {
    all.append(read_measured_runs(table, models_));
  }
  return all;
}

const PublishedRuns& published_runs() {
  static const PublishedRuns published(published_tables(), stored_predictions);
  return published;
}

const MeasuredRuns& read_published_runs() {
  static const MeasuredRuns all = published_runs().read_all();
  return all;
}

}  // namespace ptdp
