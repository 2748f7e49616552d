#include "cost_model/inputs/stack_precision.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::string_view kPureBf16 = "bf16(pure)";
constexpr std::string_view kUsualFp8 = "fp8";
constexpr const char* kUnfused = "unfused";

constexpr double kFp32Bytes = 4.0;
constexpr double kMoments = 2.0;           // of Adam
constexpr double kOptimizerPasses = 11.0;  // over numbers of 4 bytes, as at_precision() counts
const double kFp32LossTraffic = StackSpec{}.loss_traffic;

/// How a source spells a name of precision_names().
struct Spelling {
  std::string_view text;
  std::string_view name;
};
constexpr std::array kPrecisionSpellings = {Spelling{"f16", "fp16"},
                                            Spelling{"float16", "fp16"},
                                            Spelling{"half", "fp16"},
                                            Spelling{"bfloat16", "bf16"},
                                            Spelling{"f32", "fp32"},
                                            Spelling{"float32", "fp32"},
                                            Spelling{"float", "fp32"},
                                            Spelling{"f64", "fp64"},
                                            Spelling{"float64", "fp64"},
                                            Spelling{"double", "fp64"},
                                            Spelling{"f8", "fp8"},
                                            Spelling{"float8", "fp8"},
                                            Spelling{"fp8-ds", "fp8-delayed"},
                                            Spelling{"fp8-cs", "fp8-current"},
                                            Spelling{"fp8-tensorwise", "fp8-current"},
                                            Spelling{"fp8-sc", "fp8-block"},
                                            Spelling{"mxfp8", "fp8-mx"},
                                            Spelling{"fp8-cs (fp8-mx)", "fp8-current"}};

/// Calls `visit` with each field that a stack has per precision: the stack's own and that of
/// `bytes`.
template <class Visit>
void visit_together(StackSpec& stack, PrecisionBytes& bytes, const Visit& visit) {
  visit(stack.precision, bytes.precision);
  visit(stack.weight_bytes, bytes.weight_bytes);
  visit(stack.gradient_bytes, bytes.gradient_bytes);
  visit(stack.optimizer_bytes, bytes.optimizer_bytes);
  visit(stack.reduced_gradient_bytes, bytes.reduced_gradient_bytes);
  visit(stack.optimizer_traffic, bytes.optimizer_traffic);
  visit(stack.loss_traffic, bytes.loss_traffic);
  visit(stack.all_reduces_gradients, bytes.all_reduces_gradients);
}

/// Returns the entry of other_precisions for `precision`, or null.
PrecisionBytes* find_entry(StackSpec& stack, Precision precision) {
  const auto found =
      std::ranges::find(stack.other_precisions, precision, &PrecisionBytes::precision);
  return found != stack.other_precisions.end() ? &*found : nullptr;
}

/// Returns a stack of 16 bits as it trains in fp32.
StackSpec in_fp32(StackSpec stack) {
  stack.precision = Precision::kFp32;
  stack.weight_bytes = kFp32Bytes;
  stack.gradient_bytes = kFp32Bytes;
  stack.reduced_gradient_bytes = kFp32Bytes;
  stack.optimizer_bytes = kMoments * kFp32Bytes;
  stack.offloaded_optimizer_bytes =
      std::min(stack.offloaded_optimizer_bytes, stack.optimizer_bytes);
  stack.optimizer_traffic = kOptimizerPasses * kFp32Bytes;
  stack.all_reduces_gradients = false;  // which is of bf16's optimizer
  stack.gradient_bucket_bytes = stack.gradient_bucket_bytes > 0.0 ? kFp32Bytes : 0.0;
  stack.loss_traffic =
      std::max(stack.loss_traffic, std::min(2.0 * stack.loss_traffic, kFp32LossTraffic));
  if (stack.attention != kUnfused) {
    stack.attention = kUnfused;
    stack.can_run.context_parallel = false;
  }
  return stack;
}

/// Returns the stack with elements of `precision`, which is not TF32 unless an entry has it.
StackSpec with_elements_of(StackSpec stack, Precision precision) {
  if (PrecisionBytes* entry = find_entry(stack, precision)) {
    visit_together(stack, *entry, [](auto& a, auto& b) { std::swap(a, b); });
    std::ranges::sort(stack.other_precisions, {}, &PrecisionBytes::precision);
    return stack;
  }
  if (precision == Precision::kFp32 && element_bytes(stack.precision) == 2 &&
      stack.memory_model != MemoryModel::kPtdp) {
    return in_fp32(std::move(stack));
  }
  if (element_bytes(precision) != element_bytes(stack.precision)) {
    throw Error("stack " + stack.name + " says what it keeps in " +
                std::string(name_of(stack.precision)) + ", not in " +
                std::string(name_of(precision)) + ": other_precisions lacks it");
  }
  stack.precision = precision;
  return stack;
}

