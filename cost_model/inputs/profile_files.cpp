#include "cost_model/inputs/profile_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

struct KindTraits {
  ProfileKind kind;
  const char* noun;
  const char* directory;
  const char* schema;
};
constexpr std::array kKinds = {
    KindTraits{ProfileKind::kModel, "model", "models", "ptdp.model/1"},
    KindTraits{ProfileKind::kCluster, "cluster", "clusters", "ptdp.cluster/1"},
    KindTraits{ProfileKind::kStack, "stack", "stacks", "ptdp.stack/1"},
    KindTraits{ProfileKind::kGpu, "GPU", "gpus", "ptdp.gpu/1"},
    KindTraits{ProfileKind::kCurve, "curve", "curves", "ptdp.curves/1"}};

constexpr const char* kAliasSchema = "ptdp.aliases/1";

const KindTraits& traits_of(ProfileKind kind) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [kind](const KindTraits& traits) { return traits.kind == kind; });
}

bool is_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
}

/// Returns the file that a shipped profile of this name has, or would have.
fs::path shipped_file(ProfileKind kind, const std::string& name) {
  return profiles_directory() / traits_of(kind).directory / (name + ".json");
}

/// Another name that a shipped profile goes by.
struct Alias {
  std::string name;
  std::string profile;
};

template <class Fields>
void describe(Fields& fields, Described<Fields, Alias>& alias) {
  fields.name("name", alias.name);
  fields.name("profile", alias.profile);
}

/// Returns the profile that goes by the alias `name`, if any. profiles/aliases.json lists the
/// aliases of each kind.
std::optional<std::string> find_alias(ProfileKind kind, const std::string& name) {
  const fs::path path = profiles_directory() / "aliases.json";
  if (!fs::is_regular_file(path)) {
    return std::nullopt;
  }
  ObjectReader reader = ObjectReader::from_file(path);
  reader.schema(kAliasSchema);
  std::optional<std::string> found;
  for (const KindTraits& traits : kKinds) {
    std::vector<Alias> aliases;
    if (reader.optional(traits.directory, false)) {
      reader.objects(traits.directory, aliases);
    }
    for (const Alias& alias : aliases) {
      if (traits.kind == kind && alias.name == name) {
        found = alias.profile;
      }
    }
  }
  reader.finish();
  return found;
}

/// Returns the directory of profiles that the user chose; null: none.
const char* chosen_directory() {
  // getenv races only with setenv, which no part of ptdp calls.
  return std::getenv("PTDP_PROFILES");  // NOLINT(concurrency-mt-unsafe)
}

/// Returns the directory of profiles beside the installed program, else the one of the source tree.
/// Throws Error if neither is one.
fs::path find_profiles_directory() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  fs::path installed = program.parent_path().parent_path() / "share/ptdp/profiles";
  if (!program.empty() && fs::is_directory(installed)) {
    return installed;
  }
  if (fs::is_directory(PTDP_SOURCE_PROFILES)) {
    return PTDP_SOURCE_PROFILES;
  }
  throw Error("no profiles found: neither " + installed.string() + " nor " +
              std::string(PTDP_SOURCE_PROFILES) + " is a directory; set PTDP_PROFILES");
}

}  // namespace

const char* schema_of(ProfileKind kind) {
  return traits_of(kind).schema;
}

ObjectReader open_profile(ProfileKind kind, const std::string& name_or_path) {
  ObjectReader reader = ObjectReader::from_file(profile_file(kind, name_or_path));
  reader.schema(schema_of(kind));
  return reader;
}

fs::path profiles_directory() {
  if (const char* chosen = chosen_directory()) {
    if (!fs::is_directory(chosen)) {
      throw Error("PTDP_PROFILES: expected a directory, got " + in_quotes(chosen));
    }
    return chosen;
  }
  static const fs::path found = find_profiles_directory();
  return found;
}

std::vector<std::string> list_profiles(ProfileKind kind) {
  std::vector<std::string> names;
  const fs::path directory = profiles_directory() / traits_of(kind).directory;
  if (!fs::is_directory(directory)) {
    throw Error(directory.string() + ": expected a directory of profiles");
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".json") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_unchanging(ProfileKind kind, const std::string& name_or_path) {
  return chosen_directory() == nullptr && has_profile(kind, name_or_path);
}

bool has_profile(ProfileKind kind, const std::string& name) {
  std::error_code ignored;
  return !is_path(name) && fs::exists(fs::symlink_status(shipped_file(kind, name), ignored));
}

fs::path profile_file(ProfileKind kind, const std::string& name_or_path) {
  const KindTraits& traits = traits_of(kind);
  fs::path path = name_or_path;
  if (!is_path(name_or_path)) {
    const std::string name = has_profile(kind, name_or_path)
                                 ? name_or_path
                                 : find_alias(kind, name_or_path).value_or(name_or_path);
    if (!has_profile(kind, name)) {
      std::string message = "unknown " + std::string(traits.noun) + ' ' + in_quotes(name) +
                            did_you_mean(name, list_profiles(kind));
      if (kind == ProfileKind::kCurve) {
        message += " (profiles/" + std::string(traits.directory) + " holds all)";
      } else {
        message += " (`ptdp-plan list " + std::string(traits.directory) +
                   "` shows all; a path to a "
                   ".json file works too)";
      }
      throw Error(message);
    }
    path = shipped_file(kind, name);
  }
  std::error_code ignored;
  return kind == ProfileKind::kModel && fs::is_directory(path, ignored) ? path / "config.json"
                                                                        : path;
}

}  // namespace ptdp
