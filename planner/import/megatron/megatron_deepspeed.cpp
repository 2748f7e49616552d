// Flags of Megatron-DeepSpeed's own, beside those of Megatron-LM.
#include "cost_model/text/in_quotes.h"
#include "planner/import/megatron/megatron.h"

namespace ptdp {

bool is_megatron_deepspeed(const FlagList& flags) {
  const bool is_on = flags.has("--deepspeed");
  const bool has_file = flags.has("--deepspeed_config") || flags.has("--deepspeed-config");
  return flags.has("--zero-stage") || is_on || has_file;
}

void read_megatron_deepspeed(const FlagList& flags, ImportedRun& run) {
  if (!is_megatron_deepspeed(flags)) {
    return;
  }
  ParallelConfig& config = run.config;
  run.framework = "Megatron-DeepSpeed";
  run.reading.notes.emplace_back(
      "the file of --deepspeed_config is not read: precision, ZeRO and offloading are the flags'");
  const auto stage = flags.number("--zero-stage");
  if (!stage) {
    flags.refuse("--zero-stage",
                 "is missing, and the file of --deepspeed_config is not read: expected 0 to 3");
  }
  if (*stage != 0.0 && *stage != 1.0 && *stage != 2.0 && *stage != 3.0) {
    flags.refuse("--zero-stage", "expected 0 to 3, got " + in_quotes(*flags.text("--zero-stage")));
  }
  config.zero_stage = static_cast<int>(*stage);
  config.dp_replicate = 1;
  const bool has_pipeline = !flags.has("--no-pipeline-parallel");
  if (has_pipeline && config.pp > 1 && config.zero_stage > 1) {
    flags.refuse("--zero-stage",
                 "expected 0 or 1 with a pipeline, got " + std::to_string(config.zero_stage));
  }
  if (has_pipeline && config.zero_stage == 0 && run.precision == "bf16") {
    config.zero_stage = 1;
    run.reading.notes.emplace_back(
        "ZeRO stage 1: DeepSpeed's pipeline shards optimizer states of bf16 at stage 0, too");
  }
  const int sequence = flags.count("--ds-sequence-parallel-size").value_or(1);
  if (sequence > 1) {
    config.cp = sequence;
    run.stack.context = ContextParallel::kAllToAll;
  }
  if (flags.has("--cpu-optimizer") && config.zero_stage > 0) {
    config.offload = Offload::kOptimizer;
  }
  const std::string device = flags.text("--remote-device").value_or("none");
  if (device != "none" && config.zero_stage == 3) {
    flags.refuse("--remote-device",
                 "weights on the host are not costed: expected none, got " + in_quotes(device));
  }
  run.stack.reductions.reset();  // overlap_comm stands in the file
  run.stack.gathers.reset();
}

}  // namespace ptdp
