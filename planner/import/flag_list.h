// Flags of a program, or keys of its configuration, with their values.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/import/documents.h"

namespace ptdp {

/// Flags that begin with two dashes as argparse reads them, or dotted keys. The last one of a name
/// counts. What is asked for is remembered, so that the rest can be listed.
class FlagList {
 public:
  /// Reads "--name value ..." and "--name=value". `place` begins the messages of errors.
  FlagList(const std::vector<std::string>& words, std::string place);
  /// Takes the settings of a configuration file (planner/import/documents.h).
  FlagList(DocumentSettings settings, std::string place)
      : place_(std::move(place)), flags_(std::move(settings)) {}

  /// Gives a key new values, as a command line does that stands beside a file.
  void set(const std::string& key, std::vector<std::string> values) {
    flags_[key] = std::move(values);
  }

  [[nodiscard]] bool has(std::string_view flag) const;
  /// Returns the values; nullopt without the flag. Throws Error if one of them is not known without
  /// running the script.
  [[nodiscard]] std::optional<std::vector<std::string>> values(std::string_view flag) const;
  /// Returns the single value; nullopt without the flag. Throws Error for none or several.
  [[nodiscard]] std::optional<std::string> text(std::string_view flag) const;
  /// Returns a whole number, as Python spells it: "4096", "4_096". Throws Error for anything but a
  /// number from `low` to 2^31 - 1.
  [[nodiscard]] std::optional<int> count(std::string_view flag, int low = 1) const;
  [[nodiscard]] std::optional<double> number(std::string_view flag) const;
  /// Returns a truth value: "true" or "false", in capitals or not. Throws Error for another word.
  [[nodiscard]] std::optional<bool> truth(std::string_view key) const;

  /// Throws Error that says what is wrong with a flag's value.
  [[noreturn]] void refuse(std::string_view flag, const std::string& why) const;

  /// Returns the flags that nobody asked for, in the order of their names.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  std::string place_;
  DocumentSettings flags_;
  mutable std::set<std::string, std::less<>> read_;
};

/// Returns whether a word is a flag, and no negative number.
[[nodiscard]] bool is_flag(std::string_view word);
/// Returns whether a flag or key begins with one of the texts.
[[nodiscard]] bool begins_with_any(std::string_view flag,
                                   std::span<const std::string_view> beginnings);

}  // namespace ptdp
