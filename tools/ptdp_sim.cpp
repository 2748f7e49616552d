// ptdp-sim: prints the orders of a pipeline schedule, and simulates how long they take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/config_fields.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"
#include "planner/answer_format.h"
#include "tools/planner_commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/memory_limit.h"
#include "tools/shared/table_command.h"
#include "tools/sim/simulate_plan.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-sim";
constexpr const char* kUsage =
    "usage: ptdp-sim plan.json [--schedule all|NAME] [--trace FILE] [--slow rank=R,factor=F] ...\n"
    "       ptdp-sim --schedule NAME --pp P --microbatches M [--vpp V] [--orders] [--durations "
    "F,I,W]\n"
    "       ptdp-sim FILE.csv [--orders] [--durations F,I,W]\n"
    "\n"
    "Simulates the step of a plan action by action, with messages, reductions and the optimizer,\n"
    "and draws it. Without a plan it makes a pipeline schedule, or reads one that\n"
    "torch.distributed.pipelining wrote (compute_only or compute_comms, a line per rank), proves\n"
    "that it can be executed, prints its orders and simulates its compute. zb-auto is a schedule\n"
    "that is searched for the durations given.\n"
    "In orders, 2F0 is the forward pass of microbatch 0 on stage 2; B is a whole backward pass, I\n"
    "and W are its halves for inputs and weights; (0F3;3B5)OVERLAP_F_B run together.\n"
    "\n"
    "With durations it prints, in the unit in which they are given:\n"
    "  makespan      from the start to the end of the last action\n"
    "  bubble        how long the rank that works most waits; bubble_ratio: its share\n"
    "  idle_in_span  by rank, how long it waits between its first action and its last\n"
    "  peaks         by rank, the most activations held at once, in stages of a microbatch\n"
    "pipedream and pipedream-2bw change what the optimizer does: they apply gradients of older\n"
    "weights. Their makespan starts with an empty pipeline, and they never drain it; they add\n"
    "  steady_state_period  from one microbatch to the next, once the pipeline is full\n"
    "  weight_versions      by rank, how many versions of its weights it keeps\n"
    "\n"
    "GLOSSARY.md explains the terms.\n"
    "\n";

const std::vector<std::string> kScheduleFlags = {
    "schedule", "pp",        "microbatches",     "vpp",   "microbatch-group-size", "memory-limit",
    "orders",   "durations", "layers-per-stage", "format"};

constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kMostStagesPerRank = 1024;
constexpr std::int64_t kMostMicrobatches = 1 << 20;
constexpr double kMostDuration = 1e12;

/// Returns the names with "all" behind them.
std::vector<std::string> and_all(std::vector<std::string> names) {
  names.emplace_back("all");
  return names;
}

CommandTable command_table() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("schedule", text_value("SCHEDULE", and_all(schedule_names())),
         fmt::format("one of {}, or all", fmt::join(schedule_names(), ", ")).c_str());
  option("pp", text_value("N"), "ranks of the pipeline");
  option("microbatches", text_value("N"), "microbatches per iteration and replica");
  option("vpp", text_value("N"), "stages per rank (default: 1)");
  option("microbatch-group-size", text_value("N"),
         "interleaved: how many microbatches run through a stage before the next stage's turn "
         "(default: pp, or the next number that leaves no remainder below pp)");
  option("memory-limit", text_value("N"),
         "zb-auto: how many activations of a stage a rank may hold (default: pp)");
  option("orders", "print what every rank does, a line per rank");
  option("durations", text_value("F,I,W"),
         "simulate, with these times of one stage's forward pass, gradient of its input and "
         "gradient of its weights; with --layers-per-stage, of one layer's");
  option("layers-per-stage", text_value("N,..."),
         "layers of each stage, pp * vpp numbers of at least 1, as a model passes them: 4,7,7,6 or "
         "13,5x14,12; a stage takes its number of layers times --durations");
  option("format", text_value("FORMAT", names_of<AnswerFormat>(kOrderFormats)),
         "text, json, or csv (orders as torch reads them) (default: text)");
  add_plan_flags(flags);
  option("help,h", "this text");
  option("version", "the version");
  return {
      .name = kProgram, .usage = kUsage, .groups = {{"flags", flags}}, .operand = {.name = "FILE"}};
}

/// Returns the value, or throws Error when the flag is missing.
template <class Value>
Value required(const std::optional<Value>& value, const std::string& flag) {
  if (!value) {
    throw Error("--" + flag + ": missing; expected a value (or a schedule's file; --help shows " +
                "the flags)");
  }
  return *value;
}

