#include "cost_model/measured/measured_run.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/measured/run_fields.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

/// Returns the model, resolved. Throws SkipRow for one that cannot be.
TransformerConfig resolved_or_skipped(const TransformerConfig& model, const std::string& place) {
  try {
    return resolved(model, place);
  } catch (const Error& error) {
    throw SkipRow{error.what()};
  }
}

/// Returns the shipped profile of the model that a row names, or its first layers if the row has
/// fewer. Throws SkipRow with `otherwise` if there is none, and if the row disagrees with it.
TransformerConfig read_named_model(const RunFields& row, const std::string& place,
                                   RowModels& models, const std::string& otherwise) {
  const std::optional<ModelProfile>& profile = models.find(row.text("model"));
  if (!profile) {
    throw SkipRow{otherwise};
  }
  TransformerConfig model = profile->config;
  const auto agree = [&](std::string_view column, int expected) {
    if (row.is_given(column) && row.count(column, 0) != expected) {
      throw SkipRow{std::string(column) + " is not that of the profile " + profile->name};
    }
  };
  if (row.is_given("layers") && row.count("layers", 1) < model.num_layers) {
    model.num_layers = row.count("layers", 1);
    model = resolved_or_skipped(model, place);
  }
  agree("layers", model.num_layers);
  agree("hidden", model.hidden_size);
  agree("heads", model.num_attention_heads);
  agree("kv_heads", model.num_query_groups);
  agree("vocab", model.vocab_size);
  agree("n_experts", model.num_experts);
  agree("topk", model.moe_router_topk);
  agree("moe_ffn", model.moe_ffn_hidden_size);
  if (model.num_experts == 0) {
    agree("head_dim", model.kv_channels);
    agree("ffn", model.ffn_hidden_size);
  }
  if (row.is_given("seq")) {
    model.seq_length = row.count("seq", 1);
  }
  model.mtp_num_layers = row.count_or("mtp_num_layers", 0);
  if (const std::optional<bool> dropout = row.flag("dropout")) {
    model.dropout = dropout;
  }
  return model;
}

TransformerConfig read_model(const RunFields& row, const std::string& place, RowModels& models) {
  if (row.count_or("n_experts", 0) > 0) {
    return read_named_model(row, place, models, "a model with experts that no profile describes");
  }
  if (!row.is_given("layers") && row.is_given("model")) {
    return read_named_model(
        row, place, models,
        "layers is not given, and " + in_quotes(row.text("model")) + " is no shipped model");
  }
  TransformerConfig model;
  model.num_layers = row.count("layers", 1);
  if (model.num_layers > kMostModelLayers) {
    throw SkipRow{"more than " + std::to_string(kMostModelLayers) + " layers"};
  }
  model.hidden_size = row.count("hidden", 1);
  model.num_attention_heads = row.count("heads", 1);
  model.num_query_groups = row.count_or("kv_heads", 0);
  model.kv_channels = row.count_or("head_dim", 0);
  model.ffn_hidden_size = row.count_or("ffn", 0);
  model.vocab_size = row.count("vocab", 1);
  model.seq_length = row.count("seq", 1);
  model.gated_linear_unit = row.flag("gated").value_or(false);
  if (model.gated_linear_unit) {
    // No column says the rest: models with gated MLPs are of Llama's kind throughout.
    model.add_bias_linear = false;
    model.untied_embeddings = true;
    model.position_embedding = PositionEmbedding::kRope;
    model.normalization = Normalization::kRmsNorm;
  }
  model.untied_embeddings = row.flag("untied").value_or(model.untied_embeddings);
  model.dropout = row.flag("dropout");
  return resolved_or_skipped(model, place);
}

/// Reads a choice by its name; nullopt if the source does not say. Throws Error for no name.
template <class Value>
std::optional<Value> read_choice(const RunFields& row, std::string_view column,
                                 NamedValues<Value> values) {
  if (row.text(column) == "?" || !row.is_given(column)) {
    return std::nullopt;
  }
  return choose(row.text(column), values, row.place_of(column));
}

