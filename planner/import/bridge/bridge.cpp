#include "planner/import/bridge/bridge.h"

#include <algorithm>
#include <array>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

BridgeFile bridge_file(const RunFile& file) {
  if (file.settings) {
    return bridge_yaml(*file.settings);
  }
  return is_bridge_python(file.text) ? bridge_python(file.text, file.place)
                                     : bridge_program(file.text, file.place);
}

/// Refuses adapters: ptdp costs the training of all weights.
void refuse_adapters(const FlagList& paths, const BridgeFile& file) {
  constexpr std::string_view why = "expected the training of all weights, got adapters: ";
  for (const std::string& path : paths.unread()) {
    if (path == "peft" || path.starts_with("peft.") || path.starts_with("--peft")) {
      paths.refuse(path, std::string(why) + "they are not costed");
    }
  }
  for (const char* flag : {"--task", "--mode"}) {
    const std::string task = paths.text(flag).value_or("");
    if (task == "peft" || task == "lora" || task == "dora") {
      paths.refuse(flag, std::string(why) + in_quotes(task));
    }
  }
  if (file.recipe.find("_peft") != std::string::npos) {
    paths.refuse("--recipe", std::string(why) + in_quotes(file.recipe));
  }
}

/// Sets the number of GPUs, dp and the batch.
void read_bridge_batch(const FlagList& paths, std::int64_t gpus, const std::string& place,
                       ImportedRun& run) {
  divide_gpus(gpus, place, run);
  ParallelConfig& config = run.config;
  const auto size = paths.count("train.micro_batch_size");
  const auto batch = paths.count("train.global_batch_size");
  if (!size || !batch) {
    throw Error(place + ": train." + (size ? "global" : "micro") + "_batch_size is missing");
  }
  config.micro_batch_size = *size;
  run.global_batch_size = *batch;
  if (paths.has("train.rampup_batch_size")) {
    run.reading.notes.emplace_back("train.rampup_batch_size: the full batch is costed");
  }
}

/// Reads the sequence length. Where data and model differ, the data's counts.
void read_length(const FlagList& paths, ImportedRun& run) {
  const auto of_model = paths.count("model.seq_length");
  run.seq_length = of_model;
  for (const std::string path : {"dataset.seq_length", "dataset.sequence_length"}) {
    const auto of_data = paths.count(path);
    if (of_data && of_model && *of_data != *of_model) {
      run.reading.notes.push_back(path + " " + std::to_string(*of_data) +
                                  " counts; model.seq_length is " + std::to_string(*of_model));
    }
    run.seq_length = of_data ? of_data : run.seq_length;
  }
}

/// Says what a recipe has and the file does not. Throws Error if the file says no degree at all.
void note_recipe(const FlagList& paths, const BridgeFile& file, const std::string& place,
                 ImportedRun& run) {
  if (file.has_whole_model) {
    return;
  }
  constexpr auto degrees = std::to_array<const char*>(
      {"model.tensor_model_parallel_size", "model.pipeline_model_parallel_size",
       "model.context_parallel_size", "model.expert_model_parallel_size"});
  if (std::ranges::none_of(degrees, [&](const char* path) { return paths.has(path); })) {
    throw Error(place + ": says no degree, and the recipe that does is not read; expected " +
                degrees.front());
  }
  const std::string name = file.recipe.empty() ? "a recipe" : file.recipe;
  std::string left;
  for (const char* path : {"model.tensor_model_parallel_size", "model.pipeline_model_parallel_size",
                           "model.virtual_pipeline_model_parallel_size",
                           "model.context_parallel_size", "model.expert_model_parallel_size",
                           "model.sequence_parallel", "model.recompute_granularity"}) {
    left += paths.has(path) ? "" : (left.empty() ? "" : ", ") + std::string(path);
  }
  if (!left.empty()) {
    run.reading.notes.push_back(
        "starts from " + name +
        ", which is not read; taken as Megatron-Bridge's defaults: " + left);
  }
}

/// Says which parts of a recipe's model the file changes. The model itself is --model's.
void note_changes_of_model(const FlagList& paths, ReadingNotes& reading) {
  std::string changes;
  for (const std::string& path : paths.unread()) {
    if (is_bridge_shape(path)) {
      (void)paths.has(path);
      changes += (changes.empty() ? "" : ", ") + path;
    }
  }
  if (!changes.empty()) {
    reading.notes.push_back("changes a model that is not read; --model must have it: " + changes);
  }
}

void list_what_is_left(const FlagList& paths, bool is_dump, ReadingNotes& reading) {
  if (is_dump) {
    reading.notes.emplace_back(
        "the file names every field; those that are not read are not listed here");
    return;
  }
  list_unread(paths.unread(), is_bridge_of_the_stack, is_bridge_without_effect, reading);
}

}  // namespace

bool is_bridge(const RunFile& file) {
  if (file.settings) {
    return has_bridge_paths(*file.settings);
  }
  if (is_bridge_python(file.text)) {
    return true;
  }
  try {
    return has_bridge_paths(bridge_program(file.text, file.place).settings);
  } catch (const Error&) {
    return false;  // no command of Bridge's, or one that its reader refuses as another does
  }
}

ImportedRun read_bridge(const RunFile& file) {
  const std::string& place = file.place;
  BridgeFile bridge = bridge_file(file);
  FlagList paths(std::move(bridge.settings), place);
  if (file.vocab_size && !paths.has("tokenizer.vocab_size")) {
    paths.set("tokenizer.vocab_size", {std::to_string(*file.vocab_size)});
  }
  ImportedRun run{.framework = "Megatron-Bridge"};
  run.reading.notes = bridge.notes;
  refuse_adapters(paths, bridge);
  note_optimizer(paths.text("optimizer.optimizer"), run.reading);
  TransformerConfig model;
  if (bridge.has_whole_model) {
    model = bridge_model(paths, run.missing);
  } else {
    run.missing = "the model of " +
                  (bridge.recipe.empty() ? "the recipe that it changes" : in_quotes(bridge.recipe));
    note_changes_of_model(paths, run.reading);
    model.num_layers = paths.count("model.num_layers").value_or(0);
  }
  read_length(paths, run);
  if (run.missing.empty()) {
    model.seq_length = run.seq_length.value_or(model.seq_length);
    run.model = resolved(model, place);
    run.seq_length = run.model->seq_length;
  }
  note_recipe(paths, bridge, place, run);
  read_bridge_config(paths, bridge, model, run);
  run.precision = bridge_precision(paths, bridge, run.reading);
  read_bridge_batch(paths, file.gpus.value_or(bridge.gpus), place, run);
  list_what_is_left(paths, bridge.is_dump, run.reading);
  return run;
}

}  // namespace ptdp
