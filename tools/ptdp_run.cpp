// ptdp-run: trains under a plan, and compares what it measures with what was predicted.
#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/simulation/views/trace.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"
#include "cost_model/text/plural.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"
#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "planner/report/answers/run_page.h"
#include "runtime/launch/launcher.h"
#include "runtime/launch/local_processes.h"
#include "runtime/transport/nccl/nccl_world.h"
#include "tools/run/crash_report.h"
#include "tools/run/launched_command.h"
#include "tools/run/prediction_watch.h"
#include "tools/run/prepare_together.h"
#include "tools/run/rehearse_plan.h"
#include "tools/run/run_faults.h"
#include "tools/run/run_flags.h"
#include "tools/run/run_plan.h"
#include "tools/run/run_progress.h"
#include "tools/run/run_weights.h"
#include "tools/run/tune_plans.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/completion.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

constexpr const char* kProgram = "ptdp-run";
constexpr const char* kUsage =
    "usage: ptdp-run plan.json [--steps N] [--warm-up N] [--data tokens.bin] [--dtype T] [-o "
    "run.json] ...\n"
    "       ptdp-run plan.json --shrink [--microbatches N] ...\n"
    "       mpirun|srun -n N ptdp-run plan.json ...\n"
    "       torchrun --no-python --nproc-per-node N ptdp-run plan.json ...\n"
    "       ptdp-run plan.json --rehearse [--stage first|middle|last|all|N] [-o rehearsal.json] "
    "...\n"
    "       ptdp-run --tune plans.json [-k N] [-o tuned_plan.json] [--profile-out CLUSTER.json] "
    "...\n"
    "\n"
    "Trains a model under a plan of ptdp-plan: every rank is a thread of this process, or under\n"
    "mpirun, srun and torchrun a process, and all walk through the plan's schedule, on the GPUs of "
    "this\n"
    "machine where the plan is for GPUs and there are any, else on its cores. Prints what was\n"
    "predicted beside what was measured: time, its terms, actions, peak memory, bytes sent.\n"
    "\n"
    "Without --data it trains on a random language that can be learnt (1.11 nats per token).\n"
    "--shrink keeps tensor and pipeline parallelism, schedule, microbatches and recomputation of "
    "a\n"
    "plan of any size and makes its layers tiny: every order and message is tried on this "
    "machine.\n"
    "\n"
    "--rehearse runs one rank at a time of a plan of any size, at full size on one GPU or core "
    "with\n"
    "messages that are free, measures its compute and its memory, and composes the iteration of "
    "the\n"
    "whole cluster from them with modelled messages.\n"
    "\n"
    "--tune runs the best plans of a search (ptdp-plan --format json > plans.json) in turn, "
    "corrects\n"
    "the profiles by what they measured, searches again, runs the new best, and says whether the\n"
    "choice changed and why.\n"
    "\n"
    "--steps is the length of the training: with --save DIR --resume DIR the same command goes on "
    "from\n"
    "the newest checkpoint after whatever ended it, and does nothing once all steps are done.\n"
    "\n"
    "A rank that fails or hangs ends the run: status 4, with the rank, its action and the report "
    "of\n"
    "the steps before. SIGINT and SIGTERM end it at once with that report, SIGUSR1 after its step\n"
    "with the checkpoint of --save; --tune then shows the turns that were complete.\n"
    "\n"
    "GLOSSARY.md explains the terms.\n"
    "\n";

void write_trace_file(const std::string& path, const PreparedRun& run, const RunRecord& record,
                      std::int64_t warm_up) {
  StagedFile file(path);
  write_trace(run.settings.schedule, measured_timeline(run, record, warm_up), run.settings.messages,
              {}, [&](std::string_view piece) { file.append(piece); });
  file.seal();
  file.rename_onto_target();
}

/// Whether this process reports for all processes of the job.
bool is_first(const JobProcess* process) {
  return process == nullptr || process->rank() == 0;
}

