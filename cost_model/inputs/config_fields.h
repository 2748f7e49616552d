// The fields of a configuration: one table of how each is spelled, bounded, pinned and executed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cost_model/contains.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/integer_ranges.h"

namespace ptdp {

/// What a user fixed of a configuration; an empty field leaves the choice to the search.
struct SearchSpace {
  IntegerRanges tp;
  IntegerRanges pp;
  IntegerRanges dp;
  IntegerRanges cp;
  IntegerRanges ep;
  IntegerRanges etp;
  IntegerRanges vpp;
  IntegerRanges micro_batch_size;
  IntegerRanges zero_stage;
  std::vector<ScheduleKind> schedules;
  bool ignores_stack_support =
      false;  ///< Whether schedules count that the stack does not run: "what if".
  /// Whether schedules count that change what the optimizer does; no stack runs them.
  bool allow_stale_weights = false;
  std::vector<Recompute> recompute;
  /// Modules that selective recomputation repeats.
  std::optional<RecomputeModules> recompute_modules;
  /// How full recomputation takes recompute_num_layers.
  std::optional<RecomputeMethod> recompute_method;
  /// Number of layers that full recomputation is limited to, as recompute_method says.
  std::optional<int> recompute_num_layers;
  std::optional<bool> sequence_parallel;
  IntegerRanges dp_replicate;
  std::optional<bool> reshard_after_forward;
  std::vector<RankOrder> rank_orders;     ///< Orders of ranks; empty: Megatron-LM's default alone.
  std::vector<Offload> offload;           ///< What hosts may hold; empty: nothing is offloaded.
  std::optional<int> offload_num_layers;  ///< Number of layers whose activations are offloaded.
  std::vector<int> layers_per_stage;      ///< Layers of each virtual stage; empty: balanced.
  std::optional<int> memory_limit;        ///< Microbatches that a rank of zb-auto may hold.
};

/// Returns whether one of the pinned choices of offloading offloads activations.
[[nodiscard]] bool offloads_activations(const SearchSpace& space);

/// Headings of the flags, in the order in which --help prints them.
enum class FlagGroup { kDegrees, kSharding, kSchedule, kActivations, kOffload, kPlacement };
inline constexpr std::array kFlagGroups = {FlagGroup::kDegrees,  FlagGroup::kSharding,
                                           FlagGroup::kSchedule, FlagGroup::kActivations,
                                           FlagGroup::kOffload,  FlagGroup::kPlacement};

/// The column of a configuration's field in tables of measured runs.
struct RunColumn {
  std::string_view name = {};  ///< Column's name; empty: no column says the field.
  bool is_required = false;    ///< Whether a row that leaves the column out cannot be costed.
};

/// How a field of a configuration is spelled, bounded, printed and executed.
struct FieldTraits {
  /// Name of the field's row in the summary, "tensor parallel"; empty: other rows tell its value.
  std::string_view label = {};
  /// The field's name in one-line configurations; empty: its key.
  std::string_view short_key = {};
  /// Whether one-line configurations print the field even with its usual value.
  bool is_always_printed = false;
  /// Whether plan.json has the field, if it applies, even with its usual value.
  bool is_always_written = false;
  FlagGroup group = FlagGroup::kDegrees;
  std::string_view help = {};     ///< What --help says of the flag.
  std::string_view meaning = {};  ///< What a page says of the field; empty: pages don't explain it.
  std::string_view pins_key = {};   ///< Key in the pins of an answer; empty: the field's key.
  std::int64_t low = 1;             ///< The least number that the field accepts.
  std::int64_t high = 100'000'000;  ///< The largest number that the field accepts.
  RunColumn run_column = {};
  /// The only value that the runtime executes, in words; empty: all are executed.
  std::string_view executes = {};
  /// Returns whether the field means something in `config`; null: it always does.
  bool (*applies)(const ParallelConfig& config) = nullptr;
  /// What plan.json must say beside the field for it to apply, as the error message names it.
  std::string_view applies_beside = {};
};

/// A field of a configuration. `Value` is its type in ParallelConfig; `Pin` is the type in
/// SearchSpace of what a search may choose.
template <class Value, class Pin, bool has_flag>
struct ConfigField {
  static constexpr bool kHasFlag = has_flag;
  std::string_view key;  ///< Name in plan.json and --explain; with hyphens, the flag's name.
  Value ParallelConfig::*member;
  Pin SearchSpace::*pin;
  FieldTraits traits;