/// Parses --durations: the times of F, I and W of a stage, such as "1,1,1".
StageDurations parse_durations(const std::string& text) {
  std::array<double, 3> values{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_last = i + 1 == values.size();
    const std::size_t end = is_last ? rest.size() : rest.find(',');
    try {
      values[i] = parse_number(rest.substr(0, end), 0.0, kMostDuration, "");
    } catch (const Error&) {
      values[i] = 0.0;  // the check below refuses it, with the whole value
    }
    if (end == std::string_view::npos || !(values[i] > 0.0)) {
      throw Error("--durations: expected three positive numbers F,I,W up to 1e12, such as 1,1,1, " +
                  ("got " + in_quotes(text)));
    }
    rest.remove_prefix(is_last ? end : end + 1);
  }
  return stage_durations(Seconds(values[0]), Seconds(values[1]), Seconds(values[2]));
}

/// Throws Error if the schedule's actions, and what is made of them, would not fit into memory.
void check_memory(const ScheduleShape& shape, const ScheduleTraits& schedule, AnswerFormat format) {
  const double actions = 3.0 * shape.pp * shape.vpp * shape.num_microbatches;  // at most F, I and W
  const double bytes_per_action =
      sizeof(Action) + sizeof(double) + (format == AnswerFormat::kText ? 0.0 : 48.0);
  const bool is_searched = schedule.is_searched;  // a search holds a second copy, with times
  const double needed = actions * bytes_per_action * (is_searched ? 2.0 : 1.0);
  if (const double limit = memory_limit().value(); needed > limit) {
    throw Error(fmt::format(
        "--microbatches: {} with --pp {} and --vpp {} are up to {:.3g} actions, which take {:.1f} "
        "GiB; expected fewer, for {:.1f} GiB of memory",
        shape.num_microbatches, shape.pp, shape.vpp, actions, needed / kGibi, limit / kGibi));
  }
}

/// Returns the durations of each stage: one entry for all without --layers-per-stage, else as many
/// as it has numbers. Returns nothing without --durations.
std::vector<StageDurations> read_durations(const CommandLine& line) {
  const auto text = line.text("durations");
  const auto numbers = line.text("layers-per-stage");
  if (!text) {
    if (numbers) {
      throw Error("--layers-per-stage: expected --durations too, those of a layer");
    }
    return {};
  }
  const StageDurations each = parse_durations(*text);
  if (!numbers) {
    return {each};
  }
  std::vector<int> layers;
  parse_pin(*numbers, FieldTraits{.low = 1}, "--layers-per-stage", layers);
  std::vector<StageDurations> stages;
  stages.reserve(layers.size());
  for (const int count : layers) {
    stages.push_back(stage_durations(each.forward * count, each.input_gradient * count,
                                     each.weight_gradient * count));
  }
  return stages;
}

/// Throws Error unless there are durations of every stage, one for all of them, or none.
void check_stages(const std::vector<StageDurations>& stages, int pp, int vpp) {
  const std::int64_t expected = std::int64_t{pp} * vpp;
  if (stages.size() > 1 && std::ssize(stages) != expected) {
    throw Error(fmt::format("--layers-per-stage: expected {} numbers, pp * vpp, got {}", expected,
                            stages.size()));
  }
}

/// Returns the durations in the form that a searching generator takes.
std::vector<StageTicks> ticks_of(const std::vector<StageDurations>& stages) {
  std::vector<Seconds> durations;
  for (const StageDurations& each : stages) {
    durations.insert(durations.end(), {each.forward, each.input_gradient, each.weight_gradient});
  }
  const Seconds tick = suitable_tick(durations);
  std::vector<StageTicks> ticks;
  ticks.reserve(stages.size());
  for (const StageDurations& each : stages) {
    ticks.push_back({in_ticks(each.forward, tick), in_ticks(each.input_gradient, tick),
                     in_ticks(each.weight_gradient, tick)});
  }
  return ticks;
}

/// A schedule and, unless it was read from a file, the generator and shape that made it.
struct MadeSchedule {
  Schedule schedule;
  const ScheduleTraits* traits = nullptr;
  ScheduleShape shape;
};

ScheduleShape parse_shape(const CommandLine& line, const std::vector<StageDurations>& stages) {
  const auto size = [&](const char* flag, std::int64_t high) { return line.count(flag, 1, high); };
  ScheduleShape shape = {
      .pp = static_cast<int>(required(size("pp", kMostRanks), "pp")),
      .vpp = static_cast<int>(size("vpp", kMostStagesPerRank).value_or(1)),
      .num_microbatches =
          static_cast<int>(required(size("microbatches", kMostMicrobatches), "microbatches")),
      .microbatch_group_size =
          static_cast<int>(size("microbatch-group-size", kMostMicrobatches).value_or(0)),
      .ticks = stages.empty() ? std::vector<StageTicks>() : ticks_of(stages),
      .memory_limit = size("memory-limit", kMostMicrobatches)};
  check_stages(stages, shape.pp, shape.vpp);
  return shape;
}

