#include "cost_model/inputs/catalog/catalog.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/huggingface/huggingface_config.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns a model's name from the path of its file: the folder's name if the file is called
/// config.json, as downloads are. Characters but letters, digits and `._+-`
/// become hyphens, as does a leading dot.
std::string name_of_config(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const bool is_usual = whole.filename() == "config.json";
  std::string name = (is_usual ? whole.parent_path().filename() : whole.stem()).string();
  for (char& letter : name) {
    const bool is_safe = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                         (letter >= '0' && letter <= '9') ||
                         std::string_view("._+-").find(letter) != std::string_view::npos;
    letter = is_safe ? letter : '-';
  }
  if (name.starts_with('.')) {
    name.front() = '-';
  }
  return name.empty() ? "config" : name;
}

ModelProfile huggingface_profile(ObjectReader& reader, const fs::path& path) {
  HuggingfaceModel model = read_huggingface_model(reader);
  ModelProfile profile{.name = name_of_config(path),
                       .source = "config.json of Hugging Face transformers",
                       .config = std::move(model.config),
                       .assumptions = std::move(model.assumptions),
                       .warnings = std::move(model.warnings)};
  profile.longest_sequence = profile.config.seq_length;
  if (profile.config.position_embedding != PositionEmbedding::kLearned) {
    profile.config.seq_length = std::min(profile.config.seq_length, kUsualSequence);
  }
  return profile;
}

ModelProfile read_model(ObjectReader& reader) {
  ModelProfile profile;
  reader.schema(schema_of(ProfileKind::kModel));
  reader.name("name", profile.name);
  reader.text("source", profile.source);
  reader.count("global_batch_size", profile.global_batch_size, 1, 1'000'000'000);
  if (reader.has("home")) {
    reader.name("home", profile.home);
  }
  describe(reader, profile.config);
  if (!reader.has("attention_dropout")) {
    profile.config.dropout_rates.attention = kUsualDropoutRates.attention;
  }
  reader.finish();
  profile.config = resolved(profile.config, reader.place_of(profile.name));
  return profile;
}

}  // namespace

ModelProfile find_model(const std::string& name_or_path) {
  const ProfileFile file = profile_file(ProfileKind::kModel, name_or_path);
  ObjectReader reader = file.object();
  if (is_huggingface_config(reader)) {
    return huggingface_profile(reader, file.path);
  }
  if (!reader.has("schema")) {
    throw Error(file.path.string() +
                ": schema: missing, as is the model_type of a config.json of Hugging Face");
  }
  return read_model(reader);
}

ClusterSpec find_cluster(const std::string& name_or_path) {
  return read_profile<ClusterSpec>(ProfileKind::kCluster, name_or_path);
}

std::string cluster_file(const ClusterSpec& cluster) {
  ObjectWriter json;
  json.schema(schema_of(ProfileKind::kCluster));
  describe(json, cluster);
  return json.dump();
}

StackSpec find_stack(const std::string& name_or_path) {
  return read_profile<StackSpec>(ProfileKind::kStack, name_or_path);
}

}  // namespace ptdp
