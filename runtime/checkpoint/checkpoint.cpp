#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/checkpoint/earlier_names.h"
#include "runtime/checkpoint/model_difference.h"
#include "runtime/host_values.h"
#include "runtime/open_file.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the steps that have a subdirectory in `directory`, newest first; none when it does not
/// exist. Throws Error when it cannot be listed: if it were taken for empty, a run would begin
/// anew.
std::vector<std::int64_t> steps_in(const fs::path& directory) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (const auto step = step_of_directory(entry->path().filename().string())) {
      steps.push_back(*step);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail_to_read(directory, "cannot be listed: " + error.message());
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

/// Throws Error when the file at `path` has another size or checksum than expected.
void check_digest(const fs::path& path, const FileDigest& found, const FileDigest& expected) {
  if (found.bytes != expected.bytes) {
    fail_to_read(
        path, std::to_string(found.bytes) + " bytes, expected " + std::to_string(expected.bytes));
  }
  if (found.xxh64 != expected.xxh64) {
    fail_to_read(
        path, "checksum " + hexadecimal(found.xxh64) + ", expected " + hexadecimal(expected.xxh64));
  }
}

FileDigest digest_of_text(const std::string& name, const std::string& content) {
  return {.name = name,
          .bytes = static_cast<std::int64_t>(content.size()),
          .xxh64 = checksum_of(content)};
}

/// Returns whether a file of the manifest is the index of a shard.
bool is_index(const FileDigest& file) {
  return file.name.ends_with(".json");
}

std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

/// Reads elements of a shard from byte `offset` on, widened to f64.
void read_elements(const OpenFile& file, DataType type, std::int64_t offset,
                   std::span<double> values) {
  if (type == DataType::kFloat64) {
    file.read(offset, std::as_writable_bytes(values));
    return;
  }
  std::vector<float> narrow(values.size());
  file.read(offset, std::as_writable_bytes(std::span(narrow)));
  std::copy(narrow.begin(), narrow.end(), values.begin());
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / kManifestName, error)) {
    return Checkpoint(directory);
  }
  if (!fs::is_directory(directory, error)) {
    fail_to_read(directory, "expected a directory of checkpoints, found " +
                                std::string(fs::exists(directory, error) ? "a file" : "nothing"));
  }
  std::vector<std::string> passed_over;
  for (const std::int64_t step : steps_in(directory)) {
    try {
      Checkpoint checkpoint(directory / step_directory_name(step));
      checkpoint.passed_over_ = std::move(passed_over);
      return checkpoint;
    } catch (const Error& fault) {
      passed_over.emplace_back(fault.what());
    }
  }
  if (passed_over.empty()) {
    fail_to_read(directory, "no checkpoint, expected directories as " + step_directory_name(10));
  }
  fail_to_read(directory, "none of " + std::to_string(passed_over.size()) +
                              " checkpoints is whole; the newest: " + passed_over.front());
}

std::optional<std::int64_t> Checkpoint::newest_step(const fs::path& directory) {
  const std::vector<std::int64_t> steps = steps_in(directory);
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

Checkpoint::Checkpoint(fs::path path) : path_(std::move(path)) {
  const fs::path place = path_ / kManifestName;
  const std::string manifest_text = read_file(place, kLargestCheckpointDocument);
  const std::string expected = checksum_line(checksum_of(manifest_text), kManifestName);
  if (read_file(path_ / kManifestChecksumName) != expected) {
    fail_to_read(place, "does not have the checksum in " + std::string(kManifestChecksumName));
  }
  const CheckpointManifest manifest = parse_manifest(manifest_text, place.string());
  state_ = manifest.state;
  if (step_of_directory(path_.filename().string()).value_or(state_.step) != state_.step) {
    fail_to_read(place,
                 "is of step " + std::to_string(state_.step) + ", expected that of its directory");
  }

  std::vector<FileDigest> data;
  for (const FileDigest& file : manifest.files) {
    if (is_index(file)) {
      const ShardIndex index = parse_shard_index(read_checked(file), (path_ / file.name).string());
      add_parts(index);
      data.push_back(index.data);
    }
  }
  for (const FileDigest& file : manifest.files) {
    if (!is_index(file)) {
      check_data(file);
    }
  }
  for (const FileDigest& file : data) {
    const auto same =
        std::find_if(manifest.files.begin(), manifest.files.end(), [&](const FileDigest& listed) {
          return listed.name == file.name && listed.bytes == file.bytes &&
                 listed.xxh64 == file.xxh64;
        });
    if (same == manifest.files.end()) {
      fail_to_read(place, "does not list " + file.name + " as its index has it");
    }
  }
  check_coverage();
}

std::string Checkpoint::read_checked(const FileDigest& file) const {
  const fs::path place = path_ / file.name;
  std::string content = read_file(place, kLargestCheckpointDocument);
  check_digest(place, digest_of_text(file.name, content), file);
  return content;
}

void Checkpoint::check_data(const FileDigest& expected) const {
  const fs::path place = path_ / expected.name;
  const OpenFile file(place);
  if (file.size() != expected.bytes) {  // the size tells without reading the content
    check_digest(place, {.bytes = file.size()}, expected);
  }
  check_digest(place, digest_of(place), expected);
}

void Checkpoint::add_parts(const ShardIndex& index) {
  for (const ShardEntry& entry : index.entries) {
    parts_[entry.parameter].push_back(
        {.entry = entry, .type = index.type, .file = index.data.name});
  }
}

void Checkpoint::check_coverage() const {
  for (const auto& [name, parts] : parts_) {
    const ShardEntry& first = parts.front().entry;
    std::int64_t count = 0;
    for (const StoredPart& part : parts) {
      if (part.entry.total_rows != first.total_rows ||
          part.entry.block.total_columns != first.block.total_columns) {
        fail_to_read(path_, "parameter " + name + ": has two shapes");
      }
      count += part.entry.range.count;
    }
    const std::int64_t expected = first.total_rows * first.block.total_columns;
    if (count != expected) {
      fail_to_read(path_, "parameter " + name + ": " + std::to_string(count) +
                              " elements, expected " + std::to_string(expected));
    }
    check_disjoint(name, parts);
  }
}

void Checkpoint::check_disjoint(const std::string& name,
                                const std::vector<StoredPart>& parts) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const ShardEntry& a = parts[j].entry;
      const ShardEntry& b = parts[i].entry;
      if (!shared_runs({a.block, a.range}, {b.block, b.range}).empty()) {
        fail_to_read(path_, "parameter " + name + ": has elements twice, in " + parts[j].file +
                                " at byte " + std::to_string(a.offset) + " and in " +
                                parts[i].file + " at byte " + std::to_string(b.offset));
      }
    }
  }
}

