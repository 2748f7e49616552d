#include "runtime/data/token_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "cost_model/text/files.h"
#include "runtime/data/megatron_index.h"
#include "runtime/data/numpy_header.h"

namespace ptdp {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr const char* kAskForType = "; expected --data-type uint16 or uint32";

// Numbers of a raw file that are inspected to tell its type.
constexpr std::size_t kLookedAt = std::size_t{1} << 15;

constexpr std::int64_t kLlmCHeaderWords = 256;
constexpr std::int64_t kLlmCHeaderBytes = kLlmCHeaderWords * 4;
constexpr std::int32_t kLlmCEvaluation = 20240522;

/// A kind of token file by llm.c: the first two words of its header, and the type of its tokens.
struct LlmCFormat {
  std::int32_t magic = 0;
  std::int32_t version = 0;
  TokenType type = TokenType::kUint16;
};
constexpr std::array kLlmCFormats = {LlmCFormat{20240520, 1, TokenType::kUint16},
                                     LlmCFormat{20240801, 7, TokenType::kUint32}};

/// Returns the first three int32 of a file, or fewer when it is shorter.
std::vector<std::int32_t> first_words(const OpenFile& file) {
  std::vector<std::int32_t> words(
      static_cast<std::size_t>(std::min<std::int64_t>(file.size() / 4, 3)));
  file.read(0, std::as_writable_bytes(std::span(words)));
  return words;
}

/// Throws Error unless the file ends with the last token of the layout.
void check_size(const OpenFile& file, const TokenLayout& layout) {
  const std::int64_t room = (file.size() - layout.begin) / bytes_of(layout.type);
  if (layout.count != room || file.size() != layout.begin + room * bytes_of(layout.type)) {
    fail_to_read(file.path(),
                 fmt::format("its header says {} tokens of {} from byte {} on, found {} bytes",
                             layout.count, name_of(layout.type), layout.begin, file.size()));
  }
}

/// Returns the layout of a token file by llm.c; nullopt for other files. Throws Error for a bad
/// header.
std::optional<TokenLayout> llm_c_layout(const OpenFile& file) {
  const std::vector<std::int32_t> words = first_words(file);
  if (!words.empty() && words[0] == kLlmCEvaluation) {
    fail_to_read(file.path(),
                 "llm.c's file of multiple choices (magic 20240522), expected one of tokens");
  }
  const auto* const format = std::find_if(
      kLlmCFormats.begin(), kLlmCFormats.end(),
      [&](const LlmCFormat& known) { return !words.empty() && words[0] == known.magic; });
  if (format == kLlmCFormats.end()) {
    return std::nullopt;
  }
  if (file.size() < kLlmCHeaderBytes) {
    fail_to_read(file.path(), fmt::format("llm.c's header ends at byte {}, expected {} bytes of it",
                                          file.size(), kLlmCHeaderBytes));
  }
  if (words[1] != format->version) {
    fail_to_read(file.path(),
                 fmt::format("version {} of llm.c's token files, expected {} behind {}", words[1],
                             format->version, format->magic));
  }
  return TokenLayout{
      .kind = "llm.c", .type = format->type, .begin = kLlmCHeaderBytes, .count = words[2]};
}

/// Returns the layout of an .npy file; nullopt for other files. Throws Error for a bad header.
std::optional<TokenLayout> numpy_layout(const OpenFile& file) {
  const std::optional<NumpyHeader> header = read_numpy_header(file);
  if (!header) {
    return std::nullopt;
  }
  return TokenLayout{
      .kind = "NumPy", .type = header->type, .begin = header->bytes, .count = header->count};
}

/// Returns the layout that FILE.idx beside FILE.bin gives; nullopt when there is no FILE.idx.
/// Throws Error for a file that is itself an index.
std::optional<TokenLayout> megatron_layout(const OpenFile& file) {
  if (is_megatron_index(file)) {
    fail_to_read(file.path(), "an index of Megatron-LM, expected the .bin that belongs to it");
  }
  std::filesystem::path place = file.path();
  std::error_code error;
  if (place.extension() != ".bin" ||
      !std::filesystem::exists(place.replace_extension(".idx"), error)) {
    return std::nullopt;
  }
  const MegatronIndex index = read_megatron_index(OpenFile(place), file.size());
  return TokenLayout{.kind = "Megatron-LM", .type = index.type, .begin = 0, .count = index.count};
}

/// Returns why the numbers cannot be uint16 tokens, or "". They may be halves of wider tokens,
/// whose upper halves are small, or letters.
std::string why_not_uint16(std::span<const std::uint16_t> numbers) {
  // Tokens of 20 bits have 4 in their upper halves; a quarter of a page is no accident.
  constexpr std::uint16_t small = 15;
  constexpr std::size_t enough = 32;
  std::uint16_t largest_of_odd = 0;
  std::uint16_t largest_of_even = 0;
  std::size_t num_letters = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint16_t& largest = i % 2 == 0 ? largest_of_even : largest_of_odd;
    largest = std::max(largest, numbers[i]);
    for (const unsigned byte : {numbers[i] & 0xFFU, unsigned{numbers[i]} >> 8U}) {
      num_letters += (byte >= 0x20 && byte < 0x7F) || byte == '\n' || byte == '\t' ? 1 : 0;
    }
  }
  const bool is_larger =
      numbers.size() >= enough && largest_of_odd <= small && largest_of_even > 255;
  if (numbers.size() >= 2 && (largest_of_odd == 0 || is_larger)) {
    return fmt::format(
        "every second 16-bit number is at most {}, as the upper halves of wider "
        "tokens are",
        largest_of_odd);
  }
  if (numbers.size() >= enough && num_letters >= numbers.size() * 2 * 9 / 10) {
    return "it is text, no tokens";
  }
  return "";
}

