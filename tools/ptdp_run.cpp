// ptdp-run: trains under a plan, and holds what it measures against what was predicted.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>

#include "cost_model/analytic/flops.h"
#include "cost_model/error.h"
#include "cost_model/files.h"
#include "cost_model/simulation/trace.h"
#include "cost_model/spec/in_quotes.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/formatting.h"
#include "tools/command_line.h"
#include "tools/launched_command.h"
#include "tools/prediction_watch.h"
#include "tools/run_faults.h"
#include "tools/run_plan.h"
#include "tools/tune_plans.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-run";
constexpr const char* kUsage =
    "usage: ptdp-run plan.json [--steps N] [--warm-up N] [--data tokens.bin] [--dtype T] [-o "
    "run.json] ...\n"
    "       ptdp-run plan.json --shrink [--microbatches N] ...\n"
    "       mpirun -n N ptdp-run plan.json ...\n"
    "       ptdp-run --tune plans.json [-k N] [-o tuned_plan.json] [--profile-out CLUSTER.json] "
    "...\n"
    "\n"
    "Trains a GPT under a plan of ptdp-plan: every rank is a thread of this process, or under\n"
    "mpirun and srun a process, and all walk through the plan's schedule. Prints what was "
    "predicted beside what was measured: time, its\n"
    "terms, actions, peak memory, bytes sent.\n"
    "\n"
    "Without --data it trains on a random language that can be learnt (1.11 nats per token).\n"
    "--shrink keeps tensor and pipeline parallelism, schedule, microbatches and recomputation of "
    "a\n"
    "plan of any size and makes its layers tiny: every order and message is tried on this "
    "machine.\n"
    "\n"
    "--tune runs the best plans of a search (ptdp-plan --format json > plans.json) in turn, "
    "corrects\n"
    "the profiles by what they measured, searches again, runs the new best, and says whether the\n"
    "choice changed and why.\n"
    "\n"
    "A rank that fails or hangs ends the run: status 4, with the rank, its action and the report "
    "of\n"
    "the steps before. SIGINT and SIGTERM end it at once with that report, SIGUSR1 after its step\n"
    "with the checkpoint of --save.\n"
    "\n";

constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr double kLargestRate = 1e3;

po::options_description flag_descriptions() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("steps", text_value(), "steps to train (default: 10)");
  option("warm-up", text_value(),
         "of these, the first that are not measured (default: 2, or one less than --steps)");
  option("data", text_value(), "tokens as nanoGPT or llm.c write them: uint16");
  option("seed", text_value(), "of weights, dropout and samples (default: 1)");
  option("dtype", text_value(), "f64, f32, bf16 or fp16 instead of the plan's precision");
  option("dropout", text_value(),
         "probability (default: 0.1 with learned positions, as Megatron-LM, else 0)");
  option("lr", text_value(), "largest learning rate of AdamW (default: 0.0006)");
  option("min-lr", text_value(), "the rate at the end of the cosine (default: a tenth of --lr)");
  option("lr-warm-up", text_value(), "steps in which the rate rises to --lr (default: 0)");
  option("lr-decay", text_value(), "the step at which --min-lr is reached (default: the last)");
  option("weight-decay", text_value(), "of matrices (default: 0.1)");
  option("clip", text_value(),
         "largest norm of all gradients, which are scaled by clip/(norm + 1e-6) above; 0: any "
         "(default: 1)");
  option(
      "reproducible",
      "sum in one order however the batch is cut: slower, and equal bits for dp and accumulation");
  option("overlap", text_value(), kOverlapHelp);
  option("shrink", "run any plan's orders and messages here, with tiny layers and one replica");
  option("microbatches", text_value(), "with --shrink: only the first so many of the plan's");
  option("orders", text_value(),
         "a CSV of torch.distributed.pipelining to run instead of the plan's schedule");
  option("transport", text_value(),
         "threads or mpi (default: mpi where mpirun or srun started this, else threads)");
  option("save", text_value(),
         "write checkpoints to this directory: of the initial values, and at the end");
  option("save-every", text_value(), "and every so many steps");
  option("resume", text_value(),
         "go on from the newest whole checkpoint in this directory, of any layout");
  option("deadline", text_value(),
         "how long an action may take while no rank goes on: seconds, off, or auto, 20 times what "
         "is predicted and what the longest took, and 10 s at least (default: auto)");
  option("dump-actions", text_value(),
         "where the run ends early, write what every rank was in and did last to this file");
  option("inject", texts_value(),
         "rehearse a fault: rank=3,action=2F0,step=1,what=throw; kind=SEND_F for any of a kind; "
         "alloc, exit, kill, stop, hang or slow:2 in place of throw");
  option("trace", text_value(), "write a step as it ran for ui.perfetto.dev to this file");
  option("output,o", text_value(), "write the comparison as JSON to this file");
  option("format", text_value(), "text or json, on standard output (default: text)");
  option("quiet", "no progress on standard error, nor what the report warns of");
  add_tune_flags(flags);
  option("help,h", "this text");
  option("version", "the version");
  return flags;
}