/// Returns the n of "selective-n", torchtitan's selective_ac_option of a number, which recomputes
/// every n-th layer; nullopt for other texts.
std::optional<int> every_nth_layer(std::string_view text) {
  constexpr std::string_view kind = "selective-";
  int number = 0;
  if (!text.starts_with(kind)) {
    return std::nullopt;
  }
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data() + kind.size(), end, number);
  return fault == std::errc() && rest == end && number > 0 && number <= kMostModelLayers
             ? std::optional(number)
             : std::nullopt;
}

Recompute read_recompute(const std::string& text) {
  if (text == "selective-op") {  // torchtitan's
    return Recompute::kSelective;
  }
  if (every_nth_layer(text)) {
    return Recompute::kFull;
  }
  for (const auto& entry : kRecomputeNames) {
    if (text == entry.name) {
      return entry.value;
    }
  }
  throw SkipRow{"recompute " + in_quotes(text) + " is not covered"};
}

/// Returns the name of the precision that a row says; empty if it says none. Throws SkipRow for
/// one that no name stands for.
std::string read_precision(const std::string& text) {
  const std::optional<std::string> name = text.empty() ? text : find_precision_name(text);
  if (!name) {
    throw SkipRow{"precision " + in_quotes(text) + " is not covered"};
  }
  return *name;
}

/// Reads what the row's recomputation repeats. Throws Error for unknown modules and methods, and
/// for fields that do not go with `recompute`; throws SkipRow for an unknown `recompute`.
void read_recomputation(const RunFields& row, ParallelConfig& config) {
  const std::string kind = row.text("recompute");
  config.recompute = read_recompute(kind);
  const auto expect = [&](const char* column, bool is_meant, const std::string& beside) {
    if (!is_meant && row.is_given(column)) {
      throw Error(row.place_of(column) + ": expected " + beside + " beside it");
    }
  };
  expect("recompute_modules", kind == "selective", "recompute selective");
  expect("recompute_num_layers", kind == "full", "recompute full");
  expect("recompute_method", row.is_given("recompute_num_layers"), "recompute_num_layers");
  if (const std::optional<int> every = every_nth_layer(kind)) {
    config.recompute_method = RecomputeMethod::kEvery;
    config.recompute_num_layers = *every;
  } else if (kind == "selective-op") {
    config.recompute_modules = {RecomputeModule::kEverySecondProduct};
  } else if (row.is_given("recompute_modules")) {
    config.recompute_modules =
        parse_recompute_modules(row.text("recompute_modules"), row.place_of("recompute_modules"));
  }
  if (row.is_given("recompute_num_layers") && row.is_given("recompute_method")) {
    config.recompute_method =
        *read_choice(row, "recompute_method", NamedValues<RecomputeMethod>(kRecomputeMethodNames));
  }
}

/// Reads whether a run keeps activations of some of its `num_layers` layers in its hosts. Throws
/// Error for too many layers, and SkipRow beside a pipeline or recomputation.
void read_offload(const RunFields& row, int num_layers, ParallelConfig& config) {
  if (!row.is_given("offload_num_layers")) {
    return;
  }
  config.offload = Offload::kActivations;
  if (config.offload_num_layers >= num_layers) {
    throw Error(row.place_of("offload_num_layers") + ": expected fewer than the " +
                std::to_string(num_layers) + " layers, got " +
                std::to_string(config.offload_num_layers));
  }
  if (config.pp > 1 || repeats(config.recompute) != Repeats::kNothing) {
    throw SkipRow{"activations offloaded with a pipeline or with recomputation"};
  }
}

/// Returns the memory limit of a searched schedule of arXiv:2401.10241 (section 3), as a
/// multiple of the number of pipeline ranks; nullopt for other schedules.
std::optional<int> stages_of_memory(const std::string& schedule) {
  static const std::map<std::string, int> papers_names = {{"ZB-1p", 1}, {"ZB-2p", 2}};
  const auto found = papers_names.find(schedule);
  return found != papers_names.end() ? std::optional(found->second) : std::nullopt;
}