std::string names_of_recipes(const StackSpec& stack) {
  std::string names;
  for (const Fp8Recipe& recipe : stack.fp8_recipes) {
    names += names.empty() ? "" : ", ";
    names += name_of(recipe.scaling);
  }
  return names;
}

}  // namespace

StackSpec at_precision(StackSpec stack, Precision precision) {
  stack.fp8 = std::nullopt;
  if (stack.precision == Precision::kTf32) {
    stack.precision = Precision::kFp32;  // what is kept, and what comes back
  }
  const bool is_of_fp32 =
      precision == Precision::kTf32 && find_entry(stack, Precision::kTf32) == nullptr;
  stack = with_elements_of(std::move(stack), is_of_fp32 ? Precision::kFp32 : precision);
  stack.precision = precision;
  return stack;
}

StackSpec with_fp8(StackSpec stack, std::string_view recipe) {
  if (stack.fp8_recipes.empty()) {
    throw Error("stack " + stack.name + " has no recipe for " + std::string(recipe));
  }
  stack.fp8 = recipe == kUsualFp8 ? std::optional(stack.fp8_recipes.front().scaling)
                                  : find_value(recipe, NamedValues<Fp8Scaling>(kFp8ScalingNames));
  if (fp8_recipe(stack) == nullptr) {
    throw Error("stack " + stack.name + " has no recipe for " + std::string(recipe) +
                "; it has those of " + names_of_recipes(stack));
  }
  if (bits_of(*stack.fp8) == 4 && stack.tp_comm_overlap == TpCommOverlap::kUserBuffers) {
    stack.tp_comm_overlap = TpCommOverlap::kNone;
  }
  return stack;
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names = names_of(NamedValues<Precision>(kPrecisionNames));
  names.emplace_back(kPureBf16);
  names.emplace_back(kUsualFp8);
  for (std::string& name : names_of(NamedValues<Fp8Scaling>(kFp8ScalingNames))) {
    names.push_back(std::move(name));
  }
  return names;
}

std::string precision_name(const StackSpec& stack) {
  return std::string(stack.fp8 ? name_of(*stack.fp8, NamedValues<Fp8Scaling>(kFp8ScalingNames))
                               : name_of(stack.precision, NamedValues<Precision>(kPrecisionNames)));
}

std::optional<std::string> find_precision_name(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* spelling =
      std::ranges::find(kPrecisionSpellings, std::string_view(lower), &Spelling::text);
  const std::string name =
      spelling != kPrecisionSpellings.end() ? std::string(spelling->name) : lower;
  static const std::vector<std::string> names = precision_names();
  return std::ranges::find(names, name) != names.end() ? std::optional(name) : std::nullopt;
}

std::string choose_precision(std::string_view text, const std::string& place) {
  if (auto name = find_precision_name(text)) {
    return *name;
  }
  const std::vector<std::string> names = precision_names();
  return names[find_choice(text, names, place)];
}

std::vector<std::string> precision_names(std::span<const Precision> some) {
  std::vector<std::string> names;
  for (const Precision precision : some) {
    names.emplace_back(name_of(precision));
  }
  return names;
}

Precision choose_precision(std::string_view text, std::span<const Precision> computed,
                           const std::string& place) {
  const std::string name = choose_precision(text, place);
  std::string expected;
  for (const Precision precision : computed) {
    if (name_of(precision) == name) {
      return precision;
    }
    expected += (expected.empty() ? "" : ", ") + std::string(name_of(precision));
  }
  throw Error(place + ": expected one of " + expected + ", got " + in_quotes(text) +
              (text == name ? "" : ", which is " + name));
}

StackSpec with_precision(StackSpec stack, std::string_view name) {
  if (name.empty()) {
    return stack;
  }
  if (const auto precision = find_value(name, NamedValues<Precision>(kPrecisionNames))) {
    return at_precision(std::move(stack), *precision);
  }
  stack = at_precision(std::move(stack), Precision::kBf16);
  if (name != kPureBf16) {
    return with_fp8(std::move(stack), name);
  }
  stack.gradient_bytes = element_bytes(Precision::kBf16);
  stack.reduced_gradient_bytes = stack.gradient_bytes;
  return stack;
}

}  // namespace ptdp
