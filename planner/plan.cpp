#include "planner/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/files.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/schedule_shape.h"
#include "cost_model/spec/in_quotes.h"
#include "cost_model/spec/object_reader.h"
#include "cost_model/spec/object_writer.h"
#include "planner/constraint.h"

namespace ptdp {
namespace {

constexpr Range kSecondsRange = {0.0, 1e15, "seconds"};
constexpr Range kRateRange = {0.0, 1e30};
constexpr Range kGibiRange = {0.0, 1e15, "GiB"};
constexpr std::int64_t kMostGpus = 100'000'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000;

constexpr double kWidestInterval = 1e3;
constexpr std::int64_t kMostMicrobatches = std::numeric_limits<int>::max();
constexpr double kWriteRounding = 1e-9;  // numbers are written with 15 digits

bool is_close(double a, double b) {
  return std::abs(a - b) <= kWriteRounding * std::abs(b);
}

/// An estimate as `key` and `interval_key`: [low, high].
template <class Fields, class Value, class Unit>
void estimate(Fields& fields, const std::string& key, const std::string& interval_key,
              Estimate<Value>& value, Unit to_number) {
  double number = to_number(value.value);
  std::vector<double> interval = {to_number(value.low), to_number(value.high)};
  fields.number(key, number, kRateRange);
  fields.numbers(interval_key, interval, kRateRange);
  if constexpr (Fields::kIsReading) {
    if (interval.size() != 2) {
      throw Error(fields.place_of(interval_key) + ": expected two numbers, got " +
                  std::to_string(interval.size()));
    }
    const double unit = 1.0 / to_number(Value(1.0));
    if (!(number > 0.0 && number / kWidestInterval <= interval[0] && interval[0] <= number &&
          number <= interval[1] && interval[1] <= number * kWidestInterval)) {
      throw Error(fields.place_of(interval_key) + ": expected an interval around " + key +
                  ", which is above 0, and no wider than a factor of 1000 either way");
    }
    value = {.value = Value(number * unit),
             .low = Value(interval[0] * unit),
             .high = Value(interval[1] * unit)};
  }
}

template <class Fields>
void describe_traffic(Fields& fields, Traffic& traffic) {
  fields.quantity("tensor_parallel_bytes", traffic.tensor_parallel, 1.0, kRateRange);
  if (fields.optional("context_parallel_bytes", traffic.context_parallel > Bytes(0.0))) {
    fields.quantity("context_parallel_bytes", traffic.context_parallel, 1.0, kRateRange);
  }
  fields.quantity("pipeline_bytes", traffic.pipeline, 1.0, kRateRange);
  fields.quantity("data_parallel_bytes", traffic.data_parallel, 1.0, kRateRange);
  if (fields.optional("expert_parallel_bytes", traffic.expert_parallel > Bytes(0.0))) {
    fields.quantity("expert_parallel_bytes", traffic.expert_parallel, 1.0, kRateRange);
  }
  fields.quantity("pipeline_bisection_GBps", traffic.pipeline_bisection, kGiga, kRateRange);
  fields.quantity("data_parallel_total_GBps", traffic.data_parallel_total, kGiga, kRateRange);
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Traffic& traffic) {
  describe_traffic(fields, traffic);
}

template <class Fields>
void describe(Fields& fields, CostBreakdown& cost) {
  for (const CostTerm& term : kCostTerms) {
    const std::string name(term.name);
    if (!term.is_optional || fields.optional(name, cost.*term.time > Seconds(0.0))) {
      fields.quantity(name, cost.*term.time, 1.0, kSecondsRange);
    }
  }
}

template <class Fields>
void describe(Fields& fields, Prediction& prediction) {
  const auto seconds = [](Seconds value) { return value.value(); };
  const auto tera = [](FlopsPerSecond value) { return value.value() / kTera; };
  const auto plain = [](double value) { return value; };
  estimate(fields, "iteration_time_s", "interval_s", prediction.iteration_time, seconds);
  fields.number("calibration_factor", prediction.calibration_factor, {1e-3, 1e3});
  fields.count("calibration_runs", prediction.calibration_runs, 0, 1'000'000);
  estimate(fields, "tflops_per_gpu", "tflops_per_gpu_interval", prediction.per_gpu, tera);
  fields.quantity("model_flops", prediction.model_flops, 1.0, kRateRange);
  fields.quantity("hardware_flops", prediction.hardware_flops, 1.0, kRateRange);
  estimate(fields, "mfu", "mfu_interval", prediction.mfu, plain);
  estimate(fields, "hfu", "hfu_interval", prediction.hfu, plain);
  estimate(fields, "tokens_per_s", "tokens_per_s_interval", prediction.tokens_per_second, plain);
  fields.object("breakdown_s", prediction.breakdown);
  fields.object("traffic", prediction.traffic);
  fields.texts("extrapolations", prediction.extrapolations);
}

template <class Fields>
void describe(Fields& fields, MemoryBreakdown& memory) {
  for (const MemoryTerm& term : kMemoryTerms) {
    fields.quantity(std::string(term.name) + "_GiB", memory.*term.size, kGibi, kGibiRange);
  }
}

template <class Fields>
void describe(Fields& fields, PlanMemory& memory) {
  // The sum of what the file says, which is the same when the plan is read back.
  double peak = 0.0;
  if (!memory.stages.empty()) {
    for (const MemoryTerm& term : kMemoryTerms) {
      const MemoryBreakdown& heaviest =
          memory.stages[static_cast<std::size_t>(memory.heaviest_stage)];
      peak += as_written((heaviest.*term.size).value() / kGibi);
    }
  }
  fields.number("peak_GiB", peak, kGibiRange);
  fields.count("heaviest_stage", memory.heaviest_stage, 0, kMostGpus);
  fields.objects("stages", memory.stages);
  if constexpr (Fields::kIsReading) {
    if (static_cast<std::size_t>(memory.heaviest_stage) >= memory.stages.size()) {
      throw Error(fields.place_of("heaviest_stage") + ": there is no stage " +
                  std::to_string(memory.heaviest_stage));
    }
    if (!is_close(peak, memory.peak().value() / kGibi)) {
      throw Error(fields.place_of("peak_GiB") + ": is not the sum of its stage");
    }
  }
}

template <class Fields>
void describe(Fields& fields, StageTicks& ticks) {
  fields.count("forward", ticks.forward, 1, kMostTicks);
  fields.count("input_gradient", ticks.input_gradient, 1, kMostTicks);
  fields.count("weight_gradient", ticks.weight_gradient, 1, kMostTicks);
}

template <class Fields>
void describe(Fields& fields, ScheduleRecipe& schedule) {
  fields.name("generator", schedule.generator);
  fields.count("num_microbatches", schedule.num_microbatches, 1, kLargestBatch);
  fields.count("microbatch_group_size", schedule.microbatch_group_size, 1, kMostGpus);
  fields.counts("layers_per_stage", schedule.layers_per_stage, 0, kMostGpus);
  if (schedule.generator == name_of(ScheduleKind::kZbAuto)) {
    int limit = schedule.memory_limit.value_or(1);
    fields.objects("ticks", schedule.ticks);
    fields.count("message_ticks", schedule.message_ticks, 0, kMostTicks);
    fields.count("memory_limit", limit, 1, kMostGpus);
    schedule.memory_limit = limit;
    fields.flag("shortens_spans", schedule.shortens_spans);
  }
}

/// The inputs, by value.
template <class Fields>
void describe(Fields& fields, Plan& plan) {
  fields.count("gpus", plan.gpus, 1, kMostGpus);
  fields.number("memory_headroom", plan.memory_headroom, {0.0, 0.9999, "a fraction"});
  fields.name("model_name", plan.scenario.job.model_name);
  fields.object("model", plan.scenario.job.model);
  fields.count("global_batch_size", plan.scenario.job.global_batch_size, 1, kLargestBatch);
  fields.object("cluster", plan.scenario.cluster);
  fields.object("stack", plan.scenario.stack);
}

namespace {

template <class Fields>
void describe_document(Fields& fields, Plan& plan, std::string& schema) {
  fields.text("schema", schema);
  if constexpr (Fields::kIsReading) {
    if (schema != kPlanSchema) {
      throw Error(fields.place_of("schema") + ": expected \"" + kPlanSchema + "\", got " +
                  in_quotes(schema) + "; make the plan again with this version of ptdp-plan");
    }
  }
  fields.name("tool_version", plan.tool_version);
  fields.object("inputs", plan);
  fields.object("config", plan.config);
  fields.object("schedule", plan.schedule);
  fields.object("predicted", plan.predicted);
  fields.object("memory", plan.memory);
}

/// Whether the configuration can run as the plan says.
void check_config(const Plan& plan, const std::string& place) {
  const ParallelConfig& config = plan.config;
  const auto refuse = [&](const std::string& why) {
    throw Error(place + ": config: " + to_string(config) + ": " + why);
  };
  const std::vector<int>& layers = config.layers_per_stage;
  if (!layers.empty() && std::equal(layers.begin() + 1, layers.end(), layers.begin())) {
    refuse("layers_per_stage: expected [] where all are equal");
  }
  if (!has_chunks(config.schedule, config.vpp)) {
    refuse(std::string(name_of(config.schedule)) + " has another vpp");
  }
  // A plan may say what a schedule would bring that its stack does not run.
  const Scenario scenario = with_every_schedule(plan.scenario);
  if (const auto violation = find_shape_violation(scenario, config)) {
    refuse(std::string(text_of(*violation).description));
  }
  if (config.world_size() > plan.gpus) {
    refuse("uses " + std::to_string(config.world_size()) + " GPUs of " + std::to_string(plan.gpus));
  }
  const Bytes capacity = usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  if (const auto violation = find_violation(scenario, config, capacity)) {
    refuse(std::string(text_of(*violation).description));
  }
}

/// The first place where two documents differ by more than rounding; empty where they agree.
std::string first_difference(const nlohmann::json& found, const nlohmann::json& expected) {
  const nlohmann::json flat_found = found.flatten();
  const nlohmann::json flat_expected = expected.flatten();
  for (const auto& [pointer, value] : flat_expected.items()) {
    const auto other = flat_found.find(pointer);
    const bool is_there = other != flat_found.end();
    const bool agrees = is_there && (value.is_number() && other->is_number()
                                         ? is_close(other->get<double>(), value.get<double>())
                                         : *other == value);
    if (!agrees) {
      std::string place = pointer.substr(1);
      std::replace(place.begin(), place.end(), '/', '.');
      return place;
    }
  }
  return flat_found.size() == flat_expected.size() ? "" : "a key";
}

/// Whether what the plan predicts follows from its inputs.
void check_derived(const Plan& plan, const std::string& place) {
  const Prediction& predicted = plan.predicted;
  const Estimate<Seconds>& time = predicted.iteration_time;
  Calibration calibration;
  if (predicted.calibration_runs > 0) {
    calibration = {.support = {.num_runs = predicted.calibration_runs},
                   .factor = predicted.calibration_factor,
                   .interval = {.low = time.low / time.value, .high = time.high / time.value}};
  }
  const Plan again =
      make_plan(plan.scenario, plan.gpus, plan.memory_headroom, plan.config, calibration);
  const std::string different =
      first_difference(nlohmann::json::parse(to_json(plan)), nlohmann::json::parse(to_json(again)));
  if (!different.empty()) {
    throw Error(place + ": " + different +
                ": does not follow from the inputs; was the plan edited?");
  }
}

void check_plan(const Plan& plan, const std::string& place) {
  check(plan.scenario);
  check_config(plan, place);
  ScheduleRecipe recipe = schedule_recipe(plan.scenario, plan.config);
  if (plan.tool_version != PTDP_VERSION && plan.schedule.ticks.size() == recipe.ticks.size()) {
    // Another version may have had other durations, which its schedule was searched for.
    recipe.ticks = plan.schedule.ticks;
    recipe.message_ticks = plan.schedule.message_ticks;
  }
  if (plan.schedule != recipe) {
    throw Error(place + ": schedule: is not the one of this configuration");
  }
  if (plan.memory.stages.size() != static_cast<std::size_t>(plan.config.pp)) {
    throw Error(place + ": memory.stages: expected " + std::to_string(plan.config.pp) +
                " stages, got " + std::to_string(plan.memory.stages.size()));
  }
  const Seconds total = plan.predicted.breakdown.total();
  if (!is_close(total.value(), plan.predicted.iteration_time.value.value())) {
    throw Error(place + ": predicted.breakdown_s: does not add up to iteration_time_s");
  }
  const int runs = plan.predicted.calibration_runs;
  if (runs > 0 && runs < kFewestCalibrationRuns) {
    throw Error(place + ": predicted.calibration_runs: expected 0, or at least " +
                std::to_string(kFewestCalibrationRuns) + ", got " + std::to_string(runs));
  }
  if (plan.tool_version == PTDP_VERSION) {
    check_derived(plan, place);
  }
}

}  // namespace

namespace {

int group_size(const Scenario& scenario, const ParallelConfig& config) {
  const std::int64_t microbatches = num_microbatches(scenario.job.global_batch_size, config);
  return config.schedule == ScheduleKind::kInterleaved
             ? default_microbatch_group_size(config.pp, static_cast<int>(microbatches))
             : config.pp;
}

}  // namespace

ScheduleRecipe schedule_recipe(const Scenario& scenario, const ParallelConfig& config) {
  const int virtual_stages = config.pp * config.vpp;
  const std::vector<int> equal(static_cast<std::size_t>(virtual_stages),
                               scenario.job.model.num_layers / virtual_stages);
  ScheduleShape shape;
  if (config.schedule == ScheduleKind::kZbAuto) {
    shape = schedule_shape(scenario, config, microbatch_costs(scenario, config));
  }
  return {.generator = std::string(name_of(config.schedule)),
          .num_microbatches = num_microbatches(scenario.job.global_batch_size, config),
          .microbatch_group_size = group_size(scenario, config),
          .layers_per_stage = config.layers_per_stage.empty() ? equal : config.layers_per_stage,
          .ticks = std::move(shape.ticks),
          .message_ticks = shape.message_ticks,
          .memory_limit = shape.memory_limit,
          .shortens_spans = shape.shortens_spans};
}

Schedule make_schedule(const ScheduleRecipe& recipe, int pp, int vpp) {
  const ScheduleGenerator* generator = find_schedule_generator(recipe.generator);
  if (generator == nullptr) {
    throw Error("schedule.generator: unknown schedule " + in_quotes(recipe.generator));
  }
  const bool has_groups = recipe.generator == name_of(ScheduleKind::kInterleaved);
  const ScheduleShape shape{
      .pp = pp,
      .vpp = vpp,
      .num_microbatches = static_cast<int>(std::min(recipe.num_microbatches, kMostMicrobatches)),
      .microbatch_group_size = has_groups ? recipe.microbatch_group_size : 0,
      .ticks = recipe.ticks,
      .message_ticks = recipe.message_ticks,
      .memory_limit = recipe.memory_limit,
      .shortens_spans = recipe.shortens_spans};
  if (const auto conflict = generator->find_conflict(shape)) {
    throw Error("schedule: " + recipe.generator + ": " + std::string(conflict->size) +
                ": expected " + conflict->expected + ", got " + std::to_string(conflict->found));
  }
  return generator->generate(shape);
}

PlanMemory plan_memory(const Scenario& scenario, const ParallelConfig& config) {
  return {.heaviest_stage = heaviest_stage(scenario, config),
          .stages = memory_by_stage(scenario, config)};
}

Plan make_plan(const Scenario& scenario, std::int64_t gpus, double memory_headroom,
               const ParallelConfig& config, const Calibration& calibration) {
  return {.scenario = scenario,
          .gpus = gpus,
          .memory_headroom = memory_headroom,
          .config = config,
          .schedule = schedule_recipe(scenario, config),
          .predicted = predict(scenario, config, calibration),
          .memory = plan_memory(scenario, config)};
}

template <class Fields>
void describe(Fields& fields, PlanDocument& document) {
  std::string schema = kPlanSchema;
  describe_document(fields, document.plan, schema);
}

std::string to_json(const Plan& plan) {
  PlanDocument document{plan};  // describe() takes references that it could write to
  ObjectWriter writer;
  describe(writer, document);
  return writer.dump();
}

Plan checked(Plan plan, const std::string& place) {
  plan.scenario.job.model = resolved(plan.scenario.job.model, place + ": inputs.model");
  check_plan(plan, place);
  return plan;
}

Plan parse_plan(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  PlanDocument document;
  describe(reader, document);
  reader.finish();
  return checked(std::move(document.plan), place);
}

Plan read_plan(const std::filesystem::path& path) {
  return parse_plan(read_file(path), path.string());
}

void write_plan(const std::filesystem::path& path, const Plan& plan) {
  write_file_atomically(path, to_json(plan));
}

template void describe(ObjectReader&, PlanDocument&);
template void describe(ObjectWriter&, PlanDocument&);
template void describe(ObjectReader&, Prediction&);
template void describe(ObjectWriter&, Prediction&);
template void describe(ObjectWriter&, PlanMemory&);

}  // namespace ptdp
