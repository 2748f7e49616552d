// What every command shares: flags with suggestions, values with messages, exit statuses.
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

namespace ptdp {

/// The words and flags of a command line, all values as text.
class CommandLine {
 public:
  /// Throws Error, with near misses, for unknown flags, missing values and repetitions. Flags are
  /// not abbreviated.
  CommandLine(int argc, const char* const* argv,
              const boost::program_options::options_description& flags);

  /// The whole line but for one flag and its value, quoted for a shell.
  [[nodiscard]] std::string quoted_arguments_without(const std::string& flag) const;
  /// Arguments that are no flags, in order.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  /// Throws Error, naming the first too many, for more than `most` words.
  void allow_words(std::size_t most) const;
  /// Throws Error for a flag that is there and not among `flags`: it would be ignored. `by`: what
  /// does not use it, where that is not the first word.
  void allow_only(const std::vector<std::string>& flags, const std::string& by = "") const;
  [[nodiscard]] bool has(const std::string& flag) const { return values_.count(flag) > 0; }
  [[nodiscard]] std::optional<std::string> text(const std::string& flag) const;
  /// All values of a flag that may be repeated (one declared with texts_value()), in order.
  [[nodiscard]] std::vector<std::string> texts(const std::string& flag) const;
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& flag, std::int64_t low,
                                                  std::int64_t high) const;
  [[nodiscard]] std::optional<double> number(const std::string& flag, double low,
                                             double high) const;
  /// The value that the flag names. Throws Error with near misses.
  template <class Value>
  [[nodiscard]] std::optional<Value> choice(const std::string& flag,
                                            NamedValues<Value> names) const {
    const auto found = text(flag);
    return found ? std::optional<Value>(choose(*found, names, "--" + flag)) : std::nullopt;
  }
  /// The value that the flag names; without the flag that of the first name.
  template <class Value>
  [[nodiscard]] Value choice_or_first(const std::string& flag, NamedValues<Value> names) const {
    return choice(flag, names).value_or(names.front().value);
  }
  /// The values that the flag names, separated by commas; none without the flag.
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
  [[nodiscard]] std::vector<std::string> comma_separated(const std::string& flag) const;

  std::vector<std::string> arguments_;
  std::vector<std::string> words_;
  boost::program_options::variables_map values_;
};

/// `argument` as a shell would take it back.
[[nodiscard]] std::string shell_quoted(const std::string& argument);

/// What a flag's help says of its choices: "table, json (default: table)".
template <class Value>
[[nodiscard]] std::string choices_help(NamedValues<Value> names) {
  std::string text;
  for (const std::string& name : names_of(names)) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text + " (default: " + std::string(names.front().name) + ")";
}

/// The value of a flag that takes text, and of one that may be repeated.
[[nodiscard]] boost::program_options::typed_value<std::string>* text_value();
[[nodiscard]] boost::program_options::typed_value<std::vector<std::string>>* texts_value();

/// The value of --overlap: none, all, or some of messages, reductions, gathers, tensor; nothing
/// without it. Throws Error for anything else, and for gathers without reductions.
[[nodiscard]] std::optional<Overlap> overlap_choice(const CommandLine& line);
inline constexpr const char* kOverlapHelp =
    "what runs beside compute, instead of what the stack overlaps: none, all, or some of messages, "
    "reductions, gathers, tensor (tensor-parallel collectives of backward passes; not on a host, "
    "where all leaves them out)";

/// "450B", "1.5T", "300e9": a number with an optional factor K, M, B or T. Throws Error at `place`.
[[nodiscard]] double parse_with_suffix(std::string_view text, const std::string& place);

/// "0.08" or "8%". Throws Error at `place` for anything outside [0, 1).
[[nodiscard]] double parse_fraction(std::string_view text, const std::string& place);

/// What --help and --version ask for, if one of them is there: the usage with all flags, or the
/// program's name and version.
[[nodiscard]] std::optional<std::string> standard_answer(
    const CommandLine& line, const std::string& program, std::string_view usage,
    const boost::program_options::options_description& flags);

/// Writes to standard output what a terminal may be given (shown_text.h); throws
/// Error(kOutputFailed) if that is closed or full.
void print(std::string_view text);

/// A handler of signals that end the process: removes its temporary files first, and says so on a
/// line of standard error, unless a launcher does.
void end_by_signal(int signal);
/// From here on the process is one of several: a launcher that ends them says so once for all.
void leave_signals_to_launcher();

/// Runs a command: prints an exception on standard error after `program`, as a terminal may be
/// given it and on one line (a tally of what does not fit may have more), and returns the exit
/// status.
[[nodiscard]] int run_command(const std::string& program, const std::function<int()>& command);

}  // namespace ptdp
