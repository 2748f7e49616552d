#include "tools/run/tune_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>

#include "cost_model/error.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/answer_format.h"
#include "planner/formatting.h"
#include "planner/profile_fit/tuning.h"
#include "tools/run/measured_terms.h"
#include "tools/run/run_faults.h"
#include "tools/run/run_flags.h"
#include "tools/run/run_plan.h"
#include "tools/run/run_progress.h"
#include "tools/shared/output_files.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostTuned = 100;
constexpr std::int64_t kUsuallyTuned = 4;
/// The most turns in which a plan runs. Turns of all plans alternate, so that a machine that grows
/// slower slows all of them.
constexpr std::int64_t kMostRounds = 3;

void add(SentBytes& total, const SentBytes& sent, std::int64_t kept, std::int64_t steps) {
  for (std::size_t kind = 0; kind < total.bytes.size(); ++kind) {
    total.bytes[kind] += sent.bytes[kind] / steps * kept;
    total.messages[kind] += sent.messages[kind] / steps * kept;
  }
}

}  // namespace

Turn turn_of(std::int64_t measured, std::int64_t warm_up, const OperationTiming& timing) {
  const std::int64_t steps = warm_up + measured;
  if (timing.includes(0) && timing.includes(1)) {  // Then it costs nothing, as on a host.
    return {.steps = steps, .timing = timing};
  }
  return {.steps = steps + 1, .timing = {.first = steps, .period = 1}};
}

void add_turn(RunRecord& all, const RunRecord& turn, std::int64_t warm_up) {
  const std::int64_t steps = std::ssize(turn.ranks.front().steps);
  const std::int64_t kept = std::min(steps - warm_up, kDetailedSteps);
  all.ranks.resize(turn.ranks.size());
  for (std::size_t rank = 0; rank < turn.ranks.size(); ++rank) {
    RankRecord& to = all.ranks[rank];
    const RankRecord& from = turn.ranks[rank];
    const auto first = to.steps.insert(to.steps.end(), from.steps.end() - kept, from.steps.end());
    if (kept > 0) {
      first->is_after_pause = true;
    }
    to.peak_bytes = std::max(to.peak_bytes, from.peak_bytes);
    to.bytes_beside = std::max(to.bytes_beside, from.bytes_beside);
    to.peak_activations = std::max(to.peak_activations, from.peak_activations);
    for (SentBytes RankRecord::*sent :
         {&RankRecord::tensor, &RankRecord::pipeline_forward, &RankRecord::pipeline_backward,
          &RankRecord::data, &RankRecord::tied, &RankRecord::model}) {
      add(to.*sent, from.*sent, kept, steps);
    }
  }
}

namespace {

/// Splits the steps of one plan into turns that are as equal as possible.
std::vector<std::int64_t> turns_of(std::int64_t steps) {
  const std::int64_t rounds = std::min(steps, kMostRounds);
  std::vector<std::int64_t> turns;
  for (std::int64_t round = 0; round < rounds; ++round) {
    turns.push_back(steps / rounds + (round < steps % rounds ? 1 : 0));
  }
  return turns;
}

AnswerFormat tuning_format(const CommandLine& line) {
  return line.choice_or_first<AnswerFormat>("format", kReportFormats);
}

/// Runs several plans in alternating turns, so that all meet the same conditions.
class InterleavedRuns {
 public:
  InterleavedRuns(const CommandLine& line, const std::string& program, const RunRequest& request,
                  const RunSignals& signals)
      : line_(line), program_(program), request_(request), signals_(signals) {}

  /// Runs the plans and returns their reports and step times. Throws EndedEarly, or Stopped when a
  /// signal asked to end after a step.
  std::vector<RanPlan> operator()(const std::vector<Plan>& plans) {
    const std::size_t first = runs_.size();
    for (const Plan& plan : plans) {
      PlanTurns& run = runs_.emplace_back(PlanTurns{.prepared = prepare_run(plan, request_)});
      if (!run.prepared.is_predicted) {
        throw Error("--tune: " + run.prepared.basis);
      }
      if (run.prepared.uses_nccl) {
        throw Error(fmt::format(
            "--tune: {}: ranks with a GPU each would be threads of one process over NCCL, which "
            "may stop for ever; expected plans of one rank here: ptdp-run runs others one by one, "
            "and ptdp-calibrate corrects profiles by their reports",
            to_string(run.prepared.executed.config)));
      }
      run.deadlines = parse_deadline(line_);
      add_predicted(run.deadlines, run.prepared);
      run.faults = parse_faults(line_, run.prepared);
    }
    const std::vector<std::int64_t> turns = turns_of(request_.steps);
    num_turns_ += turns.size() * plans.size();
    for (const std::int64_t steps : turns) {
      for (std::size_t i = first; i < runs_.size(); ++i) {
        running_ = i;
        add_turn(runs_[i].record, run_turn(runs_[i], steps), request_.warm_up);
        ++done_turns_;
      }
    }
    std::vector<RanPlan> reports;
    for (std::size_t i = first; i < runs_.size(); ++i) {
      reports.push_back(report_of(runs_[i]));
    }
    return reports;
  }

