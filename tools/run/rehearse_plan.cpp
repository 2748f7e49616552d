#include "tools/run/rehearse_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "planner/formatting.h"
#include "planner/runs/rehearsal_composition.h"
#include "planner/runs/rehearsal_report.h"
#include "runtime/rehearsal/rehearsal.h"
#include "tools/run/rehearsal_measurement.h"
#include "tools/run/run_faults.h"
#include "tools/run/run_flags.h"
#include "tools/run/run_plan.h"
#include "tools/run/run_progress.h"
#include "tools/shared/memory_limit.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

/// Largest simulated memory of other ranks: more than caches hold.
constexpr Bytes kMostMemoryOfOthers(64.0 * 1024.0 * 1024.0);

/// What is rehearsed, and the plan whose model predicts the rest.
struct Rehearsed {
  Plan given;
  /// The plan with the stack that predictions and messages use, at the precision of the run.
  Plan plan;
  RunRequest request;
  std::vector<int> ranks;  ///< Pipeline ranks to rehearse, ascending.
  /// Predicted memory of this runtime, by pipeline rank.
  std::vector<MemoryBreakdown> memory = {};
  Bytes memory_of_others;  ///< See RehearsalOptions::memory_of_others.
  RehearsalBasis basis;
};

/// Ends the process half a second after a signal if the rehearsed rank has not ended by then. A
/// device may have been given more than a second of work.
class InterruptWatch {
 public:
  InterruptWatch(const std::atomic<int>& interrupt, const std::string& program)
      : thread_([&interrupt, program](const std::stop_token& stop) {
          constexpr std::chrono::milliseconds look(20);
          constexpr int patience = 25;
          for (int looks = 0; !stop.stop_requested(); looks += interrupt == 0 ? 0 : 1) {
            if (looks > patience) {
              tell(program + ": interrupted; nothing was composed\n");
              ::_exit(128 + interrupt);
            }
            std::this_thread::sleep_for(look);
          }
        }) {}

 private:
  std::jthread thread_;
};

