#include "planner/import/reader.h"

#include <filesystem>

#include "cost_model/error.h"

namespace ptdp {
namespace {

std::optional<DocumentSettings> settings_of(std::string_view text, const std::string& place) {
  const std::string extension = std::filesystem::path(place).extension().string();
  if (extension == ".yaml" || extension == ".yml") {
    return yaml_settings(text, place);
  }
  if (extension == ".toml") {
    return toml_settings(text, place);
  }
  if (extension == ".json") {
    return json_settings(text, place);
  }
  return std::nullopt;
}

}  // namespace

ImportedRun read_run(std::string_view text, const std::string& place,
                     std::optional<std::int64_t> gpus,
                     const std::optional<TransformerConfig>& model,
                     std::optional<std::int64_t> vocab_size) {
  const RunFile file{.text = text,
                     .place = place,
                     .settings = settings_of(text, place),
                     .gpus = gpus,
                     .model = model,
                     .vocab_size = vocab_size};
  std::string known;
  for (const RunReader& reader : kRunReaders) {
    if (reader.recognizes(file)) {
      ImportedRun run = reader.read(file);
      run.place = place;
      if (vocab_size && run.model && run.model->vocab_size != *vocab_size) {
        throw Error(place + ": says a vocabulary of " + std::to_string(run.model->vocab_size) +
                    ": expected no other --vocab-size, got " + std::to_string(*vocab_size));
      }
      return run;
    }
    known += (known.empty() ? "" : "; ") + std::string(reader.name);
  }
  throw Error(place + ": no run of a framework that is known: expected one of " + known);
}

}  // namespace ptdp
