#include "tools/run/huggingface_directories.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/huggingface/huggingface_writer.h"
#include "cost_model/text/in_quotes.h"
#include "runtime/weights/huggingface_tensors.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Throws Error when a directory has weights, which an export would mix with its own.
void check_has_no_weights(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
      throw Error("--export: " + in_quotes(directory.string()) + " has weights, " +
                  in_quotes(name) + "; expected a directory without any");
    }
  }
}

/// Returns the type that says the model: the one that was loaded, or the first that can.
std::string type_of(const TransformerConfig& model, const PretrainedWeights* loaded) {
  if (loaded != nullptr) {
    return loaded->type();
  }
  std::string nearest;
  for (const std::string& type : huggingface_weight_types()) {
    const auto unsaid = unsaid_in_huggingface_config(model, type);
    if (!unsaid) {
      return type;
    }
    nearest += (nearest.empty() ? "" : "; ") + type + " has " + unsaid->field + " " +
               unsaid->expected + ", not " + unsaid->found;
  }
  throw Error("--export: no type of transformers computes this model: " + nearest);
}

}  // namespace

std::optional<PretrainedWeights> open_weights(const CommandLine& line, const PreparedRun& run) {
  const auto directory = line.text("load");
  if (!directory) {
    return std::nullopt;
  }
  for (const char* flag : {"shrink", "rehearse"}) {
    if (line.has(flag)) {
      throw Error(std::string("--load: expected without --") + flag +
                  ", whose layers are not those of the plan");
    }
  }
  return PretrainedWeights(*directory, run.settings.model);
}

std::optional<WeightsExport> parse_export(const CommandLine& line, const PreparedRun& run,
                                          const PretrainedWeights* loaded) {
  const auto directory = line.text("export");
  if (!directory) {
    return std::nullopt;
  }
  for (const char* flag : {"shrink", "rehearse"}) {
    if (line.has(flag)) {
      throw Error(std::string("--export: expected without --") + flag +
                  ", whose layers are not those of the plan");
    }
  }
  check_has_no_weights(*directory);
  TransformerConfig model = run.settings.model;
  if (loaded != nullptr && model.position_embedding != PositionEmbedding::kLearned) {
    model.seq_length = loaded->model().seq_length;  // Training did not make it forget positions.
  }
  std::string type = type_of(model, loaded);
  std::string config = huggingface_config(model, type);
  return WeightsExport{.directory = *directory,
                       .type = std::move(type),
                       .model = std::move(model),
                       .config = std::move(config),
                       .stored = run.settings.type};
}

}  // namespace ptdp
