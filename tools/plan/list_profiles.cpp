#include "tools/plan/list_profiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/formatting.h"
#include "planner/text_table.h"

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

/// Returns the published runs of a model's shape, best throughput first.
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

/// Returns a run's throughput and where it was reached: "163 fp16 on 3072 a100-80gb-sxm".
std::string throughput_text(const MeasuredRun& run) {
  return fmt::format("{:.4g} {} on {} {}", tflops_per_gpu(run, run.iteration_time),
                     run.precision.empty() ? precision_name(find_stack(run.stack)) : run.precision,
                     run.config.world_size(), find_cluster(run.cluster).gpu.name);
}

std::string models_table() {
  const MeasuredRuns& published = read_published_runs();
  const auto best = [&](const ModelProfile& model) -> std::string {
    const std::vector<MeasuredRun> runs = runs_of(model, published);
    return runs.empty() ? "-" : throughput_text(runs.front());
  };
  const auto count = [](std::string heading, int width, int TransformerConfig::*field) {
    return TextColumn<ModelProfile>{std::move(heading), width, [=](const ModelProfile& model) {
                                      return std::to_string(model.config.*field);
                                    }};
  };
  return text_table<ModelProfile>(
      {{"name", -18, [](const auto& model) { return model.name; }},
       {"parameters", 10,
        [](const auto& model) {
          return short_number(static_cast<double>(parameter_count(model.config)));
        }},
       count("layers", 7, &TransformerConfig::num_layers),
       count("hidden", 7, &TransformerConfig::hidden_size),
       count("heads", 6, &TransformerConfig::num_attention_heads),
       count("vocab", 7, &TransformerConfig::vocab_size),
       count("seq", 6, &TransformerConfig::seq_length),
       {"batch", 6, [](const auto& model) { return std::to_string(model.global_batch_size); }},
       {"best published TFLOP/s per GPU", 36, best},
       {"source", 0, [](const auto& model) { return model.source; }, 2}},
      models_by_size());
}

/// Returns the shipped profiles of a kind, sorted by name.
template <class Profile>
std::vector<Profile> find_all(ProfileKind kind, Profile (*find_profile)(const std::string&)) {
  std::vector<Profile> profiles;
  for (const std::string& name : list_profiles(kind)) {
    profiles.push_back(find_profile(name));
  }
  return profiles;
}

/// Returns the document of a kind whose profiles are written as they are read.
template <class Profile>
std::string profiles_json(ProfileKind kind, Profile (*find_profile)(const std::string&)) {
  std::vector<ObjectWriter> entries;
  for (const Profile& profile : find_all(kind, find_profile)) {
    describe(entries.emplace_back(), profile);
  }
  return list_json(kind, std::move(entries));
}

/// Returns where what kernels reach on a GPU was measured.
std::string measured_on(const GpuSpec& gpu) {
  return gpu.constants_of.empty() ? "this GPU" : gpu.constants_of;
}

std::string clusters_table() {
  const auto bandwidth = [](std::string heading, int width, LinkSpec ClusterSpec::*link) {
    return TextColumn<ClusterSpec>{std::move(heading), width, [=](const ClusterSpec& cluster) {
                                     return fmt::format("{:.4g}",
                                                        (cluster.*link).bandwidth.value() / kGiga);
                                   }};
  };
  return text_table<ClusterSpec>(
      {{"name", -22, [](const auto& cluster) { return cluster.name; }},
       {"GPU", -16, [](const auto& cluster) { return cluster.gpu.name; }},
       {"GPUs/node", 9, [](const auto& cluster) { return std::to_string(cluster.gpus_per_node); }},
       bandwidth("NVLink GB/s", 12, &ClusterSpec::nvlink),
       bandwidth("NIC GB/s", 11, &ClusterSpec::nic),
       {"products measured on", 22, [](const auto& cluster) { return measured_on(cluster.gpu); }},
       {"default stack", 0, [](const auto& cluster) { return cluster.default_stack; }, 2}},
      find_all(ProfileKind::kCluster, find_cluster));
}

std::string gpus_table() {
  const auto peak = [](std::string heading, int width, FlopsPerSecond GpuSpec::*rate) {
    return TextColumn<GpuSpec>{std::move(heading), width, [=](const GpuSpec& gpu) -> std::string {
                                 const double flops = (gpu.*rate).value();
                                 return flops > 0.0 ? fmt::format("{:.4g}", flops / kTera) : "-";
                               }};
  };
  return text_table<GpuSpec>(
      {{"name", -22, [](const auto& gpu) { return gpu.name; }},
       {"GiB", 7,
        [](const auto& gpu) { return fmt::format("{:.4g}", gpu.memory.value() / kGibi); }},
       {"GB/s", 6,
        [](const auto& gpu) {
          return fmt::format("{:.4g}", gpu.memory_bandwidth.value() / kGiga);
        }},
       {"SMs", 5, [](const auto& gpu) { return std::to_string(gpu.num_multiprocessors); }},
       peak("bf16 TFLOP/s", 13, &GpuSpec::peak_bf16),
       peak("fp16", 7, &GpuSpec::peak_fp16),
       peak("fp8", 7, &GpuSpec::peak_fp8),
       peak("fp4", 7, &GpuSpec::peak_fp4),
       {"products measured on", 0, measured_on, 2}},
      find_all(ProfileKind::kGpu, find_gpu));
}

std::string stacks_table() {
  return text_table<StackSpec>(
      {{"name", -20, [](const auto& stack) { return stack.name; }},
       {"precision", -9, [](const auto& stack) { return std::string(name_of(stack.precision)); }},
       {"attention", -9, [](const auto& stack) { return stack.attention; }},
       {"schedules", -18, [](const auto& stack) { return joined(stack.can_run.schedules); }},
       {"recompute", -20, [](const auto& stack) { return joined(stack.can_run.recompute); }},
       {"ZeRO", -6, [](const auto& stack) { return joined(stack.can_run.zero_stages); }},
       {"sequence parallel", 0,
        [](const auto& stack) { return stack.can_run.sequence_parallel ? "yes" : "no"; }}},
      find_all(ProfileKind::kStack, find_stack));
}

std::string models_json() {
  const MeasuredRuns& published = read_published_runs();
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
    case ProfileKind::kGpu:
      return is_json ? profiles_json<GpuSpec>(kind, find_gpu) : gpus_table();
    default:
      return is_json ? profiles_json<StackSpec>(kind, find_stack) : stacks_table();
  }
}

}  // namespace ptdp
