#include "planner/answer/plan_list.h"

#include <array>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "planner/answer/planning.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostPlans = 10'000;
constexpr std::size_t kLargestList = std::size_t{64} * 1024 * 1024;
constexpr std::array kObjectiveNames = {NamedValue<Objective>{Objective::kTime, "time"},
                                        NamedValue<Objective>{Objective::kCost, "cost"}};

/// What was pinned, as a user types it; absent where everything goes.
template <class Fields>
void describe_ranges(Fields& fields, const std::string& key, IntegerRanges& ranges,
                     std::int64_t low) {
  if (fields.optional(key, !ranges.is_any())) {
    std::string text = ranges.text();
    fields.text(key, text);
    if constexpr (Fields::kIsReading) {
      ranges = IntegerRanges::parse(text, low, kMost, fields.place_of(key));
    }
  }
}

template <class Fields>
void describe_recomputed(Fields& fields, Pins& pins) {
  if (fields.optional("recompute_modules", pins.recompute_modules.has_value())) {
    std::string text = to_string(pins.recompute_modules.value_or(kCoreAttentionAlone));
    fields.text("recompute_modules", text);
    pins.recompute_modules = parse_recompute_modules(text, "recompute_modules");
  }
  if (fields.optional("recompute_method", pins.recompute_method.has_value())) {
    RecomputeMethod method = pins.recompute_method.value_or(RecomputeMethod::kBlock);
    fields.choice("recompute_method", method, NamedValues<RecomputeMethod>(kRecomputeMethodNames));
    pins.recompute_method = method;
  }
  if (fields.optional("recompute_num_layers", pins.recompute_num_layers.has_value())) {
    int number = pins.recompute_num_layers.value_or(1);
    fields.count("recompute_num_layers", number, 1, kMost);
    pins.recompute_num_layers = number;
  }
}

template <class Fields>
void describe_pins(Fields& fields, Pins& pins) {
  describe_ranges(fields, "tp", pins.tp, 1);
  describe_ranges(fields, "pp", pins.pp, 1);
  describe_ranges(fields, "dp", pins.dp, 1);
  describe_ranges(fields, "cp", pins.cp, 1);
  describe_ranges(fields, "ep", pins.ep, 1);
  describe_ranges(fields, "etp", pins.etp, 1);
  describe_ranges(fields, "vpp", pins.vpp, 1);
  describe_ranges(fields, "micro_batch_size", pins.micro_batch_size, 1);
  describe_ranges(fields, "zero_stage", pins.zero_stage, 0);
  describe_ranges(fields, "dp_replicate", pins.dp_replicate, 1);
  if (fields.optional("reshard_after_forward", pins.reshard_after_forward.has_value())) {
    bool value = pins.reshard_after_forward.value_or(true);
    fields.flag("reshard_after_forward", value);
    pins.reshard_after_forward = value;
  }
  if (fields.optional("schedules", !pins.schedules.empty())) {
    fields.choices("schedules", pins.schedules, NamedValues<ScheduleKind>(kScheduleNames));
  }
  fields.flag("any_stack", pins.any_stack);
  fields.flag("allow_stale_weights", pins.allow_stale_weights);
  if (fields.optional("recompute", !pins.recompute.empty())) {
    fields.choices("recompute", pins.recompute, NamedValues<Recompute>(kRecomputeNames));
  }
  describe_recomputed(fields, pins);
  if (fields.optional("sequence_parallel", pins.sequence_parallel.has_value())) {
    bool value = pins.sequence_parallel.value_or(false);
    fields.flag("sequence_parallel", value);
    pins.sequence_parallel = value;
  }
  if (fields.optional("offload", !pins.offload.empty())) {
    fields.choices("offload", pins.offload, NamedValues<Offload>(kOffloadNames));
  }
  if (fields.optional("offload_num_layers", pins.offload_num_layers.has_value())) {
    int number = pins.offload_num_layers.value_or(1);
    fields.count("offload_num_layers", number, 1, kMost);
    pins.offload_num_layers = number;
  }
  if (fields.optional("rank_orders", !pins.rank_orders.empty())) {
    fields.choices("rank_orders", pins.rank_orders, NamedValues<RankOrder>(kRankOrderNames));
  }
}

