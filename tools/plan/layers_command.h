// `ptdp-plan --model LAYERS.json`: degrees for a list of layers of any architecture.
#pragma once

#include <filesystem>
#include <optional>

#include "tools/shared/command_line.h"

namespace ptdp {

/// Returns the file of --model if it is a list of layers (`ptdp.layers/1`); nullopt for models, and
/// for what is no JSON, which reading it as a model tells.
[[nodiscard]] std::optional<std::filesystem::path> layers_file(const CommandLine& line);

/// Searches degrees for the list of layers in `file`, prints them, and returns the exit status.
/// Throws Error by name for flags that mean nothing to a list.
[[nodiscard]] int run_layers(const CommandLine& line, const std::filesystem::path& file);

}  // namespace ptdp