  /// Reports an early end: the ranks' last actions, and what the complete turns measured. Returns
  /// the exit status. May be called from any thread while a turn runs.
  [[nodiscard]] int report_end(const EarlyEnd& end) const {
    return run_command(program_, [&]() -> int {
      tell(end.few_actions);
      try {
        print_turns();
      } catch (const Error& error) {
        tell(fmt::format("{}: {}\n", program_, error.what()));
      }
      if (end.signal == 0) {
        const PreparedRun& run = runs_[running_].prepared;
        tell(memory_advice(end, run));
        throw Error(fmt::format("--tune: {}: {}; nothing was tuned", to_string(run.executed.config),
                                end.fault),
                    end.status);
      }
      return report_signal(end.signal);
    });
  }
  /// Reports a signal that ended the runs after a step: what the complete turns measured. Returns
  /// the exit status.
  [[nodiscard]] int report_stop() const {
    print_turns();
    return report_signal(SIGINT);
  }

  /// Thrown when a signal asked to end after a step.
  struct Stopped {};

 private:
  /// A plan with the measured steps of its complete turns.
  struct PlanTurns {
    PreparedRun prepared;
    DeadlineRule deadlines = {};
    std::vector<InjectedFault> faults = {};
    RunRecord record = {};
  };

  [[nodiscard]] RunRecord run_turn(const PlanTurns& turns, std::int64_t steps) const {
    const PreparedRun& run = turns.prepared;
    if (*signals_.stop) {
      throw Stopped();
    }
    const std::string config = to_string(run.executed.config);
    say(fmt::format("turn {} of {}: {}\n", done_turns_ + 1, num_turns_, config));
    const TrainingData data = open_data(request_, run.settings.model);
    const Turn turn = turn_of(steps, request_.warm_up, run.settings.operation_timing);
    TrainingSettings settings = run.settings;
    settings.operation_timing = turn.timing;
    RunRecord record =
        run_training(settings, data,
                     {.steps = turn.steps,
                      .expected = expected_step(run),
                      .planned_memory = planned_memory(run),
                      .on_note = [this](const std::string& note) { say(note + "\n"); },
                      .stop = signals_.stop,
                      .interrupt = signals_.interrupt,
                      .deadlines = turns.deadlines,
                      .make_backend = backend_maker(run, std::nullopt),
                      .hooks = [&](int rank) { return injected_faults(turns.faults, rank); },
                      .give_up = [this](const EarlyEnd& end) { ::_exit(report_end(end)); }});
    if (!record.differences.empty()) {
      throw Error(fmt::format("--tune: {}: differs from what the plan says: {}", config,
                              fmt::join(record.differences, "; ")),
                  ExitStatus::kBug);
    }
    if (std::ssize(record.ranks.front().steps) < turn.steps) {
      throw Stopped();
    }
    say(fmt::format("{} of {}: {}\n", plural(steps, "step"), config,
                    duration(Seconds(median(undisturbed_step_times(
                        record, static_cast<std::size_t>(request_.warm_up)))))));
    return record;
  }

  void say(const std::string& text) const {
    if (!line_.has("quiet")) {
      tell(text);
    }
  }

  /// Prints the measurements of the complete turns to standard output, or to standard error when
  /// standard output is for JSON.
  void print_turns() const {
    std::string text = fmt::format("{:>8}{:>12}{:>10}  plan\n", "steps", "measured", "spread");
    bool is_empty = true;
    for (const PlanTurns& run : runs_) {
      if (run.record.ranks.empty()) {
        continue;
      }
      is_empty = false;
      const std::vector<double> times = undisturbed_step_times(run.record, 0);
      text += fmt::format("{:>8}{:>12}{:>10}  {}\n", times.size(), duration(Seconds(median(times))),
                          duration(Seconds(quantile(times, 0.75) - quantile(times, 0.25))),
                          to_string(run.prepared.executed.config));
    }
    if (is_empty) {
      return;
    }
    if (tuning_format(line_) == AnswerFormat::kJson) {
      tell(text);
    } else {
      print(text);
    }
  }

