// The files of a checkpoint as data; FORMATS.md describes them for readers of other languages.
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

inline constexpr const char* kCheckpointSchema = "ptdp.checkpoint/1";
inline constexpr const char* kShardSchema = "ptdp.checkpoint-shard/1";

/// A training has at most so many steps.
inline constexpr std::int64_t kMostTrainingSteps = 1'000'000'000;

/// How much is between a backend and a file at a time.
inline constexpr std::int64_t kElementsPerPiece = std::int64_t{1} << 20;

/// What of a training run is not weights and moments.
struct TrainingState {
  std::int64_t step = 0;             ///< Steps that are done.
  std::int64_t next_sample = 0;      ///< Of the data: as many were taken.
  std::int64_t optimizer_steps = 0;  ///< Of these steps, those that were not skipped.
  std::uint64_t seed = 0;            ///< Of initial values, dropout and data.
  /// LearningRateSchedule::decay_steps of the run that saved; 0: its checkpoint does not say.
  std::int64_t decay_steps = 0;
  LossScaler::State loss_scaler;
  TransformerConfig model;  ///< Resolved.
};

/// What a file must be for the checkpoint to be whole.
struct FileDigest {
  std::string name;
  std::int64_t bytes = 0;
  std::uint64_t xxh64 = 0;
};

/// manifest.json.
struct CheckpointManifest {
  TrainingState state;
  std::vector<FileDigest> files;
};

/// Elements of a parameter that a shard holds: `range` of a block of a matrix, counted row by row
/// through the block.
struct ShardEntry {
  std::string parameter;
  std::int64_t total_rows = 0;
  MatrixBlock block;
  Part range;
  std::int64_t offset = 0;  ///< In the shard [B]: masters, then first moments, then second ones.
};

/// rank-00000.json: what rank-00000.bin holds.
struct ShardIndex {
  FileDigest data;
  DataType type = DataType::kFloat32;  ///< f32 or f64.
  std::vector<ShardEntry> entries;
};

/// Of manifest and indices [B].
inline constexpr std::size_t kLargestCheckpointDocument = std::size_t{64} << 20U;

[[nodiscard]] std::string to_json(const CheckpointManifest& manifest);
[[nodiscard]] std::string to_json(const ShardIndex& index);
/// Throw Error at `place` for what is no such document or contradicts itself.
[[nodiscard]] CheckpointManifest parse_manifest(std::string_view text, const std::string& place);
[[nodiscard]] ShardIndex parse_shard_index(std::string_view text, const std::string& place);

inline constexpr const char* kManifestName = "manifest.json";
/// The manifest's own checksum, as `xxhsum -H1` prints and checks it.
inline constexpr const char* kManifestChecksumName = "manifest.xxh64";

/// "step-00000010".
[[nodiscard]] std::string step_directory_name(std::int64_t step);
/// The step of such a name; none for other names.
[[nodiscard]] std::optional<std::int64_t> step_of_directory(const std::string& name);
/// "rank-00003.bin" and "rank-00003.json".
[[nodiscard]] std::string shard_name(int rank);
[[nodiscard]] std::string shard_index_name(int rank);
/// "00000000000000ff".
[[nodiscard]] std::string hexadecimal(std::uint64_t value);
/// "00000000000000ff  manifest.json\n".
[[nodiscard]] std::string checksum_line(std::uint64_t xxh64, const std::string& name);

}  // namespace ptdp