MadeSchedule make_schedule(const CommandLine& line, AnswerFormat format,
                           const std::vector<StageDurations>& stages) {
  const ScheduleTraits& schedule =
      *required(line.choice<const ScheduleTraits*>("schedule", named_schedules()), "schedule");
  const ScheduleShape shape = parse_shape(line, stages);
  if (const auto conflict = schedule.find_conflict(shape)) {
    throw Error(fmt::format("--{}: --schedule {} expects {}, got {}", conflict->size, schedule.name,
                            conflict->expected, conflict->found));
  }
  check_memory(shape, schedule, format);
  return {schedule.generate(shape), &schedule, shape};
}

MadeSchedule read_schedule(const CommandLine& line) {
  line.allow_words(1);
  for (const char* flag :
       {"schedule", "pp", "microbatches", "vpp", "microbatch-group-size", "memory-limit"}) {
    if (line.has(flag)) {
      throw Error(std::string("--") + flag + ": not used with a file, which has its own");
    }
  }
  const std::string& file = line.words().front();
  Schedule schedule = read_schedule_csv(file);
  if (const auto fault = find_fault(schedule)) {
    throw Error(file + ": " + fault->what, fault->grid);
  }
  return {.schedule = std::move(schedule)};
}

/// Returns one figure of every rank.
template <class Value>
std::vector<Value> per_rank(const SimulatedTimes& times, Value (*figure)(const RankTimes&)) {
  std::vector<Value> values;
  for (const RankTimes& rank : times.ranks) {
    values.push_back(figure(rank));
  }
  return values;
}

std::vector<double> idle_in_span(const SimulatedTimes& times) {
  return per_rank<double>(times, [](const RankTimes& rank) { return rank.idle_in_span().value(); });
}

std::vector<int> peaks(const SimulatedTimes& times) {
  return per_rank<int>(times, [](const RankTimes& rank) { return rank.peak_activations; });
}

/// Whether the schedule trains asynchronously, and so repeats without a flush.
bool changes_semantics(const MadeSchedule& made) {
  return made.traits != nullptr && !made.traits->is_synchronous;
}

std::vector<int> weight_versions(const MadeSchedule& made) {
  std::vector<int> versions;
  versions.reserve(static_cast<std::size_t>(made.shape.pp));
  for (int rank = 0; rank < made.shape.pp; ++rank) {
    versions.push_back(made.traits->weight_versions(made.shape, rank));
  }
  return versions;
}

/// Returns the time from one microbatch to the next in steady state: the largest work of a rank per
/// microbatch.
double steady_state_period(const MadeSchedule& made, const SimulatedTimes& times) {
  return times.most_work().value() / made.schedule.num_microbatches;
}

void print_text(const MadeSchedule& made, bool has_orders,
                const std::optional<SimulatedTimes>& times) {
  const Schedule& schedule = made.schedule;
  if (has_orders) {
    for (const std::vector<Action>& order : schedule.orders) {
      print(to_string(order) + '\n');
    }
  }
  if (times) {
    print(fmt::format("makespan {}\nbubble {}\nbubble_ratio {:.5f}\nidle_in_span {}\npeaks {}\n",
                      times->makespan().value(), times->bubble().value(), times->bubble_ratio(),
                      fmt::join(idle_in_span(*times), " "), fmt::join(peaks(*times), " ")));
    if (changes_semantics(made)) {
      print(fmt::format("changes_semantics true\nsteady_state_period {}\nweight_versions {}\n",
                        steady_state_period(made, *times), fmt::join(weight_versions(made), " ")));
    }
  }
}

void print_json(const MadeSchedule& made, bool has_orders,
                const std::optional<SimulatedTimes>& times) {
  const Schedule& schedule = made.schedule;
  nlohmann::ordered_json document = {{"schedule", schedule.name},
                                     {"pp", schedule.pp},
                                     {"vpp", schedule.vpp},
                                     {"microbatches", schedule.num_microbatches}};
  if (made.traits != nullptr) {
    document["paper"] = made.traits->paper;
    document["bubble_formula"] = made.traits->bubble;
  }
  if (changes_semantics(made)) {
    document["changes_semantics"] = true;
    document["weight_versions"] = weight_versions(made);
  }
  if (has_orders) {
    for (const std::vector<Action>& order : schedule.orders) {
      document["orders"].push_back(to_string(order));
    }
  }
  if (times) {
    document["makespan"] = times->makespan().value();
    document["bubble"] = times->bubble().value();
    document["bubble_ratio"] = times->bubble_ratio();
    document["idle_in_span"] = idle_in_span(*times);
    document["peaks"] = peaks(*times);
    if (changes_semantics(made)) {
      document["steady_state_period"] = steady_state_period(made, *times);
    }
  }
  print(document.dump(2) + '\n');
}