/// Returns whether the numbers in odd places are all 0 and the others are not, as halves of numbers
/// twice as wide are.
template <class Number>
bool are_halves(const OpenFile& file) {
  constexpr std::size_t enough = 32;
  std::vector<Number> numbers(
      std::min<std::size_t>(static_cast<std::size_t>(file.size()) / sizeof(Number), kLookedAt));
  file.read(0, std::as_writable_bytes(std::span(numbers)));
  Number any_of_odd = 0;
  Number any_of_even = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    (i % 2 == 0 ? any_of_even : any_of_odd) |= numbers[i];
  }
  return numbers.size() >= enough && any_of_odd == 0 && any_of_even != 0;
}

/// Throws Error when a file without a header has wider tokens than --data-type says.
void check_width(const OpenFile& file, TokenType told) {
  const bool is_short = told == TokenType::kUint16;
  if (is_short ? are_halves<std::uint16_t>(file) : are_halves<std::uint32_t>(file)) {
    fail_to_read(file.path(),
                 fmt::format("every second {} is 0, as the upper halves of wider tokens are; "
                             "expected {}",
                             name_of(told),
                             is_short ? "--data-type uint32, or int64 as .npy"
                                      : "int64 as .npy, whose header says so"));
  }
}

/// Returns the layout of a file without header. Throws Error when its type is unclear or its size
/// does not fit.
TokenLayout raw_layout(const OpenFile& file, std::optional<TokenType> told, int vocab_size) {
  const TokenType type = told.value_or(TokenType::kUint16);
  if (!told && vocab_size > 65'536) {
    fail_to_read(file.path(), fmt::format("has no header, and a vocabulary of {} may be stored in "
                                          "more than 16 bits{}",
                                          vocab_size, kAskForType));
  }
  if (file.size() % bytes_of(type) != 0) {
    fail_to_read(file.path(),
                 fmt::format("{} bytes, expected whole tokens of {}", file.size(), name_of(type)));
  }
  if (told) {
    check_width(file, type);
  } else {
    std::vector<std::uint16_t> numbers(
        static_cast<std::size_t>(std::min<std::int64_t>(file.size() / 2, kLookedAt)));
    file.read(0, std::as_writable_bytes(std::span(numbers)));
    if (const std::string why = why_not_uint16(numbers); !why.empty()) {
      fail_to_read(file.path(), "has no header, and " + why + kAskForType);
    }
  }
  return {.kind = "raw", .type = type, .begin = 0, .count = file.size() / bytes_of(type)};
}

}  // namespace

std::string_view name_of(TokenType type) {
  constexpr std::array<std::string_view, 8> names = {"uint8",  "int8",  "uint16", "int16",
                                                     "uint32", "int32", "uint64", "int64"};
  return names.at(static_cast<std::size_t>(type));
}

std::int64_t bytes_of(TokenType type) {
  constexpr std::array<std::int64_t, 8> sizes = {1, 1, 2, 2, 4, 4, 8, 8};
  return sizes.at(static_cast<std::size_t>(type));
}

TokenLayout find_token_layout(const OpenFile& file, std::optional<TokenType> told, int vocab_size) {
  for (const auto& find : {llm_c_layout, numpy_layout, megatron_layout}) {
    if (const std::optional<TokenLayout> layout = find(file)) {
      if (told && bytes_of(*told) != bytes_of(layout->type)) {
        fail_to_read(file.path(),
                     fmt::format("a file of {} with tokens of {}, but --data-type says {}",
                                 layout->kind, name_of(layout->type), name_of(*told)));
      }
      check_size(file, *layout);
      return *layout;
    }
  }
  return raw_layout(file, told, vocab_size);
}

}  // namespace ptdp