/// Makes all calls, even if some fail. Passes each failure to `failed`, or without it rethrows the
/// first one at the end.
void attempt_all(const std::vector<std::function<void()>>& calls,
                 const std::function<void(const std::exception&)>& failed = {}) {
  std::exception_ptr failure;
  for (const auto& call : calls) {
    try {
      call();
    } catch (const std::exception& error) {
      if (failed) {
        failed(error);
      } else {
        failure = failure ? failure : std::current_exception();
      }
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// Everything that a run needs before it starts.
struct Job {
  RunRequest request;
  CheckpointOptions checkpoint;
  /// The checkpoint to go on from. If it is of the last step, nothing is left to do.
  std::optional<Checkpoint> resumed;
  std::optional<PretrainedWeights> loaded;  ///< Weights of --load to begin with.
  std::optional<PreparedRun> prepared;
  std::optional<TrainingData> data;
  DeadlineRule deadlines;
  std::vector<InjectedFault> faults;
  /// Lock on the directory of --save; only in the process of rank 0.
  std::optional<SavingLock> lock;
  int num_processes = 0;  ///< Processes to start here, one for each rank; 0 if they are there.
};

/// Returns the inputs that must be equal on every process of a job.
std::vector<SharedInput> shared_inputs(const CommandLine& line, const Job& job) {
  const PreparedRun& run = *job.prepared;
  std::vector<SharedInput> inputs = {
      {"the command line", line.quoted_arguments_without({"transport"})},
      {"the plan", read_file(line.words().front())},
      {"the device", run.device.is_gpu() ? "cuda" : "cpu"},
      {"what tensors travel over", run.uses_nccl ? "nccl" : "the processes' own"},
      {"the checkpoint to go on from",
       job.resumed ? std::to_string(job.resumed->state().step) : ""},
      {"--data", job.data ? job.data->describe() : ""}};
  if (const auto orders = line.text("orders")) {
    inputs.push_back({"--orders", read_file(*orders)});
  }
  return inputs;
}

void check_num_processes(const JobProcess* process, const ParallelConfig& config) {
  if (process != nullptr && process->size() != config.world_size()) {
    throw Error(fmt::format(
        "the plan has {}, but {} {} started: expected {} (mpirun -n, srun -n, torchrun "
        "--nproc-per-node; without them ptdp-run starts what it needs on this machine)",
        plural(config.world_size(), "rank"), plural(process->size(), "process", "processes"),
        process->size() == 1 ? "was" : "were", config.world_size()));
  }
}

/// Whether this process starts one for each rank. It does where no launcher started several, if
/// each rank has a GPU to itself or --transport asks for TCP.
bool starts_processes(const CommandLine& line, const JobProcess* process, const Job& job) {
  const bool is_alone =
      process == nullptr || (process->size() == 1 && process->transport() == "tcp");
  if (job.prepared->settings.config.world_size() == 1 || !is_alone ||
      environment_of_this_process().contains(kStarterVariable)) {
    return false;
  }
  return job.prepared->uses_nccl ? !job.request.allows_nccl_threads
                                 : line.text("transport") == "tcp";
}

/// Throws Error for flags of another mode, and unless the line names exactly one plan.
void check_mode(const CommandLine& line) {
  for (const char* flag : {"plans", "profile-out"}) {
    if (line.has(flag)) {
      throw Error(std::string("--") + flag + ": expected together with --tune");
    }
  }
  if (line.has("stage")) {
    throw Error("--stage: expected together with --rehearse");
  }
  line.allow_words(1);
  if (line.words().empty()) {
    throw Error(as_typed("expected a plan, such as ptdp-run plan.json; --help shows the flags"));
  }
}

/// Says something on standard error, after the command's name.
void tell_note(const std::string& note) {
  tell(fmt::format("{}: {}\n", as_typed(kProgram), note));
}

/// Prepares what only a run with steps to do needs: data, deadlines and the lock on --save.
void prepare_steps(const CommandLine& line, const JobProcess* process, Job& job) {
  job.data = open_data(job.request, job.prepared->settings.model);
  if (job.request.data && is_first(process) && !line.has("quiet")) {
    tell_note(*job.request.data + ": " + job.data->describe());
  }
  add_predicted(job.deadlines, *job.prepared);
  if (job.checkpoint.save_to && is_first(process)) {
    check_saved_steps(*job.checkpoint.save_to, job.resumed ? job.resumed->state().step : 0,
                      line.text("resume").value_or(""));
    job.lock.emplace(*job.checkpoint.save_to);
  }
}

/// Reads and checks everything that a run needs. Throws Error for a run that is not possible.
void prepare(const CommandLine& line, const JobProcess* process, Job& job) {
  check_mode(line);
  static_cast<void>(line.choice<AnswerFormat>("format", kReportFormats));
  RunRequest& request = job.request;
  request = parse_request(line);
  if (process != nullptr) {
    request.ranks_here = process->ranks_on_host();
    request.place_here = process->place_on_host();
    request.rank = process->rank();
    request.meeting = process->transport();
  }
  job.checkpoint = parse_checkpoint(line);
  check_outputs(line);

  const Plan plan = read_best_plan(line.words().front());
  finish_learning_rate(line, request);
  job.resumed = open_checkpoint(line);
  leave_done_steps(request, job.resumed ? job.resumed->state().step : 0);
  if (job.resumed) {
    job.checkpoint.resume = &*job.resumed;
    // Samples and dropout continue from where they were.
    request.seed = line.has("seed") ? request.seed : job.resumed->state().seed;
  }
  if (request.allows_nccl_threads && process != nullptr) {
    throw Error(
        fmt::format("--transport {}: expected one process, since all ranks are its threads; "
                    "found {}",
                    kNcclThreads, plural(process->size(), "process", "processes")));
  }
  job.prepared = prepare_run(plan, request);
  if (starts_processes(line, process, job)) {
    job.num_processes = static_cast<int>(job.prepared->settings.config.world_size());
    return;
  }
  check_num_processes(process, job.prepared->settings.config);
  if (job.resumed) {
    job.resumed->require_model(job.prepared->settings.model);
  }
  job.loaded = open_weights(line, *job.prepared);
  if (job.loaded) {
    job.checkpoint.load = &*job.loaded;
  }
  job.checkpoint.export_to = parse_export(line, *job.prepared, job.loaded ? &*job.loaded : nullptr);
  job.deadlines = parse_deadline(line);
  job.faults = parse_faults(line, *job.prepared);
  if (request.steps > 0) {
    prepare_steps(line, process, job);
  }
  if (is_first(process)) {
    for (const std::string& text : describe_start(line, request, job.resumed)) {
      tell_note(text);
    }
  }
}

void report_run(const CommandLine& line, const Job& job, const RunRecord& record,
                const PredictionWatch& watch) {
  RunReport report = make_report(*job.prepared, job.request, record);
  report.warnings = watch.warnings(report);
  const auto format = line.choice_or_first<AnswerFormat>("format", kReportFormats);
  attempt_all({[&] { print_answer(in_format(format, report), format); },
               [&] {
                 if (const auto path = line.text("trace")) {
                   write_trace_file(*path, *job.prepared, record, report.execution.warm_up);
                 }
               },
               [&] {
                 if (const auto path = line.text("output")) {
                   write_file_atomically(*path, to_json(report));
                 }
               },
               [&] {
                 write_report(line, kProgram, [&] {
                   return run_page(report,
                                   recording_of(*job.prepared, record, report.execution.warm_up));
                 });
               }});
}

/// Reports an early end: the ranks' last actions, the report of the steps before, and the cause.
/// Returns the exit status.
int report_end(const CommandLine& line, const Job& job, const EarlyEnd& end,
               const PredictionWatch& watch) {
  return run_command(kProgram, [&]() -> int {
    tell(end.few_actions);
    attempt_all({[&] {
                   if (const auto path = line.text("dump-actions")) {
                     const bool is_thread = end.process < 0;
                     write_file_atomically(
                         is_thread ? *path : fmt::format("{}.rank{}", *path, end.process),
                         end.actions);
                   }
                 },
                 [&] {
                   if (!end.record.ranks.empty() && end.done_steps > 0) {
                     report_run(line, job, end.record, watch);
                   }
                 },
                 [&] { tell(memory_advice(end, *job.prepared)); }},
                [](const std::exception& error) { tell_note(error.what()); });
    if (end.process >= 0 && end.signal == 0 && !end.is_told_elsewhere) {
      tell_note(fmt::format("{} of {} done", end.record.first_step + end.done_steps,
                            plural(end.record.first_step + end.asked_steps, "step")));
    }
    const EndedEarly why(end);
    if (end.signal == 0 && !end.is_told_elsewhere) {
      throw Error(why.what(), why.status());
    }
    if (!end.is_told_elsewhere) {
      tell_note(why.what());
    }
    return end.signal == 0 ? static_cast<int>(end.status) : 128 + end.signal;
  });
}

/// Trains and reports; returns the exit status.
int execute(const CommandLine& line, const Job& job, JobProcess* process) {
  const RunSignals signals = catch_signals();
  const TrainingSettings& settings = job.prepared->settings;
  PredictionWatch watch(*job.prepared, job.request.warm_up, line.text("output").value_or(""));
  const auto tell_once = [&](const std::string& note) {
    if (is_first(process)) {
      tell_note(note);
    }
  };
  RunOptions options{
      .steps = job.request.steps,
      .checkpoint = job.checkpoint,
      .expected = expected_step(*job.prepared),
      .planned_memory = planned_memory(*job.prepared),
      .on_note = tell_once,
      .stop = signals.stop,
      .interrupt = signals.interrupt,
      .deadlines = job.deadlines,
      .make_backend = backend_maker(
          *job.prepared,
          process == nullptr ? std::nullopt : std::optional(process->place_on_host()), tell_once),
      .process = process,
      .uses_nccl = job.prepared->uses_nccl,
      .make_host_backend = [] { return std::make_unique<CpuBackend>(); },
      .asks_estimates = job.request.asks_estimates,
      .hooks = [&](int rank) { return injected_faults(job.faults, rank); },
      .give_up = [&](const EarlyEnd& end) { ::_exit(report_end(line, job, end, watch)); }};
  const bool is_quiet = line.has("quiet");
  const auto warn = [&](const std::optional<std::string>& warning) {
    if (warning && !is_quiet) {
      tell_note("warning: " + *warning);
    }
  };
  const std::string sharing =
      sharing_note(job.prepared->device,
                   job.request.ranks_here.value_or(static_cast<int>(settings.config.world_size())),
                   process != nullptr);
  if (!sharing.empty() && !job.prepared->uses_nccl) {
    tell_once(sharing);
  }
  if (const std::string note = dropout_note(*job.prepared); !note.empty()) {
    tell_once(note);
  }
  Progress progress(*job.prepared, hardware_flops(settings.model, settings.global_batch_size,
                                                  settings.config.recompute));
  options.on_step = [&](const StepProgress& step) {
    if (!is_quiet) {
      progress(step);
    }
    warn(watch.observe(step));
  };
  try {
    const RunRecord record = run_training(settings, *job.data, options);
    warn(watch.finish());
    if (is_first(process)) {
      report_run(line, job, record, watch);
    }
    if (!record.differences.empty()) {
      tell_once(
          fmt::format("differs from what the plan says, a bug of ours, please report it; the run "
                      "ended and saved nothing of it: {}",
                      fmt::join(record.differences, "; ")));
      return static_cast<int>(ExitStatus::kBug);
    }
  } catch (const EndedEarly& early) {
    return report_end(line, job, early.end(), watch);
  }
  return *signals.interrupt == 0 ? 0 : 128 + *signals.interrupt;
}

CommandTable command_table() {
  return {.name = kProgram,
          .usage = kUsage,
          .groups = {{"flags", run_flags()}},
          .operand = {.name = "FILE"}};
}

int complete_words(int argc, const char* const* argv) {
  return run_command(kProgram, [&] {
    write_standard_output(*completion_answer(argc, argv, command_table()));
    return 0;
  });
}

int run(int argc, const char* const* argv, JobProcess* process) {
  const CommandTable table = command_table();
  std::optional<CommandLine> line;
  std::optional<std::string> answer;
  Job job;
  prepare_together(
      process, phase_deadline(deadline_flag(argc, argv)), [&]() -> std::vector<SharedInput> {
        line.emplace(argc, argv, table.flags());
        answer = standard_answer(*line, table);
        if (answer) {
          return {};
        }
        if (line->has("rehearse")) {
          check_rehearsal(*line, process);
          return {};
        }
        if (line->has("tune")) {
          if (process != nullptr) {
            throw Error(
                "--tune: runs plans of several numbers of ranks, as threads; expected no "
                "mpirun, srun or torchrun");
          }
          return {};
        }
        prepare(*line, process, job);
        return job.num_processes > 0 ? std::vector<SharedInput>{} : shared_inputs(*line, job);
      });
  if (answer) {
    if (is_first(process)) {
      print(*answer);
    }
    return 0;
  }
  if (line->has("rehearse")) {
    return rehearse_plan(*line, as_typed(kProgram));
  }
  if (line->has("tune")) {
    return tune_plans(*line, as_typed(kProgram));
  }
  if (job.num_processes > 0) {
    return run_local_processes(job.num_processes, argv);
  }
  return job.request.steps == 0 ? 0 : execute(*line, job, process);
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view(ptdp::kCompletionRequest)) {
    return ptdp::complete_words(argc, argv);
  }
  ptdp::report_crashes();
  ptdp::load_unwinder();
  // Before threads start, and before CUDA reads the environment.
  ptdp::prepare_nccl_environment();
  ptdp::prepare_open_blas_environment();
  return ptdp::own_status(ptdp::run_launched_command(
      ptdp::as_typed(ptdp::kProgram), argc, argv,
      [&](ptdp::JobProcess* process) { return ptdp::run(argc, argv, process); }));
}
