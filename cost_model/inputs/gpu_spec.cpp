#include "cost_model/inputs/gpu_spec.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/profile_files.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr Range kTeraflopsRange = {1e-3, 1e6, "TFLOP/s, dense"};

constexpr std::array<NamedValue<LowBitFormat>, 4> kLowBitFormats = {
    {{LowBitFormat::kFp8, "fp8"},
     {LowBitFormat::kFp8Block, "fp8-block"},
     {LowBitFormat::kFp8Mx, "fp8-mx"},
     {LowBitFormat::kNvfp4, "nvfp4"}}};

/// A family of GPUs, and the shipped one whose measured constants stand in for others of it.
struct Architecture {
  const char* name;
  const char* measured_gpu;
};
constexpr std::array kArchitectures = {Architecture{"volta", "v100-32gb-sxm2"},
                                       Architecture{"turing", "v100-32gb-sxm2"},
                                       Architecture{"ampere", "a100-80gb-sxm"},
                                       Architecture{"ada", "l40s"},
                                       Architecture{"hopper", "h100-80gb-sxm"},
                                       Architecture{"blackwell", "b200-180gb-sxm"},
                                       Architecture{"blackwell-rtx", "rtx-pro-6000-blackwell"},
                                       Architecture{"cdna2", "mi300x"},
                                       Architecture{"cdna3", "mi300x"},
                                       Architecture{"cdna4", "mi355x"}};

/// Keys of what kernels reach, without which a GPU's times cannot be modeled.
const std::vector<std::string> kConstantKeys = {"matmul_efficiency",        "matmul_startup_depth",
                                                "matmul_output_depth",      "matmul_wave_overlap",
                                                "matmul_memory_efficiency", "memory_efficiency",
                                                "kernel_latency_us"};

std::string known_architectures() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    names += (names.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return names;
}

// NOLINTBEGIN(misc-no-recursion): a GPU that stands in names no architecture itself

/// Returns the GPU that stands in for those of the architecture that the file names; nullopt: it
/// names none.
std::optional<GpuSpec> read_architecture(ObjectReader& fields) {
  if (!fields.has("architecture")) {
    return std::nullopt;
  }
  std::string name;
  fields.name("architecture", name);
  const auto* const found =
      std::find_if(kArchitectures.begin(), kArchitectures.end(),
                   [&](const Architecture& architecture) { return architecture.name == name; });
  if (found == kArchitectures.end()) {
    throw Error(fields.place_of("architecture") + ": expected one of " + known_architectures() +
                ", got " + in_quotes(name));
  }
  return find_gpu(found->measured_gpu);
}

/// Gives the GPU what kernels reach of another one, as far as it has the units for it.
void take_constants(GpuSpec& gpu, const GpuSpec& measured) {
  gpu.matmul_efficiency = measured.matmul_efficiency;
  gpu.matmul_sustained = measured.matmul_sustained;
  gpu.card_spread = measured.card_spread;
  gpu.matmul_start = measured.matmul_start;
  gpu.matmul_startup_depth = measured.matmul_startup_depth;
  gpu.matmul_output_depth = measured.matmul_output_depth;
  gpu.matmul_wave_overlap = measured.matmul_wave_overlap;
  gpu.fp8_matmul_efficiency = measured.fp8_matmul_efficiency;
  std::copy_if(measured.low_bit_products.begin(), measured.low_bit_products.end(),
               std::back_inserter(gpu.low_bit_products), [&](const LowBitProducts& products) {
                 return gpu.peak(products.format).value() > 0.0;
               });
  gpu.fp8_any_layout = measured.fp8_any_layout;
  gpu.fp8_mx = measured.fp8_mx;
  gpu.matmul_memory_efficiency = measured.matmul_memory_efficiency;
  gpu.memory_efficiency = measured.memory_efficiency;
  gpu.cast_efficiency = measured.cast_efficiency;
  gpu.cast_start = measured.cast_start;
  gpu.kernel_latency = measured.kernel_latency;
  gpu.attention_rates = measured.attention_rates;
}

/// Reads the architecture, takes what the file leaves out from its measured GPU, and refuses a file
/// that leaves out more. The peaks must have been read.
void take_left_out(ObjectReader& fields, GpuSpec& gpu) {
  const std::optional<GpuSpec> measured = read_architecture(fields);
  std::vector<std::string> needed = {"memory_GiB", "memory_bandwidth_GBps", "num_multiprocessors"};
  if (!measured) {
    needed.insert(needed.end(), kConstantKeys.begin(), kConstantKeys.end());
    fields.require(needed, "an architecture, one of " + known_architectures() +
                               ", stands in for what kernels reach");
    return;
  }
  fields.require(needed);
  take_constants(gpu, *measured);
  const bool has_all = fields.has("attention_rates") &&
                       std::all_of(kConstantKeys.begin(), kConstantKeys.end(),
                                   [&](const std::string& key) { return fields.has(key); });
  if (!has_all) {
    gpu.is_assumed = true;
    gpu.constants_of = measured->name;
  }
}

