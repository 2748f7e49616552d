#include "runtime/weights/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/descriptor.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "runtime/weights/convert_elements.h"
#include "runtime/weights/weights_index.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "files of safetensors are little-endian");

constexpr const char* kPartialWeights = ".weights.partial";
/// Number of elements that are converted and written at a time.
constexpr std::int64_t kWrittenAtATime = std::int64_t{1} << 20;
/// Number of bytes that are synced at a time, in some tenths of a second.
constexpr std::int64_t kSyncedAtATime = std::int64_t{1} << 24;

Descriptor open_to_write(const fs::path& path, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
  if (!file.is_open()) {
    fail_to_write(path, "open", std::strerror(errno));
  }
  return file;
}

/// Closes a file. Some file systems report only then that data are lost.
void close_written(Descriptor& file, const fs::path& path) {
  if (!file.close()) {
    fail_to_write(path, "close", std::strerror(errno));
  }
}

void write_at(const Descriptor& file, const fs::path& path, std::int64_t offset,
              std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail_to_write(path, "write", std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

/// Creates a file of the size and with the head that its layout says.
void create_shard(const fs::path& path, const ShardLayout& layout) {
  Descriptor file = open_to_write(path, O_CREAT | O_EXCL);
  if (::ftruncate(file.get(), layout.bytes) != 0) {
    fail_to_write(path, "make it large enough", std::strerror(errno));
  }
  // File systems that cannot reserve space find a full disk later.
  if (::fallocate(file.get(), 0, 0, layout.bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    fail_to_write(path, fmt::format("reserve {} bytes", layout.bytes).c_str(),
                  std::strerror(errno));
  }
  write_at(file, path, 0, std::as_bytes(std::span(layout.head)));
  close_written(file, path);
}

void sync_written(const fs::path& path, std::int64_t bytes, const std::function<void()>& check) {
  const Descriptor file = open_to_write(path, 0);
  // Piece by piece first, since nothing ends the wait for a whole file. What fails here fails
  // below.
  for (std::int64_t first = 0; first < bytes; first += kSyncedAtATime) {
    check();
    static_cast<void>(::sync_file_range(
        file.get(), first, std::min(kSyncedAtATime, bytes - first),
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
  }
  check();
  if (::fsync(file.get()) != 0) {
    fail_to_write(path, "sync", std::strerror(errno));
  }
}

/// Writes elements of one type from `offset` on, without gaps.
void write_run(const Descriptor& file, const fs::path& path, std::int64_t offset, DataType type,
               const Buffer& from, std::vector<std::byte>& scratch) {
  for (std::int64_t first = 0; first < from.size; first += kWrittenAtATime) {
    const Buffer piece = from.slice(first, std::min(kWrittenAtATime, from.size - first));
    scratch.resize(static_cast<std::size_t>(piece.size * bytes_of(type)));
    convert_elements(piece, {.data = scratch.data(), .size = piece.size, .type = type});
    write_at(file, path, offset + first * bytes_of(type), scratch);
  }
}

/// Removes what an earlier attempt left: files without names, and those that it named before it
/// ended. These are the files of its index, which gets its name last.
void remove_earlier_attempt(const fs::path& directory, const fs::path& partial) {
  std::error_code ignored;
  const fs::path index = partial / kWeightsIndexName;
  if (fs::exists(index, ignored)) {
    try {
      for (const auto& [name, file] :
           parse_weights_index(read_file(index, kLargestIndex), index.string())) {
        // A file that still lies in the attempt was not named by it.
        if (!fs::exists(partial / file, ignored)) {
          fs::remove(directory / file, ignored);
        }
      }
    } catch (const Error&) {
      // The attempt ended while it wrote the index, before it named any file.
      ignored.clear();
    }
  }
  fs::remove_all(partial, ignored);
}

/// Throws Error(kOutputFailed) when a directory has files that may be taken for weights.
void refuse_weights(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name == kWeightsIndexName) {
      found.push_back(name);
    }
  }
  if (!found.empty()) {
    fail_to_write(directory, "write weights into it",
                  "it has " + in_quotes(std::ranges::min(found)) +
                      " already; expected a directory without weights");
  }
}

/// Moves files into a directory. When one cannot be moved, takes back those that replaced none.
void give_names(const fs::path& from, const fs::path& to, const std::vector<std::string>& names) {
  std::vector<fs::path> named;
  for (const std::string& name : names) {
    std::error_code error;
    const bool is_new = !fs::exists(to / name, error);
    fs::rename(from / name, to / name, error);
    if (error) {
      for (const fs::path& path : named) {
        std::error_code ignored;
        fs::remove(path, ignored);
      }
      fail_to_write(to / name, "rename onto it", error.message());
    }
    if (is_new) {
      named.push_back(to / name);
    }
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(fs::path directory, const std::vector<NewTensor>& tensors,
                                     std::int64_t largest_shard)
    : directory_(std::move(directory)),
      partial_(directory_ / kPartialWeights),
      layout_(tensors, largest_shard),
      written_(tensors.size()) {}

void SafetensorsWriter::begin() const {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error || !fs::is_directory(directory_, error)) {
    fail_to_write(directory_, "create the directory",
                  (error ? error : std::make_error_code(std::errc::not_a_directory)).message());
  }
  remove_earlier_attempt(directory_, partial_);
  refuse_weights(directory_);
  if (!fs::create_directory(partial_, error)) {
    fail_to_write(partial_, "create the directory",
                  (error ? error : std::make_error_code(std::errc::file_exists)).message());
  }
  for (const ShardLayout& shard : layout_.shards()) {
    create_shard(partial_ / shard.file, shard);
  }
}

void SafetensorsWriter::write(std::string_view name, const MatrixBlock& block, const Buffer& from) {
  const std::string here = "writing weights: tensor " + in_quotes(name);
  const auto found = layout_.places().find(name);
  if (found == layout_.places().end()) {
    throw Error(here + ": expected one of those announced", ExitStatus::kBug);
  }
  const TensorPlace& place = found->second;
  ElementRuns runs;
  try {
    runs = runs_of(place.tensor, block, here);
  } catch (const Error& error) {
    throw Error(error.what(), ExitStatus::kBug);
  }
  assert(from.size == runs.length * runs.count);
  const fs::path path = partial_ / layout_.shards()[place.shard].file;
  // Opened for each block: closing is what shows other hosts of a shared file system the data.
  Descriptor file = open_to_write(path, 0);
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < runs.count; ++i) {
    const std::int64_t element = runs.first + i * runs.stride;
    write_run(file, path, place.offset + element * bytes_of(place.type), place.type,
              from.slice(i * runs.length, runs.length), scratch);
  }
  close_written(file, path);
  written_[place.number] += from.size;
}

std::vector<std::int64_t> SafetensorsWriter::written() const {
  return {written_.begin(), written_.end()};
}

void SafetensorsWriter::check_written(std::span<const std::int64_t> written) const {
  assert(written.size() == layout_.places().size());
  for (const auto& [name, place] : layout_.places()) {
    const std::int64_t bytes = place.tensor.end - place.tensor.begin;
    const std::int64_t expected = bytes / bytes_of(place.type);
    if (written[place.number] != expected) {
      throw Error(fmt::format("writing weights: tensor {}: {} elements written, expected {}",
                              in_quotes(name), written[place.number], expected),
                  ExitStatus::kBug);
    }
  }
}

void SafetensorsWriter::add(const std::string& name, std::string_view content) const {
  write_file_atomically(partial_ / name, content);
}

std::vector<std::string> SafetensorsWriter::names_in_order() const {
  std::vector<std::string> shards;
  for (const ShardLayout& shard : layout_.shards()) {
    shards.push_back(shard.file);
  }
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(partial_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != kWeightsIndexName && std::ranges::find(shards, name) == shards.end()) {
      names.push_back(name);
    }
  }
  if (error) {
    fail_to_write(partial_, "list the files", error.message());
  }
  std::ranges::sort(names);
  names.insert(names.end(), shards.begin(), shards.end());
  if (layout_.shards().size() > 1) {
    names.emplace_back(kWeightsIndexName);
  }
  return names;
}

void SafetensorsWriter::finish(std::span<const std::int64_t> written,
                               const std::function<void()>& check) const {
  check_written(written);
  for (const ShardLayout& shard : layout_.shards()) {
    sync_written(partial_ / shard.file, shard.bytes, check);
  }
  if (const std::string index = layout_.index_text(); !index.empty()) {
    write_file_atomically(partial_ / kWeightsIndexName, index);
  }
  sync_directory(partial_);
  give_names(partial_, directory_, names_in_order());
  sync_directory(directory_);
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

void discard_unfinished_weights(const fs::path& directory) noexcept {
  std::error_code ignored;
  fs::remove_all(directory / kPartialWeights, ignored);
}

}  // namespace ptdp
