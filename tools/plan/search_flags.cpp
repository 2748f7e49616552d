#include "tools/plan/search_flags.h"

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/contains.h"
#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostLayers = 100'000;

template <class Value>
std::vector<Value> read_choices(const CommandLine& line, const std::string& flag,
                                NamedValues<Value> names) {
  std::vector<Value> values;
  for (const std::size_t index : line.choices(flag, names_of(names))) {
    if (!contains(values, names[index].value)) {
      values.push_back(names[index].value);
    }
  }
  return values;
}

IntegerRanges read_ranges(const CommandLine& line, const std::string& flag, std::int64_t low,
                          std::int64_t high) {
  const auto text = line.text(flag);
  return text.has_value() ? IntegerRanges::parse(*text, low, high, "--" + flag) : IntegerRanges();
}

/// What --schedule says: a list, which the stack need not run; "all" among them means all.
void read_schedules(const CommandLine& line, Pins& pins) {
  const NamedValues<ScheduleKind> known(kScheduleNames);
  std::vector<std::string> names = names_of(known);
  names.emplace_back("all");
  pins.any_stack = line.has("schedule");
  pins.allow_stale_weights = line.has("allow-stale-weights");
  for (const std::size_t index : line.choices("schedule", names)) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (index == i && !traits_of(known[i].value).is_synchronous && !pins.allow_stale_weights) {
        throw Error("--schedule: " + names[i] +
                    " changes what the optimizer does; expected --allow-stale-weights too");
      }
      if (index == i || index == known.size()) {
        pins.schedules.push_back(known[i].value);
      }
    }
  }
}

/// Throws Error where --recompute leaves out what another flag is about.
void check_kind(const Pins& pins, Recompute needed, const std::string& flag) {
  if (!pins.recompute.empty() && !contains(pins.recompute, needed)) {
    throw Error(flag + ": expected " + std::string(name_of(needed)) + " among --recompute");
  }
}

/// What recomputation is of.
void read_recompute(const CommandLine& line, Pins& pins) {
  pins.recompute = read_choices(line, "recompute", NamedValues<Recompute>(kRecomputeNames));
  if (const auto text = line.text("recompute-modules")) {
    pins.recompute_modules = parse_recompute_modules(*text, "--recompute-modules");
    check_kind(pins, Recompute::kSelective, "--recompute-modules");
  }
  if (const auto number = line.count("recompute-num-layers", 1, kMostLayers)) {
    pins.recompute_num_layers = static_cast<int>(*number);
    check_kind(pins, Recompute::kFull, "--recompute-num-layers");
  }
  const NamedValues<RecomputeMethod> methods(kRecomputeMethodNames);
  if (const auto choice = line.choice("recompute-method", names_of(methods))) {
    pins.recompute_method = methods[*choice].value;
    if (!pins.recompute_num_layers.has_value()) {
      throw Error("--recompute-method: expected --recompute-num-layers too");
    }
  }
}

void read_offload(const CommandLine& line, Pins& pins) {
  pins.offload = read_choices(line, "offload", NamedValues<Offload>(kOffloadNames));
  if (const auto number = line.count("offload-num-layers", 1, kMostLayers)) {
    if (!offloads_activations(pins)) {
      throw Error("--offload-num-layers: expected activations among --offload");
    }
    pins.offload_num_layers = static_cast<int>(*number);
  }
}

}  // namespace

void add_search_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("tp", text_value(), "tensor-parallel sizes to consider: 8, or 4,8, or 2:16");
  option("pp", text_value(), "pipeline-parallel sizes");
  option("dp", text_value(), "data-parallel sizes (default: all that divide the batch)");
  option(
      "cp", text_value(),
      "context-parallel sizes (default: 1, 2, 4 ... as far as the stack runs them and 2048 tokens "
      "are left to a GPU)");
  option("ep", text_value(), "expert-parallel sizes (default: all that divide the experts)");
  option("etp", text_value(), "GPUs that share one expert (default: 1 and tp)");
  option("vpp", text_value(), "model chunks per GPU");
  option("micro-batch-size", text_value(), "sequences per microbatch");
  option("zero-stage", text_value(), "ZeRO stages: 0, 1, 2, 3");
  option("dp-replicate", text_value(),
         "replicas of ZeRO's shards (default: 1, and with ZeRO 2 and 3 on one stage powers of two, "
         "where the stack runs them and each has a node)");
  option("reshard-after-forward", text_value(),
         "on, off: whether ZeRO-3 gathers weights again for the backward pass (default: on, and "
         "off where the stack runs it)");
  option("schedule", text_value(),
         "all, or some of 1f1b, interleaved, gpipe, looped-bfs, zb-h1, zb-h2, zb-v, v-half, v-min, "
         "dualpipe, dualpipev, whether the stack runs them or not (default: all that it runs)");
  option("allow-stale-weights",
         "consider pipedream and pipedream-2bw: gradients of older weights, another optimizer");
  option("recompute", text_value(), "none, selective, full, or several: none,full");
  option("recompute-modules", text_value(),
         "what selective is of: some of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, "
         "shared_experts, or op (default: core_attn, or what the stack does instead)");
  option("recompute-method", text_value(),
         "with --recompute-num-layers: block (the first so many of each virtual stage), uniform "
         "(so many at a time), every (each so many-th) (default: block)");
  option("recompute-num-layers", text_value(),
         "layers that full is of, as --recompute-method says (default: all, one at a time)");
  option("sequence-parallel", text_value(), "on, off");
  option("offload", text_value(),
         "what hosts hold: none, optimizer, activations, optimizer+activations, or several "
         "(default: none)");
  option(
      "offload-num-layers", text_value(),
      "layers, the first, whose activations are offloaded (default: one to seven eighths, and all "
      "but the last)");
  option("rank-order", text_value(),
         "which ranks are neighbours: tp-cp-ep-dp-pp, tp-cp-ep-pp-dp or both (default: the first)");
}

Pins read_pins(const CommandLine& line) {
  Pins pins;
  pins.tp = read_ranges(line, "tp", 1, kMostGpus);
  pins.pp = read_ranges(line, "pp", 1, kMostGpus);
  pins.dp = read_ranges(line, "dp", 1, kMostGpus);
  pins.cp = read_ranges(line, "cp", 1, kMostGpus);
  pins.ep = read_ranges(line, "ep", 1, kMostGpus);
  pins.etp = read_ranges(line, "etp", 1, kMostGpus);
  pins.vpp = read_ranges(line, "vpp", 1, kMostGpus);
  pins.micro_batch_size = read_ranges(line, "micro-batch-size", 1, kLargestBatch);
  pins.zero_stage = read_ranges(line, "zero-stage", 0, 3);
  pins.dp_replicate = read_ranges(line, "dp-replicate", 1, kMostGpus);
  if (const auto choice = line.choice("reshard-after-forward", {"off", "on"})) {
    pins.reshard_after_forward = *choice == 1;
  }
  read_schedules(line, pins);
  read_recompute(line, pins);
  if (const auto choice = line.choice("sequence-parallel", {"off", "on"})) {
    pins.sequence_parallel = *choice == 1;
  }
  read_offload(line, pins);
  pins.rank_orders = read_choices(line, "rank-order", NamedValues<RankOrder>(kRankOrderNames));
  return pins;
}

}  // namespace ptdp
