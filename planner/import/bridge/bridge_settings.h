// Files of Megatron-Bridge as values under the paths of its ConfigContainer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/import/documents.h"

namespace ptdp {

/// What a file of Megatron-Bridge says. Flags of its scripts stand under the paths that they set;
/// a flag that sets none stands under its own name.
struct BridgeFile {
  DocumentSettings settings;
  std::int64_t gpus = 0;         ///< 0: the file does not say.
  bool has_whole_model = false;  ///< Whether what is not said of the model has Bridge's defaults.
  bool has_whole_rest = false;   ///< Whether the rest has; else a recipe has it.
  bool is_dump = false;          ///< Whether every field is named, also those with defaults.
  std::string recipe;            ///< Name of the recipe or checkpoint that it starts from.
  std::vector<std::string> notes;
};

/// Returns whether keys are paths of a ConfigContainer. NeMo's are alike; its `trainer` tells.
[[nodiscard]] bool has_bridge_paths(const DocumentSettings& settings);
/// Takes the keys of a YAML document: changes of a recipe, or the run_config.yaml of a checkpoint.
[[nodiscard]] BridgeFile bridge_yaml(DocumentSettings settings);

/// Writes lists that Megatron-LM's flags spell as one word as that word: "[0,1,1]".
void join_bridge_lists(DocumentSettings& settings);

/// Names by which a command of Megatron-Bridge's scripts is known.
[[nodiscard]] const std::vector<std::string_view>& bridge_telling_words();
/// Reads the command of a script, or arguments alone: flags, and overrides "model.num_layers=4".
/// Throws Error, naming `place`, for a file without such a command.
[[nodiscard]] BridgeFile bridge_program(std::string_view text, const std::string& place);

/// Returns whether a text is Python that imports Megatron-Bridge.
[[nodiscard]] bool is_bridge_python(std::string_view text);
/// Reads what a Python file assigns to a ConfigContainer as it stands; nothing is executed:
///
///   - "cfg.model.num_layers = 4", also within a function;
///   - "cfg.ddp = DistributedDataParallelConfig(overlap_grad_reduce=True)", and the arguments of
///     ConfigContainer(...);
///   - "SETTINGS = {"model.num_layers": 4}", as `ptdp-plan export` writes it.
///
/// A value that is no literal, or is assigned under a condition, is unknown
/// (planner/import/shell/shell_expansion.h). Throws Error, with `place` and line, if two functions
/// assign unlike values to a path, and for brackets that are not closed.
[[nodiscard]] BridgeFile bridge_python(std::string_view text, const std::string& place);

}  // namespace ptdp
