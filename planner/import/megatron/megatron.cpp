// Arguments of Megatron-LM as a configuration, a batch and a precision.
#include "planner/import/megatron/megatron.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/import/launched_program.h"
#include "planner/import/megatron/megatron_layers.h"
#include "planner/import/megatron/megatron_others.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

/// Flags by which a command of Megatron-LM is known.
const std::vector<std::string_view>& telling_flags() {
  static const std::vector<std::string_view> flags = {"--num-layers",
                                                      "--hidden-size",
                                                      "--num-attention-heads",
                                                      "--seq-length",
                                                      "--encoder-seq-length",
                                                      "--tensor-model-parallel-size",
                                                      "--micro-batch-size",
                                                      "--pipeline-model-parallel-size",
                                                      "--global-batch-size",
                                                      "--context-parallel-size",
                                                      "--ffn-hidden-size",
                                                      "--expert-model-parallel-size",
                                                      "--sequence-parallel",
                                                      "--use-distributed-optimizer",
                                                      "--bf16",
                                                      "--swiglu",
                                                      "--num-experts",
                                                      "--recompute-granularity",
                                                      "--train-iters",
                                                      "--train-samples"};
  return flags;
}

void read_degrees(const FlagList& flags, const TransformerConfig& model, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const auto old_tp = flags.count("--model-parallel-size");
  config.tp = flags.count("--tensor-model-parallel-size").value_or(old_tp.value_or(1));
  config.pp = flags.count("--pipeline-model-parallel-size").value_or(1);
  config.cp = flags.count("--context-parallel-size").value_or(1);
  const int ep = flags.count("--expert-model-parallel-size").value_or(1);
  const auto etp = flags.count("--expert-tensor-parallel-size");
  if (has_experts(model)) {
    config.ep = ep;
    config.etp = etp.value_or(config.tp);
  }
  const bool is_meant = flags.has("--sequence-parallel");
  config.sequence_parallel = is_meant && config.tp > 1;
  if (is_meant && config.tp == 1) {
    run.reading.notes.emplace_back("--sequence-parallel means nothing with tp 1");
  }
  if (flags.has("--use-tp-pp-dp-mapping")) {
    config.rank_order = RankOrder::kTpCpEpPpDp;
  }
  const MegatronSplit split = megatron_split(flags, model.num_layers, config.pp);
  config.vpp = split.vpp;
  config.layers_per_stage = split.layers_per_stage;
  config.schedule = config.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
  const auto group = flags.count("--microbatch-group-size-per-virtual-pipeline-stage");
  if (group && *group != config.pp) {
    run.reading.notes.push_back("a group of " + std::to_string(*group) +
                                " microbatches is costed as one of pp");
  }
}

void read_recomputation(const FlagList& flags, const TransformerConfig& model,
                        ParallelConfig& config) {
  const bool is_old_full =
      flags.has("--checkpoint-activations") || flags.has("--activations-checkpoint-method");
  const bool is_selective = flags.has("--recompute-activations");
  const std::string kind = flags.text("--recompute-granularity")
                               .value_or(is_old_full    ? "full"
                                         : is_selective ? "selective"
                                                        : "none");
  recompute_as_said(flags,
                    {.granularity = "--recompute-granularity",
                     .modules = "--recompute-modules",
                     .method = "--recompute-method",
                     .num_layers = "--recompute-num-layers"},
                    kind, model.num_layers, config);
}

void read_sharding(const FlagList& flags, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const std::string strategy =
      flags.text("--data-parallel-sharding-strategy").value_or("optim_grads_params");
  const int instances = flags.count("--num-distributed-optimizer-instances").value_or(1);
  config.zero_stage = flags.has("--use-distributed-optimizer") ? 1 : 0;
  if (flags.has("--use-torch-fsdp2")) {
    config.zero_stage = 3;
    config.reshard_after_forward = !flags.has("--torch-fsdp2-no-reshard-after-forward");
  }
  const bool is_fsdp = flags.has("--use-megatron-fsdp") || flags.has("--use-custom-fsdp");
  if (is_fsdp) {
    config.zero_stage = strategy == "no_shard"      ? 0
                        : strategy == "optim"       ? 1
                        : strategy == "optim_grads" ? 2
                                                    : 3;
  }
  config.dp_replicate = config.zero_stage > 0 ? instances : 1;
  run.stack.reductions = flags.has("--overlap-grad-reduce");
  const bool gathers = flags.has("--overlap-param-gather");
  if (config.zero_stage > 0) {
    run.stack.gathers = gathers;
  }
}

void read_offload(const FlagList& flags, const TransformerConfig& model, ParallelConfig& config) {
  const bool optimizer = flags.has("--optimizer-cpu-offload");
  (void)flags.has("--optimizer-offload-fraction");
  (void)flags.has("--use-precision-aware-optimizer");
  (void)flags.has("--cpu-offloading");
  const int layers = flags.count("--cpu-offloading-num-layers", 0).value_or(0);
  config.offload = optimizer && layers > 0 ? Offload::kBoth
                   : optimizer             ? Offload::kOptimizer
                   : layers > 0            ? Offload::kActivations
                                           : Offload::kNone;
  config.offload_num_layers = layers == model.num_layers - 1 ? 0 : layers;
}

