#include "tools/tune_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>

#include "cost_model/calibration/quantile.h"
#include "cost_model/error.h"
#include "cost_model/files.h"
#include "cost_model/spec/in_quotes.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/formatting.h"
#include "planner/tuning.h"
#include "tools/measured_terms.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostTuned = 100;
constexpr std::int64_t kUsuallyTuned = 4;
/// Each plan runs in so many turns, so that a machine that grows slower slows all of them.
constexpr std::int64_t kMostRounds = 3;

void add(SentBytes& total, const SentBytes& sent, std::int64_t steps, std::int64_t of_steps) {
  for (std::size_t kind = 0; kind < total.bytes.size(); ++kind) {
    total.bytes[kind] += sent.bytes[kind] / of_steps * steps;
    total.messages[kind] += sent.messages[kind] / of_steps * steps;
  }
}

/// Adds the measured steps of a turn to those of the turns before, as if they were one run without
/// a warm-up. Of a turn longer than kDetailedSteps the last ones, whose actions are known.
void add_turn(RunRecord& all, const RunRecord& turn, std::int64_t warm_up) {
  const std::int64_t steps = std::ssize(turn.ranks.front().steps);
  const std::int64_t kept = std::min(steps - warm_up, kDetailedSteps);
  all.ranks.resize(turn.ranks.size());
  for (std::size_t rank = 0; rank < turn.ranks.size(); ++rank) {
    RankRecord& to = all.ranks[rank];
    const RankRecord& from = turn.ranks[rank];
    to.steps.insert(to.steps.end(), from.steps.end() - kept, from.steps.end());
    to.peak_bytes = std::max(to.peak_bytes, from.peak_bytes);
    to.peak_activations = std::max(to.peak_activations, from.peak_activations);
    for (SentBytes RankRecord::*sent :
         {&RankRecord::tensor, &RankRecord::pipeline_forward, &RankRecord::pipeline_backward,
          &RankRecord::data, &RankRecord::tied, &RankRecord::model}) {
      add(to.*sent, from.*sent, kept, steps);
    }
  }
}

/// Steps of the turns of one plan: as equal as can be.
std::vector<std::int64_t> turns_of(std::int64_t steps) {
  const std::int64_t rounds = std::min(steps, kMostRounds);
  std::vector<std::int64_t> turns;
  for (std::int64_t round = 0; round < rounds; ++round) {
    turns.push_back(steps / rounds + (round < steps % rounds ? 1 : 0));
  }
  return turns;
}

/// Runs plans in turn.
class InterleavedRuns {
 public:
  InterleavedRuns(const RunRequest& request, const RunSignals& signals, bool is_quiet)
      : request_(request), signals_(signals), is_quiet_(is_quiet) {}

  std::vector<PlanRun> operator()(const std::vector<Plan>& plans) const {
    std::vector<PreparedRun> prepared;
    for (const Plan& plan : plans) {
      prepared.push_back(prepare_run(plan, request_));
      if (!prepared.back().is_predicted) {
        throw Error("--tune: " + prepared.back().basis);
      }
    }
    std::vector<RunRecord> records(plans.size());
    for (const std::int64_t steps : turns_of(request_.steps)) {
      for (std::size_t i = 0; i < plans.size(); ++i) {
        add_turn(records[i], run_turn(prepared[i], steps), request_.warm_up);
      }
    }
    std::vector<PlanRun> runs;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      runs.push_back(report_of(prepared[i], records[i]));
    }
    return runs;
  }

 private:
  [[nodiscard]] RunRecord run_turn(const PreparedRun& run, std::int64_t steps) const {
    const TransformerConfig& model = run.settings.model;
    const TrainingData data =
        request_.data ? TrainingData::from_file(*request_.data, model.vocab_size, model.seq_length,
                                                request_.seed)
                      : TrainingData::synthetic(model.vocab_size, model.seq_length, request_.seed);
    RunRecord record =
        run_training(run.settings, data,
                     {.steps = steps + request_.warm_up,
                      .stop = signals_.stop,
                      .interrupt = signals_.interrupt,
                      .make_backend = [] { return std::make_unique<CpuBackend>(); }});
    if (std::ssize(record.ranks.front().steps) < steps + request_.warm_up) {
      throw Error("--tune: interrupted; nothing was tuned", ExitStatus::kRuntimeFault);
    }
    if (!is_quiet_) {
      std::vector<double> times = measured_step_times(record);
      times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(request_.warm_up));
      const std::string text =
          fmt::format("{} steps of {}: {}\n", steps, to_string(run.executed.config),
                      duration(Seconds(median(times))));
      static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
    }
    return record;
  }

  [[nodiscard]] PlanRun report_of(const PreparedRun& run, const RunRecord& record) const {
    RunRequest request = request_;
    request.steps = std::ssize(record.ranks.front().steps);
    request.warm_up = 0;
    return {.report = make_report(run, request, record), .step_times = measured_step_times(record)};
  }

  const RunRequest& request_;
  RunSignals signals_;
  bool is_quiet_ = false;
};