void check_rates(const std::vector<AttentionRate>& rates, const std::string& place) {
  std::set<std::pair<std::string, int>> seen;
  for (const AttentionRate& rate : rates) {
    if (!seen.emplace(rate.kernel, rate.head_width).second) {
      throw Error(place + ": " + rate.kernel + " for heads of " +
                  (rate.head_width > 0 ? std::to_string(rate.head_width) : "any width") + " twice");
    }
  }
}

void check_measured(const GpuSpec& gpu, const std::string& place) {
  const auto refuse = [&](const MeasuredOperation& entry, const char* why) {
    throw Error(place + ": " + std::string(name_of(entry.operation())) + " in " +
                std::string(name_of(entry.precision())) + why);
  };
  const std::vector<MeasuredOperation>& measured = gpu.measured_operations;
  for (const MeasuredOperation& entry : measured) {
    if (find_measured(measured, entry.operation(), entry.precision()) != &entry) {
      refuse(entry, " twice");
    }
    if (gpu.peak(entry.precision()).value() <= 0.0) {
      refuse(entry, ", of which the GPU has no peak");
    }
  }
}

void check_low_bits(const GpuSpec& gpu, const std::string& place) {
  const auto refuse = [&](LowBitFormat format, const char* why) {
    throw Error(place + ": " +
                std::string(name_of(format, NamedValues<LowBitFormat>(kLowBitFormats))) + why);
  };
  const std::vector<LowBitProducts>& all = gpu.low_bit_products;
  for (const LowBitProducts& products : all) {
    const auto is_same = [&](const LowBitProducts& other) {
      return other.format == products.format;
    };
    if (std::count_if(all.begin(), all.end(), is_same) > 1) {
      refuse(products.format, " twice");
    }
    if (gpu.peak(products.format).value() <= 0.0) {
      refuse(products.format, ", of which the GPU has no peak");
    }
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, AttentionRate>& rate) {
  fields.name("kernel", rate.kernel);
  if (fields.optional("head_width", rate.head_width > 0)) {
    fields.count("head_width", rate.head_width, 1, 100'000);
  }
  fields.number("forward", rate.forward, kFractionRange);
  fields.number("backward", rate.backward, kFractionRange);
  if (fields.optional("half_rate_length", rate.half_rate_length > 0.0)) {
    fields.number("half_rate_length", rate.half_rate_length, {0.0, 1e6});
  }
  if (fields.optional("backward_half_rate_length", rate.backward_half_rate_length.has_value())) {
    fields.number("backward_half_rate_length", held(rate.backward_half_rate_length), {0.0, 1e6});
  }
  if (fields.optional("start_us", rate.start.value() > 0.0)) {
    fields.quantity("start_us", rate.start, kMicro, kLatencyRange);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, LowBitProducts>& products) {
  fields.choice("format", products.format, NamedValues<LowBitFormat>(kLowBitFormats));
  fields.number("efficiency", products.efficiency, kFractionRange);
  if (fields.optional("sustained", products.sustained.has_value())) {
    fields.number("sustained", held(products.sustained), kFractionRange);
  }
  fields.number("startup_depth", products.startup_depth, {0.0, 1e6});
  fields.quantity("start_us", products.start, kMicro, kLatencyRange);
  if (fields.optional("cast_efficiency", products.cast_efficiency.has_value())) {
    fields.number("cast_efficiency", held(products.cast_efficiency), kFractionRange);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, MatmulTile>& tile) {
  fields.count("rows", tile.rows, 1, 100'000);
  fields.count("columns", tile.columns, 1, 100'000);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, LayerFactor>& factor) {
  fields.number("tokens", factor.tokens, {1.0, 1e9});
  fields.count("tp", factor.tp, 1, 100'000);
  fields.number("forward", factor.forward, {1e-3, 1e3, "times as long"});
  fields.number("backward", factor.backward, {1e-3, 1e3, "times as long"});
}

/// Reads or writes the peaks of a GPU.
template <class Fields>
void describe_peaks(Fields& fields, Described<Fields, GpuSpec>& gpu) {
  fields.quantity("peak_fp16_TFLOPs", gpu.peak_fp16, kTera, kTeraflopsRange);
  const auto optional_peak = [&](const char* key, auto& peak) {
    if (fields.optional(key, peak.value() > 0.0)) {
      fields.quantity(key, peak, kTera, kTeraflopsRange);
    }
  };
  optional_peak("peak_bf16_TFLOPs", gpu.peak_bf16);
  optional_peak("peak_fp32_TFLOPs", gpu.peak_fp32);
  optional_peak("peak_tf32_TFLOPs", gpu.peak_tf32);
  optional_peak("peak_fp64_TFLOPs", gpu.peak_fp64);
  optional_peak("peak_fp8_TFLOPs", gpu.peak_fp8);
  optional_peak("peak_fp4_TFLOPs", gpu.peak_fp4);
}

/// Reads or writes what products reach on a GPU.
template <class Fields>
void describe_products(Fields& fields, Described<Fields, GpuSpec>& gpu) {
  if (fields.optional("matmul_efficiency", true)) {
    fields.number("matmul_efficiency", gpu.matmul_efficiency, kFractionRange);
  }
  if (fields.optional("fp8_matmul_efficiency", gpu.fp8_matmul_efficiency.has_value())) {
    fields.number("fp8_matmul_efficiency", held(gpu.fp8_matmul_efficiency), kFractionRange);
  }
  if (fields.optional("low_bit_products", !gpu.low_bit_products.empty())) {
    fields.objects("low_bit_products", gpu.low_bit_products);
    if constexpr (Fields::kIsReading) {
      check_low_bits(gpu, fields.place_of("low_bit_products"));
    }
  }
  if (fields.optional("matmul_sustained", gpu.matmul_sustained != 1.0)) {
    fields.number("matmul_sustained", gpu.matmul_sustained, kFractionRange);
  }
  if (fields.optional("card_spread", gpu.card_spread != 0.0)) {
    fields.number("card_spread", gpu.card_spread, {0.0, 0.2});
  }
  if (fields.optional("matmul_start_us", gpu.matmul_start.value() > 0.0)) {
    fields.quantity("matmul_start_us", gpu.matmul_start, kMicro, kLatencyRange);
  }
  if (fields.optional("matmul_startup_depth", true)) {
    fields.number("matmul_startup_depth", gpu.matmul_startup_depth, {0.0, 1e6});
  }
  if (fields.optional("matmul_output_depth", true)) {
    fields.number("matmul_output_depth", gpu.matmul_output_depth, {0.0, 1e6});
  }
  if (fields.optional("matmul_wave_overlap", true)) {
    fields.number("matmul_wave_overlap", gpu.matmul_wave_overlap, {0.0, 1.0});
  }
  if (fields.optional("matmul_tile", gpu.matmul_tile.has_value())) {
    fields.object("matmul_tile", held(gpu.matmul_tile));
  }
  if (fields.optional("matmul_memory_efficiency", true)) {
    fields.number("matmul_memory_efficiency", gpu.matmul_memory_efficiency, kFractionRange);
  }
}

/// Reads or writes the tables of a GPU.
template <class Fields>
void describe_tables(Fields& fields, Described<Fields, GpuSpec>& gpu) {
  if (fields.optional("attention_rates", !gpu.attention_rates.empty())) {
    fields.objects("attention_rates", gpu.attention_rates);
    if constexpr (Fields::kIsReading) {
      check_rates(gpu.attention_rates, fields.place_of("attention_rates"));
    }
  }
  if (fields.optional("measured_operations", !gpu.measured_operations.empty())) {
    fields.objects("measured_operations", gpu.measured_operations);
    if constexpr (Fields::kIsReading) {
      check_measured(gpu, fields.place_of("measured_operations"));
    }
  }
  if (fields.optional("layer_factors", !gpu.layer_factors.empty())) {
    fields.objects("layer_factors", gpu.layer_factors);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, GpuSpec>& gpu) {
  if constexpr (Fields::kIsReading) {
    if (fields.has("schema")) {  // a file of gpus/ that was pasted into a cluster
      fields.schema(schema_of(ProfileKind::kGpu));
    }
  }
  fields.name("name", gpu.name);
  fields.text("source", gpu.source);
  if (fields.optional("constants_of", !gpu.constants_of.empty())) {
    fields.name("constants_of", gpu.constants_of);
  }
  optional_flag(fields, "is_assumed", gpu.is_assumed, false);
  describe_peaks(fields, gpu);
  if constexpr (Fields::kIsReading) {
    take_left_out(fields, gpu);
  }
  optional_flag(fields, "fp8_any_layout", gpu.fp8_any_layout, false);
  optional_flag(fields, "fp8_mx", gpu.fp8_mx, false);
  fields.quantity("memory_GiB", gpu.memory, kGibi, kMemoryRange);
  fields.quantity("memory_bandwidth_GBps", gpu.memory_bandwidth, kGiga, kBandwidthRange);
  fields.count("num_multiprocessors", gpu.num_multiprocessors, 1, 100'000);
  describe_products(fields, gpu);
  if (fields.optional("memory_efficiency", true)) {
    fields.number("memory_efficiency", gpu.memory_efficiency, kFractionRange);
  }
  if (fields.optional("cast_efficiency", gpu.cast_efficiency.has_value())) {
    fields.number("cast_efficiency", held(gpu.cast_efficiency), kFractionRange);
  }
  if (fields.optional("cast_start_us", gpu.cast_start.has_value())) {
    fields.quantity("cast_start_us", held(gpu.cast_start), kMicro, kLatencyRange);
  }
  if (fields.optional("kernel_latency_us", true)) {
    fields.quantity("kernel_latency_us", gpu.kernel_latency, kMicro, kLatencyRange);
  }
  describe_tables(fields, gpu);
}

template void describe(ObjectReader&, GpuSpec&);
template void describe(ObjectWriter&, const GpuSpec&);

GpuSpec find_gpu(const std::string& name_or_path) {
  return read_profile<GpuSpec>(ProfileKind::kGpu, name_or_path);
}

// NOLINTEND(misc-no-recursion)

}  // namespace ptdp