/// Returns the schedule that `text` stands for, in any spelling that sources use. Empty text means
/// 1F1B, or its interleaved form with several chunks per rank; so do "none", "fsdp" and "dp"
/// without a pipeline. Throws SkipRow for any other schedule.
ScheduleKind read_schedule(const std::string& text, int pp, int vpp) {
  static const std::set<std::string> one_forward_one_backward = {
      "", "1f1b", "1F1B", "1F1B-I", "1f1b-interleaved", "interleaved",
      // Llama 3's schedule has groups of any size, which the stack's batches do not need.
      "1f1b-interleaved (modified)"};
  static const std::set<std::string> without_pipeline = {"none", "fsdp", "dp"};
  if (one_forward_one_backward.contains(text) || (without_pipeline.contains(text) && pp == 1)) {
    return vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
  }
  if (vpp == 1 && stages_of_memory(text)) {
    return ScheduleKind::kZbAuto;
  }
  throw SkipRow{"schedule " + in_quotes(text) + " is not covered"};
}

/// Reads the layers of each virtual stage: "4+4+3" or "4,4,3". Throws Error for anything else.
std::vector<int> read_layers_per_stage(const RunFields& row) {
  std::vector<int> layers;
  const std::string text = row.text("layers_per_stage");
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("+,", begin), text.size());
    int count = 0;
    const auto [rest, fault] = std::from_chars(text.data() + begin, text.data() + end, count);
    if (fault != std::errc() || rest != text.data() + end || count < 0) {
      throw Error(row.place_of("layers_per_stage") +
                  ": expected numbers with + or a comma between them, got " + in_quotes(text));
    }
    layers.push_back(count);
    begin = end + 1;
  }
  return layers;
}

/// Returns the layers of each virtual stage, for a row that does not say them; empty if all are
/// equal. Embedding and head each take a layer's slot if that comes out even, as Megatron-LM and
/// DeepSpeed count them if told to. Otherwise the first stages hold one layer more.
std::vector<int> balance_equal_layers(int layers, int virtual_stages) {
  std::vector<int> spread;
  if (layers % virtual_stages == 0) {
    return spread;
  }
  const bool has_slots = (layers + 2) % virtual_stages == 0;
  const int slots = has_slots ? layers + 2 : layers;
  spread.assign(static_cast<std::size_t>(virtual_stages), slots / virtual_stages);
  if (has_slots) {
    --spread.front();
    --spread.back();
  }
  for (int stage = 0; stage < slots % virtual_stages; ++stage) {
    ++spread[static_cast<std::size_t>(stage)];
  }
  return spread;
}

/// Reads optimizer_shards, how many of a replica's copies share one copy of the optimizer's states:
/// the others hold replicas of the shards. Throws SkipRow if it contradicts other columns.
void read_optimizer_shards(const RunFields& row, ParallelConfig& config) {
  if (!row.is_given("optimizer_shards")) {
    return;
  }
  const int shards = row.count("optimizer_shards", 1);
  const std::int64_t ranks = std::int64_t{config.dp} * config.cp;
  const std::int64_t replicas = ranks / shards;
  const bool contradicts = ranks % shards != 0 || (shards > 1 && config.zero_stage == 0) ||
                           (row.is_given("dp_replicate") && config.dp_replicate != replicas);
  if (contradicts) {
    throw SkipRow{"optimizer_shards " + std::to_string(shards) +
                  " is no share of dp * cp, contradicts dp_replicate, or nothing is sharded"};
  }
  config.dp_replicate = static_cast<int>(config.zero_stage > 0 ? replicas : 1);
}

/// Reads a field of a configuration that is a number or a flag. Other fields have spellings of
/// their own and are left alone.
template <class Value, class Pin, bool has_flag>
void read_field(const RunFields& row, const ConfigField<Value, Pin, has_flag>& field,
                ParallelConfig& config) {
  const RunColumn& column = field.traits.run_column;
  if (column.name.empty()) {
    return;
  }
  if constexpr (std::is_same_v<Value, int>) {
    if (column.is_required || row.is_given(column.name)) {
      config.*field.member = row.count(column.name, field.traits.low);
    }
  } else if constexpr (std::is_same_v<Value, bool>) {
    config.*field.member = row.flag(column.name).value_or(config.*field.member);
  }
}