PlanList read_plans(const CommandLine& line) {
  if (line.words().empty()) {
    throw Error("--tune: expected the plans of ptdp-plan --format json, or files of plans");
  }
  return line.words().size() == 1 ? read_plan_list(line.words().front())
                                  : read_plan_files({line.words().begin(), line.words().end()});
}

/// "ptdp-run --tune of 3 plans, 2026-01-31": the day in universal time.
std::string provenance(std::size_t plans) {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&now, &day);
  return fmt::format("ptdp-run --tune of {} plans, {}-{:02}-{:02}", plans, day.tm_year + 1900,
                     day.tm_mon + 1, day.tm_mday);
}

/// Refuses, before anything runs, a file that cannot be written or would replace an input.
std::optional<std::filesystem::path> read_output(const CommandLine& line, const std::string& flag) {
  const auto text = line.text(flag);
  if (!text) {
    return std::nullopt;
  }
  const std::filesystem::path path = *text;
  std::error_code error;
  for (const std::string& word : line.words()) {
    if (std::filesystem::equivalent(path, word, error)) {
      throw Error("--" + flag + ": expected another file than the plans, got " + in_quotes(*text));
    }
  }
  if (path.extension() != ".json") {
    throw Error("--" + flag + ": expected the name of a file that ends in .json, got " +
                in_quotes(*text));
  }
  if (path.has_parent_path() && !std::filesystem::is_directory(path.parent_path(), error)) {
    throw Error("--" + flag + ": no directory " + in_quotes(path.parent_path().string()),
                ExitStatus::kOutputFailed);
  }
  return path;
}

}  // namespace

void add_tune_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("tune", "run the best plans of a list in turn, refit the profile, search again");
  option("plans,k", text_value(), "with --tune: how many of the list to run (default: 4)");
  option("profile-out", text_value(),
         "with --tune: write the refitted cluster to this file, its stack beside it");
}

void tune_plans(const CommandLine& line, const RunRequest& request, const RunSignals& signals) {
  line.allow_only({"tune", "plans", "profile-out", "output", "steps", "warm-up", "data", "seed",
                   "dropout", "reproducible", "overlap", "lr", "min-lr", "lr-warm-up", "lr-decay",
                   "weight-decay", "clip", "format", "quiet"});
  const auto plan_file = read_output(line, "output");
  const auto profile_file = read_output(line, "profile-out");
  const bool is_json = line.choice("format", {"text", "json"}).value_or(0) == 1;
  const auto most =
      static_cast<std::size_t>(line.count("plans", 1, kMostTuned).value_or(kUsuallyTuned));
  const PlanList list = read_plans(line);
  const Tuning tuning = tune(list, most, InterleavedRuns(request, signals, line.has("quiet")),
                             provenance(std::min(most, list.plans.size())));
  print(is_json ? to_json(tuning) : to_table(tuning));
  if (plan_file) {
    write_plan(*plan_file, tuning.plans[tuning.best()].corrected);
  }
  if (profile_file) {
    write_profiles(*profile_file, tuning.refit);
  }
}

}  // namespace ptdp