std::vector<int> ranks_of(const CommandLine& line, const Plan& plan) {
  const int pp = plan.config.pp;
  const std::string stage = line.text("stage").value_or("all");
  std::vector<int> ranks;
  if (stage == "first") {
    ranks = {0};
  } else if (stage == "middle") {
    ranks = {middle_rank(plan)};
  } else if (stage == "last") {
    ranks = {pp - 1};
  } else if (stage == "all") {
    ranks = {0, middle_rank(plan), pp - 1};
  } else {
    int rank = -1;
    const auto [end, error] = std::from_chars(stage.data(), stage.data() + stage.size(), rank);
    if (error != std::errc() || end != stage.data() + stage.size() || rank < 0 || rank >= pp) {
      throw Error(fmt::format(
          "--stage: expected first, middle, last, all or a rank of the pipeline, 0 to {}, got {}",
          pp - 1, in_quotes(stage)));
    }
    ranks = {rank};
  }
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

StackSpec own_stack(const Plan& plan, Precision precision) {
  return at_precision(find_stack(is_host_plan(plan) ? "ptdp-cpu" : "ptdp-cuda"), precision);
}

/// Returns the memory that this runtime is predicted to hold, by pipeline rank, whatever stack
/// predicts the times.
std::vector<MemoryBreakdown> own_memory(const PreparedRun& run) {
  Scenario scenario = run.plan.scenario;
  if (scenario.stack.memory_model != MemoryModel::kPtdp) {
    scenario.stack = own_stack(run.plan, run.precision);
  }
  return memory_by_rank({scenario, run.plan.config});
}

/// Returns the plan with this runtime's stack if it is for another stack, and notes the difference
/// in `basis`. Returns the plan unchanged, with a note, when this runtime's stack cannot be
/// predicted.
Plan with_own_stack(const Plan& plan, RehearsalBasis& basis) {
  const StackSpec& stack = plan.scenario.stack;
  if (stack.memory_model == MemoryModel::kPtdp) {
    return plan;
  }
  try {
    Scenario scenario = plan.scenario;
    scenario.stack = own_stack(plan, stack.precision);
    check(scenario);
    Plan own = make_plan({scenario, plan.config}, plan.gpus, plan.memory_headroom, Calibration{});
    own.schedule = plan.schedule;
    basis.notes.push_back(
        fmt::format("The plan is for {}, but what ran is this runtime, so predictions and messages "
                    "are those of {} with the same configuration",
                    stack.name, scenario.stack.name));
    return own;
  } catch (const Error& error) {
    basis.notes.push_back(
        fmt::format("Predictions and messages are of {}, but what ran is this runtime: differences "
                    "are between the two ({})",
                    stack.name, error.what()));
    return plan;
  }
}

RehearsalBasis complete_basis(RehearsalBasis basis, const Plan& given, const PreparedRun& run) {
  const ClusterSpec& cluster = given.scenario.cluster;
  const StackSpec& stack = run.plan.scenario.stack;
  const bool is_planned = is_planned_gpu(run.device, given);
  basis.stack = stack.name;
  basis.predicted = "Predicted for " + cluster.name + " with " + stack.name + "; " +
                    run.plan.predicted.basis({run.plan.scenario, run.plan.config});
  const std::string here =
      run.device.is_gpu() ? run.device.gpus.front().name : std::string("one core of this host");
  basis.rates =
      fmt::format("Rates of {}, on which this ran; the plan is for {}{}", here, cluster.name,
                  is_planned ? ""
                             : fmt::format(" ({}): differences are between the two, not errors of "
                                           "the prediction",
                                           cluster.gpu.name));
  basis.is_like_for_like = is_planned && stack.memory_model == MemoryModel::kPtdp;
  return basis;
}

/// Returns the memory of the other ranks that share a core with the rehearsed one [B]; 0 unless a
/// node has more ranks than cores.
Bytes memory_of_others(const Rehearsed& rehearsed, const PreparedRun& run) {
  const ClusterSpec& cluster = run.plan.scenario.cluster;
  const int ranks = ranks_on_node(run.plan.config, cluster);
  if (run.device.is_gpu() || !cluster.cores_per_node || ranks <= *cluster.cores_per_node) {
    return {};
  }
  Bytes of_all;
  for (const MemoryBreakdown& memory : rehearsed.memory) {
    of_all += memory.total() - memory.reserve;
  }
  const double others = 1.0 * ranks / *cluster.cores_per_node - 1.0;
  return std::min(others * of_all / static_cast<double>(rehearsed.memory.size()),
                  kMostMemoryOfOthers);
}

PreparedRun prepare_rank(const Rehearsed& rehearsed, int rank) {
  RunRequest request = rehearsed.request;
  request.microbatches = rehearsed_microbatches(rehearsed.plan, rank);
  return prepare_run(rehearsed.plan, request);
}

/// Throws Error(kNothingFits) for a rank that is predicted not to fit.
void check_memory(const PreparedRun& run, const Rehearsed& rehearsed, int rank) {
  const MemoryBreakdown& predicted = rehearsed.memory[static_cast<std::size_t>(rank)];
  const Bytes needed = predicted.total() - predicted.reserve;
  const Bytes limit = run.device.is_gpu() ? run.device.memory() : memory_limit();
  if (needed <= limit) {
    return;
  }
  std::string parts;
  for (const MemoryTerm& term : kMemoryTerms) {
    if (term.size != &MemoryBreakdown::reserve) {
      parts +=
          fmt::format("{}{} {}", parts.empty() ? "" : ", ", term.name, bytes(predicted.*term.size));
    }
  }
  throw Error(
      fmt::format("config: rank {} of the pipeline needs {} ({}); expected at most the {} of {}: a "
                  "plan with --recompute full, a smaller --micro-batch-size, more tp or more "
                  "stages needs less, and --stage rehearses another rank",
                  rank, bytes(needed), parts, bytes(limit),
                  run.device.is_gpu() ? run.device.name() : "this machine"),
      ExitStatus::kNothingFits);
}

[[noreturn]] void throw_out_of_memory(const Rehearsed& rehearsed, int rank, const std::string& what,
                                      std::int64_t peak) {
  const MemoryBreakdown& predicted = rehearsed.memory[static_cast<std::size_t>(rank)];
  throw Error(fmt::format("rank {} of the pipeline: {}: it had allocated {} at most, predicted {}; "
                          "less is needed by a plan with --recompute full, a smaller "
                          "--micro-batch-size or more stages",
                          rank, what, bytes(Bytes(static_cast<double>(peak))),
                          bytes(predicted.total() - predicted.reserve)),
              ExitStatus::kRuntimeFault);
}

/// Prints a line per step, at most one a second.
class RehearsalProgress {
 public:
  RehearsalProgress(int rank, int pp, std::int64_t steps) : rank_(rank), pp_(pp), steps_(steps) {}

  void operator()(std::int64_t done, const StepRecord& record) {
    const Clock::time_point now = Clock::now();
    if (done > 1 && done < steps_ && now - told_ < std::chrono::seconds(1)) {
      return;
    }
    told_ = now;
    const double each =
        std::chrono::duration<double>(now - start_).count() / static_cast<double>(done);
    tell(fmt::format("rehearsing rank {} of {}: step {}/{}  {}  {} left\n", rank_, pp_, done,
                     steps_, duration(record.step.length()),
                     duration(Seconds(each * static_cast<double>(steps_ - done)))));
  }

 private:
  int rank_;
  int pp_;
  std::int64_t steps_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point told_;
};

RehearsalRecord rehearse_rank(const PreparedRun& run, const Rehearsed& rehearsed, int rank,
                              const std::atomic<int>* interrupt, bool is_quiet,
                              const std::string& program) {
  const TransformerConfig& model = run.settings.model;
  const RunRequest& request = rehearsed.request;
  const TrainingData data =
      TrainingData::synthetic(model.vocab_size, model.seq_length, request.seed);
  const std::unique_ptr<Backend> backend = backend_maker(
      run, std::nullopt,
      [&](const std::string& note) { tell(fmt::format("{}: {}\n", program, note)); })(0);
  RehearsalOptions options{
      .pipeline_rank = rank,
      .warm_up = request.warm_up,
      .measured = request.steps - request.warm_up,
      .memory_of_others = static_cast<std::int64_t>(rehearsed.memory_of_others.value()),
      .interrupt = interrupt};
  if (!is_quiet) {
    options.on_step = RehearsalProgress(rank, run.settings.config.pp, request.steps);
  }
  try {
    return rehearse(run.settings, data, *backend, options);
  } catch (const OutOfMemory& error) {
    throw_out_of_memory(rehearsed, rank, error.what(), backend->peak_bytes());
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(rehearsed, rank, "out of memory", backend->peak_bytes());
  }
}

RehearsalReport make_rehearsal_report(const Rehearsed& rehearsed,
                                      const std::vector<PreparedRun>& runs,
                                      const std::vector<RehearsalRecord>& records) {
  const PreparedRun& first = runs.front();
  const Plan& plan = first.plan;
  std::vector<RehearsedTimes> times;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    times.push_back(rehearsed_times(runs[i].settings, rehearsed.ranks[i], records[i]));
  }
  const Composition composition = compose(plan, times);
  const RehearsalBasis basis = complete_basis(rehearsed.basis, rehearsed.given, first);
  const bool has_peak = is_planned_gpu(first.device, rehearsed.given);
  RehearsalReport report{.plan = rehearsed.given,
                         .execution = {.device = first.device.name(),
                                       .precision = first.precision,
                                       .steps = rehearsed.request.steps,
                                       .warm_up = rehearsed.request.warm_up,
                                       .seed = rehearsed.request.seed,
                                       .dropout = first.settings.dropout,
                                       .memory_of_others = rehearsed.memory_of_others},
                         .basis = basis,
                         .planned_time = rehearsed.given.predicted.iteration_time.value,
                         .predicted_time = plan.predicted.iteration_time,
                         .simulated_time = compose(plan, {}).step,
                         .composed_time = composition.step,
                         .core_contention = composition.core_contention,
                         .model_flops = plan.predicted.model_flops,
                         .hardware_flops = plan.predicted.hardware_flops,
                         .peak = has_peak ? static_cast<double>(plan.config.world_size()) *
                                                plan.scenario.cluster.gpu.peak(first.precision)
                                          : FlopsPerSecond(0.0),
                         .terms_rank = composition.terms_rank,
                         .sources = composition.sources,
                         .modelled = modelled_of(plan, runs.size())};
  const RunTerms predicted = predicted_run_terms(plan, composition.terms_rank);
  for (int term = 0; term < kNumRunTerms; ++term) {
    report.terms.push_back({.name = std::string(kRunTermNames[static_cast<std::size_t>(term)]),
                            .predicted = predicted[RunTerm(term)],
                            .composed = composition.terms[RunTerm(term)]});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    report.ranks.push_back(
        rehearsed_rank(plan, runs[i].settings, times[i], records[i], composition));
    report.ranks.back().memory = compare_rehearsed_memory(
        rehearsed.memory[static_cast<std::size_t>(rehearsed.ranks[i])], records[i]);
  }
  return report;
}

