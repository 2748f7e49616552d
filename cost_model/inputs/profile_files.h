// Files of profiles: where they lie, and which one a name stands for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/csv_table.h"
#include "cost_model/text/files.h"
#include "cost_model/text/object_reader.h"

namespace ptdp {

enum class ProfileKind { kModel, kCluster, kStack, kGpu, kCurve };

/// A file of profiles: on a disk, or part of the program.
struct ProfileFile {
  /// Where it lies. Of a file that is part of the program, what messages call it:
  /// "profiles/clusters/dgx-h100.json".
  std::filesystem::path path;
  std::optional<std::string_view> content = {};  ///< Its content, if it is part of the program.

  /// Returns its content. Throws Error as read_file() does.
  [[nodiscard]] std::string text() const;
  /// Reads the JSON object that it holds. Throws Error as ObjectReader::from_file() does.
  [[nodiscard]] ObjectReader object() const;
  /// Reads the table that it holds. Throws Error as CsvTable::from_file() does.
  [[nodiscard]] CsvTable table() const;
};

/// Returns the directory that profiles are read from, $PTDP_PROFILES; nullopt if it is not set, or
/// is empty, and those that are part of the program are used. Throws Error if it names no
/// directory.
[[nodiscard]] std::optional<std::filesystem::path> profiles_directory();

/// Returns a file by its path below the profiles: "published/levels.json". It need not be there.
/// Throws Error as profiles_directory() does.
[[nodiscard]] ProfileFile file_of_profiles(const std::string& path);

/// Returns the names of the files of a folder below the profiles that end in `extension` (".csv"),
/// sorted. Throws Error if the folder is missing.
[[nodiscard]] std::vector<std::string> files_of_profiles(const std::string& folder,
                                                         std::string_view extension);

/// Returns the schema that files of a kind name, such as "ptdp.model/1".
[[nodiscard]] const char* schema_of(ProfileKind kind);

/// Returns whether the profiles have a file of this very name; an alias has none. Throws Error as
/// profiles_directory() does.
[[nodiscard]] bool has_profile(ProfileKind kind, const std::string& name);

/// Returns whether a name stands for a shipped profile. Those do not change while a program runs;
/// those of $PTDP_PROFILES may.
[[nodiscard]] bool is_unchanging(ProfileKind kind, const std::string& name_or_path);

/// Returns the shipped profile that a name stands for, itself or as an alias, in any case of
/// letters and with `-` and `_` or without; nullopt if there is none. Throws Error as
/// profiles_directory() does.
[[nodiscard]] std::optional<std::string> find_shipped(ProfileKind kind, const std::string& name);
/// Returns whether two names are spelled alike but for case, `-` and `_`.
[[nodiscard]] bool is_same_name(std::string_view a, std::string_view b);

/// Returns whether the working directory has a folder of this name, without a slash, that holds a
/// config.json. profile_file() takes it for a model where no shipped one has the name.
[[nodiscard]] bool is_model_folder(const std::string& name);

/// Finds the file of a profile by name or alias ("1T"), or by path when `name_or_path` has a slash
/// or ends in .json. Names are taken in any case of letters, with `-` and `_` or without.
///
/// The path of a model may be a folder, which stands for its config.json, as does the name of a
/// folder that is_model_folder() accepts. Throws Error with near misses for an unknown name, and
/// with the command that downloads it for a repository of the Hugging Face Hub: there is no
/// fallback.
[[nodiscard]] ProfileFile profile_file(ProfileKind kind, const std::string& name_or_path);

/// Opens the file that profile_file() finds and checks its schema. Throws Error for another schema,
/// and as profile_file() and ObjectReader::from_file() do.
[[nodiscard]] ObjectReader open_profile(ProfileKind kind, const std::string& name_or_path);

/// Reads a profile of a kind other than kModel into a `Value`; a shipped one once in each thread,
/// since rows and plans name a few again and again. Throws Error as open_profile() does, and for a
/// key that is missing, malformed or unknown.
template <class Value>
// NOLINTNEXTLINE(misc-no-recursion): a GPU's file may name an architecture, whose GPU names none
[[nodiscard]] Value read_profile(ProfileKind kind, const std::string& name_or_path) {
  thread_local std::map<std::string, Value> shipped;
  const auto found = shipped.find(name_or_path);
  if (found != shipped.end() && !profiles_directory()) {
    return found->second;
  }
  ObjectReader reader = open_profile(kind, name_or_path);
  Value value;
  describe(reader, value);
  reader.finish();
  if (is_unchanging(kind, name_or_path)) {
    shipped.insert_or_assign(name_or_path, value);
  }
  return value;
}

/// Returns the names of the profiles of a kind, sorted by name. Throws Error as
/// files_of_profiles() does.
[[nodiscard]] std::vector<std::string> list_profiles(ProfileKind kind);

}  // namespace ptdp