void Checkpoint::require_model(const TransformerConfig& model) const {
  if (const auto difference = model_difference(state_.model, model)) {
    fail_to_read(path_, "a checkpoint of another model: " + difference->key + ": found " +
                            difference->found + ", expected " + difference->expected);
  }
}

const std::vector<Checkpoint::StoredPart>& Checkpoint::parts_of(const Parameter& parameter) const {
  const std::string expected =
      ", expected " + shape_text(parameter.total_rows, parameter.block.total_columns);
  const auto found = parts_.find(parameter.name);
  if (found == parts_.end()) {
    fail_to_read(path_, "parameter " + parameter.name + ": found nothing" + expected);
  }
  const ShardEntry& entry = found->second.front().entry;
  if (entry.total_rows != parameter.total_rows ||
      entry.block.total_columns != parameter.block.total_columns) {
    fail_to_read(path_, "parameter " + parameter.name + ": found " +
                            shape_text(entry.total_rows, entry.block.total_columns) + expected);
  }
  return found->second;
}

void Checkpoint::read(const Parameter& parameter, const Part& range, StateKind kind,
                      std::span<double> values) const {
  const auto earlier = earlier_name(parameter.name);
  if (!earlier || parts_.contains(parameter.name) || !parts_.contains(*earlier)) {
    read_stored(parameter, range, kind, values);
    return;
  }
  for (const EarlierPart& part : earlier_parts(parameter, range, state_.model.kv_channels)) {
    read_stored(part.parameter, {0, part.values.count}, kind,
                values.subspan(static_cast<std::size_t>(part.values.first),
                               static_cast<std::size_t>(part.values.count)));
  }
}

void Checkpoint::read_stored(const Parameter& parameter, const Part& range, StateKind kind,
                             std::span<double> values) const {
  std::fill(values.begin(), values.end(), 0.0);
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  const Part valid = intersection(range, {0, block.rows * block.columns});
  std::vector<bool> is_found(static_cast<std::size_t>(valid.count));
  for (const StoredPart& part : parts_of(parameter)) {
    const ShardEntry& entry = part.entry;
    const auto runs = shared_runs({entry.block, entry.range}, {block, valid});
    if (runs.empty()) {
      continue;
    }
    const OpenFile file(path_ / part.file);
    const std::int64_t first = static_cast<std::int64_t>(kind) * entry.range.count;
    for (const OverlapRange& run : runs) {
      read_elements(file, part.type, entry.offset + bytes_of(part.type) * (first + run.first_in_a),
                    values.subspan(static_cast<std::size_t>(run.first_in_b),
                                   static_cast<std::size_t>(run.count)));
      std::fill_n(is_found.begin() + run.first_in_b, run.count, true);
    }
  }
  const std::int64_t num_found = std::count(is_found.begin(), is_found.end(), true);
  if (num_found != valid.count) {
    fail_to_read(path_, "parameter " + parameter.name + ": found " + std::to_string(num_found) +
                            " elements of a part, expected " + std::to_string(valid.count));
  }
}

void Checkpoint::restore(Backend& backend, Optimizer& optimizer) const {
  const auto fill = [&](const Parameter& parameter, const OwnedSlice& slice, StateKind kind,
                        const Buffer& to) {
    fill_in_pieces(backend, to, [&](std::int64_t first, std::span<double> values) {
      read(parameter, {slice.range.first - parameter.first + first, std::ssize(values)}, kind,
           values);
    });
  };
  for (std::size_t i = 0; i < optimizer.shares().size(); ++i) {
    const ParameterStore& store = *optimizer.shares()[i].store;
    for (const OwnedSlice& slice : optimizer.owned_slices(static_cast<int>(i))) {
      const Parameter& parameter = store.parameters()[slice.parameter];
      fill(parameter, slice, StateKind::kMaster, slice.master);
      fill(parameter, slice, StateKind::kMoment1, slice.moment1);
      fill(parameter, slice, StateKind::kMoment2, slice.moment2);
    }
  }
  optimizer.round_masters();
}

}  // namespace ptdp
