// Files of profiles: where they lie, and which one a name stands for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cost_model/text/object_reader.h"

namespace ptdp {

enum class ProfileKind { kModel, kCluster, kStack, kGpu, kCurve };

/// Where profiles are read from: $PTDP_PROFILES, else share/ptdp/profiles beside the installed
/// program, else the source tree it was built from. Throws Error when none of them is a directory.
[[nodiscard]] std::filesystem::path profiles_directory();

/// The schema that files of a kind name, as "ptdp.model/1".
[[nodiscard]] const char* schema_of(ProfileKind kind);

/// The file of a profile by name ("1T"), or by path when `name_or_path` has a slash or ends in
/// .json; a folder stands for its config.json where a model is meant. Throws Error with near misses
/// for an unknown name: there is no fallback.
[[nodiscard]] std::filesystem::path profile_file(ProfileKind kind, const std::string& name_or_path);

/// Opens profile_file() and checks its schema.
[[nodiscard]] ObjectReader open_profile(ProfileKind kind, const std::string& name_or_path);

/// A profile of a kind other than kModel, whose fields are those of `Value`.
template <class Value>
[[nodiscard]] Value read_profile(ProfileKind kind, const std::string& name_or_path) {
  ObjectReader reader = open_profile(kind, name_or_path);
  Value value;
  describe(reader, value);
  reader.finish();
  return value;
}

/// The names of the shipped profiles of a kind, sorted by name.
[[nodiscard]] std::vector<std::string> list_profiles(ProfileKind kind);

}  // namespace ptdp
