#include "tools/run/run_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "cost_model/inputs/huggingface/huggingface_writer.h"
#include "cost_model/text/in_quotes.h"
#include "runtime/weights/carried_files.h"
#include "runtime/weights/huggingface_tensors.h"

namespace ptdp {
namespace {

/// Returns the line for a job that was queued again after its end: "nothing to do:
/// kept/step-00000008 is of step 8, and --steps 8 is the training's length". Such a job keeps the
/// report that it has.
std::string nothing_to_do(const CommandLine& line, const Checkpoint& checkpoint,
                          std::int64_t steps) {
  const auto report = line.text("output");
  return fmt::format("nothing to do: {} is of step {}, and --steps {} is the training's length{}",
                     checkpoint.path().string(), checkpoint.state().step, steps,
                     report ? "; " + in_quotes(*report) + " is not written" : "");
}

/// Throws Error for a run whose layers are not those of the plan.
void check_is_not_shrunk(const CommandLine& line, const std::string& flag) {
  if (line.has("shrink")) {
    throw Error("--" + flag + ": expected without --shrink, whose layers are not the plan's");
  }
}

/// Throws Error when a directory has weights, which an export would mix with its own.
void check_has_no_weights(const std::filesystem::path& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
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

/// Returns the files that an export has beside its weights. Those of a tokenizer are read before
/// training, so that a directory that is gone at the end takes no weights with it.
std::vector<FileContent> files_beside_weights(const TransformerConfig& model,
                                              const std::string& type,
                                              const PretrainedWeights* loaded) {
  FileContent config{.path = "config.json", .content = huggingface_config(model, type)};
  std::vector<FileContent> files;
  if (loaded != nullptr) {
    config.content = with_tokens_of(read_file(loaded->directory() / "config.json"), config.content);
    files = read_carried_files(loaded->directory());
  }
  files.push_back(std::move(config));
  return files;
}

}  // namespace

std::optional<Checkpoint> open_checkpoint(const CommandLine& line) {
  const auto directory = line.text("resume");
  if (!directory) {
    return std::nullopt;
  }
  std::error_code error;
  const auto to = line.text("save");
  if (to && std::filesystem::equivalent(*directory, *to, error) &&
      !Checkpoint::newest_step(*directory)) {
    return std::nullopt;
  }
  return Checkpoint::open(*directory);
}

void leave_done_steps(RunRequest& request, std::int64_t done) {
  request.steps = std::max<std::int64_t>(request.steps - done, 0);
  request.warm_up = std::clamp<std::int64_t>(request.steps - 1, 0, request.warm_up);
}

std::vector<std::string> describe_start(const CommandLine& line, const RunRequest& request,
                                        const std::optional<Checkpoint>& resumed) {
  const auto directory = line.text("resume");
  if (!directory) {
    return {};
  }
  if (!resumed) {
    return {*directory + ": no checkpoint yet, beginning at step 0"};
  }
  std::vector<std::string> lines;
  for (const std::string& fault : resumed->passed_over()) {
    lines.push_back(fault + "; passed over");
  }
  const TrainingState& state = resumed->state();
  if (request.steps == 0) {
    lines.push_back(nothing_to_do(line, *resumed, request.training_steps));
    return lines;
  }
  if (!line.has("quiet") || !lines.empty()) {
    lines.push_back(fmt::format("going on from step {} of {}: {}", state.step,
                                state.step + request.steps, resumed->path().string()));
  }
  const std::int64_t decay_steps = request.learning_rate.decay_steps;
  if (state.decay_steps > 0 && state.decay_steps != decay_steps) {
    lines.push_back(
        fmt::format("the learning rate comes to its lowest at step {}; in the run that saved this "
                    "checkpoint it was to do so at step {} (--lr-decay, or else --steps)",
                    decay_steps, state.decay_steps));
  }
  return lines;
}

std::optional<PretrainedWeights> open_weights(const CommandLine& line, const PreparedRun& run) {
  const auto directory = line.text("load");
  if (!directory) {
    return std::nullopt;
  }
  check_is_not_shrunk(line, "load");
  return PretrainedWeights(*directory, run.settings.model);
}

std::optional<WeightsExport> parse_export(const CommandLine& line, const PreparedRun& run,
                                          const PretrainedWeights* loaded) {
  const auto directory = line.text("export");
  if (!directory) {
    return std::nullopt;
  }
  check_is_not_shrunk(line, "export");
  check_has_no_weights(*directory);
  TransformerConfig model = run.settings.model;
  if (loaded != nullptr && model.position_embedding != PositionEmbedding::kLearned) {
    model.seq_length = loaded->model().seq_length;  // Training did not make it forget positions.
  }
  const std::string type = type_of(model, loaded);
  return WeightsExport{.directory = *directory,
                       .type = type,
                       .model = model,
                       .others = files_beside_weights(model, type, loaded),
                       .stored = run.settings.type};
}

}  // namespace ptdp
