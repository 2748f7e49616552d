#include "tools/sim/simulate_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/simulation/views/trace.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "planner/answer/plans_document.h"
#include "planner/answer/simulation_output.h"
#include "planner/answer_format.h"
#include "planner/report/answers/simulation_report.h"
#include "tools/shared/memory_limit.h"
#include "tools/shared/output_files.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/terminal.h"
#include "tools/shared/working_line.h"

namespace ptdp {
namespace {

constexpr std::array kSharesLinks = {NamedValue<bool>{true, "shared"},
                                     NamedValue<bool>{false, "unshared"}};
constexpr int kColumnsOfAnAction = 4;
constexpr double kBytesPerAction = 2.0 * sizeof(Action) + sizeof(Span) + 3.0 * sizeof(double);
constexpr double kMostFactor = 1000.0;
constexpr double kMostSigma = 10.0;
constexpr std::int64_t kMostColumns = 1000;
constexpr std::int64_t kMostRows = 4096;
constexpr std::int64_t kDefaultColumns = 96;
constexpr std::int64_t kBesideDrawing = 18;  // a rank's name, and the label of the end
constexpr std::int64_t kDefaultRows = 16;
// largest file of a schedule [B]
constexpr std::size_t kLargestFile = std::size_t{256} * 1024 * 1024;
constexpr double kLongestTrace = 9e9;  // [s]; a trace counts nanoseconds in 63 bits

/// The "name=value" parts of a flag's text, each name at most once, in any order.
class Assignments {
 public:
  Assignments(std::string flag, const std::string& text, std::string expected)
      : flag_(std::move(flag)), text_(text), expected_(std::move(expected)) {
    std::string_view rest = text;
    if (rest.ends_with(',')) {
      refuse();
    }
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view part = rest.substr(0, comma);
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos) {
        refuse();
      }
      parts_.emplace_back(part.substr(0, equals), part.substr(equals + 1));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }

  /// Returns the part's value from `low` to `high`, or `otherwise` when the part is missing. Throws
  /// Error for a bad value, and for a missing part without `otherwise`.
  double number(const std::string& name, double low, double high,
                std::optional<double> otherwise = {}) {
    const auto text = take(name);
    if (!text) {
      return otherwise ? *otherwise : (refuse(), 0.0);
    }
    return parse_number(*text, low, high, "--" + flag_ + ": " + name);
    /// Returns the part's value from 0 to `high`, or `otherwise` when the part is missing. Throws
    /// Error for a bad value, and for a missing part without `otherwise`.
  }
  std::int64_t count(const std::string& name, std::int64_t high,
                     std::optional<std::int64_t> otherwise = {}) {
    const auto text = take(name);
    if (!text) {
      return otherwise ? *otherwise : (refuse(), 0);
    }
    return parse_count(*text, 0, high, "--" + flag_ + ": " + name);
  }
  /// Throws Error for parts that were not read.
  void finish() const {
    if (!parts_.empty()) {
      refuse();
    }
  }

 private:
  std::optional<std::string> take(const std::string& name) {
    for (auto part = parts_.begin(); part != parts_.end(); ++part) {
      if (part->first == name) {
        std::string value = part->second;
        parts_.erase(part);
        return value;
      }
    }
    return std::nullopt;
  }

  [[noreturn]] void refuse() const {
    throw Error("--" + flag_ + ": expected " + expected_ + ", got " + in_quotes(text_));
  }

