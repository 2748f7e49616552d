// Makes plans and their schedules, and writes and reads them as JSON.
#include "planner/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "planner/constraints/constraint.h"

namespace ptdp {
namespace {

constexpr Range kSecondsRange = {0.0, 1e15, "seconds"};
constexpr Range kRateRange = {0.0, 1e30};
constexpr Range kGibiRange = {0.0, 1e15, "GiB"};
constexpr std::int64_t kMostGpus = 100'000'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000;

constexpr double kWidestInterval = 1e3;
constexpr std::int64_t kMostMicrobatches = std::numeric_limits<int>::max();

/// Describes an estimate as a number under `key` and as [low, high] under `interval_key`. Reading
/// throws Error unless the interval is around the number, within a factor of 1000 either way.
template <class Fields, class Estimated, class Unit>
void estimate(Fields& fields, const std::string& key, const std::string& interval_key,
              Estimated& value, Unit to_number) {
  double number = to_number(value.value);
  std::vector<double> interval = {to_number(value.low), to_number(value.high)};
  fields.number(key, number, kRateRange);
  fields.numbers(interval_key, interval, kRateRange);
  if constexpr (Fields::kIsReading) {
    if (interval.size() != 2) {
      throw Error(fields.place_of(interval_key) + ": expected two numbers, got " +
                  std::to_string(interval.size()));
    }
    using Value = decltype(value.value);
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
void describe_traffic(Fields& fields, Described<Fields, Traffic>& traffic) {
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
void describe(Fields& fields, Described<Fields, Traffic>& traffic) {
  describe_traffic(fields, traffic);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, CostBreakdown>& cost) {
  for (const CostTerm& term : kCostTerms) {
    const std::string name(term.name);
    if (!term.is_optional || fields.optional(name, cost.*term.time > Seconds(0.0))) {
      fields.quantity(name, cost.*term.time, 1.0, kSecondsRange);
    }
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, Prediction>& prediction) {
  const auto seconds = [](Seconds value) { return value.value(); };
  const auto tera = [](FlopsPerSecond value) { return value.value() / kTera; };
  const auto plain = [](double value) { return value; };
  estimate(fields, "iteration_time_s", "interval_s", prediction.iteration_time, seconds);
  fields.number("calibration_factor", prediction.calibration_factor, {1e-3, 1e3});
  describe_support(fields, prediction.support);
  estimate(fields, "tflops_per_gpu", "tflops_per_gpu_interval", prediction.per_gpu, tera);
  fields.quantity("model_flops", prediction.model_flops, 1.0, kRateRange);
  fields.quantity("hardware_flops", prediction.hardware_flops, 1.0, kRateRange);
  estimate(fields, "mfu", "mfu_interval", prediction.mfu, plain);
  estimate(fields, "hfu", "hfu_interval", prediction.hfu, plain);
  estimate(fields, "tokens_per_s", "tokens_per_s_interval", prediction.tokens_per_second, plain);
  fields.object("breakdown_s", prediction.breakdown);
  fields.object("traffic", prediction.traffic);
  fields.texts("extrapolations", prediction.extrapolations);
  if (fields.optional("outside_runs", !prediction.outside_runs.empty())) {
    fields.texts("outside_runs", prediction.outside_runs);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, MemoryBreakdown>& memory) {
  for (const MemoryTerm& term : kMemoryTerms) {
    fields.quantity(std::string(term.name) + "_GiB", memory.*term.size, kGibi, kGibiRange);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, PlanMemory>& memory) {
  // The sum of the rounded terms in the file, which is the same when the plan is read back.
  double peak = 0.0;
  if (!memory.stages.empty()) {
    for (const MemoryTerm& term : kMemoryTerms) {
      const MemoryBreakdown& heaviest =
          memory.stages[static_cast<std::size_t>(memory.heaviest_rank)];
      peak += as_written((heaviest.*term.size).value() / kGibi);
    }
  }
  fields.number("peak_GiB", peak, kGibiRange);
  fields.count("heaviest_stage", memory.heaviest_rank, 0, kMostGpus);
  fields.objects("stages", memory.stages);
  if constexpr (Fields::kIsReading) {
    if (static_cast<std::size_t>(memory.heaviest_rank) >= memory.stages.size()) {
      throw Error(fields.place_of("heaviest_stage") + ": there is no stage " +
                  std::to_string(memory.heaviest_rank));
    }
    if (!is_close(peak, memory.peak().value() / kGibi)) {
      throw Error(fields.place_of("peak_GiB") + ": is not the sum of its stage");
    }
  }
  // Both or neither.
  if (fields.optional("beyond_formulas", memory.beyond.is_known()) ||
      fields.optional("probability_of_fitting", memory.beyond.is_known())) {
    fields.object("beyond_formulas", memory.beyond);
    if constexpr (Fields::kIsReading) {
      if (!memory.beyond.is_known()) {
        throw Error(fields.place_of("beyond_formulas") +
                    ".calibration_all_runs: expected 1 run behind it or more, got 0");
      }
    }
    fields.number("probability_of_fitting", memory.probability_of_fitting, {0.0, 1.0});
  }
}

namespace {

/// Ends of intervals of memory are written in steps of this [GiB]: a belief that was written and
/// read has lost its last digits.
constexpr double kIntervalStep = 1e-6;

/// Returns the 90 % interval of a belief [GiB].
std::vector<double> memory_interval(const MemoryBelief& belief) {
  const auto rounded = [](Bytes end) {
    return std::round(end.value() / kGibi / kIntervalStep) * kIntervalStep;
  };
  const Bytes half_width = belief.half_width();
  return {rounded(belief.expected - half_width), rounded(belief.expected + half_width)};
}

/// Throws Error at `place` unless an interval that was read is that of the belief.
void check_interval(const std::vector<double>& found, const MemoryBelief& belief,
                    const std::string& place) {
  const std::vector<double> expected = memory_interval(belief);
  // An end may lie near 0, so that its own size is no measure of rounding.
  const bool follows = std::equal(
      found.begin(), found.end(), expected.begin(), expected.end(),
      [](double a, double b) { return std::abs(a - b) < 1.5 * kIntervalStep || is_close(a, b); });
  if (!follows) {
    throw Error(
        fmt::format("{}: expected [{:.6g}, {:.6g}], which follows from the other keys, got "
                    "[{:.6g}]; was the plan edited?",
                    place, expected[0], expected[1], fmt::join(found, ", ")));
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, MemoryBelief>& belief) {
  constexpr Range beyond_range = {-1e6, 1e6, "GiB"};
  fields.quantity("expected_GiB", belief.expected, kGibi, beyond_range);
  fields.quantity("deviation_GiB", belief.deviation, kGibi, {1e-6, 1e6, "GiB"});
  fields.number("degrees_of_freedom", belief.degrees, {1.0, 1e9});
  std::vector<double> interval = memory_interval(belief);
  fields.numbers("interval_GiB", interval, beyond_range);
  if constexpr (Fields::kIsReading) {
    check_interval(interval, belief, fields.place_of("interval_GiB"));
  }
  describe_support(fields, belief.support);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, StageTicks>& ticks) {
  fields.count("forward", ticks.forward, 1, kMostTicks);
  fields.count("input_gradient", ticks.input_gradient, 1, kMostTicks);
  fields.count("weight_gradient", ticks.weight_gradient, 1, kMostTicks);
}

bool is_searched(const ScheduleRecipe& recipe) {
  const ScheduleTraits* schedule = find_schedule(recipe.generator);
  return schedule != nullptr && schedule->is_searched;
}

template <class Fields>
void describe(Fields& fields, Described<Fields, ScheduleRecipe>& schedule) {
  fields.name("generator", schedule.generator);
  fields.count("num_microbatches", schedule.num_microbatches, 1, kLargestBatch);
  fields.count("microbatch_group_size", schedule.microbatch_group_size, 1, kMostGpus);
  fields.counts("layers_per_stage", schedule.layers_per_stage, 0, kMostGpus);
  if (is_searched(schedule)) {
    int limit = schedule.memory_limit.value_or(1);
    fields.objects("ticks", schedule.ticks);
    fields.count("message_ticks", schedule.message_ticks, 0, kMostTicks);
    fields.count("memory_limit", limit, 1, kMostGpus);
    if constexpr (Fields::kIsReading) {
      schedule.memory_limit = limit;
    }
    fields.flag("shortens_spans", schedule.shortens_spans);
  }
}

namespace {

int group_size(const PlannedJob& job) {
  const std::int64_t microbatches = job.microbatches();
  return traits_of(job.config().schedule).has_groups
             ? default_microbatch_group_size(job.config().pp, static_cast<int>(microbatches))
             : job.config().pp;
}

}  // namespace

ScheduleRecipe schedule_recipe(const PlannedJob& job) {
  const int virtual_stages = job.config().pp * job.config().vpp;
  const std::vector<int> equal(static_cast<std::size_t>(virtual_stages),
                               job.model().num_layers / virtual_stages);
  ScheduleShape shape;
  if (traits_of(job.config().schedule).is_searched) {
    shape = schedule_shape(job);
  }
  return {.generator = std::string(name_of(job.config().schedule)),
          .num_microbatches = job.microbatches(),
          .microbatch_group_size = group_size(job),
          .layers_per_stage =
              job.config().layers_per_stage.empty() ? equal : job.config().layers_per_stage,
          .ticks = std::move(shape.ticks),
          .message_ticks = shape.message_ticks,
          .memory_limit = shape.memory_limit,
          .shortens_spans = shape.shortens_spans};
}

namespace {

/// A recipe's generator, and what it makes a schedule for.
struct GeneratorAndShape {
  const ScheduleTraits* generator = nullptr;
  ScheduleShape shape;
};

/// Throws Error, naming the size at fault, for a recipe whose schedule does not exist.
GeneratorAndShape checked_generator(const ScheduleRecipe& recipe, int pp, int vpp) {
  const ScheduleTraits* schedule = find_schedule(recipe.generator);
  if (schedule == nullptr) {
    throw Error("schedule.generator: unknown schedule " + in_quotes(recipe.generator));
  }
  const ScheduleShape shape{
      .pp = pp,
      .vpp = vpp,
      .num_microbatches = static_cast<int>(std::min(recipe.num_microbatches, kMostMicrobatches)),
      .microbatch_group_size = schedule->has_groups ? recipe.microbatch_group_size : 0,
      .ticks = recipe.ticks,
      .message_ticks = recipe.message_ticks,
      .memory_limit = recipe.memory_limit,
      .shortens_spans = recipe.shortens_spans};
  if (const auto conflict = schedule->find_conflict(shape)) {
    throw Error("schedule: " + recipe.generator + ": " + std::string(conflict->size) +
                ": expected " + conflict->expected + ", got " + std::to_string(conflict->found));
  }
  return {schedule, shape};
}

}  // namespace

void check_schedule_exists(const ScheduleRecipe& recipe, int pp, int vpp) {
  static_cast<void>(checked_generator(recipe, pp, vpp));
}

Schedule make_schedule(const ScheduleRecipe& recipe, int pp, int vpp) {
  const GeneratorAndShape made = checked_generator(recipe, pp, vpp);
  return made.generator->generate(made.shape);
}

PlanMemory plan_memory(const PlannedJob& job) {
  std::vector<MemoryBreakdown> stages = memory_by_rank(job);
  const int heaviest = heaviest_of(stages);
  return {.heaviest_rank = heaviest, .stages = std::move(stages)};
}

Plan make_plan(const PlannedJob& job, std::int64_t gpus, double memory_headroom,
               const Calibration& calibration, const MemoryBelief& beyond) {
  Plan plan{.scenario = job.scenario(),
            .gpus = gpus,
            .memory_headroom = memory_headroom,
            .config = job.config(),
            .schedule = schedule_recipe(job),
            .predicted = predict(job, calibration),
            .memory = plan_memory(job)};
  if (beyond.is_known()) {
    plan.memory.beyond = beyond;
    const Bytes capacity = usable_memory(plan.scenario.cluster.gpu, memory_headroom);
    plan.memory.probability_of_fitting =
        beyond.probability_of_fitting(plan.memory.formulas(), capacity);
  }
  return plan;
}

template <class Fields>
void describe(Fields& fields, Described<Fields, Plan>& plan) {
  fields.schema(kPlanSchema, "; make the plan again with this version of ptdp-plan");
  fields.name("tool_version", plan.tool_version);
  fields.part("inputs", [&plan](Fields& inputs) {
    inputs.count("gpus", plan.gpus, 1, kMostGpus);
    inputs.number("memory_headroom", plan.memory_headroom, {0.0, 0.9999, "a fraction"});
    inputs.name("model_name", plan.scenario.job.model_name);
    inputs.object("model", plan.scenario.job.model);
    inputs.count("global_batch_size", plan.scenario.job.global_batch_size, 1, kLargestBatch);
    inputs.object("cluster", plan.scenario.cluster);
    inputs.object("stack", plan.scenario.stack);
  });
  fields.object("config", plan.config);
  fields.object("schedule", plan.schedule);
  fields.object("predicted", plan.predicted);
  fields.object("memory", plan.memory);
}

std::string to_json(const Plan& plan) {
  ObjectWriter writer;
  describe(writer, plan);
  return writer.dump();
}

Plan parse_plan(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  Plan plan;
  describe(reader, plan);
  reader.finish();
  return checked(std::move(plan), place);
}

Plan read_plan(const std::filesystem::path& path) {
  return parse_plan(read_file(path), path.string());
}

void write_plan(const std::filesystem::path& path, const Plan& plan) {
  write_file_atomically(path, to_json(plan));
}

template void describe(ObjectReader&, Plan&);
template void describe(ObjectWriter&, const Plan&);
template void describe(ObjectReader&, Prediction&);
template void describe(ObjectWriter&, const Prediction&);
template void describe(ObjectReader&, PlanMemory&);
template void describe(ObjectWriter&, const PlanMemory&);

}  // namespace ptdp
