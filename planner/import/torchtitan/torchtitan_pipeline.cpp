// torchtitan's pipelines: schedules by name, and how layers are split.
#include <algorithm>
#include <array>
#include <charconv>

#include "cost_model/text/in_quotes.h"
#include "planner/import/torchtitan/torchtitan.h"

namespace ptdp {
namespace {

constexpr std::string_view kDegreeKey = "parallelism.pipeline_parallel_degree";
constexpr std::string_view kScheduleKey = "parallelism.pipeline_parallel_schedule";
constexpr std::string_view kCsvKey = "parallelism.pipeline_parallel_schedule_csv";
constexpr std::string_view kPartsKey = "parallelism.module_fqns_per_model_part";
constexpr std::string_view kPointsKey = "parallelism.pipeline_parallel_split_points";
constexpr std::string_view kPerStageKey = "parallelism.pipeline_parallel_layers_per_stage";
constexpr std::string_view kFirstKey = "parallelism.pipeline_parallel_first_stage_less_layers";
constexpr std::string_view kLastKey = "parallelism.pipeline_parallel_last_stage_less_layers";

/// A schedule by torch's name, in small letters.
struct NamedSchedule {
  std::string_view name;
  ScheduleKind kind = ScheduleKind::kOneFOneB;
  bool has_one_stage = false;  ///< Whether each rank has one stage.
};
/// Source: torch, distributed/pipelining/schedules.py, get_schedule_class(); names with an
/// underscore are those of torchtitan until October 2024.
constexpr std::array kTorchSchedules = {
    NamedSchedule{"1f1b", ScheduleKind::kOneFOneB, true},
    NamedSchedule{"gpipe", ScheduleKind::kGPipe, true},
    NamedSchedule{"interleaved1f1b", ScheduleKind::kInterleaved},
    NamedSchedule{"interleaved_1f1b", ScheduleKind::kInterleaved},
    NamedSchedule{"loopedbfs", ScheduleKind::kLoopedBfs},
    NamedSchedule{"zbvzerobubble", ScheduleKind::kZbV},
    NamedSchedule{"dualpipev", ScheduleKind::kDualPipeV}};

const NamedSchedule& torch_schedule_of(const TorchtitanSettings& settings) {
  const std::string name = settings.text(kScheduleKey).value_or("1F1B");
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto* const found = std::ranges::find(kTorchSchedules, lower, &NamedSchedule::name);
  if (found == kTorchSchedules.end()) {
    settings.refuse(kScheduleKey,
                    "expected 1F1B, GPipe, Interleaved1F1B, LoopedBFS, ZBVZeroBubble "
                    "or DualPipeV, got " +
                        in_quotes(name));
  }
  return *found;
}

/// Returns the layers of stages that list their modules; empty without such lists.
std::vector<int> layers_of_parts(const TorchtitanSettings& settings) {
  std::vector<int> layers;
  (void)settings.has(kPartsKey);
  for (;;) {
    const std::string key = std::string(kPartsKey) + "." + std::to_string(layers.size());
    if (!settings.has(key)) {
      return layers;
    }
    const std::vector<std::string> modules = settings.names(key);
    layers.push_back(static_cast<int>(std::ranges::count_if(
        modules, [](const std::string& module) { return module.starts_with("layers."); })));
  }
}

/// Returns the layers of stages that begin at "layers.4", "layers.8" and so on.
std::vector<int> layers_between(const std::vector<std::string>& points, int num_layers,
                                const TorchtitanSettings& settings) {
  std::vector<int> layers;
  layers.reserve(points.size() + 1);
  int before = 0;
  for (const std::string& point : points) {
    int layer = 0;
    const std::string_view number =
        std::string_view(point).substr(std::min<std::size_t>(7, point.size()));
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
    const bool is_layer = point.starts_with("layers.") && error == std::errc() &&
                          end == number.data() + number.size();
    if (!is_layer || layer < before || (num_layers > 0 && layer > num_layers)) {
      settings.refuse(kPointsKey,
                      "expected layers in the order of the model, got " + in_quotes(point));
    }
    layers.push_back(layer - before);
    before = layer;
  }
  layers.push_back(num_layers - before);
  return layers;
}

/// Returns layers split as torchtitan did until April 2025: the first and the last stage get no
/// extra layer. Source: torchtitan of March 2025, distributed/pipeline.py, generate_split_points().
std::vector<int> former_split(int num_layers, int num_stages) {
  std::vector<int> layers(static_cast<std::size_t>(num_stages), num_layers / num_stages);
  int extra = num_layers % num_stages;
  for (std::size_t stage = 1; stage + 1 < layers.size() && extra > 0; ++stage, --extra) {
    ++layers[stage];
  }
  layers.back() += extra;
  return layers;
}

/// What embedding and logits count in layers.
struct EndWeights {
  int first = 1;
  int last = 1;
};

/// Returns layers split evenly with what both ends count. Source: torchtitan 0.2.2,
/// distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part().
std::vector<int> even_split(int num_layers, int num_stages, const EndWeights& ends,
                            const TorchtitanSettings& settings) {
  const int effective = num_layers + ends.first + ends.last;
  const int each = effective / num_stages;
  if (each == 0 || ends.first > each || ends.last > each) {
    settings.refuse(kDegreeKey, std::to_string(num_layers) + " layers do not fill " +
                                    std::to_string(num_stages) + " stages");
  }
  std::vector<int> layers(static_cast<std::size_t>(num_stages), each);
  for (int stage = 0; stage < effective % num_stages; ++stage) {
    ++layers[static_cast<std::size_t>(stage)];
  }
  layers.front() -= ends.first;
  layers.back() -= ends.last;
  return layers;
}

/// Returns the layers of all virtual stages; 0 each where the number of layers is not known.
std::vector<int> split_of(const TorchtitanSettings& settings, const TorchtitanPipeline& pipeline,
                          bool has_one_stage, int num_layers) {
  std::vector<int> parts = layers_of_parts(settings);
  const std::vector<std::string> points = settings.names(kPointsKey);
  EndWeights ends;
  ends.first = settings.count(kFirstKey, 0).value_or(1);
  ends.last = settings.count(kLastKey, 0).value_or(1);
  const auto per_stage = settings.count(kPerStageKey);
  const std::int64_t usual_stages = std::int64_t{1} * pipeline.pp * (has_one_stage ? 1 : 2);
  if (!parts.empty()) {
    return parts;
  }
  if (!points.empty()) {
    return layers_between(points, num_layers, settings);
  }
  const std::int64_t effective = std::int64_t{1} * num_layers + ends.first + ends.last;
  const std::int64_t stages =
      per_stage && num_layers > 0 ? (effective + *per_stage - 1) / *per_stage : usual_stages;
  if (stages > kMostModelLayers || effective > kMostModelLayers) {
    settings.refuse(kDegreeKey,
                    "expected at most " + std::to_string(kMostModelLayers) + " stages and layers");
  }
  if (num_layers == 0) {
    return std::vector<int>(static_cast<std::size_t>(stages));
  }
  return settings.has("experimental.pipeline_parallel_degree")
             ? former_split(num_layers, static_cast<int>(stages))
             : even_split(num_layers, static_cast<int>(stages), ends, settings);
}

}  // namespace

TorchtitanPipeline torchtitan_pipeline(const TorchtitanSettings& settings, int num_layers) {
  TorchtitanPipeline pipeline;
  pipeline.pp = settings.count(kDegreeKey).value_or(1);
  const std::string csv = settings.text(kCsvKey).value_or("");
  const NamedSchedule& schedule = pipeline.pp > 1 || settings.has(kScheduleKey)
                                      ? torch_schedule_of(settings)
                                      : kTorchSchedules.front();
  const std::vector<int> layers =
      split_of(settings, pipeline, schedule.has_one_stage, pipeline.pp > 1 ? num_layers : 0);
  if (pipeline.pp == 1) {
    return pipeline;
  }
  if (!csv.empty()) {
    settings.refuse(kCsvKey, "orders of a file are not read, got " + in_quotes(csv) +
                                 "; expected a schedule by name alone");
  }
  pipeline.schedule = schedule.kind;
  const auto ranks = static_cast<std::size_t>(pipeline.pp);
  const std::size_t chunks = layers.size() / ranks;
  if (layers.size() % ranks != 0 || (schedule.has_one_stage ? chunks != 1 : chunks < 2)) {
    settings.refuse(kScheduleKey, "expected " +
                                      std::string(schedule.has_one_stage ? "one stage"
                                                                         : "two or more "
                                                                           "stages") +
                                      " on each of " + std::to_string(pipeline.pp) +
                                      " ranks, got " + std::to_string(layers.size()) + " stages");
  }
  pipeline.vpp = static_cast<int>(chunks);
  if (std::ranges::any_of(layers, [&](int count) { return count != layers.front(); })) {
    pipeline.layers_per_stage = layers;
  }
  return pipeline;
}

}  // namespace ptdp
