#include "runtime/data/megatron_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cost_model/text/files.h"

namespace ptdp {
namespace {

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kMegatronHeaderBytes = 34;
constexpr std::int64_t kEntriesPerBlock = std::int64_t{1} << 16;

/// Returns the type that Megatron-LM numbers `code`. Throws Error for floating-point types, which
/// hold no tokens, and unknown codes.
TokenType type_of_code(const OpenFile& index, unsigned code) {
  switch (code) {
    case 1:
      return TokenType::kUint8;
    case 2:
      return TokenType::kInt8;
    case 3:
      return TokenType::kInt16;
    case 4:
      return TokenType::kInt32;
    case 5:
      return TokenType::kInt64;
    case 8:
      return TokenType::kUint16;
    default:
      fail_to_read(index.path(),
                   fmt::format("type {} of Megatron-LM, expected an integer: 1 to 5 or 8", code));
  }
}

/// Returns the number stored at byte `place` of `bytes`.
template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t place) {
  Number number{};
  std::memcpy(&number, bytes.data() + place, sizeof(number));
  return number;
}

/// Type and counts from an index's header. The members return where the parts of the file begin
/// [B].
struct IndexParts {
  TokenType type = TokenType::kUint16;
  std::int64_t num_sequences = 0;
  std::int64_t num_documents = 0;

  /// Returns where the sequences' places in FILE.bin begin [B].
  [[nodiscard]] std::int64_t places() const { return kMegatronHeaderBytes + 4 * num_sequences; }
  /// Returns where the ends of documents begin [B].
  [[nodiscard]] std::int64_t documents() const { return places() + 8 * num_sequences; }
  /// Returns where the modes begin, or where the file ends without them [B].
  [[nodiscard]] std::int64_t end() const { return documents() + 8 * num_documents; }
};

/// Reads and checks an index's header. Throws Error when it contradicts the file's size.
IndexParts read_parts(const OpenFile& index) {
  if (index.size() < kMegatronHeaderBytes) {
    fail_to_read(index.path(),
                 fmt::format("Megatron-LM's header ends at byte {}, expected {} bytes",
                             index.size(), kMegatronHeaderBytes));
  }
  std::array<std::byte, kMegatronHeaderBytes> header{};
  index.read(0, header);
  const auto version = number_at<std::uint64_t>(header, 9);
  if (version != 1) {
    fail_to_read(index.path(),
                 fmt::format("version {} of Megatron-LM's index, expected 1", version));
  }
  const auto num_sequences = number_at<std::uint64_t>(header, 18);
  const auto num_documents = number_at<std::uint64_t>(header, 26);
  const auto size = static_cast<std::uint64_t>(index.size());
  IndexParts parts{.type = type_of_code(index, number_at<std::uint8_t>(header, 17))};
  if (num_sequences <= size / 12 && num_documents <= size / 8) {
    parts.num_sequences = static_cast<std::int64_t>(num_sequences);
    parts.num_documents = static_cast<std::int64_t>(num_documents);
    if (index.size() == parts.end() || index.size() == parts.end() + parts.num_sequences) {
      return parts;
    }
  }
  fail_to_read(index.path(), fmt::format("{} bytes do not hold the {} sequences and {} ends of "
                                         "documents that its header says",
                                         index.size(), num_sequences, num_documents));
}

/// Calls `use` with the number and value of each of `count` entries, which begin at byte `begin`.
template <class Number>
void for_each(const OpenFile& file, std::int64_t begin, std::int64_t count,
              const std::function<void(std::int64_t, Number)>& use) {
  std::vector<Number> block;
  for (std::int64_t first = 0; first < count; first += kEntriesPerBlock) {
    block.resize(static_cast<std::size_t>(std::min(kEntriesPerBlock, count - first)));
    file.read(begin + static_cast<std::int64_t>(sizeof(Number)) * first,
              std::as_writable_bytes(std::span(block)));
    for (std::size_t i = 0; i < block.size(); ++i) {
      use(first + static_cast<std::int64_t>(i), block[i]);
    }
  }
}

/// Returns the number of tokens in all sequences. Throws Error unless the sequences tile the .bin.
std::int64_t check_sequences(const OpenFile& index, const IndexParts& parts,
                             std::int64_t data_bytes) {
  const std::int64_t bytes_per_token = bytes_of(parts.type);
  std::vector<std::int64_t> lengths;
  std::int64_t end = 0;
  for (std::int64_t first = 0; first < parts.num_sequences; first += kEntriesPerBlock) {
    const std::int64_t count = std::min(kEntriesPerBlock, parts.num_sequences - first);
    lengths.clear();
    for_each<std::int32_t>(
        index, kMegatronHeaderBytes + 4 * first, count, [&](std::int64_t i, std::int32_t length) {
          if (length < 0) {
            fail_to_read(index.path(), fmt::format("sequence {} has {} tokens", first + i, length));
          }
          lengths.push_back(length);
        });
    for_each<std::int64_t>(
        index, parts.places() + 8 * first, count, [&](std::int64_t i, std::int64_t place) {
          if (place != end) {
            fail_to_read(index.path(),
                         fmt::format("sequence {} begins at byte {}, expected {}, where the one "
                                     "before ends",
                                     first + i, place, end));
          }
          end += bytes_per_token * lengths[static_cast<std::size_t>(i)];
          if (end > data_bytes) {
            fail_to_read(index.path(),
                         fmt::format("sequence {} ends at byte {} of the .bin, which has {}",
                                     first + i, end, data_bytes));
          }
        });
  }
  if (end != data_bytes) {
    fail_to_read(index.path(), fmt::format("its sequences end at byte {} of the .bin, which has {}",
                                           end, data_bytes));
  }
  return end / bytes_per_token;
}

/// Throws Error, naming the document, when the ends of documents are not ascending sequence
/// numbers.
void check_documents(const OpenFile& index, const IndexParts& parts) {
  std::int64_t before = 0;
  for_each<std::int64_t>(
      index, parts.documents(), parts.num_documents, [&](std::int64_t i, std::int64_t end) {
        if (end < before || end > parts.num_sequences || (i == 0 && end != 0)) {
          fail_to_read(index.path(),
                       fmt::format("document {} ends at sequence {}, expected {} to {}", i, end,
                                   before, i == 0 ? 0 : parts.num_sequences));
        }
        before = end;
      });
}

}  // namespace

bool is_megatron_index(const OpenFile& file) {
  std::array<char, kMegatronMagic.size()> magic{};
  if (file.size() < static_cast<std::int64_t>(magic.size())) {
    return false;
  }
  file.read(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic.data(), magic.size()) == kMegatronMagic;
}

MegatronIndex read_megatron_index(const OpenFile& index, std::int64_t data_bytes) {
  if (!is_megatron_index(index)) {
    fail_to_read(index.path(),
                 "lies beside a .bin and is no index of Megatron-LM, which begins with MMIDIDX");
  }
  const IndexParts parts = read_parts(index);
  const std::int64_t count = check_sequences(index, parts, data_bytes);
  check_documents(index, parts);
  return {.type = parts.type, .count = count};
}

}  // namespace ptdp
