// A shell script that starts a framework's program on every node of a plan, alone or under Slurm.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/plan/plan.h"

namespace ptdp {

/// A shell variable at the top of a script, which a user may set.
struct ScriptVariable {
  std::string name;
  std::string value;    ///< Default, as the shell reads it within double quotes.
  std::string comment;  ///< What it is, in one line.
};

/// What a launch script starts, and with what environment.
struct LaunchScript {
  std::string title;                      ///< First comment line.
  std::vector<ScriptVariable> variables;  ///< What users set, at the top.
  /// Environment variables of every process, with their values.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Words of torchrun behind its own flags: the program and its arguments, quoted for the shell
  /// where they need it. A line break goes before each word that begins a line of its own.
  std::vector<std::string> lines;
};

/// Returns a bash script: `sbatch launch.sh` under Slurm, `bash launch.sh` on a single node, and
/// with MASTER_ADDR and NODE_RANK set on every node otherwise. Global ranks follow the order of
/// nodes, so that groups lie where the plan has them. Uses the plan's nodes_in_use().
[[nodiscard]] std::string launch_script(const Plan& plan, const LaunchScript& script);

/// Returns a word as bash reads it: as it is, or within single quotes where it has other characters
/// than letters, digits and _-./,:=+.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace ptdp
