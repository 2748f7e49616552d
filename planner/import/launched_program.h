// The arguments of a training program, found in a launch script or in a list of arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// A program as a file starts it.
struct LaunchedProgram {
  std::string program = {};             ///< Name of its file or module; empty where none is said.
  std::vector<std::string> words = {};  ///< Arguments of the program, in order.
  std::int64_t gpus = 0;  ///< Processes that the launcher starts; 0: the file does not say.
  bool is_dump = false;   ///< Whether the words are a log's list of all arguments.
  std::vector<std::string> notes = {};  ///< What the reader took for granted, a sentence each.
};

/// Returns whether a text has the list of arguments that Megatron-LM and its forks print, with
/// layers and the size of tensor-parallel groups. DeepSpeed lists its own configuration alike.
[[nodiscard]] bool lists_arguments(std::string_view text);

/// Finds the command of a script with most words among `known`, flags or keys before a "=". The
/// file is one of:
///
///   - a bash script (planner/import/shell/shell_script.h), here-documents included;
///   - arguments alone, on any number of lines;
///   - a script that starts nothing and sets variables to arguments: these, one after the other;
///   - the list that Megatron-LM prints at the start: "  num_layers ...... 24".
///
/// Nothing is run. The number of GPUs follows from torchrun, srun, mpirun or deepspeed, else from
/// #SBATCH lines, else from WORLD_SIZE. A command needs `fewest` known flags: one may be anybody's.
/// Throws Error, naming `place`, if there is no such command.
[[nodiscard]] LaunchedProgram find_program(std::string_view text,
                                           const std::vector<std::string_view>& known,
                                           const std::string& place, std::size_t fewest = 2);

}  // namespace ptdp