Rehearsed read_rehearsal(const CommandLine& line) {
  Rehearsed rehearsed{.given = read_best_plan(line.words().front()),
                      .request = parse_request(line)};
  rehearsed.request.rehearses = true;
  rehearsed.request.uses_nccl = false;
  rehearsed.request.allows_other_gpu = true;
  rehearsed.plan = with_own_stack(rehearsed.given, rehearsed.basis);
  rehearsed.ranks = ranks_of(line, rehearsed.given);
  return rehearsed;
}

}  // namespace

void add_rehearsal_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("rehearse",
         "run ranks of the plan at full size, one after the other, each alone on one device, and "
         "compose the iteration of all from them with modelled messages");
  option("stage", text_value("STAGE", {"first", "middle", "last", "all"}),
         "with --rehearse: first, middle, last, all (these three), or the number of a rank of the "
         "pipeline (default: all)");
}

void check_rehearsal(const CommandLine& line, const JobProcess* process) {
  line.allow_only({"rehearse", "stage", "output", "format", "steps", "warm-up", "seed", "dtype",
                   "dropout", "overlap", "device", "quiet"},
                  "--rehearse");
  if (process != nullptr && process->size() > 1) {
    throw Error(fmt::format(
        "--rehearse: one process rehearses all ranks; expected no mpirun, srun or torchrun, got {} "
        "processes",
        process->size()));
  }
  line.allow_words(1);
  if (line.words().empty()) {
    throw Error(as_typed("--rehearse: expected a plan, such as ptdp-run plan.json --rehearse"));
  }
  static_cast<void>(line.choice<AnswerFormat>("format", kReportFormats));
}

