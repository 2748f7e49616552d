// Runs of torchtitan: TOML files up to 0.2.2, and command lines of 0.3.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/import/flag_list.h"
#include "planner/import/imported_run.h"
#include "planner/import/reader.h"

namespace ptdp {

/// Settings of a run under the keys of torchtitan 0.2.2 and 0.3.0. Where a file has a key of 2024
/// in place of one of these, that one is read, and messages name it.
class TorchtitanSettings {
 public:
  TorchtitanSettings(DocumentSettings settings, const std::string& place)
      : flags_(std::move(settings), place) {}

  /// Each of these is FlagList's function of that name, for the key as the file spells it.
  [[nodiscard]] bool has(std::string_view key) const { return flags_.has(spelled(key)); }
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const {
    return flags_.text(spelled(key));
  }
  [[nodiscard]] std::optional<int> count(std::string_view key, int low = 1) const {
    return flags_.count(spelled(key), low);
  }
  [[nodiscard]] bool truth(std::string_view key) const {
    return flags_.truth(spelled(key)).value_or(false);
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const {
    flags_.refuse(spelled(key), why);
  }
  [[nodiscard]] std::vector<std::string> unread() const { return flags_.unread(); }

  /// Returns the names of a list, which a file may also write as "a,b"; empty without the key.
  [[nodiscard]] std::vector<std::string> names(std::string_view key) const;

 private:
  [[nodiscard]] std::string_view spelled(std::string_view key) const;

  FlagList flags_;
};

/// Returns the words of a command line as settings: "--compile.no-enable" is compile.enable false,
/// and "activation-checkpoint:full" is activation_checkpoint.mode full. Source: torchtitan 0.3.0,
/// config/manager.py, and tyro.
[[nodiscard]] DocumentSettings torchtitan_words(const std::vector<std::string>& words);

/// Returns the settings of a function that torchtitan 0.3.0 has in a module's config_registry.py,
/// the model's flavor included; nullopt for others.
[[nodiscard]] std::optional<DocumentSettings> torchtitan_registered(std::string_view module,
                                                                    std::string_view config);

/// Returns the shipped model with the shape of a torchtitan flavor, at its usual length of
/// sequences; nullopt if there is none.
[[nodiscard]] std::optional<TransformerConfig> torchtitan_flavor_model(std::string_view module,
                                                                       std::string_view flavor);

/// A pipeline as settings say it.
struct TorchtitanPipeline {
  int pp = 1;
  int vpp = 1;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  std::vector<int> layers_per_stage = {};  ///< Empty: all equal, or the model is not known.
};
/// Reads the pipeline of a model with `num_layers` layers, 0 if that is not known. Throws Error for
/// orders in a CSV file, schedules that ptdp does not have, and stages that do not fit.
[[nodiscard]] TorchtitanPipeline torchtitan_pipeline(const TorchtitanSettings& settings,
                                                     int num_layers);

/// What is read, and what its launcher says.
struct TorchtitanSource {
  RunFile file;
  std::int64_t gpus = 0;         ///< As the launcher says; 0: it does not.
  bool is_command_line = false;  ///< Whether the settings are those of 0.3.0.
};

/// Reads degrees, the pipeline and the number of GPUs. `model` is the one that will be costed;
/// nullopt: not known. Throws Error where the degrees do not make the GPUs.
void read_torchtitan_degrees(const TorchtitanSettings& settings, const TorchtitanSource& source,
                             const std::optional<TransformerConfig>& model, ImportedRun& run);
/// Reads recomputation, precision and batch of a run whose degrees are read. The defaults are those
/// of 0.3.0 with `is_command_line`, else those of 0.2.2.
void read_torchtitan_training(const TorchtitanSettings& settings, bool is_command_line,
                              ImportedRun& run);

/// Returns whether a key has nothing to do with time and memory: data, checkpoints, logs, learning.
[[nodiscard]] bool is_torchtitan_without_effect(std::string_view key);
/// Returns whether a key chooses kernels or their compilation, which the stack's profile says.
[[nodiscard]] bool is_torchtitan_of_the_stack(std::string_view key);

}  // namespace ptdp
