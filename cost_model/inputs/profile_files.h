// Files of profiles: where they lie, and which one a name stands for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cost_model/text/object_reader.h"

namespace ptdp {

enum class ProfileKind { kModel, kCluster, kStack, kGpu, kCurve };

/// Returns the directory that profiles are read from: $PTDP_PROFILES, else share/ptdp/profiles
/// beside the installed program, else the source tree that it was built from. Throws Error if
/// $PTDP_PROFILES is set but no directory, and if none of the others is one.
[[nodiscard]] std::filesystem::path profiles_directory();

/// Returns the schema that files of a kind name, such as "ptdp.model/1".
[[nodiscard]] const char* schema_of(ProfileKind kind);

/// Returns whether the directory of profiles has a file of this very name; an alias has none.
/// Throws Error as profiles_directory() does.
[[nodiscard]] bool has_profile(ProfileKind kind, const std::string& name);

/// Returns whether a name stands for a shipped profile. Those do not change while a program runs;
/// those of $PTDP_PROFILES may.
[[nodiscard]] bool is_unchanging(ProfileKind kind, const std::string& name_or_path);

/// Returns whether the working directory has a folder of this name, without a slash, that holds a
/// config.json. profile_file() takes it for a model where no shipped one has the name.
[[nodiscard]] bool is_model_folder(const std::string& name);

/// Finds the file of a profile by name or alias ("1T") in any case of letters, or by path when
/// `name_or_path` has a slash or ends in .json.
///
/// The path of a model may be a folder, which stands for its config.json, as does the name of a
/// folder that is_model_folder() accepts. Throws Error with near misses for an unknown name, and
/// with the command that downloads it for a repository of the Hugging Face Hub: there is no
/// fallback.
[[nodiscard]] std::filesystem::path profile_file(ProfileKind kind, const std::string& name_or_path);

/// Opens the file that profile_file() finds and checks its schema. Throws Error for another schema,
/// and as profile_file() and ObjectReader::from_file() do.
[[nodiscard]] ObjectReader open_profile(ProfileKind kind, const std::string& name_or_path);

/// Reads a profile of a kind other than kModel into a `Value`. Throws Error as open_profile() does,
/// and for a key that is missing, malformed or unknown.
template <class Value>
// NOLINTNEXTLINE(misc-no-recursion): a GPU's file may name an architecture, whose GPU names none
[[nodiscard]] Value read_profile(ProfileKind kind, const std::string& name_or_path) {
  ObjectReader reader = open_profile(kind, name_or_path);
  Value value;
  describe(reader, value);
  reader.finish();
  return value;
}

/// Returns the names of the shipped profiles of a kind, sorted by name. Throws Error if their
/// directory is missing.
[[nodiscard]] std::vector<std::string> list_profiles(ProfileKind kind);

}  // namespace ptdp
