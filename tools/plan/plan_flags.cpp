// Describes the flags by groups, and answers --help with some of them.
#include "tools/plan/plan_flags.h"

#include <algorithm>
#include <boost/make_shared.hpp>
#include <sstream>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "tools/plan/export_command.h"
#include "tools/plan/measured_flag.h"
#include "tools/plan/new_cluster_command.h"
#include "tools/plan/partition_command.h"
#include "tools/plan/pilot_command.h"
#include "tools/plan/search_flags.h"
#include "tools/plan/search_watch.h"
#include "tools/plan/stack_switches.h"
#include "tools/shared/flag_synonyms.h"
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

po::typed_value<std::string>* text() {
  return po::value<std::string>();
}

po::options_description job_flags() {
  po::options_description flags("the job");
  auto option = flags.add_options();
  option("gpus", text(),
         "GPUs to plan for, or --nodes; sizes of jobs may have k or M behind them, and 1k is 1024");
  option("nodes", text(),
         "nodes to plan for, in place of --gpus, with as many GPUs as the cluster's have; "
         "new-cluster: nodes of --nccl-tests, where the file does not tell");
  option(
      "model", text(),
      "a shipped model, or a model file, or a Hugging Face config.json or the folder of one; or a "
      "list of any layers with their costs (ptdp.layers/1 in FORMATS.md)");
  option(
      "cluster", text(),
      "a shipped cluster or a file (default: the home that the model's file names, else dgx-h100)");
  option(
      "stack", text(),
      "a shipped software stack or a file, or all for the best with each (default: the cluster's)");
  option("global-batch-size", text(),
         "sequences per iteration (default: the model's, else 4 Mi tokens)");
  option("global-batch-tokens", text(),
         "tokens per iteration, in place of --global-batch-size: 4M is 4194304");
  option("batch-per-gpu", text(),
         "sequences per iteration and GPU, in place of --global-batch-size: 2 or 1/4");
  option("seq-length", text(),
         "tokens per sequence: 128k is 131072; the model's batch keeps its tokens (default: the "
         "model's)");
  option("precision", text(),
         "fp16, bf16, bf16(pure), fp32, tf32, fp64, or bf16 with linear layers in 8 or 4 bits: fp8 "
         "(the stack's usual recipe), fp8-delayed, fp8-current, fp8-rowwise, fp8-block, fp8-mx, "
         "nvfp4 (default: the stack's)");
  option("tokens", text(),
         "tokens to train on, such as 450B or 15T (10^9, 10^12): adds days and GPU-hours");
  option("price", text(), "price of a GPU-hour: adds the cost of training on --tokens");
  return flags;
}

po::options_description answer_flags() {
  po::options_description flags("the answer");
  auto option = flags.add_options();
  option("top", text(), "how many plans to show (default: 5)");
  option("threads", text(), "threads to search with; never changes the result (default: 1)");
  add_time_limit(flags);
  option("format", text(), choices_help<AnswerFormat>(kPlanFormats).c_str());
  option("output,o", text(), "write the best plan to this file");
  option("report", text(), kReportHelp);
  option("calibration", text(),
         "measured runs to correct predictions by: none, shipped, or a file or directory of "
         "ptdp-calibrate (default: shipped)");
  option(
      "verbose,v",
      "tell everything that is known, and what would change the answer; with --format json, too");
  option("help,h", "these flags; `--help all` has all, `--help FLAG` one");
  option("version", "the version");
  return flags;
}

po::options_description question_flags() {
  po::options_description flags("other questions");
  auto option = flags.add_options();
  option("explain", text(), "why not this configuration: tp=8,pp=64,...");
  option("config", text(),
         "whether exactly this configuration fits, what would make it fit, what it costs: tp=8,... "
         "(keys of --explain; those left out have their usual values)");
  option(
      "from", text(),
      "cost exactly what a file of Megatron-LM runs: a launch script, its arguments, or the list "
      "of arguments in a log; what Megatron-Bridge runs: YAML, Python or a command; torchtitan: "
      "TOML or a command; nanotron: YAML; DeepSpeed: ds_config.json; --cluster, --gpus and --model "
      "say "
      "what it leaves out");
  add_measured_flags(flags);
  option("vocab-size", text(),
         "tokens of the vocabulary, for a file of --from that names a tokenizer only");
  option("compare-strategies",
         "side by side, each at its best: tensor, pipeline and data parallelism (PTD-P), ZeRO-3, "
         "ZeRO-3 with tensor parallelism, FSDP; also what the stack does not run");
  return flags;
}

po::options_description choice_flags() {
  po::options_description flags("what a search may choose from");
  add_search_flags(flags);
  auto option = flags.add_options();
  option("overlap", text(), kOverlapHelp);
  add_stack_switches(flags);
  option("memory-headroom", text(), "device memory to leave free: 0.08 or 8% (default: 0)");
  option("fit", text(),
         "the least probability of fitting into memory, 0.01 to 0.99 (default: 0.9)");
  option("tie", text(),
         "loss up to which plans tie: among ties the one without idle GPUs, with less memory and a "
         "plainer schedule is chosen; 0 for the fastest (default: 1.5%)");
  option("objective", text(),
         ("what to minimise: " + choices_help<Objective>(kObjectiveNames)).c_str());
  return flags;
}

po::options_description command_flags() {
  po::options_description flags("other commands");
  add_partition_flags(flags);
  add_export_flags(flags);
  add_new_cluster_flags(flags);
  add_pilot_flags(flags);
  return flags;
}

/// Returns the answer to --help without `all`: the flags that most people need, or the one that is
/// named. Returns nullopt for anything else.
std::optional<std::string> short_help(const CommandLine& line,
                                      const po::options_description& flags) {
  if (!line.has("help") || line.words() == std::vector<std::string>{"all"}) {
    return std::nullopt;
  }
  const std::string command = line.words().empty() ? "" : line.words().front();
  if (command == "partition" || command == "export" || command == "new-cluster" ||
      command == "pilot") {
    std::ostringstream text;
    text << kUsage << command_flags();
    return text.str();
  }
  if (!command.empty() && command != "list" && command != "show" && command != "compare") {
    const std::string& typed = line.words().front();
    const auto name =
        known_flag(typed.substr(std::min(typed.find_first_not_of('-'), typed.size())), flags);
    if (const po::option_description* flag = name ? flags.find_nothrow(*name, false) : nullptr) {
      po::options_description alone;
      alone.add(boost::make_shared<po::option_description>(*flag));
      std::ostringstream text;
      text << alone << '\n';
      return text.str();
    }
    throw Error("--help: no flag of that name: " + in_quotes(typed));
  }
  std::ostringstream text;
  text << kUsage << job_flags() << '\n'
       << answer_flags() << '\n'
       << question_flags()
       << "\n--help all: what a search may choose from (--tp, --pp, --schedule ...), flags of\n"
          "other commands, and other names of flags\n";
  return text.str();
}

}  // namespace

po::options_description plan_flags() {
  po::options_description flags;
  flags.add(job_flags()).add(answer_flags()).add(question_flags());
  flags.add(choice_flags()).add(command_flags());
  return flags;
}

std::optional<std::string> plan_help(const CommandLine& line, const std::string& program,
                                     const po::options_description& flags) {
  const auto brief = short_help(line, flags);
  return brief ? brief : standard_answer(line, program, kUsage, flags);
}

}  // namespace ptdp
