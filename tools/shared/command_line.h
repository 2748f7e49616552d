// What every command shares: reading flags with suggestions for misspelled ones, printing, and exit
// statuses.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/stack_spec.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/named_values.h"
#include "tools/shared/flag_value.h"

namespace ptdp {

/// A count that may be written with a suffix.
struct Size {
  std::int64_t value = 0;
  std::string written = {};  ///< As it was typed, if it had a suffix; else empty.
};

/// The words and flags of a command line, all values as text.
class CommandLine {
 public:
  /// Parses the command line. A flag may have a name of another program (flag_synonyms.h). Throws
  /// Error, with near misses, for unknown flags, missing values and repetitions. Flags cannot be
  /// abbreviated. `--help --gpus` and `--gpus --help` are `--help gpus`.
  CommandLine(int argc, const char* const* argv,
              const boost::program_options::options_description& flags);

  /// Returns the whole command line without some flags and their values, quoted for a shell. A
  /// flag "output" stands for -o, too.
  [[nodiscard]] std::string quoted_arguments_without(const std::vector<std::string>& flags) const;
  /// The arguments that are not flags, in order.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  /// Returns the word that stands last and behind --help, or an empty text.
  [[nodiscard]] std::string help_topic() const;
  /// Throws Error, naming the first word too many, when there are more than `most` words.
  void allow_words(std::size_t most) const;
  /// Throws Error for a flag that is given but is not among `flags`, since it would be ignored.
  /// `by` names in the message what does not use the flag, if that is not the first word.
  void allow_only(const std::vector<std::string>& flags, const std::string& by = "") const;
  /// Throws Error for a flag among `flags` that is given, since `by` would ignore it.
  void refuse(const std::vector<std::string>& flags, const std::string& by) const;
  /// Returns whether the flag is given.
  [[nodiscard]] bool has(const std::string& flag) const { return values_.count(flag) > 0; }
  /// Returns the flag's value as text; nullopt without the flag.
  [[nodiscard]] std::optional<std::string> text(const std::string& flag) const;
  /// Returns all values of a flag that may be repeated (one declared with texts_value()), in order.
  [[nodiscard]] std::vector<std::string> texts(const std::string& flag) const;
  /// Returns the flag's value as an integer; nullopt without the flag. Throws Error for anything
  /// but an integer from `low` to `high`.
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& flag, std::int64_t low,
                                                  std::int64_t high) const;
  /// Returns the flag's value as an integer that may have a suffix (parse_size()); nullopt without
  /// the flag.
  [[nodiscard]] std::optional<Size> size(const std::string& flag, std::int64_t low,
                                         std::int64_t high) const;
  /// Returns the flag's value as a number; nullopt without the flag. Throws Error for anything but
  /// a number from `low` to `high`.
  [[nodiscard]] std::optional<double> number(const std::string& flag, double low,
                                             double high) const;
  /// Returns the value in `names` that the flag's text names; nullopt without the flag. Throws
  /// Error with near misses for an unknown name.
  template <class Value>
  [[nodiscard]] std::optional<Value> choice(const std::string& flag,
                                            NamedValues<Value> names) const {
    const auto found = text(flag);
    return found ? std::optional<Value>(choose(*found, names, "--" + flag)) : std::nullopt;
  }
  /// Returns the value that the flag's text names, or the first value in `names` without the flag.
  template <class Value>
  [[nodiscard]] Value choice_or_first(const std::string& flag, NamedValues<Value> names) const {
    return choice(flag, names).value_or(names.front().value);
  }
  /// Returns the flag's texts between commas; none without the flag.
  [[nodiscard]] std::vector<std::string> comma_separated(const std::string& flag) const;
  /// Returns the values that the flag names, separated by commas; empty without the flag.
  template <class Value>
  [[nodiscard]] std::vector<Value> choices(const std::string& flag,
                                           NamedValues<Value> names) const {
    std::vector<Value> values;
    for (const std::string& word : comma_separated(flag)) {
      values.push_back(choose(word, names, "--" + flag));
    }
    return values;
  }

 private:
  std::vector<std::string> arguments_;
  std::vector<std::string> words_;
  std::vector<std::string> switches_;  // flags without a value
  boost::program_options::variables_map values_;
};

/// Quotes `argument` so that a shell reads it back unchanged.
[[nodiscard]] std::string shell_quoted(const std::string& argument);

/// Returns the choices of a flag for its help text: "table, json (default: table)".
template <class Value>
[[nodiscard]] std::string choices_help(NamedValues<Value> names) {
  std::string text;
  for (const std::string& name : names_of(names)) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text + " (default: " + std::string(names.front().name) + ")";
}

/// Returns the value of --overlap: none, all, or some of messages, reductions, gathers and tensor.
/// Returns nullopt without the flag. Throws Error for any other value, and for gathers without
/// reductions.
[[nodiscard]] std::optional<Overlap> overlap_choice(const CommandLine& line);
/// Returns the words that --overlap takes.
[[nodiscard]] std::vector<std::string> overlap_names();
inline constexpr const char* kOverlapHelp =
    "what runs beside compute, instead of what the stack overlaps: none, all, or some of messages, "
    "reductions, gathers, tensor (tensor-parallel collectives of backward passes; not on a host, "
    "where all leaves them out)";

/// Parses an integer from `low` to `high` with an optional factor: "128k" is 131072 and "4M" is
/// 4194304, for sizes of jobs are powers of two. Throws Error, naming `place`, for anything else.
[[nodiscard]] Size parse_size(std::string_view text, std::int64_t low, std::int64_t high,
                              const std::string& place);

/// Parses a number from 1 to 1e18 with an optional decimal factor K, M, B or T in any case: "450B",
/// "1.5t", "300e9".
/// Throws Error, naming `place`, for anything else.
[[nodiscard]] double parse_with_suffix(std::string_view text, const std::string& place);

/// Parses a fraction from 0 to 0.9999, written "0.08" or "8%". Throws Error, naming `place`, for
/// anything else.
[[nodiscard]] double parse_fraction(std::string_view text, const std::string& place);

/// Writes bytes to standard output as they are. Throws Error(kOutputFailed) if it is closed or
/// full.
void write_standard_output(std::string_view bytes);
/// Writes text to standard output, made safe for a terminal (shown_text.h). Throws
/// Error(kOutputFailed) if standard output is closed or full.
void print(std::string_view text);

/// Handles a signal that ends the process. Removes the process's temporary files and, unless a
/// launcher reports it, says so in a line on standard error.
void end_by_signal(int signal);
/// Marks the process as one of several under a launcher. When a signal ends it, the process says
/// nothing, because the launcher reports once for all.
void leave_signals_to_launcher();

/// Runs a command and returns its exit status. Prints an exception on standard error after
/// `program`, safe for a terminal and on one line. Only a count of what does not fit may take more
/// lines.
[[nodiscard]] int run_command(const std::string& program, const std::function<int()>& command);

}  // namespace ptdp
