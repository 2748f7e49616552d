#include "tools/plan/list_profiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {
namespace {

std::vector<ModelProfile> models_by_size() {
  std::vector<ModelProfile> models;
  for (const std::string& name : list_profiles(ProfileKind::kModel)) {
    models.push_back(find_model(name));
  }
  std::sort(models.begin(), models.end(), [](const ModelProfile& a, const ModelProfile& b) {
    return std::pair(parameter_count(a.config), a.name) <
           std::pair(parameter_count(b.config), b.name);
  });
  return models;
}

/// The published runs of a model's shape, best throughput first.
std::vector<MeasuredRun> runs_of(const ModelProfile& model, const MeasuredRuns& published) {
  std::vector<MeasuredRun> runs;
  for (const MeasuredRun& run : published.runs) {
    if (run.model == model.config) {
      runs.push_back(run);
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const MeasuredRun& a, const MeasuredRun& b) {
    return tflops_per_gpu(a, a.iteration_time) > tflops_per_gpu(b, b.iteration_time);
  });
  return runs;
}

std::vector<ObjectWriter> published_json(const std::vector<MeasuredRun>& runs) {
  std::vector<ObjectWriter> entries;
  for (const MeasuredRun& run : runs) {
    ObjectWriter& entry = entries.emplace_back();
    entry.text("id", run.id);
    entry.text("source", run.source);
    entry.name("cluster", run.cluster);
    entry.name("stack", run.stack);
    entry.count("global_batch_size", run.global_batch_size);
    entry.object("config", run.config);
    entry.number("iteration_time_s", run.iteration_time.value());
    entry.number("tflops_per_gpu", tflops_per_gpu(run, run.iteration_time));
  }
  return entries;
}

std::string list_json(ProfileKind kind, std::vector<ObjectWriter> entries) {
  ObjectWriter json;
  json.schema("ptdp.list/1");
  json.children(std::string(name_of<ProfileKind>(kind, kListedKinds)), std::move(entries));
  return json.dump();
}

/// Profiles that are written as they are read.
template <class Profile>
std::string profiles_json(ProfileKind kind, Profile (*find_profile)(const std::string&)) {
  std::vector<ObjectWriter> entries;
  for (const std::string& name : list_profiles(kind)) {
    describe(entries.emplace_back(), find_profile(name));
  }
  return list_json(kind, std::move(entries));
}

template <class Value>
std::string joined(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) {
    if constexpr (std::is_enum_v<Value>) {
      text += (text.empty() ? "" : ",") + std::string(name_of(value));
    } else {
      text += (text.empty() ? "" : ",") + std::to_string(value);
    }
  }
  return text;
}

std::string models_table() {
  const MeasuredRuns published = read_published_runs();
  std::string text = fmt::format("{:<16} {:>18} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6} {:>24}  {}\n",
                                 "name", "parameters", "layers", "hidden", "heads", "vocab", "seq",
                                 "batch", "published TFLOP/s", "source");
  for (const ModelProfile& model : models_by_size()) {
    const std::vector<MeasuredRun> runs = runs_of(model, published);
    const std::string best =
        runs.empty() ? "-"
                     : fmt::format("{:.4g} on {} GPUs",
                                   tflops_per_gpu(runs.front(), runs.front().iteration_time),
                                   runs.front().config.world_size());
    text += fmt::format("{:<16} {:>18} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6} {:>24}  {}\n",
                        model.name, parameter_count(model.config), model.config.num_layers,
                        model.config.hidden_size, model.config.num_attention_heads,
                        model.config.vocab_size, model.config.seq_length, model.global_batch_size,
                        best, model.source);
  }
  return text;
}

std::string clusters_table() {
  std::string text = fmt::format("{:<22} {:<16} {:>9} {:>12} {:>11}  {}\n", "name", "GPU",
                                 "GPUs/node", "NVLink GB/s", "NIC GB/s", "default stack");
  for (const std::string& name : list_profiles(ProfileKind::kCluster)) {
    const ClusterSpec cluster = find_cluster(name);
    text +=
        fmt::format("{:<22} {:<16} {:>9} {:>12.4g} {:>11.4g}  {}\n", cluster.name, cluster.gpu.name,
                    cluster.gpus_per_node, cluster.nvlink.bandwidth.value() / kGiga,
                    cluster.nic.bandwidth.value() / kGiga, cluster.default_stack);
  }
  return text;
}

std::string stacks_table() {
  std::string text =
      fmt::format("{:<20} {:<9} {:<9} {:<18} {:<20} {:<6} {}\n", "name", "precision", "attention",
                  "schedules", "recompute", "ZeRO", "sequence parallel");
  for (const std::string& name : list_profiles(ProfileKind::kStack)) {
    const StackSpec stack = find_stack(name);
    text += fmt::format("{:<20} {:<9} {:<9} {:<18} {:<20} {:<6} {}\n", stack.name,
                        name_of(stack.precision), stack.attention, joined(stack.can_run.schedules),
                        joined(stack.can_run.recompute), joined(stack.can_run.zero_stages),
                        stack.can_run.sequence_parallel ? "yes" : "no");
  }
  return text;
}

std::string models_json() {
  const MeasuredRuns published = read_published_runs();
  std::vector<ObjectWriter> entries;
  for (const ModelProfile& model : models_by_size()) {
    ObjectWriter& entry = entries.emplace_back();
    entry.name("name", model.name);
    entry.text("source", model.source);
    entry.count("parameters", parameter_count(model.config));
    entry.count("global_batch_size", model.global_batch_size);
    describe(entry, model.config);
    entry.children("published", published_json(runs_of(model, published)));
  }
  return list_json(ProfileKind::kModel, std::move(entries));
}

}  // namespace

std::string profile_list(ProfileKind kind, AnswerFormat format) {
  const bool is_json = format == AnswerFormat::kJson;
  switch (kind) {
    case ProfileKind::kModel:
      return is_json ? models_json() : models_table();
    case ProfileKind::kCluster:
      return is_json ? profiles_json<ClusterSpec>(kind, find_cluster) : clusters_table();
    default:
      return is_json ? profiles_json<StackSpec>(kind, find_stack) : stacks_table();
  }
}

}  // namespace ptdp
