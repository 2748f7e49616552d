// ptdp: all commands under one name. Itself the four that plan, by their own names too; those that
// train are programs beside it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cost_model/contains.h"
#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"
#include "tools/completion/completion_scripts.h"
#include "tools/planner_commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/completion.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp";

constexpr const char* kCompletion = "completion";

/// A command that is part of this program; the others are programs beside it.
struct OwnCommand {
  std::string_view word;
  int (*run)(int argc, const char* const* argv);
  const char* typed;
};

constexpr std::array kOwnCommands = {OwnCommand{"plan", &plan_command, "ptdp plan"},
                                     OwnCommand{"sim", &sim_command, "ptdp sim"},
                                     OwnCommand{"validate", &validate_command, "ptdp validate"},
                                     OwnCommand{"calibrate", &calibrate_command, "ptdp calibrate"}};

std::string name_of(const CommandSummary& command) {
  return std::string(kProgram) + "-" + std::string(command.word);
}

/// Returns where a program of that name lies if it is installed beside this one.
std::filesystem::path beside(const std::string& name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
}

std::string usage() {
  std::string text =
      "usage: ptdp COMMAND [...]          as ptdp-COMMAND; ptdp COMMAND --help tells more\n"
      "       ptdp completion SHELL       a script for the shell to source: bash, zsh or fish\n\n"
      "commands:\n";
  for (const CommandSummary& command : kCommandSummaries) {
    const bool is_there =
        std::ranges::find(kOwnCommands, command.word, &OwnCommand::word) != kOwnCommands.end() ||
        std::filesystem::exists(beside(name_of(command)));
    text += fmt::format("  {:<10}  {}{}\n", command.word, command.summary,
                        is_there ? "" : " (not installed here)");
  }
  return text +
         "\nexamples:\n  ptdp plan --gpus 3072 --model 1T -o plan.json\n  ptdp sim plan.json\n\n";
}

CommandTable command_table() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("help,h", "this text");
  option("version", "the version, and what it was built with");
  CommandTable table = {.name = kProgram, .usage = usage(), .groups = {{"flags", flags}}};
  for (const CommandSummary& command : kCommandSummaries) {
    table.first_words.push_back({std::string(command.word)});
  }
  table.first_words.push_back(
      {kCompletion, {.name = "SHELL", .choices = names_of<Shell>(kShellNames)}});
  return table;
}

/// Returns the command line of a command, out of one that has the command's word at `at`. It goes
/// by the name `typed`.
std::vector<const char*> arguments_of(const std::string& typed, std::vector<const char*> arguments,
                                      std::size_t at) {
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  arguments.front() = typed.c_str();
  return arguments;
}

/// Replaces this process by the program of that name beside this one. Throws Error if there is
/// none.
[[noreturn]] void execute_beside(const std::string& name, std::vector<const char*> arguments) {
  const std::filesystem::path program = beside(name);
  arguments.push_back(nullptr);
  // The system's declaration lacks a const that it keeps.
  ::execv(program.c_str(), const_cast<char* const*>(arguments.data()));  // NOLINT
  throw Error(
      fmt::format("{}: cannot run it beside {}: {}; expected an installation with what "
                  "trains, not the planner alone",
                  name, kProgram, std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
}

/// Runs the command whose word stands at `at`. Returns nullopt if there is no such command.
std::optional<int> run_word(const std::vector<const char*>& words, std::size_t at) {
  const std::string_view word = words.at(at);
  const auto* known = std::ranges::find(kCommandSummaries, word, &CommandSummary::word);
  if (known == kCommandSummaries.end()) {
    return std::nullopt;
  }
  const std::string typed = fmt::format("{} {}", kProgram, word);
  const std::vector<const char*> arguments = arguments_of(typed, words, at);
  const auto* own = std::ranges::find(kOwnCommands, word, &OwnCommand::word);
  if (own == kOwnCommands.end()) {
    execute_beside(name_of(*known), arguments);
  }
  set_typed_command(own->typed);
  return own->run(static_cast<int>(arguments.size()), arguments.data());
}

int print_script(const CommandLine& line) {
  if (line.words().size() != 2) {
    throw Error(std::string(kCompletion) + ": expected one of bash, zsh, fish");
  }
  write_standard_output(
      completion_script(choose<Shell>(line.words()[1], kShellNames, kCompletion)));
  return 0;
}

/// Returns the words of a command line with `help` and `--help COMMAND` spelled as `--help` and
/// `COMMAND --help`.
std::vector<const char*> with_help_as_flag(std::vector<const char*> words) {
  const auto is_word = [&](std::size_t at, std::string_view word) {
    return words.size() > at && words[at] == word;
  };
  if (!is_word(1, "help") && !is_word(1, "--help") && !is_word(1, "-h")) {
    return words;
  }
  words[1] = "--help";
  if (std::ranges::any_of(kCommandSummaries, [&](const CommandSummary& command) {
        return is_word(2, command.word);
      })) {
    std::swap(words[1], words[2]);
  }
  return words;
}

/// Throws Error for a first word that is no command.
void check_first_word(const std::vector<const char*>& words, const CommandTable& table) {
  const std::string first = words.size() > 1 ? words[1] : "";
  std::vector<std::string> known;
  for (const FirstWord& word : table.first_words) {
    known.push_back(word.name);
  }
  if (!first.starts_with('-') && !first.empty() && !contains(known, first)) {
    throw Error("unknown command " + in_quotes(first) + did_you_mean(first, known) +
                " (--help lists the commands)");
  }
}

int answer(int argc, const char* const* argv) {
  const std::vector<const char*> words = with_help_as_flag({argv, argv + argc});
  const bool is_completion = words.size() > 1 && words[1] == std::string_view(kCompletionRequest);
  const std::size_t at = is_completion ? 2 : 1;
  // The word of a command is whole once another follows it.
  if (words.size() > at + (is_completion ? 1 : 0)) {
    if (const auto status = run_word(words, at)) {
      return *status;
    }
  }
  const CommandTable table = command_table();
  if (const auto text = completion_answer(argc, argv, table)) {
    write_standard_output(*text);
    return 0;
  }
  check_first_word(words, table);
  const CommandLine line(static_cast<int>(words.size()), words.data(), table.flags());
  if (const auto text = standard_answer(line, table)) {
    print(*text);
    return 0;
  }
  if (line.words().empty()) {
    throw Error("expected a command; --help lists them");
  }
  return print_script(line);  // the only command left
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  const std::string_view called = argc > 0 ? argv[0] : "";
  const std::string_view name = called.substr(called.rfind('/') + 1);
  for (const ptdp::OwnCommand& command : ptdp::kOwnCommands) {
    if (name == std::string(ptdp::kProgram) + "-" + std::string(command.word)) {
      return command.run(argc, argv);
    }
  }
  return ptdp::run_command(ptdp::kProgram, [&] { return ptdp::answer(argc, argv); });
}
