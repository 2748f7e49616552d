#include "tools/run/run_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "tools/run/rehearse_plan.h"
#include "tools/run/tune_plans.h"
#include "tools/shared/output_files.h"
#include "tools/shared/report_flag.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t kMostSteps = kMostTrainingSteps;
constexpr double kLargestRate = 1e3;

/// The values of --transport, and whether each is NCCL. Which of the others applies follows from
/// the launcher.
constexpr std::array kTransports = {NamedValue<bool>{false, "threads"},
                                    NamedValue<bool>{false, "mpi"}, NamedValue<bool>{false, "tcp"},
                                    NamedValue<bool>{true, "nccl"},
                                    NamedValue<bool>{true, kNcclThreads}};
constexpr std::array kPrecisionsOfRuns = {Precision::kFp64, Precision::kFp32, Precision::kBf16,
                                          Precision::kFp16};
constexpr std::array kRawTypes = {NamedValue<TokenType>{TokenType::kUint16, "uint16"},
                                  NamedValue<TokenType>{TokenType::kUint32, "uint32"}};

/// Whether the file lies in a checkpoint below this directory.
bool is_of_checkpoint(const std::filesystem::path& file, const std::filesystem::path& directory) {
  std::error_code error;
  const std::filesystem::path checkpoint =
      std::filesystem::weakly_canonical(file, error).parent_path();
  return checkpoint.filename().string().starts_with("step-") &&
         std::filesystem::equivalent(checkpoint.parent_path(), directory, error);
}

}  // namespace

po::options_description run_flags() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("steps", text_value("N"),
         "length of the training, counting steps that --resume finds done (default: 10; 1 with "
         "--shrink)");
  option("warm-up", text_value("N"),
         "first steps of this run that are not measured (default: 2, or all but one of a shorter "
         "run)");
  option("data", text_value("FILE"),
         "a file of tokens: llm.c's, a .npy, Megatron-LM's .bin with its .idx beside it, or raw");
  option("data-type", text_value("TYPE", names_of<TokenType>(kRawTypes)),
         "uint16 or uint32: the tokens of a raw file of --data (default: uint16 for a vocabulary "
         "up to 65,536 and a file that can be nothing else)");
  option("seed", text_value("N"), "seed of weights, dropout and samples (default: 1)");
  option("dtype", text_value("PRECISION", precision_names(kPrecisionsOfRuns)),
         "fp64, fp32, bf16 or fp16 instead of the plan's precision");
  option("dropout", text_value("X"),
         "one dropout probability everywhere in place of the model's (default: that of its file; "
         "where it says nothing 0.1 with learned positions, as in Megatron-LM, else 0)");
  option("lr", text_value("X"), "largest learning rate of AdamW (default: 0.0006)");
  option("min-lr", text_value("X"),
         "learning rate at the end of its cosine decay (default: a tenth of --lr)");
  option("lr-warm-up", text_value("N"),
         "steps in which the learning rate rises to --lr (default: 0)");
  option("lr-decay", text_value("N"), "the step at which --min-lr is reached (default: the last)");
  option("weight-decay", text_value("X"), "weight decay of matrices (default: 0.1)");
  option("clip", text_value("X"),
         "largest norm of all gradients together; above it they are scaled by clip/(norm + 1e-6); "
         "0: no limit (default: 1)");
  option(
      "reproducible",
      "sum in one order: equal bits every time, and without ZeRO also for n replicas of one "
      "microbatch each and one replica of n; other layouts differ by rounding; takes up to twice "
      "the time, and memory for one more weight gradient");
  option("device", text_value("DEVICE", names_of<DeviceKind>(kDeviceNames)),
         "cpu or cuda (default: cuda where the plan is for GPUs, runs at full size and a GPU is "
         "there, else cpu); processes are dealt out over the GPUs, threads share the first");
  option("nccl-estimates",
         "ask NCCL after the first step how long it expects the largest calls to take, for the "
         "report");
  option("allow-other-gpu", "run on GPUs of another kind than the plan's, without a prediction");
  option("overlap", text_value("OVERLAP,...", overlap_names()), kOverlapHelp);
  option("shrink", "run any plan's orders and messages here, with tiny layers and one replica");
  option("microbatches", text_value("N"),
         "with --shrink: only the first N of the plan's microbatches");
  option("orders", text_value("FILE"),
         "run the orders in this CSV of torch.distributed.pipelining, not the plan's schedule");
  option(
      "transport", text_value("TRANSPORT", names_of<bool>(kTransports)),
      "nccl, threads, mpi or tcp: what tensors travel over (default: nccl where every rank has a "
      "GPU to itself, else what the launcher uses: mpi under mpirun and srun, tcp under "
      "torchrun and srun without PMI, else threads). Without a launcher, nccl and tcp start a "
      "process for each rank here; nccl-threads keeps ranks threads, which NCCL may stop for ever");
  option("load", text_value("DIR"),
         "begin with the weights of this Hugging Face directory (config.json, safetensors), in any "
         "layout; a checkpoint that --resume finds comes first");
  option(
      "export", text_value("DIR"),
      "write the weights to this directory at the end, with a config.json, as transformers loads "
      "them");
  option("save", text_value("DIR"),
         "write checkpoints to this directory: at the start and at the end");
  option("save-every", text_value("N"), "with --save: also after every N steps");
  option(
      "resume", text_value("DIR"),
      "go on from the newest whole checkpoint in this directory, saved under any layout, until "
      "--steps are done; with --save of the same directory, the same command goes on after every "
      "interruption");
  option(
      "deadline", text_value("SECONDS", {"off", "auto"}),
      "how long an action may take while no rank gets on: seconds, off, or auto, 20 times what "
      "is predicted and what the longest took, and at least 10 s (default: auto). The start, the "
      "meeting over TCP, a checkpoint and the end may take as many seconds each, and at least 8; "
      "with auto 300, the meeting 120; with off they wait for ever");
  option("dump-actions", text_value("FILE"),
         "where the run ends early, write to this file what every rank was doing and did before; "
         "where ranks are processes, each writes a file of its own, rank 3 FILE.rank3");
  option("inject", texts_value("SPEC"),
         "cause a fault: rank=3,action=2F0,step=1,what=throw; kind=SEND_F in place of "
         "action for any of a kind; alloc, exit, kill, stop, hang or slow:2 in place of throw");
  option("trace", text_value("FILE"), "write one step as it ran to this file, for ui.perfetto.dev");
  option("output,o", text_value("FILE"), "write the comparison as JSON to this file");
  option("report", text_value("FILE"), kReportHelp);
  option("format", text_value("FORMAT", {"text", "json"}),
         "text or json, on standard output (default: text)");
  option("quiet", "no progress on standard error, and no warnings that the report has as well");
  add_tune_flags(flags);
  add_rehearsal_flags(flags);
  option("help,h", "this text");
  option("version", "the version");
  return flags;
}

