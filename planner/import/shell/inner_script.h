// Scripts that a command is given as a word.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ptdp {

/// The script that `eval` or `bash -c` runs.
struct InnerScript {
  std::string text;
  bool is_eval = false;                 ///< Whether what it sets stays.
  std::vector<std::string> positional;  ///< $0, $1, ... within it.
};

/// Returns the script within the words of a command: of `eval`, of `bash -c`, also behind srun and
/// the like; nullopt if there is none. `positional` are those of the command's own script.
[[nodiscard]] std::optional<InnerScript> inner_script(const std::vector<std::string>& words,
                                                      const std::vector<std::string>& positional);

}  // namespace ptdp
