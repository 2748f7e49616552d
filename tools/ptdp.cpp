// ptdp: all commands under one name. Itself the four that plan, by their own names too; those that
// train are programs beside it.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"
#include "tools/planner_commands.h"
#include "tools/shared/command_line.h"

namespace ptdp {
namespace {

constexpr const char* kProgram = "ptdp";

/// A command: the word behind ptdp, what it does, and its function, or nullptr for a program beside
/// this one.
struct Command {
  const char* word;
  const char* summary;
  int (*run)(int argc, const char* const* argv);
};

constexpr std::array kCommands = {
    Command{"plan", "find how to train a model on N GPUs, and what that will cost", &plan_command},
    Command{"sim", "simulate a plan's step or a schedule, action by action", &sim_command},
    Command{"run", "train under a plan, and compare with the prediction", nullptr},
    Command{"validate", "hold predictions against measured runs, logs and traces",
            &validate_command},
    Command{"calibrate", "correct predictions, or a cluster's constants, by runs",
            &calibrate_command},
    Command{"profile", "measure this machine, and write it down as a cluster", nullptr}};

std::string help() {
  std::string text =
      "usage: ptdp COMMAND [...]     as ptdp-COMMAND; ptdp COMMAND --help tells more\n\n";
  for (const Command& command : kCommands) {
    text += "  " + (command.word + std::string(12, ' ')).substr(0, 12) + command.summary + "\n";
  }
  return text +
         "\nexamples:\n  ptdp plan --gpus 3072 --model 1T -o plan.json\n  ptdp sim plan.json\n";
}

/// Replaces this process by the program of that name beside this one. Throws Error if there is
/// none.
[[noreturn]] void execute_beside(const std::string& name, std::vector<const char*> arguments) {
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
  arguments.push_back(nullptr);
  // The system's declaration lacks a const that it keeps.
  ::execv(program.c_str(), const_cast<char* const*>(arguments.data()));
  throw Error(program.string() + ": " + std::strerror(errno) +
              "; expected what trains to be installed beside ptdp (build preset release, or the "
              "package ptdp-runtime)");
}

int dispatch(int argc, const char* const* argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word == "--help" || word == "-h") {
    print(help());
    return word.empty() ? static_cast<int>(ExitStatus::kBadInput) : 0;
  }
  if (word == "--version") {
    print(std::string(kProgram) + " " + PTDP_VERSION + "\n");
    return 0;
  }
  std::vector<std::string> words;
  for (const Command& command : kCommands) {
    if (word == command.word) {
      const std::string name = std::string("ptdp-") + command.word;
      std::vector<const char*> arguments(argv + 1, argv + argc);
      arguments.front() = name.c_str();
      if (command.run == nullptr) {
        execute_beside(name, arguments);
      }
      return command.run(static_cast<int>(arguments.size()), arguments.data());
    }
    words.emplace_back(command.word);
  }
  throw Error("unknown command " + in_quotes(word) + did_you_mean(std::string(word), words) +
              " (--help lists the commands)");
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  const std::string_view called = argc > 0 ? argv[0] : "";
  const std::string_view name = called.substr(called.rfind('/') + 1);
  for (const ptdp::Command& command : ptdp::kCommands) {
    if (command.run != nullptr && name == std::string("ptdp-") + command.word) {
      return command.run(argc, argv);
    }
  }
  return ptdp::run_command(ptdp::kProgram, [&] { return ptdp::dispatch(argc, argv); });
}
