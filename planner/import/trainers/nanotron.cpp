// Runs of nanotron. Source of keys and defaults: nanotron 0.4 and its main branch at 2411b02,
// config/config.py, config/parallelism_config.py and config/models_config.py.
#include <algorithm>
#include <array>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/export/trainers/nanotron_config.h"
#include "planner/import/flag_list.h"
#include "planner/import/megatron/megatron_layers.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

constexpr std::string_view kShape = "model.model_config.";

std::string shape_key(std::string_view name) {
  return std::string(kShape) + std::string(name);
}

int needed_count(const FlagList& keys, std::string_view key) {
  const auto value = keys.count(key);
  if (!value) {
    keys.refuse(key, "is missing");
  }
  return *value;
}

/// Returns the kind of model as nanotron tells them apart, "is_llama_config"; empty: none is named.
std::string kind_of_model(const DocumentSettings& settings) {
  for (const auto& [key, values] : settings) {
    if (key.starts_with(kShape) && key.ends_with("_config") &&
        key.compare(kShape.size(), 3, "is_") == 0 && values == std::vector<std::string>{"true"}) {
      return key.substr(kShape.size());
    }
  }
  return "";
}

/// Reads experts of Qwen's layers. `place` begins the messages of errors.
void read_nanotron_experts(const FlagList& keys, const std::string& place,
                           TransformerConfig& model) {
  const auto key = [](std::string_view name) { return shape_key("moe_config.") += name; };
  const auto experts = keys.count(key("num_experts"));
  const auto topk = keys.count(key("top_k"));
  const auto width = keys.count(key("moe_intermediate_size"));
  const auto shared = keys.count(key("shared_expert_intermediate_size"));
  const auto has_shared = keys.truth(key("enable_shared_expert"));
  const auto layers = keys.values(key("layers"));
  if (!experts && !topk && !width && !shared && !has_shared && !layers) {
    return;
  }
  model.num_experts = experts.value_or(8);
  model.moe_router_topk = topk.value_or(2);
  model.moe_ffn_hidden_size = width.value_or(1408);
  model.moe_shared_expert_intermediate_size =
      has_shared.value_or(false) ? shared.value_or(5632) : 0;
  if (!layers || *layers == std::vector<std::string>{"-1"}) {
    return;  // every layer has experts
  }
  std::string pattern;
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const bool has = std::ranges::find(*layers, std::to_string(layer)) != layers->end();
    pattern += (pattern.empty() ? "[" : ",") + std::string(has ? "1" : "0");
  }
  const FlagList one(DocumentSettings{{key("layers"), {pattern + "]"}}}, place);
  read_expert_layers(one, key("layers"), model);
}

/// Returns the model, not resolved. Its defaults are LlamaConfig's and Qwen2Config's, which agree.
TransformerConfig nanotron_model(const FlagList& keys, const std::string& place) {
  TransformerConfig model;
  const auto shape = [&](std::string_view name, int usual) {
    return keys.count(shape_key(name)).value_or(usual);
  };
  model.num_layers = shape("num_hidden_layers", 32);
  model.hidden_size = shape("hidden_size", 4096);
  model.num_attention_heads = shape("num_attention_heads", 32);
  model.num_query_groups = shape("num_key_value_heads", model.num_attention_heads);
  model.ffn_hidden_size = shape("intermediate_size", 11008);
  model.vocab_size = shape("vocab_size", 32000);
  model.seq_length = needed_count(keys, "tokens.sequence_length");
  model.gated_linear_unit = true;
  model.position_embedding = PositionEmbedding::kRope;
  model.normalization = Normalization::kRmsNorm;
  model.layernorm_epsilon = keys.number(shape_key("rms_norm_eps")).value_or(1e-6);
  const auto deviation = keys.number("model.init_method.std");
  const double range = keys.number(shape_key("initializer_range")).value_or(0.02);
  model.init_method_std = deviation.value_or(range);
  model.add_bias_linear = false;
  model.add_qkv_bias = keys.truth(shape_key("attention_bias")).value_or(false);
  model.untied_embeddings = !keys.truth(shape_key("tie_word_embeddings")).value_or(false);
  model.window_size = keys.count(shape_key("sliding_window_size")).value_or(0);
  read_nanotron_experts(keys, place, model);
  model.rotary.base = keys.number(shape_key("rope_theta")).value_or(model.rotary.base);
  return model;
}

