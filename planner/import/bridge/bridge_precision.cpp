// Precision in paths of Megatron-Bridge.
#include <algorithm>
#include <array>

#include "cost_model/text/in_quotes.h"
#include "planner/import/bridge/bridge.h"

namespace ptdp {
namespace {

bool is_true(const FlagList& paths, const std::string& path) {
  return paths.truth(path).value_or(false);
}

/// A recipe of Megatron-Bridge's mixed_precision.py, and --precision's word for it.
struct BridgePrecision {
  std::string_view recipe;
  std::string_view precision;
};
constexpr std::array kBridgePrecisions = {
    BridgePrecision{"bf16_mixed", "bf16"},
    BridgePrecision{"fp16_mixed", "fp16"},
    BridgePrecision{"bf16_with_fp8_delayed_scaling_mixed", "fp8-delayed"},
    BridgePrecision{"bf16_with_fp8_current_scaling_mixed", "fp8-current"},
    BridgePrecision{"nemotron_h_bf16_with_fp8_current_scaling_mixed", "fp8-current"},
    BridgePrecision{"nanov2_bf16_with_fp8_current_scaling_mixed", "fp8-block"},  // as it is there
    BridgePrecision{"bf16_with_fp8_subchannel_scaling_mixed", "fp8-block"},
    BridgePrecision{"bf16_with_mxfp8_mixed", "fp8-mx"},
    BridgePrecision{"bf16_with_nvfp4_mixed", "nvfp4"}};

/// Returns the word for 8 bits with a scaling of Megatron-Core's.
std::string scaled(const FlagList& paths, std::string_view path, const std::string& scaling) {
  if (scaling != "delayed" && scaling != "tensorwise" && scaling != "blockwise" &&
      scaling != "mxfp8") {
    paths.refuse(path,
                 "expected delayed, tensorwise, blockwise or mxfp8, got " + in_quotes(scaling));
  }
  return scaling == "delayed"      ? "fp8-delayed"
         : scaling == "tensorwise" ? "fp8-current"
         : scaling == "blockwise"  ? "fp8-block"
                                   : "fp8-mx";
}

/// Returns whether a path names a format: neither missing nor false.
bool names_format(const FlagList& paths, std::string_view path) {
  const std::string format = paths.text(path).value_or("false");
  return format != "false" && format != "False" && !format.empty();
}

/// Returns the word for the recipe that mixed_precision names; empty if it names none.
std::string precision_of_recipe(const FlagList& paths) {
  auto recipe = paths.text("mixed_precision");
  if (!recipe) {
    return "";
  }
  std::replace(recipe->begin(), recipe->end(), '-', '_');
  const auto* row = std::ranges::find(kBridgePrecisions, *recipe, &BridgePrecision::recipe);
  if (row == kBridgePrecisions.end()) {
    paths.refuse(
        "mixed_precision",
        "expected a recipe of bf16, fp16, or bf16 with fp8 or nvfp4, got " + in_quotes(*recipe));
  }
  return std::string(row->precision);
}

/// Returns the word for the 16 or 32 bits that a part switches on; empty if it switches none on.
std::string switched_on(const FlagList& paths, const std::string& part) {
  const bool is_bf16 = is_true(paths, part + ".bf16");
  const bool is_fp16 = is_true(paths, part + ".fp16");
  const bool is_fp32 = is_true(paths, part + ".fp32");
  return is_bf16 ? "bf16" : is_fp16 ? "fp16" : is_fp32 ? "fp32" : "";
}

/// Returns whether a part switches 4 bits on. Refuses recipes of them other than NVFP4.
bool has_four_bits(const FlagList& paths, const std::string& part) {
  const std::string recipe = paths.text(part + ".fp4_recipe").value_or("nvfp4");
  if (!names_format(paths, part + ".fp4")) {
    return false;
  }
  if (recipe != "nvfp4") {
    paths.refuse(part + ".fp4_recipe", "expected nvfp4, got " + in_quotes(recipe));
  }
  return true;
}

}  // namespace

std::string bridge_precision(const FlagList& paths, const BridgeFile& file, ReadingNotes& reading) {
  std::string usual = precision_of_recipe(paths);
  // What a recipe sets counts until the file says something else.
  for (const std::string part : {"mixed_precision", "model"}) {
    const std::string switched = switched_on(paths, part);
    usual = usual.empty() ? switched : usual;
    const auto scaling = paths.text(part + ".fp8_recipe");
    if (has_four_bits(paths, part)) {
      return "nvfp4";
    }
    if (!names_format(paths, part + ".fp8")) {
      continue;
    }
    if (usual == "fp16") {
      paths.refuse(part + ".fp8", "expected bf16 beside it, got fp16");
    }
    return scaled(paths, part + ".fp8_recipe",
                  scaling.value_or(part == "model" ? "delayed" : "tensorwise"));
  }
  if (usual.empty() && !file.has_whole_rest) {
    reading.notes.emplace_back("bf16, as Megatron-Bridge's recipes have it");
    return "bf16";
  }
  return usual.empty() ? "fp32" : usual;
}

}  // namespace ptdp
