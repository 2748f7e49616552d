// The files of a checkpoint as data. FORMATS.md describes them for readers in other languages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "kernels/backend.h"
#include "runtime/optimizer/loss_scaler.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Schema name in the manifest of a checkpoint.
inline constexpr const char* kCheckpointSchema = "ptdp.checkpoint/1";
/// Schema name in the index of a shard.
inline constexpr const char* kShardSchema = "ptdp.checkpoint-shard/1";

/// Largest number of steps that a training may have.
inline constexpr std::int64_t kMostTrainingSteps = 1'000'000'000;

/// State of a training run besides weights and moments.
struct TrainingState {
  std::int64_t step = 0;  ///< Steps completed since the training began.
  /// Number of samples taken from the data, which is the next sample's number.
  std::int64_t next_sample = 0;
  std::int64_t optimizer_steps = 0;  ///< Completed steps whose update was not skipped.
  std::uint64_t seed = 0;            ///< Seed of initial values, dropout and data.
  /// LearningRateSchedule::decay_steps of the run that saved; 0 when its checkpoint does not say.
  std::int64_t decay_steps = 0;
  LossScaler::State loss_scaler;
  TransformerConfig model;  ///< The model, with all defaults resolved.
};

/// Name, size and checksum that a file must have for the checkpoint to be whole.
struct FileDigest {
  std::string name;
  /// Size of the file [B].
  std::int64_t bytes = 0;
  std::uint64_t xxh64 = 0;
};

/// Content of manifest.json: the training's state, and every shard and index with its digest.
struct CheckpointManifest {
  TrainingState state;
  std::vector<FileDigest> files;
};

/// Elements of a parameter held by one shard: `range` of a block of the parameter's matrix, counted
/// row by row through the block.
struct ShardEntry {
  std::string parameter;
  /// Number of rows of the whole parameter, without padding.
  std::int64_t total_rows = 0;
  MatrixBlock block;
  Part range;
  /// Place in the shard [B], where the masters begin. First moments and then second moments follow.
  std::int64_t offset = 0;
};

/// Content of rank-00000.json: what rank-00000.bin holds.
struct ShardIndex {
  FileDigest data;
  DataType type = DataType::kFloat32;  ///< Type of the stored elements, f32 or f64.
  std::vector<ShardEntry> entries;
};

/// Largest size of a manifest or an index [B].
inline constexpr std::size_t kLargestCheckpointDocument = std::size_t{64} << 20U;

/// Returns the text of manifest.json.
[[nodiscard]] std::string to_json(const CheckpointManifest& manifest);
/// Returns the text of a shard's index.
[[nodiscard]] std::string to_json(const ShardIndex& index);
/// Parses manifest.json. Throws Error at `place` when the text is no manifest or contradicts
/// itself.
[[nodiscard]] CheckpointManifest parse_manifest(std::string_view text, const std::string& place);
/// Parses a shard's index. Throws Error at `place` when the text is no index or contradicts itself.
[[nodiscard]] ShardIndex parse_shard_index(std::string_view text, const std::string& place);

/// Name of the manifest's file.
inline constexpr const char* kManifestName = "manifest.json";
/// Name of the file with the manifest's checksum, as `xxhsum -H1` prints and checks it.
inline constexpr const char* kManifestChecksumName = "manifest.xxh64";

/// Returns the directory name of a step, as "step-00000010".
[[nodiscard]] std::string step_directory_name(std::int64_t step);
/// Returns the step that a directory name of step_directory_name() names; nullopt for other names.
[[nodiscard]] std::optional<std::int64_t> step_of_directory(const std::string& name);
/// Returns the file name of a rank's shard, as "rank-00003.bin".
[[nodiscard]] std::string shard_name(int rank);
/// Returns the file name of a rank's index, as "rank-00003.json".
[[nodiscard]] std::string shard_index_name(int rank);
/// Returns 16 hexadecimal digits, as "00000000000000ff".
[[nodiscard]] std::string hexadecimal(std::uint64_t value);
/// Returns the line of manifest.xxh64, as "00000000000000ff  manifest.json\n".
[[nodiscard]] std::string checksum_line(std::uint64_t xxh64, const std::string& name);

}  // namespace ptdp