  [[nodiscard]] int report_signal(int signal) const {
    tell(fmt::format("{}: interrupted after {} of {}; nothing was tuned\n", program_, done_turns_,
                     plural(static_cast<std::int64_t>(num_turns_), "turn")));
    return 128 + signal;
  }

  [[nodiscard]] RanPlan report_of(const PlanTurns& run) const {
    RunRequest request = request_;
    request.steps = std::ssize(run.record.ranks.front().steps);
    request.warm_up = 0;
    return {.report = make_report(run.prepared, request, run.record),
            .step_times = undisturbed_step_times(run.record, 0)};
  }

  const CommandLine& line_;
  const std::string& program_;
  const RunRequest& request_;
  RunSignals signals_;
  std::vector<PlanTurns> runs_;
  std::size_t running_ = 0;  ///< Index in `runs_` of the plan whose turn runs.
  std::size_t done_turns_ = 0;
  std::size_t num_turns_ = 0;  ///< Number of turns of all plans given so far.
};

PlansDocument read_plans(const CommandLine& line) {
  if (line.words().empty()) {
    throw Error("--tune: expected the plans of ptdp-plan --format json, or files of plans");
  }
  return line.words().size() == 1 ? read_plans_document(line.words().front())
                                  : read_plan_files({line.words().begin(), line.words().end()});
}

/// Returns a provenance with the day in universal time: "ptdp-run --tune of 3 plans, 2026-01-31".
std::string provenance(std::size_t plans) {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&now, &day);
  return fmt::format("ptdp-run --tune of {}, {}-{:02}-{:02}",
                     plural(static_cast<std::int64_t>(plans), "plan"), day.tm_year + 1900,
                     day.tm_mon + 1, day.tm_mday);
}

/// Returns the file of an output; nullopt if the flag is missing. Throws Error unless it ends in
/// .json.
std::optional<std::filesystem::path> read_output(const CommandLine& line, const std::string& flag) {
  std::optional<std::filesystem::path> path = line.text(flag);
  if (path && path->extension() != ".json") {
    throw Error("--" + flag + ": expected the name of a file that ends in .json, got " +
                in_quotes(path->string()));
  }
  return path;
}

/// Throws Error, before anything runs, for an output that cannot be written or would replace an
/// input.
void check_tuned_outputs(const CommandLine& line) {
  std::vector<NamedFile> inputs = files_of_flags(line, {"data"});
  for (const std::string& word : line.words()) {
    inputs.push_back({"the plans", word});
  }
  std::vector<NamedFile> outputs = files_of_flags(line, {"output", "profile-out"});
  if (const auto profile = line.text("profile-out")) {
    outputs.push_back({"the stack of --profile-out", stack_file_beside(*profile)});
  }
  check_output_files(inputs, outputs);
}

}  // namespace

void add_tune_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("tune", "run the best plans of a list in turn, refit the profile to them, search again");
  option("plans,k", text_value("N"), "with --tune: how many plans of the list to run (default: 4)");
  option("profile-out", text_value("FILE"),
         "with --tune: write the refitted cluster to this file, its stack beside it");
}

int tune_plans(const CommandLine& line, const std::string& program) {
  line.allow_only({"tune",   "plans",      "profile-out", "output",       "steps",   "warm-up",
                   "data",   "data-type",  "seed",        "dropout",      "overlap", "lr",
                   "min-lr", "lr-warm-up", "lr-decay",    "weight-decay", "clip",    "deadline",
                   "inject", "format",     "quiet",       "device"},
                  "--tune");
  RunRequest request = parse_request(line);
  finish_learning_rate(line, request);
  static_cast<void>(parse_deadline(line));
  check_tuned_outputs(line);
  const auto plan_file = read_output(line, "output");
  const auto profile_file = read_output(line, "profile-out");
  const AnswerFormat format = tuning_format(line);
  const auto most =
      static_cast<std::size_t>(line.count("plans", 1, kMostTuned).value_or(kUsuallyTuned));
  const PlansDocument list = read_plans(line);
  const RunSignals signals = catch_signals();
  InterleavedRuns runs(line, program, request, signals);
  Tuning tuning;
  try {
    tuning = tune(list, most, std::ref(runs), provenance(std::min(most, list.plans.size())));
  } catch (const EndedEarly& early) {
    return runs.report_end(early.end());
  } catch (const InterleavedRuns::Stopped&) {
    return runs.report_stop();
  }
  print(in_format(format, tuning));
  if (plan_file) {
    write_plan(*plan_file, tuning.plans[tuning.best()].corrected);
  }
  if (profile_file) {
    write_profiles(*profile_file, tuning.fit);
  }
  return *signals.interrupt == 0 ? 0 : 128 + *signals.interrupt;
}

}  // namespace ptdp