ParallelConfig read_config(const RunFields& row, const TransformerConfig& model) {
  const int num_layers = model.num_layers;
  const bool has_experts = model.num_experts > 0;
  ParallelConfig config;
  for_each_config_field([&](const auto& field) {
    if (field.key != "reshard_after_forward") {  // read below, where weights are sharded
      read_field(row, field, config);
    }
  });
  if (!has_experts && config.ep > 1) {
    throw SkipRow{"ep of a model without experts"};
  }
  if (has_experts && config.tp > 1 && !row.is_given("etp")) {
    throw SkipRow{"etp is not given"};  // Megatron-Core's default is tp, its recipes' is 1
  }
  config.schedule = read_schedule(row.text("schedule"), config.pp, config.vpp);
  if (traits_of(config.schedule).is_searched) {
    config.memory_limit = *stages_of_memory(row.text("schedule")) * config.pp;
  }
  read_recomputation(row, config);
  read_offload(row, num_layers, config);
  config.sequence_parallel = config.sequence_parallel && config.tp > 1;
  config.zero_stage = has_replicas(model, config) ? config.zero_stage : 0;
  if (config.zero_stage > kHighestZeroStage) {
    throw SkipRow{"there is no ZeRO stage " + std::to_string(config.zero_stage)};
  }
  read_optimizer_shards(row, config);
  if (config.dp % config.dp_replicate != 0 || (config.dp_replicate > 1 && config.zero_stage == 0)) {
    throw SkipRow{"dp_replicate " + std::to_string(config.dp_replicate) +
                  " does not divide dp, or " + "nothing is sharded"};
  }
  config.reshard_after_forward =
      !shards_weights(config) || row.flag("reshard_after_forward").value_or(true);
  if (config.vpp > 1 && config.pp == 1) {
    throw SkipRow{"vpp " + std::to_string(config.vpp) + " without a pipeline"};
  }
  const std::int64_t virtual_stages = std::int64_t{config.pp} * config.vpp;
  if (virtual_stages > num_layers && virtual_stages != num_layers + 2) {
    throw SkipRow{"fewer layers than stages"};
  }
  config.layers_per_stage =
      row.is_given("layers_per_stage")
          ? read_layers_per_stage(row)
          : balance_equal_layers(num_layers, static_cast<int>(virtual_stages));
  if (!config.layers_per_stage.empty() &&
      (std::ssize(config.layers_per_stage) != virtual_stages ||
       std::accumulate(config.layers_per_stage.begin(), config.layers_per_stage.end(), 0) !=
           num_layers)) {
    throw SkipRow{"layers_per_stage is not " + std::to_string(virtual_stages) +
                  " numbers that add up to " + std::to_string(num_layers)};
  }
  return config;
}

/// Throws SkipRow for a row whose number of microbatches contradicts its batch.
void check_microbatches(const RunFields& row, const MeasuredRun& run) {
  const std::int64_t slots = std::int64_t{run.config.dp} * run.config.micro_batch_size;
  if (run.global_batch_size % slots != 0) {
    return;  // another check's matter; sources may then print a fraction
  }
  const int given = row.check("n_microbatches");
  if (given != 0 && run.global_batch_size / slots != given) {
    throw SkipRow{"gbs, dp and mbs make " + std::to_string(run.global_batch_size / slots) +
                  " microbatches, n_microbatches is " + std::to_string(given)};
  }
}

/// Returns the time of an iteration: as it is given, else what the tokens of a GPU per second say,
/// else what its FLOP/s say.
Seconds read_time(const RunFields& row, const MeasuredRun& run) {
  const std::string rate = row.text("tflops_per_gpu");
  const bool has_tokens = row.is_given("tokens_s_gpu");
  if (!row.text("iter_time_best_s").empty() || (!has_tokens && rate.empty())) {
    return Seconds(row.seconds("iter_time_best_s"));
  }
  if (!has_tokens) {
    const auto time = time_of_rate(run, row.text("flop_convention"), row.rate("tflops_per_gpu"));
    if (!time) {
      throw SkipRow{
          "no iter_time_best_s, and tflops_per_gpu by a flop_convention that is not known"};
    }
    return *time;
  }
  const double tokens = 1.0 * static_cast<double>(run.global_batch_size) * run.model.seq_length;
  return Seconds(tokens / row.rate("tokens_s_gpu") / static_cast<double>(run.config.world_size()));
}

