// DeepSpeed's ds_config.json as a run. Source of keys and defaults: DeepSpeed 0.19.8,
// runtime/config.py and runtime/zero/config.py.
#include <algorithm>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/import/reader.h"
#include "planner/import/trainers/deepspeed_settings.h"

namespace ptdp {
namespace {

constexpr std::string_view kHalfKey = "fp16.enabled";
constexpr std::string_view kZeroSection = "zero_optimization";
constexpr std::string_view kMicsKey = "zero_optimization.mics_shard_size";

constexpr std::string_view kStageKey = "zero_optimization.stage";
constexpr std::string_view kMicroKey = "train_micro_batch_size_per_gpu";
constexpr std::string_view kStepsKey = "gradient_accumulation_steps";
constexpr std::string_view kTotalKey = "train_batch_size";

std::string read_precision_of(const DeepspeedSettings& settings, ImportedRun& run) {
  const std::string_view brain =
      settings.flags().has("bf16.enabled") ? "bf16.enabled" : "bfloat16.enabled";
  const bool is_half = !settings.is_auto(kHalfKey) && settings.truth(kHalfKey);
  const bool is_brain = !settings.is_auto(brain) && settings.truth(brain);
  if (is_half && is_brain) {
    settings.flags().refuse(brain, "expected false beside fp16.enabled, got true");
  }
  if (is_half || is_brain) {
    return is_half ? "fp16" : "bf16";
  }
  for (const std::string_view key : {kHalfKey, brain}) {
    if (settings.is_auto(key)) {
      settings.refuse_auto(key);
    }
  }
  if (settings.truth("amp.enabled")) {
    run.reading.notes.emplace_back("amp: costed as fp16 with fp32 weights beside it");
    return "fp16";
  }
  if (settings.truth("torch_autocast.enabled")) {
    const std::string type =
        settings.flags().text("torch_autocast.dtype").value_or("torch.bfloat16");
    const bool is_float16 = type.ends_with("float16") && !type.ends_with("bfloat16");
    run.reading.notes.push_back("torch_autocast: costed as " +
                                std::string(is_float16 ? "fp16" : "bf16") +
                                " with fp32 weights beside it");
    return is_float16 ? "fp16" : "bf16";
  }
  return "fp32";
}

/// Returns the stage of ZeRO, which old files say as "zero_optimization": true.
int read_stage(const DeepspeedSettings& settings) {
  if (settings.flags().has(kZeroSection) && !settings.flags().has(kStageKey)) {
    return settings.truth(kZeroSection) ? 1 : 0;
  }
  const int stage = settings.count(kStageKey, 0).value_or(0);
  if (stage > kHighestZeroStage) {
    settings.flags().refuse(kStageKey, "expected 0 to 3, got " + std::to_string(stage));
  }
  return stage;
}

/// Returns where a part of the state lies: "none", "cpu" or "nvme".
std::string device_of(const DeepspeedSettings& settings, const std::string& section,
                      const std::string& former) {
  const std::string key = "zero_optimization." + section + ".device";
  if (settings.is_auto(key)) {
    settings.refuse_auto(key);
  }
  const bool is_former = settings.truth("zero_optimization." + former);
  std::string device = settings.flags().text(key).value_or(is_former ? "cpu" : "none");
  if (device != "none" && device != "cpu" && device != "nvme") {
    settings.flags().refuse(key, "expected none, cpu or nvme, got " + in_quotes(device));
  }
  return device;
}

void read_offloading(const DeepspeedSettings& settings, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const std::string former = settings.flags().has("zero_optimization.cpu_offload_params")
                                 ? "cpu_offload_params"
                                 : "cpu_offload_param";
  const std::string weights = device_of(settings, "offload_param", former);
  const std::string states = device_of(settings, "offload_optimizer", "cpu_offload");
  if (weights != "none" && config.zero_stage == kHighestZeroStage) {
    settings.flags().refuse(
        "zero_optimization.offload_param",
        "weights on the host are not costed: expected none, got " + in_quotes(weights));
  }
  if (weights != "none") {
    run.reading.notes.emplace_back("offload_param means nothing below ZeRO stage 3");
  }
  if (states == "nvme") {
    settings.flags().refuse(
        "zero_optimization.offload_optimizer",
        "states on NVMe are not costed: expected none or cpu, got " + in_quotes(states));
  }
  if (states == "cpu" && config.zero_stage == 0) {
    run.reading.notes.emplace_back("offload_optimizer means nothing without ZeRO");
  } else if (states == "cpu") {
    config.offload = Offload::kOptimizer;
    const double part =
        settings.flags().number("zero_optimization.offload_optimizer.ratio").value_or(1.0);
    if (part < 1.0) {
      run.reading.notes.emplace_back("offload_optimizer.ratio: costed as all of the optimizer");
    }
  }
}

/// Reads replicas of shards, and what of ZeRO++ is not costed.
void read_groups(const DeepspeedSettings& settings, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const int group = settings.count(kMicsKey, -1).value_or(-1);
  const std::int64_t sharers = std::int64_t{1} * config.dp * config.cp;
  if (group > 0 && config.zero_stage == kHighestZeroStage) {
    if (sharers % group != 0 || config.dp % (sharers / group) != 0) {
      settings.flags().refuse(kMicsKey, "expected a divisor of the " + std::to_string(sharers) +
                                            " ranks of dp, got " + std::to_string(group));
    }
    config.dp_replicate = static_cast<int>(sharers / group);
  }
  if (settings.count("zero_optimization.zero_hpz_partition_size", 0).value_or(1) > 1) {
    run.reading.notes.emplace_back(
        "zero_hpz_partition_size: the second copy of the weights within nodes is not costed");
  }
  for (const char* key :
       {"zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"}) {
    if (settings.truth(key)) {
      run.reading.notes.push_back(std::string(key) + ": messages are costed at full width");
    }
  }
}

void read_zero(const DeepspeedSettings& settings, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const bool overlaps = settings.flags().has("zero_optimization.overlap_comm")
                            ? settings.truth("zero_optimization.overlap_comm")
                            : config.zero_stage == kHighestZeroStage;
  if (config.dp > 1 || config.cp > 1) {
    run.stack.reductions = overlaps && config.zero_stage > 0;
  }
  if (config.zero_stage == kHighestZeroStage) {
    run.stack.gathers = true;
  }
  if (config.zero_stage == 0 && run.precision == "bf16") {
    run.reading.notes.emplace_back(
        "ZeRO stage 0 with bf16: nothing is sharded; under a pipeline, DeepSpeed shards optimizer "
        "states all the same");
  }
  read_offloading(settings, run);
  read_groups(settings, run);
  const bool has_short_states = settings.truth("bf16.bf16_optimizer_states");
  const bool has_short_weights = settings.truth("bf16.bf16_master_weights_and_grads");
  if (run.precision == "bf16" && has_short_states) {
    run.stack.master_weights = false;
  } else if (has_short_weights || settings.truth("fp16.fp16_master_weights_and_grads")) {
    run.reading.notes.emplace_back("master weights in 16 bits are costed in fp32");
  }
}

/// The three sizes that ds_config.json relates to each other, two of which say the third.
struct DeepspeedBatch {
  std::optional<int> micro;
  std::optional<int> steps;
  std::optional<int> total;
};

/// Refuses sizes of which a trainer would fill in what cannot be derived.
void check_batch(const DeepspeedSettings& settings, const DeepspeedBatch& batch) {
  const int said = (batch.micro ? 1 : 0) + (batch.steps ? 1 : 0) + (batch.total ? 1 : 0);
  if (said >= 2) {
    return;
  }
  for (const std::string_view key : {kMicroKey, kStepsKey, kTotalKey}) {
    if (settings.is_auto(key)) {
      settings.refuse_auto(key);
    }
  }
  if (!batch.micro && !batch.total) {
    settings.flags().refuse(kMicroKey, "is missing, and so is train_batch_size");
  }
}

/// Returns the number of GPUs: the caller's, else as many as all three sizes of a batch say.
std::int64_t gpus_of(const RunFile& file, const DeepspeedBatch& batch, std::int64_t ranks,
                     ReadingNotes& reading) {
  if (file.gpus) {
    return *file.gpus;
  }
  const std::int64_t step = std::int64_t{1} * batch.micro.value_or(0) * batch.steps.value_or(0);
  if (!batch.total || step == 0 || *batch.total % step != 0) {
    throw Error(file.place + ": does not say how many GPUs there are; expected --gpus too");
  }
  const std::int64_t gpus = *batch.total / step * ranks;
  reading.notes.push_back(plural(gpus, "GPU") +
                          ": train_batch_size over microbatch and accumulation steps");
  return gpus;
}

void read_batch_of(const DeepspeedSettings& settings, const RunFile& file, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const DeepspeedBatch batch = {settings.known_count(kMicroKey), settings.known_count(kStepsKey),
                                settings.known_count(kTotalKey)};
  check_batch(settings, batch);
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const std::int64_t ranks = config.world_size();
  if (ranks > most) {
    throw Error(file.place + ": expected fewer tensor and sequence parallel ranks, got " +
                std::to_string(ranks));
  }
  run.gpus = gpus_of(file, batch, ranks, run.reading);
  if (run.gpus % ranks != 0) {
    throw Error(file.place + ": " + plural(run.gpus, "GPU") + " are no multiple of " +
                std::to_string(ranks) + ", autotp_size times sequence_parallel_size");
  }
  const std::int64_t dp = run.gpus / ranks;
  if (dp > most) {
    throw Error(file.place + ": expected fewer GPUs, got " + std::to_string(run.gpus));
  }
  config.dp = static_cast<int>(dp);
  run.reading.notes.push_back("dp " + std::to_string(dp) + ": " + plural(run.gpus, "GPU") +
                              " over tensor and sequence parallel ranks, " + std::to_string(ranks));
  const std::int64_t usual_steps =
      batch.micro && batch.total ? *batch.total / (*batch.micro * dp) : std::int64_t{1};
  const std::int64_t steps = batch.steps ? *batch.steps : std::max<std::int64_t>(usual_steps, 1);
  const std::int64_t micro = batch.micro ? *batch.micro : *batch.total / (steps * dp);
  if (micro * steps > most) {
    settings.flags().refuse(kStepsKey, "expected at most " + std::to_string(most) +
                                           " sequences of a rank, got " +
                                           std::to_string(micro * steps));
  }
  run.global_batch_size = batch.total ? *batch.total : micro * steps * dp;
  if (micro == 0 || run.global_batch_size != micro * steps * dp) {
    settings.flags().refuse(kTotalKey, std::to_string(run.global_batch_size) +
                                           " is no product of " +
                                           std::to_string(std::max<std::int64_t>(micro, 1)) +
                                           " sequences, " + plural(steps, "step") + " and dp " +
                                           std::to_string(dp) + "; --gpus gives another");
  }
  config.micro_batch_size = static_cast<int>(micro);
}

void add_notes(const DeepspeedSettings& settings, const DocumentSettings& all, ImportedRun& run) {
  std::vector<std::string>& notes = run.reading.notes;
  const auto has_section = [&](const std::string& section) {
    const auto at = all.lower_bound(section + ".");
    return at != all.end() && at->first.starts_with(section + ".");
  };
  notes.emplace_back(has_section("activation_checkpointing")
                         ? "recompute none: activation_checkpointing says how, the program whether"
                         : "recompute none: the program says what is recomputed");
  const std::string optimizer = settings.flags().text("optimizer.type").value_or("");
  if (optimizer.starts_with("OneBit") || optimizer.starts_with("ZeroOne")) {
    notes.push_back("optimizer " + optimizer + ": gradients are costed at full width");
  } else if (!optimizer.empty()) {
    note_optimizer(optimizer, run.reading);
  }
  if (has_section("compression_training")) {
    notes.emplace_back("compression_training is not costed");
  }
  std::vector<std::string> unread;
  std::string filled;
  for (const std::string& key : settings.flags().unread()) {
    const std::vector<std::string>& values = all.find(key)->second;
    if (values.size() == 1 && values.front() == "auto") {
      filled += (filled.empty() ? "" : ", ") + key;
    } else {
      unread.push_back(key);
    }
  }
  if (!filled.empty()) {
    notes.push_back("filled in by the Hugging Face trainer, without effect here: " + filled);
  }
  list_unread(unread, is_deepspeed_of_the_stack, is_deepspeed_without_effect, run.reading);
}

}  // namespace

bool is_deepspeed(const RunFile& file) {
  if (!file.settings) {
    return false;
  }
  const DocumentSettings& settings = *file.settings;
  const auto zero = settings.lower_bound("zero_optimization");
  return settings.contains(kMicroKey) || settings.contains(kTotalKey) ||
         (zero != settings.end() && zero->first.starts_with("zero_optimization"));
}

ImportedRun read_deepspeed(const RunFile& file) {
  const DeepspeedSettings settings(*file.settings, file.place);
  ImportedRun run{.framework = "DeepSpeed", .missing = "a model's shape"};
  if (settings.truth("elasticity.enabled")) {
    settings.flags().refuse("elasticity.enabled",
                            "its batch follows from the GPUs that there are: expected false");
  }
  ParallelConfig& config = run.config;
  config.tp = settings.count("tensor_parallel.autotp_size", 0).value_or(1);
  config.tp = std::max(config.tp, 1);  // 0: no tensor parallelism
  config.cp = settings.count("sequence_parallel_size").value_or(1);
  config.etp = file.model && has_experts(*file.model) ? config.tp : 1;
  if (config.cp > 1) {
    run.stack.context = ContextParallel::kAllToAll;
  }
  run.precision = read_precision_of(settings, run);
  config.zero_stage = read_stage(settings);
  read_batch_of(settings, file, run);
  read_zero(settings, run);
  add_notes(settings, *file.settings, run);
  return run;
}

}  // namespace ptdp
