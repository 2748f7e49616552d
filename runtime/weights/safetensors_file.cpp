#include "runtime/weights/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "runtime/weights/convert_elements.h"

namespace ptdp {
namespace {

static_assert(std::endian::native == std::endian::little, "files of safetensors are little-endian");

/// Number of elements that are read and converted at a time.
constexpr std::int64_t kConvertedAtATime = std::int64_t{1} << 20;

/// Returns the length of the header [B]. Throws Error unless the file has room for it.
std::int64_t header_length(const OpenFile& file) {
  if (file.size() < kHeaderLengthBytes) {
    fail_to_read(file.path(),
                 fmt::format("{} bytes, expected the length of a header in the first {}",
                             file.size(), kHeaderLengthBytes));
  }
  std::array<std::byte, kHeaderLengthBytes> bytes = {};
  file.read(0, bytes);
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  const std::int64_t most = std::min(kLargestHeader, file.size() - kHeaderLengthBytes);
  if (length > static_cast<std::uint64_t>(most)) {
    fail_to_read(file.path(), fmt::format("header of {} bytes, expected at most {} in a file of {}",
                                          length, most, file.size()));
  }
  return static_cast<std::int64_t>(length);
}

/// Reads elements of one type from `offset` on, without gaps, and converts them.
void read_run(const OpenFile& file, std::int64_t offset, DataType type, const Buffer& to,
              std::vector<std::byte>& scratch) {
  if (type == to.type) {
    file.read(offset, {static_cast<std::byte*>(to.data), static_cast<std::size_t>(to.bytes())});
    return;
  }
  for (std::int64_t first = 0; first < to.size; first += kConvertedAtATime) {
    const std::int64_t count = std::min(kConvertedAtATime, to.size - first);
    scratch.resize(static_cast<std::size_t>(count * bytes_of(type)));
    file.read(offset + first * bytes_of(type), scratch);
    convert_elements({.data = scratch.data(), .size = count, .type = type}, to.slice(first, count));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::int64_t length = header_length(file_);
  std::string text(static_cast<std::size_t>(length), '\0');
  file_.read(kHeaderLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin_ = kHeaderLengthBytes + length;
  header_ = parse_safetensors_header(text, file_.size() - data_begin_, path.string());
}

const StoredTensor& SafetensorsFile::tensor(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) {
    std::vector<std::string> names;
    names.reserve(header_.tensors.size());
    for (const auto& [known, tensor] : header_.tensors) {
      names.push_back(known);
    }
    fail_to_read(path(), "no tensor " + in_quotes(name) + did_you_mean(name, names));
  }
  return found->second;
}

void SafetensorsFile::require_shape(std::string_view name,
                                    std::span<const std::int64_t> shape) const {
  const StoredTensor& found = tensor(name);
  if (!std::ranges::equal(found.shape, shape)) {
    fail_to_read(path(), "tensor " + in_quotes(name) + ": found shape " + sizes_text(found.shape) +
                             ", expected " + sizes_text(shape));
  }
}

void SafetensorsFile::read(std::string_view name, const MatrixBlock& block,
                           const Buffer& to) const {
  const StoredTensor& stored = tensor(name);
  const std::string place = path().string() + ": tensor " + in_quotes(name);
  const auto type = element_type_of(stored.type);
  if (!type) {
    throw Error(place + ": elements of " + stored.type + ", expected F64, F32, BF16 or F16");
  }
  const ElementRuns runs = runs_of(stored, block, place);
  assert(to.size == runs.length * runs.count);
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < runs.count; ++i) {
    const std::int64_t element = runs.first + i * runs.stride;
    read_run(file_, data_begin_ + stored.begin + element * bytes_of(*type), *type,
             to.slice(i * runs.length, runs.length), scratch);
  }
}

}  // namespace ptdp
