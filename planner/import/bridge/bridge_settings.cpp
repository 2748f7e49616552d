#include "planner/import/bridge/bridge_settings.h"

#include <algorithm>

namespace ptdp {
namespace {

/// Returns the letter of a layer in Megatron-LM's layouts. What is no layer's name stays, and is
/// refused where the layout is read.
std::string letter_of(const std::string& layer) {
  return layer == "embedding" ? "E"
         : layer == "decoder" ? "t"
         : layer == "mtp"     ? "m"
         : layer == "loss"    ? "L"
                              : layer;
}

/// Writes a layout that is a list for every stage as Megatron-LM's text: "Et|tL".
void join_layout(DocumentSettings& settings) {
  const std::string path = "model.pipeline_model_parallel_layout";
  std::string text;
  bool is_known = true;
  for (int stage = 0;; ++stage) {
    const auto found = settings.find(path + "." + std::to_string(stage));
    if (found == settings.end()) {
      break;
    }
    text += stage > 0 ? "|" : "";
    for (const std::string& layer : found->second) {
      is_known = is_known && !layer.empty();
      text += letter_of(layer);
    }
    settings.erase(found);
  }
  if (!text.empty() && is_known) {
    settings[path] = {text};
  }
}

bool is_telling(std::string_view path) {
  return path.starts_with("ddp.") || path.starts_with("comm_overlap.") ||
         path.starts_with("mixed_precision.") || path == "mixed_precision" ||
         path == "model.tensor_model_parallel_size" ||
         path == "model.pipeline_model_parallel_size" || path == "model.context_parallel_size" ||
         path == "model.expert_model_parallel_size";
}

}  // namespace

void join_bridge_lists(DocumentSettings& settings) {
  for (const char* path :
       {"model.moe_layer_freq", "model.window_size", "model.window_attn_skip_freq"}) {
    const auto found = settings.find(path);
    if (found == settings.end() || found->second.size() < 2) {
      continue;
    }
    std::string text;
    for (const std::string& item : found->second) {
      text += (text.empty() ? "[" : ",") + item;
    }
    found->second = {text + "]"};
  }
}

bool has_bridge_paths(const DocumentSettings& settings) {
  bool has_trainer = false;
  int count = 0;
  for (const auto& [path, values] : settings) {
    has_trainer = has_trainer || path.starts_with("trainer.");
    count += is_telling(path) ? 1 : 0;
  }
  const bool trains = settings.contains("train.global_batch_size") ||
                      settings.contains("train.micro_batch_size") ||
                      settings.contains("train.train_iters");
  return !has_trainer && (trains || count > 1);
}

BridgeFile bridge_yaml(DocumentSettings settings) {
  BridgeFile file;
  file.has_whole_model = settings.contains("model._target_");
  file.has_whole_rest = settings.contains("_target_") || settings.contains("ddp._target_");
  file.is_dump = file.has_whole_model && file.has_whole_rest;
  if (file.has_whole_model && !settings.contains("model.q_lora_rank")) {
    settings["model.q_lora_rank"] = {"0"};  // a dump names every field, and null is none
  }
  // A recipe that is not resolved: {_target_: megatron...mixed_precision.bf16_mixed, _call_: true}.
  const auto precision = settings.find("mixed_precision._target_");
  if (precision != settings.end() && precision->second.size() == 1 &&
      precision->second.front().ends_with("_mixed")) {
    const std::string& target = precision->second.front();
    settings["mixed_precision"] = {target.substr(target.rfind('.') + 1)};
  }
  join_bridge_lists(settings);
  join_layout(settings);
  file.settings = std::move(settings);
  return file;
}

}  // namespace ptdp
