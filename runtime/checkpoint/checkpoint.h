// A checkpoint, verified as a whole, from which any layout of the model reads its parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "kernels/backend.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/parameters/parameter_store.h"

namespace ptdp {

/// Values stored for every element, in the order of a shard's file.
enum class StateKind : std::uint8_t { kMaster, kMoment1, kMoment2 };

/// An opened and fully verified checkpoint. Several threads may read it at once.
class Checkpoint {
 public:
  /// Opens the newest checkpoint in `directory` that is whole, and passes over newer ones that are
  /// not. Whole means: the manifest and all files have their sizes and checksums, and every element
  /// of every parameter is there once. Reads all of it. `directory` may also be the directory of
  /// one step, DIRECTORY/step-N, which must then be whole. Throws Error when no checkpoint is
  /// whole.
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& directory);
  /// Returns the step of the newest checkpoint, whole or not. Returns nullopt when there is no
  /// checkpoint or no directory; throws Error when the directory cannot be listed.
  [[nodiscard]] static std::optional<std::int64_t> newest_step(
      const std::filesystem::path& directory);

  /// Returns the directory of this checkpoint, DIRECTORY/step-N.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const TrainingState& state() const { return state_; }
  /// Returns one line for each newer checkpoint that was passed over: which one, and what is wrong
  /// with it.
  [[nodiscard]] std::span<const std::string> passed_over() const { return passed_over_; }

  /// Throws Error when the checkpoint is of another model. The message names the field, the value
  /// found and the value expected.
  void require_model(const TransformerConfig& model) const;
  /// Fills the masters and moments that the rank's optimizer owns, and rounds the weights from the
  /// masters. When states are sharded, weights that other ranks update must be gathered afterwards.
  /// Layout, sharding and type may differ from those of the run that saved. Throws Error when a
  /// parameter is missing or has another shape, naming it with what was found and expected.
  void restore(Backend& backend, Optimizer& optimizer) const;
  /// Reads `range` of a parameter's block into `values`, counted row by row; rows that pad the
  /// parameter give 0. Touches no other elements. Queries, keys and values are also found where
  /// version 0.1.0 kept them. Throws Error when the parameter is missing or has
  /// another shape.
  void read(const Parameter& parameter, const Part& range, StateKind kind,
            std::span<double> values) const;

 private:
  /// A stored range of a parameter, and the shard that has it.
  struct StoredPart {
    ShardEntry entry;
    DataType type = DataType::kFloat32;
    std::string file;
  };

  /// Opens and verifies the checkpoint in directory `path`. Throws Error when it is not whole.
  explicit Checkpoint(std::filesystem::path path);
  [[nodiscard]] std::string read_checked(const FileDigest& file) const;
  void check_data(const FileDigest& expected) const;
  /// Reads a part of a parameter that is stored under its name, as read() does.
  void read_stored(const Parameter& parameter, const Part& range, StateKind kind,
                   std::span<double> values) const;
  void add_parts(const ShardIndex& index);
  void check_coverage() const;
  void check_disjoint(const std::string& name, const std::vector<StoredPart>& parts) const;
  [[nodiscard]] const std::vector<StoredPart>& parts_of(const Parameter& parameter) const;

  std::filesystem::path path_;
  TrainingState state_;
  /// Stored parts by the parameter's name.
  std::map<std::string, std::vector<StoredPart>, std::less<>> parts_;
  /// Messages of newer checkpoints that are not whole.
  std::vector<std::string> passed_over_;
};

}  // namespace ptdp