  /// Returns the field's name in one-line configurations.
  [[nodiscard]] constexpr std::string_view short_key() const {
    return traits.short_key.empty() ? key : traits.short_key;
  }
  /// Returns the field's key among the pins of an answer.
  [[nodiscard]] constexpr std::string_view pins_key() const {
    return traits.pins_key.empty() ? key : traits.pins_key;
  }
  /// Returns whether the field means something in `config`.
  [[nodiscard]] constexpr bool applies(const ParallelConfig& config) const {
    return traits.applies == nullptr || traits.applies(config);
  }
  /// Returns whether the field has the value of a ParallelConfig by default.
  [[nodiscard]] bool is_usual(const ParallelConfig& config) const {
    return config.*member == ParallelConfig{}.*member;
  }
};

/// Returns a field that a command-line flag pins.
template <class Value, class Pin>
constexpr ConfigField<Value, Pin, true> flag_field(std::string_view key,
                                                   Value ParallelConfig::*member,
                                                   Pin SearchSpace::*pin,
                                                   const FieldTraits& traits) {
  return {key, member, pin, traits};
}
/// Returns a field that plans and --explain can name, but no flag.
template <class Value, class Pin>
constexpr ConfigField<Value, Pin, false> plain_field(std::string_view key,
                                                     Value ParallelConfig::*member,
                                                     Pin SearchSpace::*pin,
                                                     const FieldTraits& traits) {
  return {key, member, pin, traits};
}

/// How the enumerators of a configuration's field are spelled in files, flags and output.
template <class Choice>
inline constexpr NamedValues<Choice> kSpellings;
template <>
inline constexpr NamedValues<ScheduleKind> kSpellings<ScheduleKind>{kScheduleNames};
template <>
inline constexpr NamedValues<Recompute> kSpellings<Recompute>{kRecomputeNames};
template <>
inline constexpr NamedValues<RecomputeMethod> kSpellings<RecomputeMethod>{kRecomputeMethodNames};
template <>
inline constexpr NamedValues<RankOrder> kSpellings<RankOrder>{kRankOrderNames};
template <>
inline constexpr NamedValues<Offload> kSpellings<Offload>{kOffloadNames};

/// Every field of ParallelConfig, in the order of plan.json. A field takes a member in
/// ParallelConfig, a pin in SearchSpace and a row here. What a search tries is in
/// planner/search/enumerate.cpp; then comes the field's formula.
inline constexpr std::tuple kConfigFields{
    flag_field(
        "tp", &ParallelConfig::tp, &SearchSpace::tp,
        {.label = "tensor parallel",
         .is_always_printed = true,
         .is_always_written = true,
         .help = "tensor-parallel sizes, GPUs that split each layer, to consider: 8, or 4,8, or "
                 "2:16",
         .meaning = "GPUs that split each layer",
         .run_column = {"tp", true}}),
    flag_field("pp", &ParallelConfig::pp, &SearchSpace::pp,
               {.label = "pipeline parallel",
                .is_always_printed = true,
                .is_always_written = true,
                .help = "pipeline-parallel sizes, stages that the layers are cut into",
                .meaning = "stages that the layers are cut into",
                .run_column = {"pp", true}}),
    flag_field(
        "dp", &ParallelConfig::dp, &SearchSpace::dp,
        {.label = "data parallel",
         .is_always_printed = true,
         .is_always_written = true,
         .help = "data-parallel sizes, replicas that share the batch (default: all that divide it)",
         .meaning = "replicas that share the batch",
         .run_column = {"dp", true}}),
    flag_field(
        "cp", &ParallelConfig::cp, &SearchSpace::cp,
        {.label = "context parallel",
         .is_always_written = true,
         .help = "context-parallel sizes, GPUs that share each sequence (default: 1, 2, 4 ... as "
                 "far as the stack runs them and 2048 tokens are left to a GPU)",
         .meaning = "GPUs that share each sequence",
         .run_column = {"cp"},
         .executes = "1"}),
    flag_field(
        "ep", &ParallelConfig::ep, &SearchSpace::ep,
        {.label = "expert parallel",
         .is_always_written = true,
         .help = "expert-parallel sizes, GPUs that experts are spread over (default: all that "
                 "divide the experts)",
         .meaning = "GPUs that experts are spread over",
         .run_column = {"ep"},
         .executes = "1"}),
    flag_field("etp", &ParallelConfig::etp, &SearchSpace::etp,
               {.label = "of each expert",
                .help = "GPUs that split each expert (default: 1 and tp)",
                .meaning = "GPUs that split each expert",
                .run_column = {"etp"},
                .executes = "1"}),
    flag_field("vpp", &ParallelConfig::vpp, &SearchSpace::vpp,
               {.is_always_written = true,
                .help = "virtual stages, or chunks of the model, on each GPU",
                .meaning = "chunks of the model on each GPU, which a pipeline visits in turn",
                .run_column = {"vpp", true}}),
    flag_field("micro_batch_size", &ParallelConfig::micro_batch_size,
               &SearchSpace::micro_batch_size,
               {.label = "microbatch",
                .short_key = "b",
                .is_always_printed = true,
                .is_always_written = true,
                .help = "sequences per microbatch, which goes through the pipeline as one",
                .meaning = "sequences that go through the pipeline as one",
                .run_column = {"mbs", true}}),
    flag_field("schedule", &ParallelConfig::schedule, &SearchSpace::schedules,
               {.label = "schedule",
                .is_always_printed = true,
                .is_always_written = true,
                .group = FlagGroup::kSchedule,
                .help = "also ones that the stack does not run (default: all that it runs)",
                .meaning = "order of forward and backward passes",
                .pins_key = "schedules",
                .run_column = {"schedule"}}),
    flag_field(
        "recompute", &ParallelConfig::recompute, &SearchSpace::recompute,
        {.label = "recomputation",
         .is_always_printed = true,
         .is_always_written = true,
         .group = FlagGroup::kActivations,
         .help = "what backward passes compute again instead of storing it: none, selective, "
                 "full, or several: none,full",
         .meaning = "what backward passes compute again instead of storing it: selective, some "
                    "modules of a layer; full, whole layers",
         .run_column = {"recompute", true}}),
    flag_field(
        "recompute_modules", &ParallelConfig::recompute_modules, &SearchSpace::recompute_modules,
        {.short_key = "modules",
         .group = FlagGroup::kActivations,
         .help =
             "what selective computes again: some of core_attn, moe_act, layernorm, mla_up_proj, "
             "mlp, moe, shared_experts, or op, torchtitan's choice (default: core_attn, or what "
             "the stack does instead)",
         .meaning = "modules that are computed again",
         .run_column = {"recompute_modules"},
         .executes = "core_attn alone",
         .applies =
             [](const ParallelConfig& c) { return repeats(c.recompute) == Repeats::kModules; },
         .applies_beside = R"(recompute "selective")"}),
    flag_field(
        "recompute_num_layers", &ParallelConfig::recompute_num_layers,
        &SearchSpace::recompute_num_layers,
        {.group = FlagGroup::kActivations,
         .help = "how many layers full computes again, counted as --recompute-method says "
                 "(default: all, one at a time)",
         .meaning = "layers that are computed again; block: the first of each virtual stage, "
                    "every: each N-th",
         .high = kMostModelLayers,
         .run_column = {"recompute_num_layers"},
         .executes = "all layers, one at a time",
         .applies = [](const ParallelConfig& c) { return repeats(c.recompute) == Repeats::kLayer; },
         .applies_beside = R"(recompute "full")"}),
    flag_field(
        "recompute_method", &ParallelConfig::recompute_method, &SearchSpace::recompute_method,
        {.is_always_written = true,
         .group = FlagGroup::kActivations,
         .help =
             "with --recompute-num-layers N: block (the first N of each virtual stage), uniform "
             "(all, N at a time), every (each N-th) (default: block)",
         .run_column = {"recompute_method"},
         .applies = [](const ParallelConfig& c) { return c.recomputes_by_layers(); }}),
    flag_field("sequence_parallel", &ParallelConfig::sequence_parallel,
               &SearchSpace::sequence_parallel,
               {.label = "sequence parallel",
                .is_always_written = true,
                .group = FlagGroup::kActivations,
                .help = "on, off: whether tensor-parallel GPUs split norms and dropouts, too",
                .meaning = "tensor-parallel GPUs split norms and dropouts, too",
                .run_column = {"seq_parallel"}}),
    flag_field(
        "zero_stage", &ParallelConfig::zero_stage, &SearchSpace::zero_stage,
        {.label = "ZeRO stage",
         .short_key = "zero",
         .is_always_written = true,
         .group = FlagGroup::kSharding,
         .help = "ZeRO stages: 0, 1 (replicas shard optimizer states), 2 (gradients, too), 3 "
                 "(weights, too)",
         .meaning = "what replicas shard: 1 optimizer states, 2 gradients, too, 3 weights, too",
         .low = 0,
         .high = kHighestZeroStage,
         .run_column = {"zero"}}),
    flag_field(
        "dp_replicate", &ParallelConfig::dp_replicate, &SearchSpace::dp_replicate,
        {.label = "replicas of shards",
         .group = FlagGroup::kSharding,
         .help = "replicas of ZeRO's shards: HSDP, or with ZeRO 1 Megatron-Core's "
                 "--num-distributed-optimizer-instances (default: 1; with ZeRO 2 and 3 and pp 1 "
                 "also powers of two, where the stack runs them and each has a node or more)",
         .meaning = "replicas of ZeRO's shards",
         .run_column = {"dp_replicate"},
         .executes = "1"}),
    flag_field("reshard_after_forward", &ParallelConfig::reshard_after_forward,
               &SearchSpace::reshard_after_forward,
               {.label = "gathered weights",
                .group = FlagGroup::kSharding,
                .help = "on, off: whether ZeRO-3 gathers weights again for the backward pass "
                        "(default: on; where the stack runs it, off as well)",
                .meaning = "whether ZeRO-3 gathers weights again for the backward pass",
                .run_column = {"reshard_after_forward"}}),
    flag_field("rank_order", &ParallelConfig::rank_order, &SearchSpace::rank_orders,
               {.label = "order of ranks",
                .short_key = "order",
                .is_always_written = true,
                .group = FlagGroup::kPlacement,
                .help = "which ranks are neighbours: tp-cp-ep-dp-pp, tp-cp-ep-pp-dp or both "
                        "(default: the first)",
                .meaning = "which ranks are neighbours, the nearest first",
                .pins_key = "rank_orders",
                .executes = "tp-cp-ep-dp-pp"}),
    flag_field("offload", &ParallelConfig::offload, &SearchSpace::offload,
               {.label = "in host memory",
                .group = FlagGroup::kOffload,
                .help = "what to keep in host memory: none, optimizer, activations, "
                        "optimizer+activations, or several: none,optimizer (default: none)",
                .meaning = "what lies in host memory",
                .executes = "none"}),
    flag_field(
        "offload_num_layers", &ParallelConfig::offload_num_layers, &SearchSpace::offload_num_layers,
        {.group = FlagGroup::kOffload,
         .help = "of how many layers, from the first on, activations are offloaded (default: one "
                 "to seven eighths of them, and all but the last)",
         .meaning = "layers, from the first on, whose activations lie in host memory",
         .high = kMostModelLayers,
         .run_column = {"offload_num_layers"},
         .executes = "0",
         .applies = [](const ParallelConfig& c) { return offloads_activations(c.offload); },
         .applies_beside = R"(offload "activations" or "optimizer+activations")"}),
    flag_field(
        "layers_per_stage", &ParallelConfig::layers_per_stage, &SearchSpace::layers_per_stage,
        {.short_key = "layers",
         .is_always_written = true,
         .group = FlagGroup::kSchedule,
         .help = "layers of each virtual stage in model order, pp * vpp numbers: 4,7,7,6, or "
                 "13,5x14,12 with 5 times 14 (default: all equal, or balanced)",
         .meaning = "layers of each stage, or chunk of vpp, in model order; 5x14 is five of 14",
         .low = 0,
         .run_column = {"layers_per_stage"}}),
    plain_field(
        "memory_limit", &ParallelConfig::memory_limit, &SearchSpace::memory_limit,
        {.short_key = "limit",
         .is_always_written = true,
         .meaning = "microbatches that a rank may hold",
         .high = 200'000'000,
         .applies = [](const ParallelConfig& c) { return traits_of(c.schedule).is_searched; }})};

/// Calls `visit` with every field, in the order of the table.
template <class Visit>
void for_each_config_field(Visit visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, kConfigFields);
}

