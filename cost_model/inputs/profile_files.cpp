#include "cost_model/inputs/profile_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/built_in_files.h"
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
ProfileFile shipped_file(ProfileKind kind, const std::string& name) {
  return file_of_profiles(std::string(traits_of(kind).directory) + '/' + name + ".json");
}

/// Returns whether a file of profiles is there, be it a link without an end.
bool is_there(const ProfileFile& file) {
  std::error_code ignored;
  return file.content.has_value() ||
         (profiles_directory() && fs::exists(fs::symlink_status(file.path, ignored)));
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

/// Returns a name in small letters without `-` and `_`. A dot stays: 1.7B is not 17B.
std::string bare_name(std::string_view name) {
  std::string bare;
  for (const unsigned char c : name) {
    if (c != '-' && c != '_') {
      bare += static_cast<char>(std::tolower(c));
    }
  }
  return bare;
}

/// Returns the aliases of a kind, which profiles/aliases.json lists.
std::vector<Alias> aliases_of(ProfileKind kind) {
  std::vector<Alias> found;
  const ProfileFile file = file_of_profiles("aliases.json");
  if (!is_there(file)) {
    return found;
  }
  ObjectReader reader = file.object();
  reader.schema(kAliasSchema);
  for (const KindTraits& traits : kKinds) {
    std::vector<Alias> aliases;
    if (reader.optional(traits.directory, false)) {
      reader.objects(traits.directory, aliases);
    }
    if (traits.kind == kind) {
      found = std::move(aliases);
    }
  }
  reader.finish();
  return found;
}

/// Returns whether a path looks like the name of a repository on the Hugging Face Hub:
/// "meta-llama/Llama-3.1-8B".
bool is_hub_name(const std::string& path) {
  const std::size_t slash = path.find('/');
  const auto is_usual = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  };
  return std::ranges::all_of(path, is_usual) && slash != std::string::npos && slash > 0 &&
         slash + 1 < path.size() && path.find('/', slash + 1) == std::string::npos &&
         path.front() != '.' && !path.ends_with(".json");
}

/// Throws Error for a repository of the Hub, which is not read from there.
[[noreturn]] void refuse_hub_name(const std::string& repository) {
  const std::string folder = repository.substr(repository.find('/') + 1);
  const std::optional<std::string> shipped = find_shipped(ProfileKind::kModel, folder);
  throw Error("no file or folder " + in_quotes(repository) +
              "; a model of the Hugging Face Hub is read from its file: `hf download " +
              repository + " config.json --local-dir " + folder + "`, then --model ./" + folder +
              (shipped ? "; or the shipped --model " + *shipped : ""));
}

}  // namespace

bool is_same_name(std::string_view a, std::string_view b) {
  return bare_name(a) == bare_name(b);
}

std::optional<std::string> find_shipped(ProfileKind kind, const std::string& name) {
  if (has_profile(kind, name)) {
    return name;
  }
  const std::string bare = bare_name(name);
  const auto is_same = [&](std::string_view other) { return bare_name(other) == bare; };
  const std::vector<std::string> profiles = list_profiles(kind);
  if (const auto found = std::ranges::find_if(profiles, is_same); found != profiles.end()) {
    return *found;
  }
  const std::vector<Alias> aliases = aliases_of(kind);
  const auto alias = std::ranges::find_if(aliases, is_same, &Alias::name);
  return alias != aliases.end() ? std::optional(alias->profile) : std::nullopt;
}

const char* schema_of(ProfileKind kind) {
  return traits_of(kind).schema;
}

ObjectReader open_profile(ProfileKind kind, const std::string& name_or_path) {
  ObjectReader reader = profile_file(kind, name_or_path).object();
  reader.schema(schema_of(kind));
  return reader;
}

std::string ProfileFile::text() const {
  return content ? std::string(*content) : read_file(path, kLargestInputFile);
}

ObjectReader ProfileFile::object() const {
  return content ? ObjectReader::from_checked_text(*content, path.string())
                 : ObjectReader::from_text(text(), path.string());
}

CsvTable ProfileFile::table() const {
  return content ? CsvTable::from_text(*content, path.string()) : CsvTable::from_file(path);
}

std::optional<fs::path> profiles_directory() {
  // getenv races only with setenv, which no part of ptdp calls.
  const char* chosen = std::getenv("PTDP_PROFILES");  // NOLINT(concurrency-mt-unsafe)
  if (chosen == nullptr || *chosen == '\0') {
    return std::nullopt;
  }
  if (!fs::is_directory(chosen)) {
    throw Error("PTDP_PROFILES: expected a directory, got " + in_quotes(chosen));
  }
  return chosen;
}

ProfileFile file_of_profiles(const std::string& path) {
  const std::optional<fs::path> directory = profiles_directory();
  return directory
             ? ProfileFile{.path = *directory / path}
             : ProfileFile{.path = fs::path("profiles") / path, .content = built_in_file(path)};
}

std::vector<std::string> files_of_profiles(const std::string& folder, std::string_view extension) {
  std::vector<std::string> names;
  if (const std::optional<fs::path> chosen = profiles_directory()) {
    const fs::path directory = *chosen / folder;
    if (!fs::is_directory(directory)) {
      throw Error(directory.string() + ": expected a directory of profiles");
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
  } else {
    names = built_in_names(folder);
  }
  std::erase_if(names,
                [&](const std::string& name) { return fs::path(name).extension() != extension; });
  return names;
}

std::vector<std::string> list_profiles(ProfileKind kind) {
  std::vector<std::string> names;
  for (const std::string& file : files_of_profiles(traits_of(kind).directory, ".json")) {
    names.push_back(fs::path(file).stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_unchanging(ProfileKind kind, const std::string& name_or_path) {
  return !profiles_directory() && has_profile(kind, name_or_path);
}

bool has_profile(ProfileKind kind, const std::string& name) {
  return !is_path(name) && is_there(shipped_file(kind, name));
}

bool is_model_folder(const std::string& name) {
  std::error_code ignored;
  return !is_path(name) && !name.empty() &&
         fs::is_regular_file(fs::path(name) / "config.json", ignored);
}

ProfileFile profile_file(ProfileKind kind, const std::string& name_or_path) {
  const KindTraits& traits = traits_of(kind);
  std::error_code ignored;
  if (is_path(name_or_path)) {
    fs::path path = name_or_path;
    if (kind != ProfileKind::kModel) {
      return {.path = path};
    }
    if (is_hub_name(name_or_path) && !fs::exists(fs::symlink_status(path, ignored))) {
      refuse_hub_name(name_or_path);
    }
    return {.path = fs::is_directory(path, ignored) ? path / "config.json" : path};
  }
  const std::optional<std::string> shipped = find_shipped(kind, name_or_path);
  if (!shipped && kind == ProfileKind::kModel && is_model_folder(name_or_path)) {
    return {.path = fs::path(name_or_path) / "config.json"};
  }
  const std::string name = shipped.value_or(name_or_path);
  if (!has_profile(kind, name)) {
    throw Error("unknown " + std::string(traits.noun) + ' ' + in_quotes(name) +
                did_you_mean(name, list_profiles(kind)) +
                (kind == ProfileKind::kCurve
                     ? " (profiles/" + std::string(traits.directory) + " holds all)"
                     : as_typed(" (`ptdp-plan list ") + std::string(traits.directory) +
                           "` shows all; a path to a .json file works too)"));
  }
  return shipped_file(kind, name);
}

}  // namespace ptdp
