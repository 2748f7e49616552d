// Indexes the tables of published runs, and reads the rows that are asked for.
#include "planner/accuracy/published_runs.h"

#include <algorithm>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/measured/run_fields.h"

namespace ptdp {
namespace {

std::vector<CsvTable> published_tables() {
  std::vector<CsvTable> tables;
  for (const std::string& name : files_of_profiles("published", ".csv")) {
    const ProfileFile file = file_of_profiles("published/" + name);
    tables.push_back(CsvTable::from_text(file.text(kLargestTable), file.path.string()));
  }
  return tables;
}

bool is_of_job(const MeasuredRun& run, const Scenario& scenario, std::int64_t gpus) {
  return run.model == scenario.job.model &&
         run.global_batch_size == scenario.job.global_batch_size && run.config.world_size() == gpus;
}

}  // namespace

PublishedRuns::PublishedRuns(std::vector<CsvTable> tables) : tables_(std::move(tables)) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const CsvTable& table = tables_[t];
    check_columns(table);
    for (std::size_t i = 0; i < table.num_rows(); ++i) {
      places_[{table.text(i, "cluster_key"), table.text(i, "stack_key")}].push_back(rows_.size());
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

std::vector<MeasuredRun> PublishedRuns::read(const std::vector<std::size_t>& rows) const {
  const std::lock_guard lock(mutex_);
  std::vector<MeasuredRun> runs;
  for (const std::size_t i : rows) {
    Row& row = rows_[i];
    if (!row.is_read) {
      try {
        row.run = read_measured_run(tables_[row.table], row.index, models_);
      } catch (const SkipRow&) {
        row.run = std::nullopt;
      }
      row.is_read = true;
    }
    if (row.run) {
      runs.push_back(*row.run);
    }
  }
  return runs;
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
  static const PublishedRuns published(published_tables());
  return published;
}

const MeasuredRuns& read_published_runs() {
  static const MeasuredRuns all = published_runs().read_all();
  return all;
}

}  // namespace ptdp