void read_nanotron_schedule(const FlagList& keys, ParallelConfig& config) {
  constexpr const char* engine_key = "parallelism.pp_engine";
  const std::string engine = keys.text(engine_key).value_or("afab");
  if (engine != "afab" && engine != "1f1b") {
    keys.refuse(engine_key, "expected 1f1b or afab, got " + in_quotes(engine));
  }
  // Without a pipeline, afab keeps the activations of all microbatches just as well.
  config.schedule = engine == "afab" ? ScheduleKind::kGPipe : ScheduleKind::kOneFOneB;
}

void read_nanotron_degrees(const FlagList& keys, ImportedRun& run) {
  ParallelConfig& config = run.config;
  config.dp = needed_count(keys, "parallelism.dp");
  config.pp = needed_count(keys, "parallelism.pp");
  config.tp = needed_count(keys, "parallelism.tp");
  config.cp = keys.count("parallelism.context_parallel_size").value_or(1);
  if (const int ep = keys.count("parallelism.expert_parallel_size").value_or(1); ep > 1) {
    keys.refuse("parallelism.expert_parallel_size",
                "expected 1, got " + std::to_string(ep) +
                    ": ranks beside dp, which ptdp has not and nanotron's main branch refuses");
  }
  constexpr const char* mode_key = "parallelism.tp_mode";
  std::string mode = keys.text(mode_key).value_or("ALL_REDUCE");
  std::transform(mode.begin(), mode.end(), mode.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (mode != "ALL_REDUCE" && mode != "REDUCE_SCATTER") {
    keys.refuse(mode_key, "expected ALL_REDUCE or REDUCE_SCATTER, got " + in_quotes(mode));
  }
  config.sequence_parallel = mode == "REDUCE_SCATTER" && config.tp > 1;
  read_nanotron_schedule(keys, config);
  if (keys.truth("parallelism.recompute_layer").value_or(false)) {
    config.recompute = Recompute::kFull;
  }
  constexpr const char* zero_key = "optimizer.zero_stage";
  config.zero_stage = keys.count(zero_key, 0).value_or(0);
  if (config.zero_stage > 1) {
    keys.refuse(zero_key, "expected 0 or 1, got " + std::to_string(config.zero_stage));
  }
  config.micro_batch_size = needed_count(keys, "tokens.micro_batch_size");
}

void read_nanotron_batch(const FlagList& keys, const RunFile& file, ImportedRun& run) {
  const ParallelConfig& config = run.config;
  run.gpus = config.world_size();
  if (file.gpus && *file.gpus != run.gpus) {
    throw Error(file.place + ": parallelism: dp*pp*tp and context_parallel_size use " +
                plural(run.gpus, "GPU") + "; expected --gpus " + std::to_string(run.gpus) +
                ", got " + std::to_string(*file.gpus));
  }
  const std::int64_t accumulated = needed_count(keys, "tokens.batch_accumulation_per_replica");
  if (run.gpus > (std::int64_t{1} << 31) ||
      accumulated * config.micro_batch_size > (std::int64_t{1} << 31)) {
    throw Error(file.place + ": expected a batch and GPUs below 2^31");
  }
  run.global_batch_size = accumulated * config.micro_batch_size * config.dp;
  run.reading.notes.push_back("batch " + std::to_string(run.global_batch_size) + ": " +
                              std::to_string(config.micro_batch_size) + " sequences, " +
                              plural(accumulated, "time") + ", of " + plural(config.dp, "replica"));
}

void read_nanotron_stack(const FlagList& keys, ImportedRun& run) {
  const ParallelConfig& config = run.config;
  // With ZeRO, nanotron reduces after the last backward pass and gathers after the step.
  run.stack.reductions = config.zero_stage == 0;
  if (config.zero_stage > 0) {
    run.stack.gathers = false;
  }
  const bool is_async = keys.truth("parallelism.tp_linear_async_communication").value_or(false);
  if (config.tp > 1) {
    run.stack.within_products = is_async;
  }
  const std::string kernel =
      keys.text(shape_key("_attn_implementation")).value_or("flash_attention_2");
  if (config.cp > 1) {
    run.stack.context =
        kernel == "llama3_ring_attention" ? ContextParallel::kAllGather : ContextParallel::kRing;
  }
  const std::string dispatcher =
      keys.text(shape_key("moe_config.token_dispatcher_type")).value_or("alltoall");
  if (run.model && has_experts(*run.model)) {
    run.stack.dispatch =
        dispatcher == "allgather" ? ExpertDispatch::kAllGather : ExpertDispatch::kAllToAll;
  }
}

std::string nanotron_precision(const FlagList& keys) {
  const std::string type = keys.text("model.dtype").value_or("bfloat16");
  if (type != "bfloat16" && type != "float16" && type != "float32") {
    keys.refuse("model.dtype", "expected bfloat16, float16 or float32, got " + in_quotes(type));
  }
  return type == "bfloat16" ? "bf16" : type == "float16" ? "fp16" : "fp32";
}

/// Returns whether a key has nothing to do with time and memory, or says what is read elsewhere.
bool is_nanotron_without_effect(std::string_view key) {
  static constexpr auto beginnings = std::to_array<std::string_view>(
      {"checkpoints", "data", "general", "lighteval", "logging", "metrics_logging", "profiler",
       "s3_upload", "tokenizer", "experiment_logger", "tokens.", "optimizer.", "model.init_method",
       "model.make_vocab_size_divisible_by"});
  static constexpr auto of_shape = std::to_array<std::string_view>(
      {"bos_token_id", "eos_token_id", "pad_token_id", "hidden_act", "is_", "max_position",
       "pretraining_tp", "rope_", "use_cache", "z_loss", "log_attn_probs", "no_rope_layer",
       "moe_config.router_aux_loss_coef"});
  return begins_with_any(key, beginnings) ||
         (key.starts_with(kShape) && begins_with_any(key.substr(kShape.size()), of_shape));
}

bool is_nanotron_of_the_stack(std::string_view key) {
  static constexpr auto names = std::to_array<std::string_view>(
      {"model.ddp_bucket_cap_mb", "optimizer.accumulate_grad_in_fp32",
       "parallelism.tp_recompute_allgather", "model.model_config._use_doc_masking",
       "model.model_config._fused_rms_norm", "model.model_config._fused_rotary_emb",
       "model.model_config._use_qkv_packed", "model.model_config.flex_attention_mask"});
  return std::ranges::find(names, key) != names.end();
}

/// Sets the layers of each stage, which nanotron balances by itself.
void balance_layers(const TransformerConfig& model, ParallelConfig& config, ReadingNotes& reading) {
  if (config.pp > 1) {
    reading.notes.emplace_back(
        "layers per stage as nanotron balances them; a program may have it cut otherwise");
    const std::vector<int> layers = nanotron_layers(model, config.tp, config.pp);
    const bool is_even =
        std::ranges::all_of(layers, [&](int count) { return count == layers.front(); });
    config.layers_per_stage = is_even ? std::vector<int>{} : layers;
  }
}

}  // namespace