/// Prints the figures of every schedule of the shape, or why a schedule does not exist for it.
/// Returns the exit status.
int compare_all(const CommandLine& line, bool is_json, const std::vector<StageDurations>& stages) {
  ScheduleShape shape = parse_shape(line, stages);
  const auto memory_limit = shape.memory_limit;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string text = fmt::format("{:<14}{:>12}{:>12}{:>14}{:>8}\n", "schedule", "makespan",
                                 "bubble", "idle_in_span", "peak");
  for (const ScheduleTraits& schedule : kSchedules) {
    shape.memory_limit = schedule.is_searched ? memory_limit : std::nullopt;
    if (const auto conflict = schedule.find_conflict(shape)) {
      const std::string why =
          fmt::format("expects {} {}, got {}", conflict->size, conflict->expected, conflict->found);
      rows.push_back({{"schedule", schedule.name}, {"conflict", why}});
      text += fmt::format("{:<14}  {}\n", schedule.name, why);
      continue;
    }
    check_memory(shape, schedule, AnswerFormat::kText);
    const SimulatedTimes times = simulate(schedule.generate(shape), stages);
    const std::vector<double> idle = idle_in_span(times);
    const std::vector<int> held = peaks(times);
    rows.push_back({{"schedule", schedule.name},
                    {"makespan", times.makespan().value()},
                    {"bubble", times.bubble().value()},
                    {"bubble_ratio", times.bubble_ratio()},
                    {"idle_in_span", idle},
                    {"peaks", held},
                    {"changes_semantics", !schedule.is_synchronous}});
    text += fmt::format("{:<14}{:>12.6g}{:>12.6g}{:>14.6g}{:>8}{}\n", schedule.name,
                        times.makespan().value(), times.bubble().value(),
                        *std::max_element(idle.begin(), idle.end()),
                        *std::max_element(held.begin(), held.end()),
                        schedule.is_synchronous ? "" : "  stale weights: another optimizer");
  }
  print(is_json ? nlohmann::ordered_json{{"schedules", rows}}.dump(2) + '\n' : text);
  return 0;
}

/// Whether --schedule all is given. Throws Error for flags that do not fit it.
bool asks_for_all(const CommandLine& line) {
  if (line.text("schedule") != "all") {
    return false;
  }
  line.allow_words(0);
  if (line.has("orders") || !line.has("durations")) {
    throw Error("--schedule all: expected --durations and no --orders");
  }
  if (line.text("format") == "csv") {
    throw Error("--format: expected text or json with --schedule all, got csv");
  }
  return true;
}

int answer(const CommandLine& line) {
  line.allow_words(1);
  if (!line.words().empty() && is_plan_file(line.words().front())) {
    return simulate_plan_file(line);
  }
  line.allow_only(kScheduleFlags);
  const auto format = line.choice_or_first<AnswerFormat>("format", kOrderFormats);
  const bool has_orders = line.has("orders");
  const auto durations = line.text("durations");
  if (!has_orders && !durations) {
    if (!line.words().empty()) {
      static_cast<void>(read_schedule(line));  // reports a fault of the file first
    }
    throw Error("--orders, --durations: expected one of them or both");
  }
  if (format == AnswerFormat::kCsv && (durations || !has_orders)) {
    throw Error("--format csv: expected --orders alone");
  }
  const std::vector<StageDurations> stages = read_durations(line);
  if (asks_for_all(line)) {
    return compare_all(line, format == AnswerFormat::kJson, stages);
  }
  const MadeSchedule made =
      line.words().empty() ? make_schedule(line, format, stages) : read_schedule(line);
  const Schedule& schedule = made.schedule;
  check_stages(stages, schedule.pp, schedule.vpp);
  std::optional<SimulatedTimes> times;
  if (!stages.empty()) {
    times = simulate(compute_alone(schedule), stages);
  }
  switch (format) {
    case AnswerFormat::kJson:
      print_json(made, has_orders, times);
      break;
    case AnswerFormat::kCsv:
      print(to_csv(schedule));
      break;
    default:
      print_text(made, has_orders, times);
  }
  return 0;
}

int run(const CommandLine& line) {
  try {
    return answer(line);
  } catch (const std::bad_alloc&) {
    throw Error(
        "out of memory: the schedule has more actions than fit; expected fewer "
        "--microbatches, --pp or --vpp");
  }
}

}  // namespace

int sim_command(int argc, const char* const* argv) {
  return run_table_command(kProgram, &command_table, {argv, static_cast<std::size_t>(argc)}, &run);
}

}  // namespace ptdp
