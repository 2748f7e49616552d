// torchtitan's batch, recomputation and precision.
#include <algorithm>

#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/import/torchtitan/torchtitan.h"

namespace ptdp {
namespace {

constexpr std::string_view kModeKey = "activation_checkpoint.mode";
constexpr std::string_view kOptionKey = "activation_checkpoint.selective_ac_option";
constexpr std::string_view kMxKey = "quantize.linear.mx.recipe_name";
constexpr std::string_view kFloatKey = "quantize.linear.float8.recipe_name";
constexpr std::string_view kLocalKey = "training.local_batch_size";
constexpr std::string_view kGlobalKey = "training.global_batch_size";
constexpr std::string_view kSizeKey = "parallelism.pipeline_parallel_microbatch_size";

void read_checkpointing(const TorchtitanSettings& settings, bool is_command_line,
                        ParallelConfig& config) {
  const std::string mode = settings.text(kModeKey).value_or("selective");
  const std::string option = settings.text(kOptionKey).value_or(is_command_line ? "op" : "2");
  if (mode == "none") {
    return;
  }
  if (mode == "full") {
    config.recompute = Recompute::kFull;
  } else if (mode == "selective" && option == "op") {
    config.recompute = Recompute::kSelective;
    config.recompute_modules = {RecomputeModule::kEverySecondProduct};
  } else if (mode == "selective") {
    config.recompute = Recompute::kFull;
    config.recompute_method = RecomputeMethod::kEvery;
    config.recompute_num_layers = settings.count(kOptionKey).value_or(2);
  } else {
    settings.refuse(kModeKey,
                    "expected none, selective or full, got " + in_quotes(mode) +
                        (mode == "memory_budget" ? ", by which the compiler chooses" : ""));
  }
}

/// Returns the 8-bit recipe of the linear layers; empty if there is none.
std::string recipe_of(const TorchtitanSettings& settings, ImportedRun& run) {
  const std::vector<std::string> converters = settings.names("model.converters");
  const std::string mx = settings.text(kMxKey).value_or("mxfp8_cublas");
  const std::string scales = settings.text(kFloatKey).value_or("tensorwise");
  const bool is_former = settings.truth("float8.enable_float8_linear");
  const auto has_converter = [&](std::string_view name) {
    return std::ranges::any_of(converters, [&](const std::string& converter) {
      return converter == name || converter == "quantize.linear." + std::string(name);
    });
  };
  for (const std::string& converter : converters) {
    if (converter.find("grouped_mm") != std::string::npos) {
      run.reading.notes.push_back(converter + ": experts are costed in bf16");
    }
  }
  if (has_converter("mx")) {
    if (!mx.starts_with("mxfp8")) {
      settings.refuse(kMxKey, "expected a recipe of mxfp8, got " + in_quotes(mx));
    }
    return "fp8-mx";
  }
  if (!has_converter("float8") && !is_former) {
    return "";
  }
  if (scales == "rowwise") {
    return "fp8-rowwise";
  }
  if (scales != "tensorwise") {
    run.reading.notes.push_back("recipe " + scales + ": costed with scales of whole tensors");
  }
  return "fp8-current";
}

void read_mixed_precision(const TorchtitanSettings& settings, bool is_command_line,
                          ImportedRun& run) {
  const ParallelConfig& config = run.config;
  const std::string weights = settings.text("training.dtype").value_or("float32");
  const std::string products = settings.text("training.mixed_precision_param").value_or("bfloat16");
  for (const auto& [key, value] : {std::pair("training.dtype", weights),
                                   std::pair("training.mixed_precision_param", products)}) {
    if (value != "float32" && value != "bfloat16") {
      settings.refuse(key, "expected float32 or bfloat16, got " + in_quotes(value));
    }
  }
  const std::string recipe = recipe_of(settings, run);
  const bool is_alone = config.zero_stage == 0 && config.tp * std::int64_t{1} * config.pp == 1;
  const bool has_fsdp = is_command_line || config.zero_stage == 3 || is_alone;
  if (products == "bfloat16" && weights == "float32" && !has_fsdp) {
    run.reading.notes.emplace_back(
        "precision fp32: without shards, FSDP and its mixed precision are not applied");
  }
  const bool is_bf16 = weights == "bfloat16" || (products == "bfloat16" && has_fsdp);
  note_optimizer(settings.text("optimizer.name"), run.reading);
  run.precision = !is_bf16 ? "fp32" : recipe.empty() ? "bf16" : recipe;
  if (weights == "bfloat16") {
    run.stack.master_weights = false;
    run.reading.notes.emplace_back(
        "training.dtype bfloat16: the optimizer keeps no weights or moments in fp32");
  }
  if (settings.truth("training.enable_cpu_offload")) {
    run.config.offload = Offload::kOptimizer;
    run.reading.notes.emplace_back(
        "training.enable_cpu_offload: costed as the optimizer on the host; shards of weights and "
        "gradients lie there, too");
  }
}

/// Returns the microbatches of a local batch, as files until April 2025 say them: as many as
/// stages unless told. Returns 0 where a later key gives their size.
int former_microbatches(const TorchtitanSettings& settings, ImportedRun& run) {
  const auto number = settings.count("experimental.pipeline_parallel_microbatches");
  if (number || !settings.has("experimental.pipeline_parallel_degree") || run.config.pp == 1) {
    return number.value_or(0);
  }
  const int stages = run.config.pp * run.config.vpp;
  run.reading.notes.push_back(std::to_string(stages) +
                              " microbatches: as many as stages, the default of 2024");
  return stages;
}

void read_local_batch(const TorchtitanSettings& settings, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const auto local_said = settings.count(kLocalKey);
  const int local = local_said.value_or(8);
  if (!local_said) {
    run.reading.notes.emplace_back("local batch size 8: torchtitan's default");
  }
  const int number = former_microbatches(settings, run);
  const int size = settings.count(kSizeKey).value_or(1);
  config.micro_batch_size = config.pp == 1 ? local : number > 0 ? local / number : size;
  if (config.micro_batch_size == 0 || local % config.micro_batch_size != 0 ||
      (config.pp > 1 && number > 0 && local % number != 0)) {
    settings.refuse(kLocalKey, std::to_string(local) + " sequences are no multiple of " +
                                   (number > 0 ? plural(number, "microbatch", "microbatches")
                                               : "microbatches of " + std::to_string(size)));
  }
  const std::int64_t step = std::int64_t{1} * local * config.dp;
  const int batch = settings.count(kGlobalKey, -1).value_or(-1);
  if (batch == 0 || (batch > 0 && batch % step != 0)) {
    settings.refuse(kGlobalKey, "expected a multiple of local batch size times dp, " +
                                    std::to_string(step) + ", got " + std::to_string(batch));
  }
  run.global_batch_size = batch > 0 ? batch : step;
  if (batch < 0) {
    run.reading.notes.push_back("batch " + std::to_string(step) + ": " + std::to_string(local) +
                                " of each replica");
  }
  if (config.pp > 1 && run.global_batch_size > step) {
    run.reading.notes.push_back("the pipeline fills and drains " +
                                std::to_string(run.global_batch_size / step) +
                                " times in an iteration; it is costed as once");
  }
}

}  // namespace

void read_torchtitan_training(const TorchtitanSettings& settings, bool is_command_line,
                              ImportedRun& run) {
  read_checkpointing(settings, is_command_line, run.config);
  read_mixed_precision(settings, is_command_line, run);
  read_local_batch(settings, run);
}

}  // namespace ptdp