int rehearse_plan(const CommandLine& line, const std::string& program) {
  const auto format = line.choice_or_first<AnswerFormat>("format", kReportFormats);
  Rehearsed rehearsed = read_rehearsal(line);
  check_outputs(line);
  std::vector<PreparedRun> runs;
  for (const int rank : rehearsed.ranks) {
    runs.push_back(prepare_rank(rehearsed, rank));
  }
  if (runs.front().plan.scenario.stack.precision != runs.front().precision) {
    throw Error(
        fmt::format("--dtype: {} does not say what it keeps in {}; expected one of its "
                    "precisions",
                    runs.front().plan.scenario.stack.name, name_of(runs.front().precision)));
  }
  rehearsed.memory = own_memory(runs.front());
  for (const int rank : rehearsed.ranks) {
    check_memory(runs.front(), rehearsed, rank);
  }
  rehearsed.memory_of_others = memory_of_others(rehearsed, runs.front());
  const RunSignals signals = catch_signals();
  std::vector<RehearsalRecord> records;
  try {
    const InterruptWatch watch(*signals.interrupt, program);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      records.push_back(rehearse_rank(runs[i], rehearsed, rehearsed.ranks[i], signals.interrupt,
                                      line.has("quiet"), program));
    }
  } catch (const RehearsalInterrupted&) {
    tell(program + ": interrupted; nothing was composed\n");
    return 128 + *signals.interrupt;
  }
  const RehearsalReport report = make_rehearsal_report(rehearsed, runs, records);
  if (const auto path = line.text("output")) {
    write_file_atomically(*path, to_json(report));
  }
  print_answer(in_format(format, report), format);
  return *signals.interrupt == 0 ? 0 : 128 + *signals.interrupt;
}

}  // namespace ptdp