/// Calls `visit` with every field that has a flag, in the order of their groups.
template <class Visit>
void for_each_flag(Visit visit) {
  for (const FlagGroup group : kFlagGroups) {
    for_each_config_field([&](const auto& field) {
      if constexpr (std::remove_cvref_t<decltype(field)>::kHasFlag) {
        if (field.traits.group == group) {
          visit(field);
        }
      }
    });
  }
}

/// Returns a number as flags and one-line configurations spell it.
[[nodiscard]] std::string spelled(int value);
/// Returns "on" or "off", as flags and one-line configurations spell a switch.
[[nodiscard]] std::string spelled(bool value);
/// Returns modules as flags and one-line configurations spell them: "core_attn+mlp".
[[nodiscard]] std::string spelled(RecomputeModules value);
/// Returns layers per virtual stage as one-line configurations spell them: "13,5x14,12", where
/// 5x14 stands for five equal neighbors.
[[nodiscard]] std::string spelled(const std::vector<int>& value);
/// Returns the number in decimal digits, or an empty text for nullopt.
[[nodiscard]] std::string spelled(const std::optional<int>& value);
/// Returns the name of an enumerator, as flags and one-line configurations spell it.
template <class Choice>
[[nodiscard]] std::string spelled(Choice value) {
  return std::string(name_of(value, kSpellings<Choice>));
}

