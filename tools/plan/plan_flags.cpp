// Describes the flags by groups, and answers --help with some of them.
#include "tools/plan/plan_flags.h"

#include <sstream>
#include <vector>

#include "cost_model/inputs/profile_files.h"
#include "cost_model/inputs/stack_precision.h"
#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "tools/plan/export_command.h"
#include "tools/plan/list_profiles.h"
#include "tools/plan/measured_flag.h"
#include "tools/plan/new_cluster_command.h"
#include "tools/plan/partition_command.h"
#include "tools/plan/pilot_command.h"
#include "tools/plan/plan_request.h"
#include "tools/plan/search_flags.h"
#include "tools/plan/search_watch.h"
#include "tools/plan/stack_switches.h"
#include "tools/shared/report_flag.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: ptdp-plan --gpus N --model NAME|FILE [flags]   the best plans\n"
    "       ptdp-plan --gpus N --model LAYERS.json [flags] degrees for a list of layers\n"
    "       ptdp-plan list models|clusters|gpus|stacks     the shipped profiles\n"
    "       ptdp-plan new-cluster [flags] -o MINE.json     a cluster of your own\n"
    "       ptdp-plan pilot PLAN.json... -o DIR            short runs that separate plans\n"
    "       ptdp-plan show PLAN.json [flags]               a written plan\n"
    "       ptdp-plan compare A.json B.json [flags]        two written plans\n"
    "       ptdp-plan export PLAN.json --to NAME -o DIR    files for a framework\n"
    "       ptdp-plan partition LAYERS.json --pp P [flags] layers per stage of a list\n"
    "       ptdp-plan partition --model NAME --pp P [...]  and of a model\n"
    "\n"
    "examples:\n"
    "  ptdp-plan --gpus 3072 --model 1T\n"
    "  ptdp-plan --gpus 64 --model gpt3-175b --stack megatron-lm-2022 -o plan.json\n"
    "  ptdp-plan --gpus 512 --model Llama-3.1-70B/config.json --cluster dgx-h100\n"
    "  ptdp-plan --gpus 3072 --model 1T --explain tp=4,pp=128\n"
    "  ptdp-plan --gpus 3072 --model 1T --config tp=8,pp=64,b=1,recompute=full\n"
    "  ptdp-plan --from launch.sh --cluster dgx-h100\n"
    "  ptdp-plan --from launch.sh --cluster dgx-h100 --log train.log\n"
    "  ptdp-plan --gpus 1536 --model gpt3-175b --compare-strategies\n"
    "\n"
    "GLOSSARY.md explains the terms.\n"
    "\n";

TitledFlags job_flags() {
  const char* title = "the job";
  po::options_description flags(title);
  auto option = flags.add_options();
  option("gpus", text_value("N"),
         "GPUs to plan for, or --nodes; sizes of jobs may have k or M behind them, and 1k is 1024");
  option("nodes", text_value("N"),
         "nodes to plan for, in place of --gpus, with as many GPUs as the cluster's have; "
         "new-cluster: nodes of --nccl-tests, where the file does not tell");
  option(
      "model", text_value("MODEL"),
      "a shipped model, or a model file, or a Hugging Face config.json or the folder of one; or a "
      "list of any layers with their costs (ptdp.layers/1 in FORMATS.md)");
  option(
      "cluster", text_value("CLUSTER"),
      "a shipped cluster or a file (default: the home that the model's file names, else dgx-h100)");
  option(
      "stack", text_value("STACK", {"all"}),
      "a shipped software stack or a file, or all for the best with each (default: the cluster's)");
  option("global-batch-size", text_value("N"),
         "sequences per iteration (default: the model's, else 4 Mi tokens)");
  option("global-batch-tokens", text_value("N"),
         "tokens per iteration, in place of --global-batch-size: 4M is 4194304");
  option("batch-per-gpu", text_value("RATIO"),
         "sequences per iteration and GPU, in place of --global-batch-size: 2 or 1/4");
  option("seq-length", text_value("N"),
         "tokens per sequence: 128k is 131072; the model's batch keeps its tokens (default: the "
         "model's)");
  option("precision", text_value("PRECISION", precision_names()),
         "fp16, bf16, bf16(pure), fp32, tf32, fp64, or bf16 with linear layers in 8 or 4 bits: fp8 "
         "(the stack's usual recipe), fp8-delayed, fp8-current, fp8-rowwise, fp8-block, fp8-mx, "
         "nvfp4 (default: the stack's)");
  option("tokens", text_value("N"),
         "tokens to train on, such as 450B or 15T (10^9, 10^12): adds days and GPU-hours");
  option("price", text_value("X"), "price of a GPU-hour: adds the cost of training on --tokens");
  return {title, flags};
}