  std::string flag_;
  std::string text_;
  std::string expected_;
  std::vector<std::pair<std::string, std::string>> parts_;
};

SimulationOptions parse_options(const CommandLine& line) {
  SimulationOptions options;
  for (const std::string& text : line.texts("slow")) {
    Assignments parts("slow", text, "rank=R,factor=F such as rank=3,factor=1.1");
    options.stragglers.push_back(
        {.rank = static_cast<int>(parts.count("rank", std::numeric_limits<int>::max())),
         .factor = parts.number("factor", 1.0 / kMostFactor, kMostFactor)});
    parts.finish();
  }
  if (const auto text = line.text("jitter")) {
    Assignments parts("jitter", *text, "sigma=S or sigma=S,seed=N such as sigma=0.02,seed=1");
    options.jitter = {.sigma = parts.number("sigma", 0.0, kMostSigma),
                      .seed = static_cast<std::uint64_t>(
                          parts.count("seed", std::numeric_limits<std::int64_t>::max(), 0))};
    parts.finish();
  }
  options.shares_links = line.choice_or_first<bool>("links", kSharesLinks);
  return options;
}

/// Throws Error if the actions of a step and their times would not fit into memory.
void check_memory(const Plan& plan, const std::string& file) {
  const double needed = num_step_actions(plan) * kBytesPerAction;
  if (const double limit = memory_limit().value(); needed > limit) {
    throw Error(fmt::format(
        "{}: config: {} stages of {} microbatches are up to {:.3g} actions, which take {:.1f} GiB; "
        "expected fewer, for {:.1f} GiB of memory",
        file, plan.config.pp * plan.config.vpp, plan.schedule.num_microbatches,
        num_step_actions(plan), needed / kGibi, limit / kGibi));
  }
}

/// Returns the time up to which to draw a step [s]. It is the step's end if the actions have room
/// on so many columns. Otherwise it is when the last rank, which starts last, is in its steady
/// state.
double shown_until(const PlanSimulation& simulation, int columns) {
  const std::vector<Action>& order = simulation.schedule.orders.back();
  const int room = std::max(columns / kColumnsOfAnAction, 1);
  int num_computed = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_compute(order[i].kind) && ++num_computed > room) {
      return simulation.timeline.spans.back()[i].start.value();
    }
  }
  return simulation.timeline.times.makespan().value();
}

/// Returns the columns of a drawing without --columns: what the terminal has room for.
std::int64_t usual_columns() {
  const auto width = terminal_width();
  return width ? std::clamp<std::int64_t>(*width - kBesideDrawing, 1, kMostColumns)
               : kDefaultColumns;
}

/// Reads the window to draw from --from, --to, --ranks, --rows and --columns.
DrawingWindow parse_window(const CommandLine& line, const PlanSimulation& simulation) {
  const int pp = simulation.schedule.pp;
  const double end = simulation.timeline.times.makespan().value();
  const auto columns =
      static_cast<int>(line.count("columns", 1, kMostColumns).value_or(usual_columns()));
  const double until = line.has("from") ? end : shown_until(simulation, columns);
  DrawingWindow window{
      .from = Seconds(line.number("from", 0.0, end).value_or(0.0)),
      .to = Seconds(line.number("to", 0.0, end).value_or(until)),
      .last_rank = pp - 1,
      .rows = static_cast<int>(line.count("rows", 1, kMostRows).value_or(kDefaultRows)),
      .columns = columns};
  if (!(window.to > window.from)) {
    throw Error(fmt::format("--from, --to: expected a beginning before the end, got {} and {}",
                            window.from.value(), window.to.value()));
  }
  if (const auto ranks = line.text("ranks")) {
    const std::size_t colon = ranks->find(':');
    const std::string last = colon == std::string::npos ? *ranks : ranks->substr(colon + 1);
    const auto rank = [&](const std::string& text) {
      return static_cast<int>(parse_count(text, 0, pp - 1, "--ranks"));
    };
    window.first_rank = rank(ranks->substr(0, colon));
    window.last_rank = rank(last);
    if (window.first_rank > window.last_rank) {
      throw Error("--ranks: expected the first rank before the last, got " + in_quotes(*ranks));
    }
  }
  return window;
}

void write_trace_file(const std::string& path, const PlanSimulation& simulation) {
  if (simulation.timeline.times.makespan().value() > kLongestTrace) {
    throw Error("--trace: expected a step of at most 9e9 s");
  }
  StagedFile file(path);
  write_trace(simulation.schedule, simulation.timeline, simulation.times.messages,
              simulation.memory, [&](std::string_view piece) { file.append(piece); });
  file.seal();
  file.rename_onto_target();
}

int compare(const CommandLine& line, const Plan& plan, const SimulationOptions& options,
            AnswerFormat format) {
  for (const char* flag : {"orders", "trace", "from", "to", "ranks", "rows", "columns"}) {
    if (line.has(flag)) {
      throw Error(std::string("--") + flag + ": not used with --schedule all");
    }
  }
  check_output_files({{"the plan", line.words().front()}}, files_of_flags(line, {"report"}));
  const std::vector<ScheduleComparison> schedules = compare_schedules(plan, options);
  print_answer(in_format(format, plan, schedules), format);
  write_report(line, "ptdp-sim", [&] { return schedules_report(plan, schedules); });
  return 0;
}

}  // namespace