bool is_nanotron(const RunFile& file) {
  return file.settings && file.settings->contains("parallelism.dp") &&
         file.settings->contains("parallelism.tp") && file.settings->contains("parallelism.pp");
}

ImportedRun read_nanotron(const RunFile& file) {
  const std::string& place = file.place;
  const FlagList keys(*file.settings, place);
  ImportedRun run{.framework = "nanotron"};
  read_nanotron_degrees(keys, run);
  const std::string kind = kind_of_model(*file.settings);
  if (kind.empty() || kind == "is_llama_config" || kind == "is_qwen2_config") {
    run.model = resolved(nanotron_model(keys, place), place);
    run.seq_length = run.model->seq_length;
    balance_layers(*run.model, run.config, run.reading);
  } else {
    run.missing = "a model like Llama or Qwen2 (" + shape_key(kind) + ")";
    run.seq_length = needed_count(keys, "tokens.sequence_length");
  }
  read_nanotron_stack(keys, run);
  note_optimizer(keys.text("optimizer.optimizer_factory.name"), run.reading);
  run.precision = nanotron_precision(keys);
  read_nanotron_batch(keys, file, run);
  list_unread(keys.unread(), is_nanotron_of_the_stack, is_nanotron_without_effect, run.reading);
  return run;
}

}  // namespace ptdp
