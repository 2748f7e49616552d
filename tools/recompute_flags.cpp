#include "tools/recompute_flags.h"

#include <algorithm>

#include "cost_model/contains.h"
#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostRecomputedLayers = 100'000;

/// Throws Error where --recompute leaves out what another flag is about.
void check_kind(const Pins& pins, Recompute needed, const std::string& flag) {
  if (!pins.recompute.empty() && !contains(pins.recompute, needed)) {
    throw Error(flag + ": expected " + std::string(name_of(needed)) + " among --recompute");
  }
}

}  // namespace

void add_recompute_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("recompute", text_value(), "none, selective, full, or several: none,full");
  option("recompute-modules", text_value(),
         "what selective is of: some of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, "
         "shared_experts, or op (default: core_attn, or what the stack does instead)");
  option("recompute-method", text_value(),
         "with --recompute-num-layers: block (the first so many of each virtual stage), uniform "
         "(so many at a time), every (each so many-th) (default: block)");
  option("recompute-num-layers", text_value(),
         "layers that full is of, as --recompute-method says (default: all, one at a time)");
}

void read_recompute_flags(const CommandLine& line, Pins& pins) {
  const NamedValues<Recompute> kinds(kRecomputeNames);
  for (const std::size_t index : line.choices("recompute", names_of(kinds))) {
    if (!contains(pins.recompute, kinds[index].value)) {
      pins.recompute.push_back(kinds[index].value);
    }
  }
  if (const auto text = line.text("recompute-modules")) {
    pins.recompute_modules = parse_recompute_modules(*text, "--recompute-modules");
    check_kind(pins, Recompute::kSelective, "--recompute-modules");
  }
  if (const auto number = line.count("recompute-num-layers", 1, kMostRecomputedLayers)) {
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

}  // namespace ptdp
