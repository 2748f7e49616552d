#include "runtime/data/numpy_header.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr std::int64_t kLongestHeader = std::int64_t{1} << 16;

struct NumpyType {
  std::string_view description;
  TokenType type = TokenType::kUint16;
};
constexpr std::array kNumpyTypes = {
    NumpyType{"|u1", TokenType::kUint8},  NumpyType{"|i1", TokenType::kInt8},
    NumpyType{"<u2", TokenType::kUint16}, NumpyType{"<i2", TokenType::kInt16},
    NumpyType{"<u4", TokenType::kUint32}, NumpyType{"<i4", TokenType::kInt32},
    NumpyType{"<u8", TokenType::kUint64}, NumpyType{"<i8", TokenType::kInt64}};

/// The dictionary of an .npy header, which is a literal of Python.
struct Dictionary {
  std::string description;
  bool is_fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the literals that NumPy writes. Each member `take…` returns whether the literal was there,
/// and if so moves behind it.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  /// Skips spaces, then takes `word`.
  bool take(std::string_view word) {
    while (text_.starts_with(' ')) {
      text_.remove_prefix(1);
    }
    if (!text_.starts_with(word)) {
      return false;
    }
    text_.remove_prefix(word.size());
    return true;
  }
  /// Takes a string in single quotes.
  bool take_text(std::string& value) {
    if (!take("'")) {
      return false;
    }
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) {
      return false;
    }
    value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }
  /// Takes True or False.
  bool take_flag(bool& value) {
    value = take("True");
    return value || take("False");
  }
  /// Takes a tuple of numbers that are not negative.
  bool take_counts(std::vector<std::int64_t>& values) {
    bool is_more = take("(");
    while (is_more && !take(")")) {
      take("");  // skips spaces
      const auto [end, error] =
          std::from_chars(text_.data(), text_.data() + text_.size(), values.emplace_back());
      if (error != std::errc() || values.back() < 0) {
        return false;
      }
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (!take(",")) {
        return take(")");
      }
    }
    return is_more;
  }
  /// Returns whether only the spaces and newline that fill up the header are left.
  [[nodiscard]] bool is_at_end() const {
    return text_.find_first_not_of(" \n") == std::string_view::npos;
  }

 private:
  std::string_view text_;
};

/// Parses the dictionary; nullopt when it is not well formed.
std::optional<Dictionary> parse_dictionary(std::string_view text) {
  LiteralReader reader(text);
  Dictionary dictionary;
  int num_keys = 0;
  bool is_good = reader.take("{");
  while (is_good && !reader.take("}")) {
    std::string key;
    is_good = reader.take_text(key) && reader.take(":");
    if (key == "descr") {
      is_good = is_good && reader.take_text(dictionary.description);
    } else if (key == "fortran_order") {
      is_good = is_good && reader.take_flag(dictionary.is_fortran_order);
    } else {
      is_good = is_good && key == "shape" && reader.take_counts(dictionary.shape);
    }
    ++num_keys;
    if (is_good && !reader.take(",")) {
      is_good = reader.take("}");
      break;
    }
  }
  return is_good && num_keys == 3 && reader.is_at_end() ? std::optional(dictionary) : std::nullopt;
}

/// Returns the type that NumPy describes so. Throws Error when it cannot hold tokens.
TokenType type_of(const OpenFile& file, const std::string& description) {
  for (const NumpyType& known : kNumpyTypes) {
    if (known.description == description) {
      return known.type;
    }
  }
  const bool is_big = description.starts_with('>');
  fail_to_read(file.path(),
               fmt::format("NumPy's type {}{}, expected one of |u1 |i1 <u2 <i2 <u4 <i4 <u8 <i8",
                           in_quotes(description), is_big ? ", which is big-endian" : ""));
}

}  // namespace

std::optional<NumpyHeader> read_numpy_header(const OpenFile& file) {
  std::string head(12, '\0');  // magic, version, length of the dictionary
  head.resize(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 12)));
  file.read(0, std::as_writable_bytes(std::span(head)));
  if (!head.starts_with(kNumpyMagic)) {
    return std::nullopt;
  }
  if (head.size() < 12) {
    fail_to_read(file.path(), fmt::format("NumPy's header ends at byte {}", file.size()));
  }
  const auto byte = [&](std::size_t place) {
    return static_cast<std::int64_t>(static_cast<unsigned char>(head[place]));
  };
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0) {
    fail_to_read(
        file.path(),
        fmt::format("version {}.{} of NumPy's files, expected 1.0, 2.0 or 3.0", byte(6), byte(7)));
  }
  const std::int64_t begin = byte(6) == 1 ? 10 : 12;
  std::int64_t length = byte(8) + (byte(9) << 8);
  if (begin == 12) {
    length += (byte(10) << 16) + (byte(11) << 24);
  }
  if (length > file.size() - begin || length > kLongestHeader) {
    fail_to_read(file.path(), fmt::format("NumPy's header of {} bytes does not fit a file of {}",
                                          length, file.size()));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(begin, std::as_writable_bytes(std::span(text)));
  const std::optional<Dictionary> dictionary = parse_dictionary(text);
  if (!dictionary) {
    fail_to_read(file.path(), "expected NumPy's header of a plain type, got " + in_quotes(text));
  }
  if (dictionary->shape.size() != 1 || dictionary->is_fortran_order) {
    fail_to_read(file.path(),
                 fmt::format("an array of {} dimensions{}, expected one in C's order",
                             dictionary->shape.size(),
                             dictionary->is_fortran_order ? " in Fortran's order" : ""));
  }
  return NumpyHeader{.type = type_of(file, dictionary->description),
                     .count = dictionary->shape[0],
                     .bytes = begin + length};
}

}  // namespace ptdp
