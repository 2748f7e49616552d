#include "runtime/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/host_values.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartial = ".partial";
constexpr const char* kAside = ".replaced";

/// Returns the path of a directory that no reader takes for a checkpoint.
fs::path hidden(const fs::path& directory, const std::string& name, const char* ending) {
  return directory / ("." + name + ending);
}

/// Removes the parts of failed attempts. A checkpoint that was moved aside for a successor which
/// did not come gets its name back.
void remove_leftovers(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    names.push_back(entry.path().filename().string());
  }
  const auto step_name = [](const std::string& name, std::string_view ending) {
    return name.starts_with('.') && name.ends_with(ending)
               ? name.substr(1, name.size() - 1 - ending.size())
               : std::string();
  };
  for (const std::string& name : names) {
    const std::string aside = step_name(name, kAside);
    if (step_of_directory(aside) && !fs::exists(directory / aside, error)) {
      fs::rename(directory / name, directory / aside, error);
    } else if (step_of_directory(aside) || step_of_directory(step_name(name, kPartial))) {
      fs::remove_all(directory / name, error);
    }
  }
}

/// Appends all elements of a buffer to the file.
void append(ChecksummedFile& file, Backend& backend, const Buffer& values) {
  std::vector<std::byte> piece;
  for_each_piece(values.size, [&](std::int64_t first, std::int64_t count) {
    const Buffer part = values.slice(first, count);
    piece.resize(static_cast<std::size_t>(part.bytes()));
    backend.copy_out(part, piece.data());
    file.append(piece);
  });
}

/// Appends the elements of a slice that are no padding, and their entry. Appends nothing when all
/// are padding.
void append_slice(ChecksummedFile& file, Backend& backend, const Parameter& parameter,
                  const OwnedSlice& slice, std::vector<ShardEntry>& entries) {
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  const std::int64_t first = slice.range.first - parameter.first;
  const std::int64_t count = std::min(slice.range.count, block.rows * block.columns - first);
  if (count <= 0) {
    return;
  }
  entries.push_back({.parameter = parameter.name,
                     .total_rows = parameter.total_rows,
                     .block = block,
                     .range = {first, count},
                     .offset = file.size()});
  for (const Buffer& state : {slice.master, slice.moment1, slice.moment2}) {
    append(file, backend, state.slice(0, count));
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path directory, std::int64_t step)
    : directory_(std::move(directory)),
      step_(step),
      partial_(hidden(directory_, step_directory_name(step), kPartial)) {}

void CheckpointWriter::begin() const {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) {
    fail_to_write(directory_, "create the directory", error.message());
  }
  if (!fs::is_directory(directory_, error)) {
    fail_to_write(directory_, "write into it",
                  std::make_error_code(std::errc::not_a_directory).message());
  }
  remove_leftovers(directory_);
  if (!fs::create_directory(partial_, error)) {
    fail_to_write(partial_, "create the directory",
                  (error ? error : std::make_error_code(std::errc::file_exists)).message());
  }
}

void CheckpointWriter::write_shard(int rank, Backend& backend, const Optimizer& optimizer) const {
  ChecksummedFile file(partial_ / shard_name(rank));
  ShardIndex index;
  for (std::size_t i = 0; i < optimizer.shares().size(); ++i) {
    const ParameterStore& store = *optimizer.shares()[i].store;
    index.type = store.all_gradients().type;
    for (const OwnedSlice& slice : optimizer.saved_slices(static_cast<int>(i))) {
      append_slice(file, backend, store.parameters()[slice.parameter], slice, index.entries);
    }
  }
  index.data = file.close();
  write_checksummed(partial_ / shard_index_name(rank), to_json(index));
}

void CheckpointWriter::finish(const TrainingState& state, int num_ranks) const {
  assert(state.step == step_);
  CheckpointManifest manifest{.state = state};
  try {
    for (int rank = 0; rank < num_ranks; ++rank) {
      const std::string name = shard_index_name(rank);
      const std::string content = read_file(partial_ / name, kLargestCheckpointDocument);
      manifest.files.push_back(parse_shard_index(content, (partial_ / name).string()).data);
      manifest.files.push_back({.name = name,
                                .bytes = static_cast<std::int64_t>(content.size()),
                                .xxh64 = checksum_of(content)});
    }
  } catch (const Error& error) {
    throw Error(error.what(), ExitStatus::kOutputFailed);
  }
  const FileDigest digest = write_checksummed(partial_ / kManifestName, to_json(manifest));
  write_checksummed(partial_ / kManifestChecksumName, checksum_line(digest.xxh64, kManifestName));
  sync_directory(partial_);
  const std::string name = step_directory_name(step_);
  replace_directory(partial_, directory_ / name, hidden(directory_, name, kAside));
}

void CheckpointWriter::discard() const noexcept {
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

}  // namespace ptdp
