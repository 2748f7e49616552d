// The scripts by which shells complete command lines, as the program was built with them.
#pragma once

#include <array>
#include <string>

#include "cost_model/text/named_values.h"

namespace ptdp {

enum class Shell { kBash, kZsh, kFish };
inline constexpr std::array kShellNames = {NamedValue<Shell>{Shell::kBash, "bash"},
                                           NamedValue<Shell>{Shell::kZsh, "zsh"},
                                           NamedValue<Shell>{Shell::kFish, "fish"}};

/// Returns the script that a shell sources to complete the command lines of ptdp.
[[nodiscard]] std::string completion_script(Shell shell);

}  // namespace ptdp