void read_stack(const FlagList& flags, const TransformerConfig& model, ImportedRun& run) {
  const ParallelConfig& config = run.config;
  const bool within_products = flags.has("--tp-comm-overlap");
  if (config.sequence_parallel) {
    run.stack.within_products = within_products;
  }
  const bool waits = flags.has("--no-overlap-p2p-communication");
  if (config.vpp > 1 && config.pp > 2) {
    run.stack.pipeline = !waits;
  }
  read_context_parallel(flags, "--cp-comm-type", run);
  const std::string dispatcher = flags.text("--moe-token-dispatcher-type").value_or("allgather");
  const bool hides = flags.has("--overlap-moe-expert-parallel-comm");
  if (has_experts(model)) {
    run.stack.dispatch = dispatcher == "alltoall" ? ExpertDispatch::kAllToAll
                         : dispatcher == "flex"   ? ExpertDispatch::kHierarchical
                                                  : ExpertDispatch::kAllGather;
    run.stack.experts = hides;
  }
}

std::string read_precision(const FlagList& flags) {
  const std::string recipe = flags.text("--fp8-recipe").value_or("delayed");
  // A log lists the format as "fp8".
  const bool is_fp8 = flags.has("--fp8-format") || flags.has("--fp8-hybrid") ||
                      flags.has("--fp8-e4m3") || flags.has("--fp8");
  const bool is_bf16 = flags.has("--bf16");
  const bool is_fp16 = flags.has("--fp16");
  const std::string four_bits = flags.text("--fp4-recipe").value_or("nvfp4");
  if (flags.has("--fp4-format") || flags.has("--fp4")) {
    if (four_bits != "nvfp4") {
      flags.refuse("--fp4-recipe", "expected nvfp4, got " + in_quotes(four_bits));
    }
    return "nvfp4";
  }
  if (!is_fp8) {
    return is_bf16 ? "bf16" : is_fp16 ? "fp16" : "fp32";
  }
  if (recipe != "delayed" && recipe != "tensorwise" && recipe != "blockwise" && recipe != "mxfp8") {
    flags.refuse("--fp8-recipe",
                 "expected delayed, tensorwise, blockwise or mxfp8, got " + in_quotes(recipe));
  }
  return recipe == "delayed"      ? "fp8-delayed"
         : recipe == "tensorwise" ? "fp8-current"
         : recipe == "blockwise"  ? "fp8-block"
                                  : "fp8-mx";
}

/// Sets the number of GPUs, dp and the batch.
void read_batch(const FlagList& flags, std::int64_t gpus, const std::string& place,
                ImportedRun& run) {
  divide_gpus(gpus, place, run);
  ParallelConfig& config = run.config;
  const auto old_size = flags.count("--batch-size");
  const auto size = flags.count("--micro-batch-size");
  if (!size && !old_size) {
    throw Error(place + ": --micro-batch-size is missing");
  }
  config.micro_batch_size = size ? *size : *old_size;
  const auto batch = flags.count("--global-batch-size");
  run.global_batch_size = batch ? *batch : std::int64_t{1} * config.micro_batch_size * config.dp;
  if (!batch) {
    run.reading.notes.push_back("batch " + std::to_string(run.global_batch_size) +
                                ": one microbatch of each replica");
  }
  if (flags.has("--rampup-batch-size")) {
    run.reading.notes.emplace_back(
        "--rampup-batch-size: the full batch is costed; megatron-core since 0.18 ignores the flag");
  }
}

void list_the_rest(const FlagList& flags, bool is_dump, ReadingNotes& reading) {
  if (is_dump) {
    reading.notes.emplace_back(
        "a log lists every argument; those that are not read are not listed here");
    return;
  }
  list_unread(flags.unread(), is_of_the_stack, is_without_effect, reading);
}

}  // namespace

bool is_megatron(const RunFile& file) {
  return !file.settings.has_value();
}

ImportedRun read_megatron(const RunFile& file) {
  const std::string& place = file.place;
  const LaunchedProgram program = find_program(file.text, telling_flags(), place);
  FlagList flags(program.words, place);
  if (file.vocab_size && !flags.has("--vocab-size")) {
    flags.set("--vocab-size", {std::to_string(*file.vocab_size)});
  }
  refuse_other_models(flags, program.program, place);
  ImportedRun run{.framework = "Megatron-LM"};
  run.reading.notes = program.notes;
  note_optimizer(flags.text("--optimizer"), run.reading);
  const TransformerConfig model = megatron_model(flags, run.reading, run.missing);
  if (model.seq_length > 0) {
    run.seq_length = model.seq_length;
  }
  if (run.missing.empty()) {
    run.model = resolved(model, place);
  }
  read_degrees(flags, model, run);
  read_recomputation(flags, model, run.config);
  read_sharding(flags, run);
  read_offload(flags, model, run.config);
  read_stack(flags, model, run);
  run.precision = read_precision(flags);
  if (run.precision == "fp32") {
    run.reading.notes.emplace_back(
        "precision fp32: TransformerEngine multiplies in TF32 unless NVIDIA_TF32_OVERRIDE is 0; "
        "--precision tf32 costs that");
  }
  read_megatron_deepspeed(flags, run);
  read_batch(flags, file.gpus.value_or(program.gpus), place, run);
  list_the_rest(flags, program.is_dump, run.reading);
  return run;
}

}  // namespace ptdp
