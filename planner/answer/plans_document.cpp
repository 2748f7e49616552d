// Describes the flags of a search in JSON, and reads lists of plans back.
#include "planner/answer/plans_document.h"

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

/// Describes the pin of one field, by the type of the pin, which is const when writing.
template <class Fields, class Pin>
void describe_pin(Fields& fields, const FieldTraits& traits, const std::string& key, Pin& pin) {
  using Plain = std::remove_const_t<Pin>;
  if constexpr (std::is_same_v<Plain, IntegerRanges>) {
    std::string text = pin.text();
    fields.text(key, text);
    if constexpr (Fields::kIsReading) {
      parse_pin(text, traits, fields.place_of(key), pin);
    }
  } else if constexpr (requires { pin.has_value(); }) {
    describe_value(fields, traits, key, held(pin));
  } else if constexpr (std::is_same_v<Plain, std::vector<int>>) {
    describe_value(fields, traits, key, pin);
  } else {
    fields.choices(key, pin, kSpellings<typename Plain::value_type>);
  }
}

/// Describes all pins. A field that is not pinned is absent, and so is one that has no flag.
template <class Fields>
void describe_pins(Fields& fields, Described<Fields, SearchSpace>& space) {
  for_each_flag([&](const auto& field) {
    const std::string key(field.pins_key());
    auto& pin = space.*field.pin;
    if (fields.optional(key, !is_free(pin))) {
      describe_pin(fields, field.traits, key, pin);
    }
    if (field.key == "schedule") {
      fields.flag("any_stack", space.ignores_stack_support);
      fields.flag("allow_stale_weights", space.allow_stale_weights);
    }
  });
}

/// Reads the job from `inputs`. Its other keys repeat what stands elsewhere in the document.
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

Plan read_plan(ObjectReader& reader, const PlansDocument& list, const std::string& place) {
  ParallelConfig config;
  Prediction predicted;
  reader.object("config", config);
  reader.object("predicted", predicted);
  PlanMemory memory;
  reader.object("memory", memory);
  for (const char* derived : {"gpus_used", "run_by_stack", "changes_semantics", "better_than_best",
                              "formulas", "training"}) {
    (void)reader.has(derived);
  }
  reader.finish();
  Plan plan = make_plan({list.scenario, config}, list.options.gpus, list.options.memory_headroom,
                        Calibration{});
  plan.predicted = predicted;
  plan.memory = memory;
  return checked(std::move(plan), place);
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, SearchOptions>& options) {
  fields.count("gpus", options.gpus, 1, kMost);
  fields.number("memory_headroom", options.memory_headroom, {0.0, 1.0, "a fraction"});
  fields.choice("objective", options.objective, NamedValues<Objective>(kObjectiveNames));
  fields.count("num_best", options.num_best, 1, kMostPlans);
  fields.number("tie", options.tie, {0.0, 1.0, "a fraction"});
  describe_pins(fields, options.space);
}
template void describe(ObjectReader&, SearchOptions&);
template void describe(ObjectWriter&, const SearchOptions&);

PlansDocument parse_plans_document(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  reader.schema(kPlansSchema);
  std::string version;
  reader.name("tool_version", version);
  if (version != PTDP_VERSION) {
    throw Error(place + ": tool_version: predictions of " + in_quotes(version) +
                " are not those of " PTDP_VERSION "; plan again");
  }
  PlansDocument list;
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
  for (const char* other : {"candidates", "choice", "fuller_batch", "explanation", "pareto",
                            "baselines", "published"}) {
    (void)reader.has(other);
  }
  reader.finish();
  return list;
}

PlansDocument read_plans_document(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestList);
  ObjectReader reader = ObjectReader::from_text(text, path.string());
  std::string schema;
  reader.text("schema", schema);
  return schema == kPlanSchema ? read_plan_files({path})
                               : parse_plans_document(text, path.string());
}

Plan read_best_plan(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestList);
  ObjectReader reader = ObjectReader::from_text(text, path.string());
  std::string schema;
  if (reader.has("schema") && reader.is_text("schema")) {
    reader.text("schema", schema);
  }
  if (schema != kPlansSchema) {
    return parse_plan(text, path.string());
  }
  PlansDocument list = parse_plans_document(text, path.string());
  if (list.plans.empty()) {
    throw Error(path.string() + ": plans: expected at least one, got a search that found none");
  }
  return std::move(list.plans.front());
}

PlansDocument read_plan_files(const std::vector<std::filesystem::path>& paths) {
  PlansDocument list;
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
