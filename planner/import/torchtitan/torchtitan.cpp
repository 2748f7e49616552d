#include "planner/import/torchtitan/torchtitan.h"

#include <algorithm>
#include <array>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/import/launched_program.h"
#include "planner/import/reader.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

/// Keys by which a file of torchtitan is known.
constexpr std::array<std::string_view, 24> kTellingKeys = {
    "job.config_file",
    "job.dump_folder",
    "model.flavor",
    "training.batch_size",
    "training.data_parallel_degree",
    "training.data_parallel_shard_degree",
    "training.global_batch_size",
    "training.local_batch_size",
    "training.seq_len",
    "training.tensor_parallel_degree",
    "experimental.context_parallel_degree",
    "experimental.pipeline_parallel_degree",
    "experimental.pipeline_parallel_schedule",
    "parallelism.context_parallel_degree",
    "parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree",
    "parallelism.expert_parallel_degree",
    "parallelism.fsdp_reshard_after_forward",
    "parallelism.pipeline_parallel_degree",
    "parallelism.pipeline_parallel_microbatch_size",
    "parallelism.pipeline_parallel_schedule",
    "parallelism.tensor_parallel_degree",
    "activation_checkpoint.mode",
    "compile.enable"};

/// Returns the telling keys as flags, in both spellings, and --module and --config.
const std::vector<std::string>& flag_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> flags = {"--module", "--config"};
    flags.reserve(2 + 2 * kTellingKeys.size());
    for (const std::string_view key : kTellingKeys) {
      std::string flag = "--" + std::string(key);
      flags.push_back(flag);
      std::ranges::replace(flag, '_', '-');
      flags.push_back(std::move(flag));
    }
    return flags;
  }();
  return texts;
}

/// Returns the model that the caller knows or that the settings name, at their length of sequences.
std::optional<TransformerConfig> flavored_model(const TorchtitanSettings& settings,
                                                const TorchtitanSource& source, ImportedRun& run) {
  const std::string module = settings.text("model.name").value_or("");
  const std::string flavor = settings.text("model.flavor").value_or("");
  const int length = settings.count("training.seq_len").value_or(2048);
  run.seq_length = length;
  auto model = torchtitan_flavor_model(module, flavor);
  if (!model) {
    run.missing = flavor.empty()
                      ? "the flavor of a model"
                      : "a shape for flavor " + in_quotes(flavor) + " of " + in_quotes(module);
    return source.file.model;
  }
  model->seq_length = length;
  run.model = resolved(*model, source.file.place);
  return source.file.model ? source.file.model : run.model;
}

ImportedRun read_settings(const TorchtitanSettings& settings, const TorchtitanSource& source,
                          std::vector<std::string> notes) {
  ImportedRun run{.framework = "torchtitan"};
  run.reading.notes = std::move(notes);
  const auto model = flavored_model(settings, source, run);
  read_torchtitan_degrees(settings, source, model, run);
  read_torchtitan_training(settings, source.is_command_line, run);
  if (settings.truth("fault_tolerance.enable")) {
    run.reading.notes.emplace_back("fault_tolerance: replicas beside the run are not costed");
  }
  list_unread(settings.unread(), is_torchtitan_of_the_stack, is_torchtitan_without_effect,
              run.reading);
  return run;
}

/// Returns what a command line says beside its file that matters, for people: "a.b = 1, a.c = 2".
std::string beside_the_file(const DocumentSettings& said) {
  std::string text;
  for (const auto& [key, values] : said) {
    if (is_torchtitan_without_effect(key)) {
      continue;
    }
    text += (text.empty() ? "" : ", ") + key + " =";
    for (const std::string& value : values) {
      text += " " + value;
    }
  }
  return text;
}

ImportedRun read_command_line(const RunFile& file) {
  std::vector<std::string_view> known(flag_texts().begin(), flag_texts().end());
  const LaunchedProgram program = find_program(file.text, known, file.place, 1);
  const DocumentSettings said = torchtitan_words(program.words);
  const auto value = [&](const char* key) {
    const auto found = said.find(key);
    if (found == said.end() || found->second.empty()) {
      return std::string();
    }
    std::string word = without_unset(found->second.front());
    if (const auto part = unknown_part(word)) {
      throw Error(file.place + ": --" + key + ": needs the output of " + *part);
    }
    return word;
  };
  const std::string more = beside_the_file(said);
  if (const std::string toml = value("job.config_file"); !toml.empty()) {
    throw Error(file.place + ": --job.config_file: the run is in " + in_quotes(toml) +
                ", which is not read from here; expected --from with that file" +
                (more.empty() ? "" : ", and there the script's " + more));
  }
  const std::string module = value("module");
  const std::string config = value("config");
  if (module.empty() || config.empty()) {
    throw Error(file.place +
                ": no --module and --config of torchtitan 0.3, and no "
                "--job.config_file; expected --from with the TOML file that it runs");
  }
  const std::size_t dot = module.rfind('.');
  auto base = torchtitan_registered(
      std::string_view(module).substr(dot == std::string::npos ? 0 : dot + 1), config);
  std::vector<std::string> notes = program.notes;
  if (!base) {
    if (!said.contains("training.local_batch_size")) {
      throw Error(file.place + ": --config " + config + " of --module " + module +
                  " is not known; expected --training.local_batch_size too");
    }
    notes.push_back("--config " + config + " of --module " + module +
                    " is not known: what the flags do not say has torchtitan's defaults");
  }
  DocumentSettings merged = std::move(base).value_or(DocumentSettings());
  for (const auto& [key, values] : said) {
    merged[key] = values;
  }
  const TorchtitanSource source{
      .file = file, .gpus = file.gpus.value_or(program.gpus), .is_command_line = true};
  return read_settings(TorchtitanSettings(std::move(merged), file.place), source, std::move(notes));
}

}  // namespace

bool is_torchtitan(const RunFile& file) {
  if (file.settings) {
    const DocumentSettings& settings = *file.settings;
    const auto count = std::ranges::count_if(
        kTellingKeys, [&](std::string_view key) { return settings.contains(key); });
    return count > 1 || settings.contains("model.flavor");  // one key may be anybody's
  }
  for (const std::string_view mark :
       {"torchtitan.train", "torchtitan/train.py", "--job.config_file", "--job.config-file",
        "--training.local_batch_size", "--training.local-batch-size", "--parallelism."}) {
    if (file.text.find(mark) != std::string_view::npos) {
      return true;
    }
  }
  const auto has_flag = [&](std::string_view flag) {
    return file.text.find(flag) != std::string_view::npos;
  };
  return has_flag("--module") && has_flag("--config");
}

ImportedRun read_torchtitan(const RunFile& file) {
  if (!file.settings) {
    return read_command_line(file);
  }
  const TorchtitanSource source{.file = file, .gpus = file.gpus.value_or(0)};
  return read_settings(TorchtitanSettings(*file.settings, file.place), source, {});
}

}  // namespace ptdp
