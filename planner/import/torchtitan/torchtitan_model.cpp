// Models and configurations that torchtitan ships, by their names.
#include <algorithm>
#include <array>

#include "cost_model/inputs/catalog/catalog.h"
#include "planner/import/torchtitan/torchtitan.h"

namespace ptdp {
namespace {

/// A flavor of torchtitan, and the shipped model with its shape.
struct FlavorModel {
  std::string_view module;
  std::string_view flavor;
  const char* model;
};
/// Source: torchtitan 0.2.2 and 0.3.0, models/llama3, models/qwen3 and models/deepseek_v3; of
/// October 2024, models/llama/__init__.py, for llama2, whose vocabulary is the tokenizer's.
constexpr std::array kFlavorModels = {FlavorModel{"llama2", "7B", "llama-2-7b"},
                                      FlavorModel{"llama2", "13B", "llama-2-13b"},
                                      FlavorModel{"llama2", "70B", "llama-2-70b"},
                                      FlavorModel{"llama3", "8B", "llama-3-8b"},
                                      FlavorModel{"llama3", "70B", "llama-3-70b"},
                                      FlavorModel{"llama3", "405B", "llama-3.1-405b"},
                                      FlavorModel{"qwen3", "8B", "qwen3-8b"},
                                      FlavorModel{"qwen3", "32B", "qwen3-32b"},
                                      FlavorModel{"qwen3", "30B-A3B", "qwen3-30b-a3b"},
                                      FlavorModel{"qwen3", "235B-A22B", "qwen3-235b-a22b"},
                                      FlavorModel{"deepseek_v3", "671B", "deepseek-v3"}};

/// A function of a config_registry.py, and what it sets beyond torchtitan's defaults.
struct RegisteredConfig {
  std::string_view module;
  std::string_view config;
  std::string_view flavor;
  std::string_view settings;  ///< Pairs of key and value, each behind a blank.
};
/// Source: torchtitan 0.3.0, its functions called, and what differs from Trainer.Config() printed.
constexpr std::array kRegisteredConfigs = {
    RegisteredConfig{"llama3", "llama3_8b", "8B",
                     "training.local_batch_size 1 training.seq_len 8192"},
    RegisteredConfig{"llama3", "llama3_8b_mxfp8", "8B",
                     "training.local_batch_size 1 training.seq_len 8192 compile.enable true "
                     "model.converters quantize.linear.mx"},
    RegisteredConfig{"llama3", "llama3_70b", "70B",
                     "training.seq_len 8192 parallelism.tensor_parallel_degree 8 "
                     "activation_checkpoint.mode full"},
    RegisteredConfig{"llama3", "llama3_405b", "405B",
                     "training.local_batch_size 2 training.seq_len 8192 "
                     "parallelism.tensor_parallel_degree 8 compile.enable true "
                     "compile.enable_async_tensor_parallel true activation_checkpoint.mode full "
                     "model.converters quantize.linear.float8"},
    RegisteredConfig{"llama3", "llama3_debugmodel", "debugmodel",
                     "parallelism.pipeline_parallel_schedule Interleaved1F1B"},
    RegisteredConfig{"qwen3", "qwen3_0_6b", "0.6B",
                     "training.local_batch_size 4 training.seq_len 4096"},
    RegisteredConfig{"qwen3", "qwen3_1_7b", "1.7B",
                     "training.local_batch_size 4 training.seq_len 4096"},
    RegisteredConfig{"qwen3", "sft_qwen3_8b_math", "8B", "training.local_batch_size 1"},
    RegisteredConfig{"qwen3", "qwen3_14b", "14B",
                     "training.local_batch_size 4 training.seq_len 4096 "
                     "activation_checkpoint.mode full"},
    RegisteredConfig{"qwen3", "qwen3_32b", "32B",
                     "training.local_batch_size 2 training.seq_len 4096 "
                     "activation_checkpoint.mode full"},
    RegisteredConfig{"qwen3", "qwen3_30b_a3b", "30B-A3B",
                     "training.local_batch_size 2 training.seq_len 4096 "
                     "activation_checkpoint.mode full"},
    RegisteredConfig{"qwen3", "qwen3_debugmodel", "debugmodel", ""},
    RegisteredConfig{"deepseek_v3", "deepseek_v3_debugmodel", "debugmodel", ""},
    RegisteredConfig{"deepseek_v3", "deepseek_v3_16b", "16B",
                     "training.local_batch_size 4 training.seq_len 4096 "
                     "parallelism.pipeline_parallel_schedule Interleaved1F1B "
                     "parallelism.expert_parallel_degree 8"},
    RegisteredConfig{"deepseek_v3", "deepseek_v3_671b", "671B",
                     "training.local_batch_size 4 training.seq_len 4096 "
                     "parallelism.pipeline_parallel_schedule Interleaved1F1B "
                     "parallelism.expert_parallel_degree 2"},
    RegisteredConfig{"gpt_oss", "gpt_oss_20b", "20b",
                     "training.local_batch_size 1 training.seq_len 8192 "
                     "activation_checkpoint.mode full"},
    RegisteredConfig{"gpt_oss", "gpt_oss_120b", "120b",
                     "training.local_batch_size 1 training.seq_len 8192 "
                     "activation_checkpoint.mode full"},
    RegisteredConfig{"gpt_oss", "gpt_oss_debugmodel", "debugmodel",
                     "activation_checkpoint.mode none"}};

/// Returns a flavor without the kind of attention, which its name ends in.
std::string_view without_attention(std::string_view flavor) {
  for (const std::string_view kind : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"}) {
    if (flavor.ends_with(kind)) {
      return flavor.substr(0, flavor.size() - kind.size());
    }
  }
  return flavor;
}

}  // namespace

std::optional<TransformerConfig> torchtitan_flavor_model(std::string_view module,
                                                         std::string_view flavor) {
  const auto* const found = std::ranges::find_if(kFlavorModels, [&](const FlavorModel& row) {
    return row.module == module && row.flavor == without_attention(flavor);
  });
  if (found == kFlavorModels.end()) {
    return std::nullopt;
  }
  TransformerConfig model = find_model(found->model).config;
  if (module == "llama3") {  // which torchtitan stretches in all sizes, as Llama 3.1's
    model.rotary.scaling = RopeScaling::kLlama3;
    model.rotary.factor = 8.0;
    model.rotary.original_seq_length = 8192;
  }
  model.mtp_num_layers = 0;  // torchtitan trains DeepSeek-V3 without them unless code asks
  return model;
}

std::optional<DocumentSettings> torchtitan_registered(std::string_view module,
                                                      std::string_view config) {
  const auto* const found = std::ranges::find_if(
      kRegisteredConfigs,
      [&](const RegisteredConfig& row) { return row.module == module && row.config == config; });
  if (found == kRegisteredConfigs.end()) {
    return std::nullopt;
  }
  DocumentSettings settings = {{"model.name", {std::string(module)}},
                               {"model.flavor", {std::string(found->flavor)}}};
  std::string_view rest = found->settings;
  const auto take_word = [&] {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    std::string word(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return word;
  };
  while (!rest.empty()) {
    const std::string key = take_word();
    settings[key] = {take_word()};
  }
  return settings;
}

}  // namespace ptdp
