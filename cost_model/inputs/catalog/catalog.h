// The shipped profiles by name, and users' own by path.
#pragma once

#include <cstdint>
#include <string>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/profile_files.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// A model and the batch it was published with.
struct ModelProfile {
  std::string name;
  std::string source;
  TransformerConfig config;  ///< Resolved.
  /// Default; sequences per iteration. 0: unknown, as it is of a Hugging Face config.json.
  std::int64_t global_batch_size = 0;
  /// The longest sequence that it takes, where that is all that is known of the length it was
  /// trained at; config.seq_length is then at most kUsualSequence.
  int longest_sequence = 0;
};

/// A profile by name ("1T"), or by path when `name_or_path` has a slash or ends in .json; of a
/// model also a Hugging Face config.json or the folder of one. Throws Error with near misses for an
/// unknown name: there is no fallback.
[[nodiscard]] ModelProfile find_model(const std::string& name_or_path);
[[nodiscard]] ClusterSpec find_cluster(const std::string& name_or_path);
[[nodiscard]] StackSpec find_stack(const std::string& name_or_path);

/// The cluster as a file that find_cluster() reads: its GPU and curves by value.
[[nodiscard]] std::string cluster_file(const ClusterSpec& cluster);

}  // namespace ptdp