/// Reads or writes the JSON value of a field, by its type. `fields` is an ObjectReader or an
/// ObjectWriter; `value` is const for the latter. Reading throws Error for a malformed value.
template <class Fields, class Value>
void describe_value(Fields& fields, const FieldTraits& traits, const std::string& key,
                    Value& value) {
  using Plain = std::remove_const_t<Value>;
  if constexpr (std::is_same_v<Plain, int>) {
    fields.count(key, value, traits.low, traits.high);
  } else if constexpr (std::is_same_v<Plain, bool>) {
    fields.flag(key, value);
  } else if constexpr (std::is_same_v<Plain, std::vector<int>>) {
    fields.counts(key, value, traits.low, traits.high);
  } else if constexpr (std::is_same_v<Plain, RecomputeModules>) {
    std::string text = to_string(value);
    fields.text(key, text);
    if constexpr (Fields::kIsReading) {
      value = parse_recompute_modules(text, fields.place_of(key));
    }
  } else {
    fields.choice(key, value, kSpellings<Plain>);
  }
}

/// Reads the numbers that a flag or --explain pins: "8", "4,8" or "2:16", within traits.low and
/// traits.high. Throws Error at `place` for anything else.
void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               IntegerRanges& pin);
/// Reads the one number that a flag or --explain pins, within traits.low and traits.high. Throws
/// Error at `place` for anything else.
void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::optional<int>& pin);
/// Reads "on" or "off" of a flag or --explain. Throws Error at `place` for anything else.
void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::optional<bool>& pin);
/// Reads modules of a flag or --explain, as parse_recompute_modules() does, and throws what it
/// throws.
void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::optional<RecomputeModules>& pin);
/// Reads layers per virtual stage as spelled() writes them. Throws Error at `place` for anything
/// else.
void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::vector<int>& pin);
/// Reads one name of a choice. Throws Error at `place`, listing all names, for anything else.
template <class Choice>
void parse_pin(std::string_view text, const FieldTraits& /*traits*/, const std::string& place,
               std::optional<Choice>& pin) {
  pin = choose(text, kSpellings<Choice>, place);
}
/// Reads names of a choice with commas between them, and adds each to `pin` once. Throws Error at
/// `place` for anything else.
template <class Choice>
void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::vector<Choice>& pin) {
  while (true) {
    const std::size_t comma = text.find(',');
    std::optional<Choice> choice;
    parse_pin(text.substr(0, comma), traits, place, choice);
    if (!contains(pin, *choice)) {
      pin.push_back(*choice);
    }
    if (comma == std::string_view::npos) {
      return;
    }
    text.remove_prefix(comma + 1);
  }
}

/// Returns whether a pin of numbers leaves its field to the search.
[[nodiscard]] inline bool is_free(const IntegerRanges& pin) {
  return pin.is_any();
}
/// Returns whether a pin of several choices leaves its field to the search.
template <class Value>
[[nodiscard]] bool is_free(const std::vector<Value>& pin) {
  return pin.empty();
}
/// Returns whether a pin of one value leaves its field to the search.
template <class Value>
[[nodiscard]] bool is_free(const std::optional<Value>& pin) {
  return !pin.has_value();
}

}  // namespace ptdp
