// The shipped profiles by name, and users' own by path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/profile_files.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// The cluster of models that name none as their home.
inline constexpr const char* kUsualCluster = "dgx-h100";

/// A model, the batch that it was published with, and the cluster.
struct ModelProfile {
  std::string name;
  std::string source;
  TransformerConfig config;  ///< The model's shape, resolved (resolved()).
  /// Default batch [sequences per iteration]; 0: unknown, as for a Hugging Face config.json.
  std::int64_t global_batch_size = 0;
  std::string home = kUsualCluster;  ///< Name of the cluster to plan for if none is named.
  /// Longest sequence that the model takes [tokens], if nothing says at which length it was
  /// trained; else 0. Unless positions are learned, config.seq_length is then at most
  /// kUsualSequence.
  int longest_sequence = 0;
  std::vector<std::string> assumptions = {};  ///< What was left out of its file, one line each.
  /// What its file has that nobody knows and that was ignored, one line each.
  std::vector<std::string> warnings = {};
};

/// Reads a model by name ("1T"), or by path when `name_or_path` has a slash or ends in .json. A
/// path may name a profile, a Hugging Face config.json or the folder of one. Throws Error with near
/// misses for an unknown name: there is no fallback.
[[nodiscard]] ModelProfile find_model(const std::string& name_or_path);
/// Reads a cluster's profile by name, or by path when `name_or_path` has a slash or ends in .json.
/// Throws Error with near misses for an unknown name.
[[nodiscard]] ClusterSpec find_cluster(const std::string& name_or_path);
/// Reads a stack's profile by name, or by path when `name_or_path` has a slash or ends in .json.
/// Throws Error with near misses for an unknown name.
[[nodiscard]] StackSpec find_stack(const std::string& name_or_path);

/// Returns the text of a file that find_cluster() reads, with the GPU and curves by value.
[[nodiscard]] std::string cluster_file(const ClusterSpec& cluster);

}  // namespace ptdp
