#include "runtime/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "cost_model/text/files.h"

namespace ptdp {
namespace {

constexpr std::int64_t kBytesPerBlock = std::int64_t{1} << 20;

/// Calls `call` with a value-initialized number of the C++ type that `type` names.
template <class Call>
void with_type(TokenType type, const Call& call) {
  switch (type) {
    case TokenType::kUint8:
      return call(std::uint8_t{});
    case TokenType::kInt8:
      return call(std::int8_t{});
    case TokenType::kUint16:
      return call(std::uint16_t{});
    case TokenType::kInt16:
      return call(std::int16_t{});
    case TokenType::kUint32:
      return call(std::uint32_t{});
    case TokenType::kInt32:
      return call(std::int32_t{});
    case TokenType::kUint64:
      return call(std::uint64_t{});
    case TokenType::kInt64:
      return call(std::int64_t{});
  }
}

/// Access to the tokens of a file in the type that it stores.
struct StoredTokens {
  const OpenFile& file;
  const TokenLayout& layout;
  int vocab_size = 0;

  /// Fills `numbers` with the tokens from position `first` on. Throws Error for the first that is
  /// not in the vocabulary.
  template <class Number>
  void read(std::int64_t first, std::span<Number> numbers) const {
    using Unsigned = std::make_unsigned_t<Number>;
    file.read(byte_of(first), std::as_writable_bytes(numbers));
    Unsigned largest = 0;  // as unsigned numbers, negative ones exceed any token
    for (const Number number : numbers) {
      largest = std::max(largest, static_cast<Unsigned>(number));
    }
    const auto limit = static_cast<std::uint64_t>(vocab_size);
    if (largest < limit) {
      return;
    }
    const auto place = std::ranges::find_if(
        numbers, [&](Number number) { return static_cast<Unsigned>(number) >= limit; });
    const std::int64_t position = first + (place - numbers.begin());
    fail_to_read(
        file.path(),
        fmt::format(
            "token {} at position {} (byte {}, {} tokens of {}), expected tokens "
            "below the vocabulary's {}",
            static_cast<std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>>(
                *place),
            position, byte_of(position), layout.kind, name_of(layout.type), vocab_size));
  }
  /// Returns the byte at which the token at `position` begins.
  [[nodiscard]] std::int64_t byte_of(std::int64_t position) const {
    return layout.begin + bytes_of(layout.type) * position;
  }
};

}  // namespace

TokenFile::TokenFile(const TokenSource& source, int vocab_size)
    : file_(source.path),
      layout_(find_token_layout(file_, source.type, vocab_size)),
      vocab_size_(vocab_size) {
  const StoredTokens stored{.file = file_, .layout = layout_, .vocab_size = vocab_size_};
  with_type(layout_.type, [&]<class Number>(Number) {
    const std::int64_t most = kBytesPerBlock / static_cast<std::int64_t>(sizeof(Number));
    std::vector<Number> block(static_cast<std::size_t>(std::min(most, size())));
    for (std::int64_t first = 0; first < size(); first += most) {
      const std::int64_t count = std::min(most, size() - first);
      stored.read(first, std::span(block).first(static_cast<std::size_t>(count)));
    }
  });
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  const StoredTokens stored{.file = file_, .layout = layout_, .vocab_size = vocab_size_};
  with_type(layout_.type, [&]<class Number>(Number) {
    std::vector<Number> numbers(tokens.size());
    stored.read(first, std::span(numbers));
    std::ranges::transform(numbers, tokens.begin(),
                           [](Number number) { return static_cast<std::int32_t>(number); });
  });
}

}  // namespace ptdp
