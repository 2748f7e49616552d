// The index of weights that lie in several files: model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ptdp {

/// Name of the file of weights that lie in one file.
inline constexpr const char* kWeightsName = "model.safetensors";
/// Name of the index of weights that lie in several files.
inline constexpr const char* kWeightsIndexName = "model.safetensors.index.json";
/// Largest index that is read [B]; that of a model of 500,000 tensors is below it.
inline constexpr std::size_t kLargestIndex = std::size_t{64} << 20U;

/// Files of tensors, relative to the index, by the tensors' names.
using WeightMap = std::map<std::string, std::string, std::less<>>;

/// Parses an index. Throws Error at `place` when it is not JSON of an object with "weight_map" and
/// perhaps "metadata", or has duplicate keys. Throws Error for a file that does not lie below the
/// index's directory or is no .safetensors. The size that "metadata" has is not compared: known
/// writers count it differently.
[[nodiscard]] WeightMap parse_weights_index(std::string_view text, const std::string& place);
/// Returns the text of an index as transformers writes it. `total_bytes` is the size of all tensors
/// [B].
[[nodiscard]] std::string weights_index_text(const WeightMap& files, std::int64_t total_bytes);

}  // namespace ptdp
