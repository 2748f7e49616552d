// Commands of Megatron-Bridge's scripts: flags, and overrides of its configuration.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "planner/import/bridge/bridge_settings.h"
#include "planner/import/bridge/python_values.h"
#include "planner/import/launched_program.h"
#include "planner/import/shell/shell_expansion.h"

namespace ptdp {
namespace {

/// A flag of scripts/performance or scripts/training, and the path that it sets.
struct ScriptFlag {
  std::string_view brief;
  std::string_view full;
  std::string_view path;
};
constexpr std::array kScriptFlags = {
    ScriptFlag{"-tp", "--tensor_model_parallel_size", "model.tensor_model_parallel_size"},
    ScriptFlag{"-pp", "--pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
    ScriptFlag{"-vp", "--virtual_pipeline_model_parallel_size",
               "model.virtual_pipeline_model_parallel_size"},
    ScriptFlag{"-cp", "--context_parallel_size", "model.context_parallel_size"},
    ScriptFlag{"-ep", "--expert_model_parallel_size", "model.expert_model_parallel_size"},
    ScriptFlag{"-et", "--expert_tensor_parallel_size", "model.expert_tensor_parallel_size"},
    ScriptFlag{"-etp", "--expert_tensor_parallel_size", "model.expert_tensor_parallel_size"},
    ScriptFlag{"-mb", "--micro_batch_size", "train.micro_batch_size"},
    ScriptFlag{"-gb", "--global_batch_size", "train.global_batch_size"},
    ScriptFlag{"-sl", "--seq_length", "model.seq_length"},
    ScriptFlag{"-ng", "--num_gpus", "gpus"},
    ScriptFlag{"-gn", "--gpus_per_node", "gpus per node"},
    ScriptFlag{"", "--nodes", "nodes"},
    ScriptFlag{"-c", "--compute_dtype", "mixed_precision"},
    ScriptFlag{"", "--num_layers", "model.num_layers"},
    ScriptFlag{"", "--hidden_size", "model.hidden_size"},
    ScriptFlag{"", "--num_moe_experts", "model.num_moe_experts"},
    ScriptFlag{"", "--pipeline_model_parallel_layout", "model.pipeline_model_parallel_layout"},
    ScriptFlag{"", "--recompute_modules", "model.recompute_modules"},
    ScriptFlag{"", "--recompute_num_layers", "model.recompute_num_layers"},
    ScriptFlag{"", "--activation_offload_layers", "model.cpu_offloading_num_layers"},
    ScriptFlag{"", "--use_megatron_fsdp", "ddp.use_megatron_fsdp"}};

/// What --compute_dtype stands for, in mixed_precision.py.
struct ComputeType {
  std::string_view name;
  std::string_view recipe;
};
constexpr std::array kComputeTypes = {
    ComputeType{"bf16", "bf16_mixed"}, ComputeType{"fp8_cs", "bf16_with_fp8_current_scaling_mixed"},
    ComputeType{"fp8_mx", "bf16_with_mxfp8_mixed"},
    ComputeType{"fp8_sc", "bf16_with_fp8_subchannel_scaling_mixed"},
    ComputeType{"nvfp4", "bf16_with_nvfp4_mixed"}};

/// Groups of a ConfigContainer, by which an override is told from other words.
constexpr auto kGroups = std::to_array<std::string_view>({"model",
                                                          "train",
                                                          "ddp",
                                                          "dist",
                                                          "optimizer",
                                                          "mixed_precision",
                                                          "comm_overlap",
                                                          "dataset",
                                                          "tokenizer",
                                                          "checkpoint",
                                                          "logger",
                                                          "scheduler",
                                                          "rng",
                                                          "validation",
                                                          "profiling",
                                                          "peft",
                                                          "env_vars",
                                                          "rerun_state_machine",
                                                          "ft",
                                                          "straggler",
                                                          "nvrx_straggler",
                                                          "inprocess_restart",
                                                          "tensor_inspect",
                                                          "trainer"});

bool is_script_flag(std::string_view word) {
  const std::size_t dashes = word.starts_with("--") ? 2 : 1;
  return word.starts_with('-') && word.size() > dashes &&
         std::isalpha(static_cast<unsigned char>(word[dashes])) != 0;
}

/// An override of Hydra's: "++model.num_layers=4".
struct Override {
  std::string path;
  std::string value;
};
std::optional<Override> as_override(std::string_view word) {
  const std::size_t begin = std::min(word.find_first_not_of("+~"), word.size());
  const std::size_t equals = word.find('=', begin);
  if (equals == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view path = word.substr(begin, equals - begin);
  const std::string_view group = path.substr(0, path.find('.'));
  if (std::ranges::find(kGroups, group) == kGroups.end()) {
    return std::nullopt;
  }
  return Override{std::string(path), std::string(word.substr(equals + 1))};
}

/// Returns the path that a flag sets, or the flag itself. Newer scripts take "-" for "_".
std::string path_of_flag(std::string_view flag) {
  std::string name(flag);
  std::replace(name.begin() + 2, name.end(), '-', '_');
  for (const ScriptFlag& row : kScriptFlags) {
    if (name == row.full || (!row.brief.empty() && name == row.brief)) {
      return std::string(row.path);
    }
  }
  return name;
}

/// Splits a program's words into flags and overrides; what belongs to neither is passed over.
struct Words {
  DocumentSettings flags;
  DocumentSettings overrides;
};
Words sorted_words(const std::vector<std::string>& words) {
  Words result;
  std::string last;
  for (const std::string& word : words) {
    if (is_script_flag(word)) {
      const std::size_t equals = word.find('=');
      last = path_of_flag(word.substr(0, equals));
      result.flags[last].clear();
      if (equals != std::string::npos) {
        result.flags[last].push_back(word.substr(equals + 1));
      }
    } else if (const auto given = as_override(word)) {
      last.clear();
      set_override_value(given->path, given->value, result.overrides);
    } else if (!last.empty()) {
      result.flags[last].push_back(word);
    }
  }
  return result;
}

std::int64_t taken_count(DocumentSettings& settings, std::string_view key) {
  const auto found = settings.find(key);
  std::int64_t number = 0;
  if (found != settings.end() && found->second.size() == 1) {
    const std::string& word = found->second.front();
    std::from_chars(word.data(), word.data() + word.size(), number);
  }
  if (found != settings.end()) {
    settings.erase(found);
  }
  return number;
}

/// Returns whether flags are those of scripts/performance, which set more than one path each.
bool are_of_performance(const DocumentSettings& flags) {
  return std::ranges::any_of(
      std::array{"-m", "--model_family_name", "-mr", "--model_recipe_name", "gpus"},
      [&](const char* flag) { return flags.contains(flag); });
}

/// Puts what the scripts make of some flags in the flags' place.
void follow_flags(DocumentSettings& flags, BridgeFile& file) {
  const auto tp = flags.find("model.tensor_model_parallel_size");
  if (tp != flags.end() && tp->second.size() == 1 && are_of_performance(flags)) {
    flags["model.sequence_parallel"] = {tp->second.front() == "1" ? "false" : "true"};
    file.notes.emplace_back("-tp sets sequence parallelism too, as scripts/performance has it");
  }
  const auto chunks = flags.find("model.virtual_pipeline_model_parallel_size");
  if (chunks != flags.end() && chunks->second == std::vector<std::string>{"None"}) {
    flags.erase(chunks);
  }
  if (flags.contains("model.cpu_offloading_num_layers")) {
    flags["model.cpu_offloading"] = {"true"};
  }
  if (flags.contains("model.recompute_modules")) {
    flags["model.recompute_granularity"] = {"selective"};
  } else if (flags.contains("model.recompute_num_layers")) {
    flags["model.recompute_granularity"] = {"full"};
    flags["model.recompute_method"] = {"block"};
  }
  if (const auto fsdp = flags.find("ddp.use_megatron_fsdp"); fsdp != flags.end()) {
    fsdp->second = {fsdp->second.empty() ? "true" : fsdp->second.front()};
  }
  const auto precision = flags.find("mixed_precision");
  if (precision != flags.end() && precision->second.size() == 1) {
    const auto* row =
        std::ranges::find(kComputeTypes, precision->second.front(), &ComputeType::name);
    if (row != kComputeTypes.end()) {
      precision->second = {std::string(row->recipe)};
    }
  }
  const std::int64_t nodes = taken_count(flags, "nodes");
  const std::int64_t per_node = taken_count(flags, "gpus per node");
  const std::int64_t gpus = taken_count(flags, "gpus");
  constexpr std::int64_t most = 1 << 30;
  if (gpus > 0 || (nodes > 0 && per_node > 0 && nodes < most && per_node < most)) {
    file.gpus = gpus > 0 ? gpus : nodes * per_node;
  }
}

std::string first_of(const DocumentSettings& settings, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = settings.find(key);
    if (found != settings.end() && !found->second.empty()) {
      return found->second.front();
    }
  }
  return "";
}

}  // namespace

const std::vector<std::string_view>& bridge_telling_words() {
  static const std::vector<std::string_view> words = [] {
    std::vector<std::string_view> result = {"train.train_iters",
                                            "model.sequence_parallel",
                                            "dataset.seq_length",
                                            "dataset.sequence_length",
                                            "ddp.use_megatron_fsdp",
                                            "ddp.use_distributed_optimizer",
                                            "model.recompute_granularity",
                                            "checkpoint.save",
                                            "optimizer.lr",
                                            "--model_recipe_name",
                                            "--recipe"};
    for (const ScriptFlag& row : kScriptFlags) {
      if (row.brief.size() > 2) {
        result.push_back(row.brief);
      }
      if (row.path.find('.') != std::string_view::npos) {
        result.push_back(row.full);
        result.push_back(row.path);
      }
    }
    return result;
  }();
  return words;
}

BridgeFile bridge_program(std::string_view text, const std::string& place) {
  const LaunchedProgram program = find_program(text, bridge_telling_words(), place);
  if (program.is_dump) {
    throw Error(place + ": a log's list of arguments is Megatron-LM's");
  }
  BridgeFile file{.gpus = program.gpus, .notes = program.notes};
  Words words = sorted_words(program.words);
  // scripts/performance applies its flags after the overrides, scripts/training before them.
  const bool flags_win = are_of_performance(words.flags);
  follow_flags(words.flags, file);
  file.settings = std::move(words.overrides);
  for (auto& [path, values] : words.flags) {
    if (flags_win || !file.settings.contains(path)) {
      file.settings[path] = std::move(values);
    }
  }
  file.recipe = without_unset(
      first_of(file.settings, {"--recipe", "--model_recipe_name", "-mr", "--model", "--hf_path"}));
  join_bridge_lists(file.settings);
  return file;
}

}  // namespace ptdp