/// The rate decays until the last step unless told otherwise, wherever the training begins.
void finish_learning_rate(const CommandLine& line, RunRequest& request, std::int64_t first_step) {
  LearningRateSchedule& rate = request.learning_rate;
  rate.decay_steps = line.count("lr-decay", 1, kMostSteps).value_or(first_step + request.steps);
  if (rate.warm_up_steps > rate.decay_steps) {
    throw Error(fmt::format("--lr-warm-up: expected at most the {} steps of --lr-decay, got {}",
                            rate.decay_steps, rate.warm_up_steps));
  }
}

const std::vector<std::string> kTypes = {"f64", "f32", "bf16", "fp16"};

Precision precision_of(std::size_t type) {
  constexpr std::array precisions = {Precision::kFp64, Precision::kFp32, Precision::kBf16,
                                     Precision::kFp16};
  return precisions.at(type);
}

RunRequest parse_request(const CommandLine& line) {
  RunRequest request;
  request.shrinks = line.has("shrink");
  request.steps = line.count("steps", 1, kMostSteps).value_or(request.shrinks ? 1 : 10);
  request.warm_up = line.count("warm-up", 0, request.steps - 1)
                        .value_or(std::min<std::int64_t>(2, request.steps - 1));
  request.seed = static_cast<std::uint64_t>(line.count("seed", 0, INT64_MAX).value_or(1));
  if (const auto type = line.choice("dtype", kTypes)) {
    request.precision = precision_of(*type);
  }
  request.data = line.text("data");
  if (request.data && std::any_of(request.data->begin(), request.data->end(),
                                  [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
    throw Error("--data: expected a path without control characters, got " +
                in_quotes(*request.data));
  }
  request.orders = line.text("orders");
  request.dropout = line.number("dropout", 0.0, 0.99);
  if (const auto count = line.count("microbatches", 1, kMostSteps)) {
    if (!request.shrinks) {
      throw Error("--microbatches: expected together with --shrink; without it the plan's are run");
    }
    request.microbatches = static_cast<int>(*count);
  }
  request.is_reproducible = line.has("reproducible");
  request.overlap = overlap_choice(line);
  const double rate = line.number("lr", 0.0, kLargestRate).value_or(6e-4);
  request.learning_rate = {.maximum = rate,
                           .minimum = line.number("min-lr", 0.0, rate).value_or(0.1 * rate),
                           .warm_up_steps = line.count("lr-warm-up", 0, kMostSteps).value_or(0)};
  request.weight_decay = line.number("weight-decay", 0.0, 1e3).value_or(0.1);
  request.gradient_clip = line.number("clip", 0.0, 1e30).value_or(1.0);
  return request;
}

/// Standard error may be closed or full: that ends no training.
void tell(const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

/// A line per step on standard error, at most one a second.
class Progress {
 public:
  Progress(const PreparedRun& run, Flops flops)
      : tokens_(static_cast<double>(run.settings.global_batch_size) *
                run.settings.model.seq_length),
        flops_per_rank_(flops / static_cast<double>(run.settings.config.world_size())) {}

  void operator()(const StepProgress& step) {
    total_ += step.time.value();
    const auto now = std::chrono::steady_clock::now();
    const bool is_last = step.done == step.steps;
    if (step.done > 1 && !is_last && now - last_ < std::chrono::seconds(1)) {
      return;
    }
    last_ = now;
    const double each = total_ / static_cast<double>(step.done);
    tell(fmt::format(
        "step {:>{}}/{}  loss {:.4f}  norm {:.3g}  {}  {} per rank  {:.0f} "
        "tokens/s  {} left{}\n",
        step.done, std::to_string(step.steps).size(), step.steps, step.loss, step.gradient_norm,
        duration(step.time), rate(flops_per_rank_ / step.time), tokens_ / step.time.value(),
        duration(Seconds(each * static_cast<double>(step.steps - step.done))),
        step.is_skipped ? "  skipped: gradients overflowed" : ""));
  }

 private:
  double tokens_ = 0.0;
  Flops flops_per_rank_;
  double total_ = 0.0;
  std::chrono::steady_clock::time_point last_;
};

void write_trace_file(const std::string& path, const PreparedRun& run, const RunRecord& record,
                      std::int64_t warm_up) {
  StagedFile file(path);
  write_trace(run.settings.schedule, measured_timeline(run, record, warm_up), run.settings.messages,
              {}, [&](std::string_view piece) { file.append(piece); });
  file.seal();
  file.rename_onto_target();
}

/// Whether this process speaks for all.
bool is_first(const MpiProcess* process) {
  return process == nullptr || process->rank() == 0;
}

CheckpointOptions parse_checkpoint(const CommandLine& line) {
  CheckpointOptions options;
  if (const auto to = line.text("save")) {
    options.save_to = *to;
  }
  options.save_every = line.count("save-every", 1, kMostSteps).value_or(0);
  if (options.save_every > 0 && !options.save_to) {
    throw Error("--save-every: expected together with --save DIR");
  }
  return options;
}

/// The checkpoint to go on from; tells of newer ones that are not whole.
std::optional<Checkpoint> open_checkpoint(const CommandLine& line, const MpiProcess* process) {
  const auto directory = line.text("resume");
  if (!directory) {
    return std::nullopt;
  }
  // A job that is queued again has the same command line the first time.
  if (directory == line.text("save") && !Checkpoint::newest_step(*directory)) {
    if (is_first(process)) {
      tell(fmt::format("{}: {}: no checkpoint yet, beginning at step 0\n", kProgram, *directory));
    }
    return std::nullopt;
  }
  Checkpoint checkpoint = Checkpoint::open(*directory);
  if (is_first(process)) {
    for (const std::string& warning : checkpoint.passed_over()) {
      tell(fmt::format("{}: {}\n", kProgram, warning));
    }
  }
  return checkpoint;
}

/// A file or directory that the command line names.
struct NamedPath {
  std::string flag;
  std::filesystem::path path;
};

/// Refuses, before hours are spent on it, outputs that could not be written, and those that would
/// replace an input or each other.
void check_outputs(const CommandLine& line) {
  std::vector<NamedPath> others = {{"the plan", line.words().front()}};
  for (const char* flag : {"data", "orders"}) {
    if (const auto path = line.text(flag)) {
      others.push_back({std::string("--") + flag, *path});
    }
  }
  for (const char* flag : {"output", "trace", "dump-actions"}) {
    const auto path = line.text(flag);
    if (!path) {
      continue;
    }
    const std::string name = std::string("--") + flag;
    std::error_code error;
    const std::filesystem::path file = std::filesystem::weakly_canonical(*path, error);
    for (const NamedPath& other : others) {
      if (file == std::filesystem::weakly_canonical(other.path, error)) {
        throw Error(name + ": expected another file than " + other.flag + ", got " +
                    in_quotes(*path));
      }
    }
    if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
      throw Error(name + ": " + in_quotes(*path) + " is no regular file",
                  ExitStatus::kOutputFailed);
    }
    if (file.has_parent_path() && !std::filesystem::is_directory(file.parent_path(), error)) {
      throw Error(name + ": no directory " + in_quotes(file.parent_path().string()),
                  ExitStatus::kOutputFailed);
    }
    others.push_back({name, *path});
  }
  if (const auto directory = line.text("save")) {
    std::error_code error;
    std::filesystem::create_directories(*directory, error);
    if (error || !std::filesystem::is_directory(*directory, error)) {
      throw Error("--save: " + in_quotes(*directory) + " cannot be made a directory",
                  ExitStatus::kOutputFailed);
    }
  }
}

/// Calls each of them, whichever fails, and then throws what the first that failed did, or tells
/// it to `failed`.
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

/// All that a run needs before it starts.
struct Job {
  RunRequest request;
  CheckpointOptions checkpoint;
  std::optional<Checkpoint> resumed;
  std::optional<PreparedRun> prepared;
  std::optional<TrainingData> data;
  DeadlineRule deadlines;
  std::vector<InjectedFault> faults;
  std::optional<SavingLock> lock;  ///< Of the process of rank 0.
};

/// What every process of a job must be given alike.
std::vector<SharedInput> shared_inputs(const CommandLine& line) {
  std::vector<SharedInput> inputs = {
      {"the command line", line.quoted_arguments_without("transport")},
      {"the plan", read_file(line.words().front())}};
  if (const auto orders = line.text("orders")) {
    inputs.push_back({"--orders", read_file(*orders)});
  }
  return inputs;
}

void check_num_processes(const MpiProcess* process, const ParallelConfig& config) {
  if (process != nullptr && process->size() != config.world_size()) {
    throw Error(
        fmt::format("the plan has {} ranks, but {} process{} started: expected mpirun -n "
                    "{} (--transport threads runs all ranks in one process)",
                    config.world_size(), process->size(), process->size() == 1 ? " was" : "es were",
                    config.world_size()));
  }
}

/// Reads and checks everything; throws Error for what cannot be run.
void prepare(const CommandLine& line, const MpiProcess* process, Job& job) {
  for (const char* flag : {"plans", "profile-out"}) {
    if (line.has(flag)) {
      throw Error(std::string("--") + flag + ": expected together with --tune");
    }
  }
  line.allow_words(1);
  if (line.words().empty()) {
    throw Error("expected a plan, such as ptdp-run plan.json; --help shows the flags");
  }
  static_cast<void>(line.choice("format", {"text", "json"}));
  static_cast<void>(line.choice("transport", {"threads", "mpi"}));
  RunRequest& request = job.request;
  request = parse_request(line);
  if (process != nullptr) {
    request.ranks_here = process->ranks_on_host();
  }
  job.checkpoint = parse_checkpoint(line);
  check_outputs(line);

  const Plan plan = read_plan(line.words().front());
  job.resumed = open_checkpoint(line, process);
  if (job.resumed) {
    job.checkpoint.resume = &*job.resumed;
    // Samples and dropout go on as they were.
    request.seed = line.has("seed") ? request.seed : job.resumed->state().seed;
  }
  finish_learning_rate(line, request, job.resumed ? job.resumed->state().step : 0);
  job.prepared = prepare_run(plan, request);
  check_num_processes(process, job.prepared->settings.config);
  const TransformerConfig& model = job.prepared->settings.model;
  if (job.resumed) {
    job.resumed->require_model(model);
  }
  job.data =
      request.data
          ? TrainingData::from_file(*request.data, model.vocab_size, model.seq_length, request.seed)
          : TrainingData::synthetic(model.vocab_size, model.seq_length, request.seed);
  job.deadlines = parse_deadline(line);
  add_predicted(job.deadlines, *job.prepared);
  job.faults = parse_faults(line, *job.prepared);
  if (job.checkpoint.save_to && is_first(process)) {
    check_saved_steps(*job.checkpoint.save_to, job.resumed ? job.resumed->state().step : 0,
                      line.text("resume").value_or(""));
    job.lock.emplace(*job.checkpoint.save_to);
  }
}

void report_run(const CommandLine& line, const Job& job, const RunRecord& record,
                const PredictionWatch& watch) {
  RunReport report = make_report(*job.prepared, job.request, record);
  report.warnings = watch.warnings(report);
  const bool is_json = line.choice("format", {"text", "json"}).value_or(0) == 1;
  attempt_all({[&] { print(is_json ? to_json(report) : run_text(report)); },
               [&] {
                 if (const auto path = line.text("trace")) {
                   write_trace_file(*path, *job.prepared, record, report.execution.warm_up);
                 }
               },
               [&] {
                 if (const auto path = line.text("output")) {
                   write_file_atomically(*path, to_json(report));
                 }
               }});
}

/// Where the ranks were, the report of the steps before, and why it ended; returns the status.
int report_end(const CommandLine& line, const Job& job, const EarlyEnd& end,
               const PredictionWatch& watch) {
  return run_command(kProgram, [&]() -> int {
    tell(end.few_actions);
    attempt_all(
        {[&] {
           const auto path = line.text("dump-actions");
           if (path && !end.is_told_elsewhere) {
             write_file_atomically(*path, end.actions);
           }
         },
         [&] {
           if (!end.record.ranks.empty() && end.done_steps > 0) {
             report_run(line, job, end.record, watch);
           }
         },
         [&] { tell(memory_advice(end, *job.prepared)); }},
        [](const std::exception& error) { tell(fmt::format("{}: {}\n", kProgram, error.what())); });
    const EndedEarly why(end);
    if (end.signal == 0 && !end.is_told_elsewhere) {
      throw Error(why);
    }
    if (!end.is_told_elsewhere) {
      tell(fmt::format("{}: {}\n", kProgram, why.what()));
    }
    return end.signal == 0 ? static_cast<int>(end.status) : 128 + end.signal;
  });
}

/// Trains and reports; returns the status.
int execute(const CommandLine& line, const Job& job, MpiProcess* process) {
  const RunSignals signals = catch_signals();
  const TrainingSettings& settings = job.prepared->settings;
  PredictionWatch watch(*job.prepared, job.request.warm_up,
                        line.text("output").value_or("run.json"));
  RunOptions options{
      .steps = job.request.steps,
      .checkpoint = job.checkpoint,
      .stop = signals.stop,
      .interrupt = signals.interrupt,
      .deadlines = job.deadlines,
      .make_backend = [] { return std::make_unique<CpuBackend>(); },
      .process = process,
      .hooks = [&](int rank) { return injected_faults(job.faults, rank); },
      .give_up = [&](const EarlyEnd& end) { ::_exit(report_end(line, job, end, watch)); }};
  const bool is_quiet = line.has("quiet");
  const auto warn = [&](const std::optional<std::string>& warning) {
    if (warning && !is_quiet) {
      tell(fmt::format("{}: warning: {}\n", kProgram, *warning));
    }
  };
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
  } catch (const EndedEarly& early) {
    return report_end(line, job, early.end(), watch);
  }
  return *signals.interrupt == 0 ? 0 : 128 + *signals.interrupt;
}

/// Runs plans in turn; returns the status.
int run_tuning(const CommandLine& line) {
  RunRequest request = parse_request(line);
  finish_learning_rate(line, request, /*first_step=*/0);
  const RunSignals signals = catch_signals();
  try {
    tune_plans(line, request, signals);
  } catch (const EndedEarly& early) {
    if (early.end().signal == 0) {
      throw;
    }
    tell(fmt::format("{}: --tune: interrupted; nothing was tuned\n", kProgram));
    return 128 + early.end().signal;
  }
  return 0;
}

int run(int argc, const char* const* argv, MpiProcess* process) {
  const po::options_description flags = flag_descriptions();
  std::optional<CommandLine> line;
  std::optional<std::string> answer;
  Job job;
  prepare_together(process, [&]() -> std::vector<SharedInput> {
    line.emplace(argc, argv, flags);
    answer = standard_answer(*line, kProgram, kUsage, flags);
    if (answer) {
      return {};
    }
    if (line->has("tune")) {
      if (process != nullptr) {
        throw Error(
            "--tune: runs plans of several numbers of ranks, as threads; expected no "
            "mpirun or srun");
      }
      return {};
    }
    prepare(*line, process, job);
    return shared_inputs(*line);
  });
  if (answer) {
    if (is_first(process)) {
      print(*answer);
    }
    return 0;
  }
  return line->has("tune") ? run_tuning(*line) : execute(*line, job, process);
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  return ptdp::run_launched_command(ptdp::kProgram, argc, argv, [&](ptdp::MpiProcess* process) {
    return ptdp::run(argc, argv, process);
  });
}
