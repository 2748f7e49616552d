#include "cost_model/inputs/recompute_modules.h"

#include <cstddef>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"

namespace ptdp {

std::vector<RecomputeModule> RecomputeModules::list() const {
  std::vector<RecomputeModule> modules;
  for (const NamedValue<RecomputeModule>& entry : kRecomputeModuleNames) {
    if (has(entry.value)) {
      modules.push_back(entry.value);
    }
  }
  return modules;
}

std::string_view meaning_of(RecomputeModule module) {
  switch (module) {
    case RecomputeModule::kCoreAttention:
      return "attention's scores and weighted sums";
    case RecomputeModule::kMoeActivation:
      return "activations between the two products of experts";
    case RecomputeModule::kLayerNorm:
      return "norms";
    case RecomputeModule::kMlaUpProjection:
      return "queries, keys and values of latent attention";
    case RecomputeModule::kMlp:
      return "MLPs of layers without experts";
    case RecomputeModule::kMoe:
      return "all of the experts, router and dispatch included";
    case RecomputeModule::kSharedExperts:
      return "experts that every token visits";
    case RecomputeModule::kEverySecondProduct:
      return "all but attention's result and every second product";
  }
  return "";
}

std::string to_string(RecomputeModules modules) {
  std::string text;
  for (const RecomputeModule module : modules.list()) {
    text += text.empty() ? "" : "+";
    text += name_of(module, NamedValues<RecomputeModule>(kRecomputeModuleNames));
  }
  return text;
}

RecomputeModules parse_recompute_modules(std::string_view text, const std::string& place) {
  RecomputeModules modules;
  while (true) {
    const std::size_t end = text.find_first_of("+, ");
    const std::string_view word = text.substr(0, end);
    const auto module = choose<RecomputeModule>(word, kRecomputeModuleNames, place);
    if (modules.has(module)) {
      throw Error(place + ": " + std::string(word) + " is given twice");
    }
    modules.add(module);
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  if (modules.has(RecomputeModule::kEverySecondProduct) &&
      modules != RecomputeModules{RecomputeModule::kEverySecondProduct}) {
    throw Error(place + ": expected op alone, which is of whole layers, got " + to_string(modules));
  }
  return modules;
}

std::string_view name_of(RecomputeMethod method) {
  return name_of(method, NamedValues<RecomputeMethod>(kRecomputeMethodNames));
}

}  // namespace ptdp