void add_plan_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("trace", text_value("FILE"),
         "plan: write the step as a trace for ui.perfetto.dev to this file");
  option("report", text_value("FILE"), (std::string("plan: ") + kReportHelp).c_str());
  option("slow", texts_value("SPEC"),
         "plan: rank=R,factor=F: rank R of the pipeline takes F times as long to compute; may be "
         "repeated");
  option("jitter", text_value("SPEC"),
         "plan: sigma=S,seed=N: every action takes exp(S z) times as long, z drawn from a normal "
         "distribution");
  option("links", text_value("LINKS", {"shared", "unshared"}),
         "plan: shared (what is sent at the same time shares links, the default) or unshared");
  option("from", text_value("SECONDS"), "plan: draw from this time on [s]");
  option("to", text_value("SECONDS"),
         "plan: draw to this time [s] (default: to the end, if that has room or --from is given, "
         "else until the pipeline has filled)");
  option("ranks", text_value("A:B"), "plan: draw these ranks, such as 0:7");
  option("rows", text_value("N"), "plan: draw this many of the ranks, evenly spaced (default: 16)");
  option("columns", text_value("N"),
         "plan: width of the drawing in characters (default: the terminal's, else 96)");
}

std::vector<NamedValue<const ScheduleTraits*>> named_schedules() {
  std::vector<NamedValue<const ScheduleTraits*>> schedules;
  schedules.reserve(kSchedules.size());
  for (const ScheduleTraits& schedule : kSchedules) {
    schedules.push_back({&schedule, schedule.name});
  }
  return schedules;
}

bool is_plan_file(const std::string& path) {
  if (path.ends_with(".json")) {
    return true;
  }
  const std::string text = read_file(path, kLargestFile);
  const std::size_t first = text.find_first_not_of("\xef\xbb\xbf \t\r\n");  // a byte order mark
  return first != std::string::npos && text[first] == '{';
}

int simulate_plan_file(const CommandLine& line) {
  line.allow_words(1);
  for (const char* flag :
       {"pp", "vpp", "microbatches", "microbatch-group-size", "memory-limit", "durations"}) {
    if (line.has(flag)) {
      throw Error(std::string("--") + flag + ": not used with a plan, which has its own");
    }
  }
  const auto format = line.choice_or_first<AnswerFormat>("format", kReportFormats);
  const SimulationOptions options = parse_options(line);
  const std::string& file = line.words().front();
  Plan plan = read_best_plan(file);
  check_memory(plan, file);
  const std::string planned = plan.schedule.generator;
  std::vector<NamedValue<const ScheduleTraits*>> schedules = named_schedules();
  schedules.push_back({nullptr, "all"});
  if (const auto chosen = line.choice<const ScheduleTraits*>("schedule", schedules)) {
    if (*chosen == nullptr) {
      return compare(line, plan, options, format);
    }
    if (const auto conflict = change_schedule(plan, **chosen)) {
      throw Error("--schedule " + std::string((*chosen)->name) + ": " + *conflict);
    }
  }
  check_output_files({{"the plan", file}}, files_of_flags(line, {"trace", "report"}));
  const PlanSimulation simulation =
      while_working("ptdp-sim", "simulating a step", [&] { return simulate_plan(plan, options); });
  const DrawingWindow window = parse_window(line, simulation);
  if (const auto path = line.text("trace")) {
    write_trace_file(*path, simulation);
  }
  if (line.has("orders") && format == AnswerFormat::kText) {
    for (const std::vector<Action>& order : simulation.schedule.orders) {
      print(to_string(order) + '\n');
    }
  }
  const SimulationContext context{.options = options,
                                  .is_as_planned = plan.schedule.generator == planned,
                                  .has_orders = line.has("orders")};
  print_answer(in_format(format, plan, context, simulation, window), format);
  write_report(line, "ptdp-sim", [&] { return simulation_report(plan, simulation, options); });
  return 0;
}

}  // namespace ptdp
