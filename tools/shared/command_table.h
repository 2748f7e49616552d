// A command as a table: its name, usage and flags, out of which help, man page, completion and the
// document of flags are made.
#pragma once

#include <array>
#include <boost/program_options.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/shared/command_line.h"
#include "tools/shared/flag_value.h"

namespace ptdp {

/// Flags under a title.
struct TitledFlags {
  std::string title;
  boost::program_options::options_description flags;
};

/// A word that may stand first on a command line, and the words that follow it.
struct FirstWord {
  std::string name;        ///< Such as "show".
  FlagValue operand = {};  ///< What follows; without a name: nothing.
};

/// The commands, by the words that stand behind `ptdp`, and what each does.
struct CommandSummary {
  std::string_view word;
  std::string_view summary;
};
inline constexpr std::array kCommandSummaries = {
    CommandSummary{"plan", "find how to train a model on N GPUs, and what that will cost"},
    CommandSummary{"sim", "simulate a plan's step or a pipeline schedule, action by action"},
    CommandSummary{"run", "train under a plan, and compare with what was predicted"},
    CommandSummary{"validate", "compare predictions with measured runs, logs and traces"},
    CommandSummary{"calibrate", "correct predictions, or a cluster's constants, by runs"},
    CommandSummary{"profile", "measure this machine, and write it down as a cluster"}};

struct CommandTable {
  std::string name;   ///< "ptdp-plan"
  std::string usage;  ///< Lines of usage, an empty line, and paragraphs.
  std::vector<TitledFlags> groups;
  std::vector<FirstWord> first_words = {};
  FlagValue operand = {};  ///< What words are, unless first_words says; without a name: none.
  /// Returns what --help says unless it asks for all: of the command, or of the first word that is
  /// named. Without this function --help says all.
  std::function<std::string(const std::string& first_word)> brief_help = {};

  /// Returns what the command does, as kCommandSummaries says it.
  [[nodiscard]] std::string summary() const;
  /// Returns the flags of all groups.
  [[nodiscard]] boost::program_options::options_description flags() const;
};

/// Returns the answer to --help or --version; nullopt when neither is given. --help has the usage
/// and all flags, or the table's brief help, and then `--help all` has all. `--help FLAG` has one
/// flag, `--help man` is a man page, `--help json` the document ptdp.flags/1. Throws Error for any
/// other word behind --help.
[[nodiscard]] std::optional<std::string> standard_answer(const CommandLine& line,
                                                         const CommandTable& table);

/// Returns the command's man page for section 1, in roff's macros `man`.
[[nodiscard]] std::string man_page(const CommandTable& table);

/// Returns the command's flags as the document ptdp.flags/1.
[[nodiscard]] std::string flags_document(const CommandTable& table);

}  // namespace ptdp