TitledFlags answer_flags() {
  const char* title = "the answer";
  po::options_description flags(title);
  auto option = flags.add_options();
  option("top", text_value("N"), "how many plans to show (default: 5)");
  option("threads", text_value("N"),
         "threads to search with; never changes the result (default: 1)");
  add_time_limit(flags);
  option("format", text_value("FORMAT", names_of<AnswerFormat>(kPlanFormats)),
         choices_help<AnswerFormat>(kPlanFormats).c_str());
  option("output,o", text_value("FILE"), "write the best plan to this file");
  option("report", text_value("FILE"), kReportHelp);
  option("calibration", text_value("CALIBRATION", {"none", "shipped"}),
         "measured runs to correct predictions by: none, shipped, or a file or directory of "
         "ptdp-calibrate (default: shipped)");
  option(
      "verbose,v",
      "tell everything that is known, and what would change the answer; with --format json, too");
  option("help,h",
         "these flags; `--help all` has all, `--help FLAG` one, `--help man` the man page, `--help "
         "json` a document");
  option("version", "the version");
  return {title, flags};
}

TitledFlags question_flags() {
  const char* title = "other questions";
  po::options_description flags(title);
  auto option = flags.add_options();
  option("explain", config_value(), "why not this configuration: tp=8,pp=64,...");
  option("config", config_value(),
         "whether exactly this configuration fits, what would make it fit, what it costs: tp=8,... "
         "(keys of --explain; those left out have their usual values)");
  option(
      "from", text_value("FILE"),
      "cost exactly what a file of Megatron-LM runs: a launch script, its arguments, or the list "
      "of arguments in a log; what Megatron-Bridge runs: YAML, Python or a command; torchtitan: "
      "TOML or a command; nanotron: YAML; DeepSpeed: ds_config.json; --cluster, --gpus and --model "
      "say "
      "what it leaves out");
  add_measured_flags(flags);
  option("vocab-size", text_value("N"),
         "tokens of the vocabulary, for a file of --from that names a tokenizer only");
  option("compare-strategies",
         "side by side, each at its best: tensor, pipeline and data parallelism (PTD-P), ZeRO-3, "
         "ZeRO-3 with tensor parallelism, FSDP; also what the stack does not run");
  return {title, flags};
}

TitledFlags choice_flags() {
  const char* title = "what a search may choose from";
  po::options_description flags(title);
  add_search_flags(flags);
  auto option = flags.add_options();
  option("overlap", text_value("OVERLAP,...", overlap_names()), kOverlapHelp);
  add_stack_switches(flags);
  option("memory-headroom", text_value("FRACTION"),
         "device memory to leave free: 0.08 or 8% (default: 0)");
  option("fit", text_value("P"),
         "the least probability of fitting into memory, 0.01 to 0.99 (default: 0.9)");
  option("tie", text_value("FRACTION"),
         "loss up to which plans tie: among ties the one without idle GPUs, with less memory and a "
         "plainer schedule is chosen; 0 for the fastest (default: 1.5%)");
  option("objective", text_value("OBJECTIVE", names_of<Objective>(kObjectiveNames)),
         ("what to minimise: " + choices_help<Objective>(kObjectiveNames)).c_str());
  return {title, flags};
}

TitledFlags command_flags() {
  const char* title = "other commands";
  po::options_description flags(title);
  add_partition_flags(flags);
  add_export_flags(flags);
  add_new_cluster_flags(flags);
  add_pilot_flags(flags);
  return {title, flags};
}

/// Returns the flags that most people need, or those of a command.
std::string brief_help(const std::string& command) {
  if (command == "partition" || command == "export" || command == "new-cluster" ||
      command == "pilot") {
    std::ostringstream text;
    text << kUsage << command_flags().flags;
    return text.str();
  }
  std::ostringstream text;
  text << kUsage << job_flags().flags << '\n'
       << answer_flags().flags << '\n'
       << question_flags().flags
       << "\n--help all: what a search may choose from (--tp, --pp, --schedule ...), flags of\n"
          "other commands, and other names of flags\n";
  return text.str();
}

}  // namespace

CommandTable plan_table() {
  const FlagValue file = {.name = "FILE"};
  return {
      .name = "ptdp-plan",
      .usage = kUsage,
      .groups = {job_flags(), answer_flags(), question_flags(), choice_flags(), command_flags()},
      .first_words = {{"list", {.name = "KIND", .choices = names_of<ProfileKind>(kListedKinds)}},
                      {"new-cluster"},
                      {"pilot", file},
                      {"show", file},
                      {"compare", file},
                      {"export", file},
                      {"partition", file}},
      .brief_help = &brief_help};
}

std::vector<NamedFile> input_files(const CommandLine& line) {
  std::vector<NamedFile> files = files_of_flags(line, {"from", "log", "plan"});
  const auto add_profile = [&](const std::string& flag, ProfileKind kind) {
    if (const auto name = line.text(flag)) {
      files.push_back({"--" + flag, profile_file(kind, *name).path});
    }
  };
  add_profile("model", ProfileKind::kModel);
  add_profile("cluster", ProfileKind::kCluster);
  if (!asks_for_all_stacks(line)) {
    add_profile("stack", ProfileKind::kStack);
  }
  return files;
}

}  // namespace ptdp