/// The job out of `inputs`, whose other keys repeat what stands elsewhere.
TrainingJob read_job(ObjectReader inputs) {
  TrainingJob job;
  ObjectReader model = inputs.child("model");
  model.name("name", job.model_name);
  std::int64_t parameters = 0;
  model.count("parameters", parameters, 0, INT64_MAX);
  describe(model, job.model);
  model.finish();
  inputs.count("global_batch_size", job.global_batch_size, 1, kMost);
  for (const char* repeated : {"gpus", "cluster", "gpu", "stack", "objective", "memory_headroom"}) {
    (void)inputs.has(repeated);
  }
  inputs.finish();
  return job;
}

Plan read_plan(ObjectReader& reader, const PlanList& list, const std::string& place) {
  ParallelConfig config;
  Prediction predicted;
  reader.object("config", config);
  reader.object("predicted", predicted);
  for (const char* derived :
       {"gpus_used", "run_by_stack", "changes_semantics", "memory", "training"}) {
    (void)reader.has(derived);
  }
  reader.finish();
  Plan plan = make_plan(list.scenario, list.options.gpus, list.options.memory_headroom, config,
                        Calibration{});
  plan.predicted = predicted;
  return checked(std::move(plan), place);
}

}  // namespace

template <class Fields>
void describe(Fields& fields, SearchOptions& options) {
  fields.count("gpus", options.gpus, 1, kMost);
  fields.number("memory_headroom", options.memory_headroom, {0.0, 1.0, "a fraction"});
  fields.choice("objective", options.objective, NamedValues<Objective>(kObjectiveNames));
  fields.count("num_best", options.num_best, 1, kMostPlans);
  describe_pins(fields, options.pins);
}
template void describe(ObjectReader&, SearchOptions&);
template void describe(ObjectWriter&, SearchOptions&);

PlanList parse_plan_list(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  std::string schema;
  reader.text("schema", schema);
  if (schema != kPlansSchema) {
    throw Error(place + ": schema: expected " + in_quotes(kPlansSchema) + ", got " +
                in_quotes(schema));
  }
  std::string version;
  reader.name("tool_version", version);
  if (version != PTDP_VERSION) {
    throw Error(place + ": tool_version: predictions of " + in_quotes(version) +
                " are not those of " PTDP_VERSION "; plan again");
  }
  PlanList list;
  list.scenario.job = read_job(reader.child("inputs"));
  list.scenario.job.model = resolved(list.scenario.job.model, place + ": inputs.model");
  reader.object("cluster", list.scenario.cluster);
  reader.object("stack", list.scenario.stack);
  reader.object("search", list.options);
  check(list.scenario);
  for (ObjectReader& plan : reader.children("plans")) {
    list.plans.push_back(
        read_plan(plan, list, place + ": plans[" + std::to_string(list.plans.size()) + "]"));
  }
  for (const char* other : {"candidates", "pareto", "baselines", "published"}) {
    (void)reader.has(other);
  }
  reader.finish();
  return list;
}

PlanList read_plan_list(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestList);
  ObjectReader reader = ObjectReader::from_text(text, path.string());
  std::string schema;
  reader.text("schema", schema);
  return schema == kPlanSchema ? read_plan_files({path}) : parse_plan_list(text, path.string());
}

PlanList read_plan_files(const std::vector<std::filesystem::path>& paths) {
  PlanList list;
  for (const std::filesystem::path& path : paths) {
    Plan plan = read_plan(path);
    if (list.plans.empty()) {
      list.scenario = plan.scenario;
      list.options = {.gpus = plan.gpus, .memory_headroom = plan.memory_headroom};
    }
    if (plan.scenario != list.scenario || plan.gpus != list.options.gpus) {
      throw Error(path.string() +
                  ": expected a plan of the model, batch, cluster, stack and GPUs of " +
                  paths.front().string());
    }
    list.plans.push_back(std::move(plan));
  }
  return list;
}

}  // namespace ptdp
