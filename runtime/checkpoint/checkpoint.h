// A checkpoint, whole and checked, from which any layout of the model takes its parts.
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

/// What a checkpoint has of every element, in the order of its files.
enum class StateKind : std::uint8_t { kMaster, kMoment1, kMoment2 };

/// Several threads may read at once.
class Checkpoint {
 public:
  /// The newest checkpoint of a directory that is whole: its manifest, all files, their sizes and
  /// checksums, and every element of every parameter once. Reads all of it. Those that are not
  /// whole are passed over. `directory` may be a step's own, DIRECTORY/step-N, too, which then must
  /// be whole. Throws Error where there is none.
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& directory);
  /// The step of the newest checkpoint, whole or not; none where there is none or no directory.
  /// Throws Error where the directory cannot be listed.
  [[nodiscard]] static std::optional<std::int64_t> newest_step(
      const std::filesystem::path& directory);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const TrainingState& state() const { return state_; }
  /// One line for each newer checkpoint that is not whole: which, and what is wrong with it.
  [[nodiscard]] std::span<const std::string> passed_over() const { return passed_over_; }

  /// Throws Error, naming the field, what the checkpoint has and what was expected, where it is one
  /// of another model.
  void require_model(const TransformerConfig& model) const;
  /// Fills what the rank updates, masters and moments, and rounds its weights from them. Where
  /// states are sharded, weights that other ranks update must be gathered afterwards. The layout,
  /// the sharding and the type may be others than those that saved. Throws Error, naming the
  /// parameter, what is there and what was expected, where one is missing or has another shape.
  void restore(Backend& backend, Optimizer& optimizer) const;
  /// Elements of a parameter's block, counted row by row; 0 in rows that pad the whole. Reads them
  /// and nothing else. Throws Error as above.
  void read(const Parameter& parameter, const Part& range, StateKind kind,
            std::span<double> values) const;

 private:
  /// An entry and the shard it is in.
  struct StoredPart {
    ShardEntry entry;
    DataType type = DataType::kFloat32;
    std::string file;
  };

  /// Throws Error where it is not whole.
  explicit Checkpoint(std::filesystem::path path);
  [[nodiscard]] std::string read_checked(const FileDigest& file) const;
  void check_data(const FileDigest& expected) const;
  void add_parts(const ShardIndex& index);
  void check_coverage() const;
  void check_disjoint(const std::string& name, const std::vector<StoredPart>& parts) const;
  [[nodiscard]] const std::vector<StoredPart>& parts_of(const Parameter& parameter) const;

  std::filesystem::path path_;
  TrainingState state_;
  std::map<std::string, std::vector<StoredPart>, std::less<>> parts_;  ///< By parameter.
  std::vector<std::string> passed_over_;
};

}  // namespace ptdp
