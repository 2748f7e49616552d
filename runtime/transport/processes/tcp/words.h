// Reads the fields of the texts that processes exchange, strictly.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace ptdp {

/// Takes the words of a line one after another. A missing word, or a word that is not the number
/// expected, makes the whole line bad.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// Returns whether all words so far were as expected.
  [[nodiscard]] bool is_good() const { return is_good_; }
  /// Returns whether no words are left.
  [[nodiscard]] bool is_over() const { return text_.empty(); }
  /// Takes a word that must equal `expected`.
  void expect(std::string_view expected) { is_good_ = word() == expected && is_good_; }
  /// Takes the next word, which must not be missing.
  std::string word() {
    const std::size_t space = text_.find(' ');
    std::string word(text_.substr(0, space));
    text_ = space == std::string_view::npos ? std::string_view() : text_.substr(space + 1);
    is_good_ = is_good_ && !word.empty();
    return word;
  }
  /// Takes a number from `low` to `high`. Returns `low` when there is none.
  template <class Number>
  Number number(Number low, Number high) {
    const std::string text = word();
    Number number{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    is_good_ = is_good_ && error == std::errc() && end == last && number >= low && number <= high;
    return is_good_ ? number : low;
  }

 private:
  std::string_view text_;
  bool is_good_ = true;
};

}  // namespace ptdp
