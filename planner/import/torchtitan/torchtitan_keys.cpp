// Keys of torchtitan: how files and command lines spell them, and which ones the reader passes
// over.
#include <algorithm>
#include <array>

#include "planner/import/torchtitan/torchtitan.h"

namespace ptdp {
namespace {

constexpr std::string_view kStagesKey = "parallelism.module_fqns_per_model_part";
constexpr std::string_view kRecomputationWord = "activation_checkpoint:";

/// A key, and what it was called before.
struct FormerKey {
  std::string_view key;
  std::string_view former;
};
/// Source: torchtitan of October 2024 to April 2025, config_manager.py.
constexpr std::array kFormerKeys = {
    FormerKey{"training.local_batch_size", "training.batch_size"},
    FormerKey{"parallelism.data_parallel_replicate_degree",
              "training.data_parallel_replicate_degree"},
    FormerKey{"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree"},
    FormerKey{"parallelism.data_parallel_shard_degree", "training.data_parallel_degree"},
    FormerKey{"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"},
    FormerKey{"parallelism.fsdp_reshard_after_forward", "training.fsdp_reshard_after_forward"},
    FormerKey{"parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree"},
    FormerKey{"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"},
    FormerKey{"parallelism.pipeline_parallel_schedule_csv",
              "experimental.pipeline_parallel_schedule_csv"},
    FormerKey{"parallelism.pipeline_parallel_split_points",
              "experimental.pipeline_parallel_split_points"},
    FormerKey{"parallelism.context_parallel_degree", "experimental.context_parallel_degree"},
    FormerKey{"parallelism.context_parallel_rotate_method",
              "experimental.context_parallel_rotate_method"},
    FormerKey{"compile.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    FormerKey{"compile.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"},
    FormerKey{"compile.enable", "training.compile"},
    FormerKey{"quantize.linear.float8.recipe_name", "float8.recipe_name"},
    FormerKey{"quantize.linear.mx.recipe_name", "mx.recipe_name"}};

/// Beginnings of keys about data, checkpoints, logs and learning.
constexpr std::array<std::string_view, 40> kPassedOver = {"job.",
                                                          "profiling.",
                                                          "profiler.",
                                                          "metrics.",
                                                          "optimizer.",
                                                          "lr_scheduler.",
                                                          "checkpoint.",
                                                          "comm.",
                                                          "memory_estimation.",
                                                          "validation.",
                                                          "validator.",
                                                          "debug.",
                                                          "dataloader.",
                                                          "override.",
                                                          "loss.",
                                                          "fault_tolerance.",
                                                          "dump_folder",
                                                          "hf_assets_path",
                                                          "tokenizer",
                                                          "experimental.custom_",
                                                          "model.hf_assets_path",
                                                          "model.name",
                                                          "model.print_",
                                                          "model.tokenizer",
                                                          "parallelism.context_parallel_ptrr",
                                                          "training.dataloader.",
                                                          "training.data_parallel_type",
                                                          "training.dataset",
                                                          "training.gc_",
                                                          "training.max_norm",
                                                          "training.seed",
                                                          "training.steps",
                                                          "training.warmup_steps",
                                                          "activation_checkpoint.debug",
                                                          "activation_checkpoint.determinism",
                                                          "activation_checkpoint.memory_budget",
                                                          "activation_checkpoint.preserve",
                                                          "activation_checkpoint.visualize",
                                                          "module",
                                                          "config"};

/// Beginnings of keys about kernels, their compilation and formats of messages.
constexpr std::array<std::string_view, 25> kKernels = {
    "compile.",
    "float8.",
    "mx.",
    "quantize.",
    "activation_checkpoint.early_stop",
    "activation_checkpoint.force_recompute",
    "activation_checkpoint.per_op",
    "comm.mode",
    "experimental.enable_compiled_autograd",
    "experimental.enable_async",
    "model.attn_mask_type",
    "model.norm_type",
    "model.use_flex_attn",
    "parallelism.context_parallel_load_balancer",
    "parallelism.disable_loss_parallel",
    "parallelism.enable_async",
    "parallelism.enable_compiled_autograd",
    "parallelism.enable_fsdp_symm_mem",
    "parallelism.pipeline_parallel_expert_parallel_overlap",
    "parallelism.spmd_backend",
    "training.compile",
    "training.deterministic",
    "training.disable_cuda_graphs",
    "training.enable_loss_parallel",
    "training.mixed_precision_reduce"};

std::vector<std::string> parts_between_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (end > 0) {
      parts.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string with_underscores(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, '-', '_');
  return result;
}

}  // namespace

std::string_view TorchtitanSettings::spelled(std::string_view key) const {
  if (flags_.has(key)) {
    return key;
  }
  const auto* const found = std::ranges::find_if(
      kFormerKeys, [&](const FormerKey& row) { return row.key == key && flags_.has(row.former); });
  return found == kFormerKeys.end() ? key : found->former;
}

std::vector<std::string> TorchtitanSettings::names(std::string_view key) const {
  std::vector<std::string> names;
  for (const std::string& value :
       flags_.values(spelled(key)).value_or(std::vector<std::string>())) {
    for (std::string& name : parts_between_commas(value)) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

DocumentSettings torchtitan_words(const std::vector<std::string>& words) {
  DocumentSettings settings;
  std::vector<std::string>* values = nullptr;
  int num_stages = -1;
  for (const std::string& word : words) {
    const std::string plain = with_underscores(word);
    if (is_flag(word)) {
      const std::size_t equals = std::min(word.find('='), word.size());
      std::string key = plain.substr(2, equals - 2);
      const std::size_t last = key.rfind('.') + 1;  // 0 without a dot
      const bool is_off = key.compare(last, 3, "no_") == 0;
      if (is_off) {
        key.erase(last, 3);
      }
      num_stages = key == kStagesKey ? 0 : -1;
      values = &settings[key];
      values->clear();
      if (is_off) {
        values->emplace_back("false");
      } else if (equals < word.size()) {
        values->push_back(word.substr(equals + 1));
      }
    } else if (plain.starts_with(kRecomputationWord)) {
      settings["activation_checkpoint.mode"] = {plain.substr(kRecomputationWord.size())};
      values = nullptr;
    } else if (num_stages >= 0) {
      settings[std::string(kStagesKey) + "." + std::to_string(num_stages++)] =
          parts_between_commas(word);
    } else if (values != nullptr) {
      values->push_back(word);
    }
  }
  settings.erase(std::string(kStagesKey));
  for (auto& [key, list] : settings) {
    if (list.empty()) {
      list.emplace_back("true");
    }
  }
  return settings;
}

bool is_torchtitan_without_effect(std::string_view key) {
  return begins_with_any(key, kPassedOver);
}

bool is_torchtitan_of_the_stack(std::string_view key) {
  return begins_with_any(key, kKernels);
}

}  // namespace ptdp