MeasuredRun read_run(const RunFields& row, const std::string& place, RowModels& models) {
  MeasuredRun run;
  run.id = row.line("id");
  run.group = row.line("holdout_group");
  run.source = row.text("source");
  if (!row.text("source_ref").empty()) {
    run.source += ", " + row.text("source_ref");
  }
  run.cluster = row.profile("cluster_key");
  run.stack = row.profile("stack_key");
  run.model = read_model(row, place, models);
  run.global_batch_size = row.count("gbs", 1);
  run.config = read_config(row, run.model);
  run.precision = read_precision(row.text("precision"));
  const std::int64_t gpus = row.check("gpu_count");
  if (gpus != 0 && gpus != run.config.world_size()) {
    throw SkipRow{"tp, pp, dp and cp make " + std::to_string(run.config.world_size()) +
                  " GPUs, gpu_count is " + std::to_string(gpus)};
  }
  const auto flag_if_told = [&](std::string_view column) {
    return row.text(column) == "?" ? std::nullopt : row.flag(column);
  };
  run.data_parallel_overlap = flag_if_told("dp_overlap");
  run.tp_comm_overlap = flag_if_told("tp_overlap");
  run.expert_dispatch =
      read_choice(row, "expert_dispatch", NamedValues<ExpertDispatch>(kExpertDispatchNames));
  run.cuda_graphs = read_choice(row, "cuda_graphs", NamedValues<CudaGraphs>(kCudaGraphsNames));
  run.expert_overlap = flag_if_told("expert_overlap");
  run.scatter_gather = flag_if_told("scatter_gather");
  run.fused = flag_if_told("fused");
  check_microbatches(row, run);
  run.iteration_time = read_time(row, run);
  run.memory = row.memory("memory_GB");
  return run;
}

}  // namespace

void MeasuredRuns::append(MeasuredRuns more) {
  std::ranges::move(more.runs, std::back_inserter(runs));
  std::ranges::move(more.skipped, std::back_inserter(skipped));
}

const std::optional<ModelProfile>& RowModels::find(const std::string& name) {
  if (const auto found = models_.find(name); found != models_.end()) {
    return found->second;
  }
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::optional<ModelProfile> model;
  if (has_profile(ProfileKind::kModel, lower)) {
    model = find_model(lower);
  }
  return models_.emplace(name, std::move(model)).first->second;
}

std::optional<Seconds> time_of_rate(const MeasuredRun& run, std::string_view convention,
                                    double tflops) {
  const std::int64_t batch = run.global_batch_size;
  Flops flops;
  if (convention == "model_full") {
    flops = model_flops(run.model, batch);
  } else if (convention == "model_causal") {
    flops = causal_model_flops(run.model, batch);
  } else if (convention == "sc21_hw") {
    flops = sc21_flops(run.model, batch);
  } else if (convention == "hardware") {
    flops = hardware_flops(run.model, batch, run.config);
  } else {
    return std::nullopt;
  }
  return flops / FlopsPerSecond(tflops * kTera * static_cast<double>(run.config.world_size()));
}

MeasuredRun read_measured_run(const CsvTable& table, std::size_t row, RowModels& models) {
  const RunFields reader(table, row);
  return read_run(reader, table.place_of(row, reader.text("id")), models);
}

MeasuredRuns read_measured_runs(const CsvTable& table) {
  RowModels models;
  return read_measured_runs(table, models);
}

MeasuredRuns read_measured_runs(const CsvTable& table, RowModels& models) {
  check_columns(table);
  MeasuredRuns result;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    try {
      result.runs.push_back(read_measured_run(table, row, models));
    } catch (const SkipRow& skip) {
      result.skipped.push_back({table.text(row, "id"), table.text(row, "holdout_group"),
                                skip.reason,
                                std::make_shared<const CsvTable>(table.variations(row, {{}}))});
    }
  }
  return result;
}

}  // namespace ptdp