void finish_learning_rate(const CommandLine& line, RunRequest& request) {
  LearningRateSchedule& rate = request.learning_rate;
  rate.decay_steps = line.count("lr-decay", 1, kMostSteps).value_or(request.training_steps);
  if (rate.warm_up_steps > rate.decay_steps) {
    throw Error(fmt::format("--lr-warm-up: expected at most the {} of --lr-decay, got {}",
                            plural(rate.decay_steps, "step"), rate.warm_up_steps));
  }
}

RunRequest parse_request(const CommandLine& line) {
  RunRequest request;
  request.shrinks = line.has("shrink");
  request.training_steps = line.count("steps", 1, kMostSteps).value_or(request.shrinks ? 1 : 10);
  request.steps = request.training_steps;
  request.warm_up = line.count("warm-up", 0, request.steps - 1)
                        .value_or(std::min<std::int64_t>(2, request.steps - 1));
  request.seed = static_cast<std::uint64_t>(line.count("seed", 0, INT64_MAX).value_or(1));
  if (const auto precision = line.text("dtype")) {
    request.precision = choose_precision(*precision, kPrecisionsOfRuns, "--dtype");
  }
  request.data = line.text("data");
  if (request.data && std::any_of(request.data->begin(), request.data->end(),
                                  [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
    throw Error("--data: expected a path without control characters, got " +
                in_quotes(*request.data));
  }
  request.data_type = line.choice<TokenType>("data-type", kRawTypes);
  if (request.data_type && !request.data) {
    throw Error("--data-type: expected together with --data FILE");
  }
  request.orders = line.text("orders");
  request.dropout = line.number("dropout", 0.0, 0.99);
  if (const auto count = line.count("microbatches", 1, kMostSteps)) {
    if (!request.shrinks) {
      throw Error("--microbatches: expected together with --shrink; without it the plan's are run");
    }
    request.microbatches = static_cast<int>(*count);
  }
  request.device = line.choice<DeviceKind>("device", kDeviceNames);
  request.allows_other_gpu = line.has("allow-other-gpu");
  request.asks_estimates = line.has("nccl-estimates");
  request.uses_nccl = line.choice<bool>("transport", kTransports);
  request.allows_nccl_threads = line.text("transport") == kNcclThreads;
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

TrainingData open_data(const RunRequest& request, const TransformerConfig& model) {
  if (request.data) {
    return TrainingData::from_file({.path = *request.data, .type = request.data_type},
                                   model.vocab_size, model.seq_length, request.seed);
  }
  return TrainingData::synthetic(model.vocab_size, model.seq_length, request.seed);
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

void check_outputs(const CommandLine& line) {
  std::vector<NamedFile> inputs = files_of_flags(line, {"data", "orders"});
  inputs.push_back({"the plan", line.words().front()});
  const std::vector<NamedFile> outputs =
      files_of_flags(line, {"output", "trace", "report", "dump-actions"});
  check_output_files(inputs, outputs);
  for (const NamedFile& directory : files_of_flags(line, {"resume", "save"})) {
    for (const NamedFile& output : outputs) {
      if (is_of_checkpoint(output.path, directory.path)) {
        throw Error(output.name + ": expected a file outside the checkpoints of " + directory.name +
                    ", got " + in_quotes(output.path.string()));
      }
    }
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

}  // namespace ptdp
