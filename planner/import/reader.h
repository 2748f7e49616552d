// Files of other frameworks as runs: one reader for each kind of file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/import/documents.h"
#include "planner/import/imported_run.h"

namespace ptdp {

/// A file to read, and what the caller knows besides.
struct RunFile {
  std::string_view text;
  std::string place;                              ///< Name of the file, for messages.
  std::optional<DocumentSettings> settings = {};  ///< Values of a YAML, TOML or JSON document.
  std::optional<std::int64_t> gpus = {};          ///< Stands for the number that the file says.
  std::optional<TransformerConfig> model = {};    ///< Stands for the model that the file says.
  std::optional<std::int64_t> vocab_size = {};    ///< Tokens, where a tokenizer alone is named.
};

/// One kind of file. To add one, write both functions in a room of its own, declare them below, and
/// add a row to kRunReaders.
struct RunReader {
  std::string_view name;  ///< The framework and its file, for people.
  /// Returns whether the file is of this kind, by its content alone.
  bool (*recognizes)(const RunFile& file);
  /// Reads a file of this kind. What it does not say has the framework's default. Throws Error,
  /// naming the place, for what cannot be read or only running the program gives. It throws one for
  /// GPUs that the degrees do not divide, too.
  ImportedRun (*read)(const RunFile& file);
};

[[nodiscard]] bool is_bridge(const RunFile& file);
[[nodiscard]] ImportedRun read_bridge(const RunFile& file);
[[nodiscard]] bool is_nanotron(const RunFile& file);
[[nodiscard]] ImportedRun read_nanotron(const RunFile& file);
[[nodiscard]] bool is_torchtitan(const RunFile& file);
[[nodiscard]] ImportedRun read_torchtitan(const RunFile& file);

[[nodiscard]] bool is_deepspeed(const RunFile& file);
[[nodiscard]] ImportedRun read_deepspeed(const RunFile& file);

[[nodiscard]] bool is_megatron(const RunFile& file);
[[nodiscard]] ImportedRun read_megatron(const RunFile& file);

/// All readers. The first one that recognizes a file reads it.
inline constexpr std::array kRunReaders = {
    RunReader{"nanotron's configuration in YAML", is_nanotron, read_nanotron},
    RunReader{"Megatron-Bridge's configuration in YAML or Python, or a command of its scripts",
              is_bridge, read_bridge},
    RunReader{"torchtitan's TOML file or command line", is_torchtitan, read_torchtitan},
    RunReader{"DeepSpeed's ds_config.json", is_deepspeed, read_deepspeed},
    RunReader{"Megatron-LM's script, arguments or log", is_megatron, read_megatron},
};

/// Reads a run with the reader that recognizes the file. What is in `place` named .yaml, .yml,
/// .toml or .json is such a document; other files are scripts, arguments or logs. `gpus` and
/// `model` stand for what the file says of them, and `vocab_size` for what it leaves to its
/// tokenizer. Throws Error if no reader recognizes the file, and as readers do.
[[nodiscard]] ImportedRun read_run(std::string_view text, const std::string& place,
                                   std::optional<std::int64_t> gpus,
                                   const std::optional<TransformerConfig>& model = {},
                                   std::optional<std::int64_t> vocab_size = {});

}  // namespace ptdp
