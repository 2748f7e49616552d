// One accelerator: its data sheet, and what kernels reach of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/text/described.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/units.h"

namespace ptdp {

// Ranges hold every machine there is, with room: a value outside was given in a wrong unit.

/// Bounds of what a program reaches of a peak.
inline constexpr Range kFractionRange = {1e-6, 1.0, "a fraction of the peak"};
/// Bounds of bandwidths [10⁹ B/s].
inline constexpr Range kBandwidthRange = {1e-3, 1e5, "gigabytes per second, not gigabits"};
/// Bounds of memory [GiB].
inline constexpr Range kMemoryRange = {1e-6, 1e6, "GiB"};

/// Fractions of the GPU's peak that a fused attention kernel reaches, 0 … 1. They count the causal
/// half of the FLOPs, and 2.5 times that backward. Long sequences reach them; s tokens reach
/// 1/(1 + half_rate_length/s) of them. They should hold between products, at the clock that the
/// power limit leaves; the GPU's `source` says whether they were measured so.
struct AttentionRate {
  std::string kernel;  ///< Name as in StackSpec::attention: "flash-1", "flash-2", "cudnn".
  /// Width of a head for which the entry holds; 0: widths that have no entry of their own.
  int head_width = 0;
  double forward = 0.0;
  double backward = 0.0;
  double half_rate_length = 0.0;  ///< Tokens at which a kernel reaches half of its rate.
  /// The backward pass has this in place of half_rate_length; nullopt: it has that one.
  std::optional<double> backward_half_rate_length = std::nullopt;
  Seconds start;  ///< Fixed time of a pass, beyond the start of a kernel.

  friend bool operator==(const AttentionRate&, const AttentionRate&) = default;
};

/// Formats of 8 and 4 bits: "fp8" has a scale per tensor, the others have one per block.
enum class LowBitFormat { kFp8, kFp8Block, kFp8Mx, kNvfp4 };

/// Products of factors in a format of 8 or 4 bits at full clocks, and what casts to it reach.
struct LowBitProducts {
  LowBitFormat format = LowBitFormat::kFp8;
  double efficiency = 0.0;  ///< Stands in for GpuSpec::matmul_efficiency, of the format's peak.
  /// Stands in for GpuSpec::matmul_sustained; nullopt: that one holds.
  std::optional<double> sustained = std::nullopt;
  double startup_depth = 0.0;  ///< Stands in for GpuSpec::matmul_startup_depth.
  Seconds start;               ///< Stands in for GpuSpec::matmul_start.
  /// Stands in for GpuSpec::cast_efficiency; nullopt: that one holds.
  std::optional<double> cast_efficiency = std::nullopt;

  friend bool operator==(const LowBitProducts&, const LowBitProducts&) = default;
};

/// Size of the blocks in which a matrix product's result is formed [elements].
struct MatmulTile {
  int rows = 0;
  int columns = 0;

  friend bool operator==(const MatmulTile&, const MatmulTile&) = default;
};

/// What measured layers took over what is modeled, for one number of tokens and of ranks.
struct LayerFactor {
  double tokens = 0.0;  ///< Tokens of a microbatch on a rank.
  int tp = 1;           ///< Tensor-parallel ranks that share the layer.
  double forward = 1.0;
  double backward = 1.0;

  friend bool operator==(const LayerFactor&, const LayerFactor&) = default;
};

/// One accelerator. Peaks are data-sheet figures without sparsity. Efficiencies say what kernels
/// reach of them; `source` says where that was measured.
struct GpuSpec {
  std::string name;
  std::string source;
  /// Name of the GPU on which products were measured; empty: this one.
  std::string constants_of = {};
  /// Whether nobody measured what kernels reach on this GPU: fractions, fixed times and attention
  /// rates are those of `constants_of`.
  bool is_assumed = false;
  FlopsPerSecond peak_fp16;
  FlopsPerSecond peak_bf16;  ///< Peak of bf16 products; 0: the GPU has no bf16 matrix units.
  FlopsPerSecond peak_fp32;  ///< Peak of fp32 products; 0: the GPU has no fp32 matrix units.
  FlopsPerSecond peak_tf32;  ///< Peak of TF32 products; 0: the GPU has no TF32 matrix units.
  FlopsPerSecond peak_fp64;  ///< Peak of fp64 products; 0: the GPU has no fp64 matrix units.
  FlopsPerSecond peak_fp8;   ///< Peak of 8-bit products; 0: the GPU has no 8-bit matrix units.
  FlopsPerSecond peak_fp4;   ///< Peak of 4-bit products; 0: the GPU has no 4-bit matrix units.
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  int num_multiprocessors = 0;
  /// Fraction of peak that products with an infinitely long inner dimension reach at full clocks,
  /// in runs too short for a power limit to act, 0 … 1.
  double matmul_efficiency = 0.0;
  /// Share of that rate which a power limit leaves to products of a training step, 0 … 1.
  double matmul_sustained = 1.0;
  /// Standard deviation between cards of the time that products and attention take, as a share of
  /// its mean; 0: not measured, or cards are alike.
  double card_spread = 0.0;
  Seconds matmul_start;  ///< Fixed time of a product, the start of its kernel included.
  /// Steps of the inner dimension [elements] that filling a tile's pipe costs.
  double matmul_startup_depth = 0.0;
  /// Steps of the inner dimension that writing the result, or reading it to add to it, costs per
  /// byte of an element.
  double matmul_output_depth = 0.0;
  /// Share of the unfilled part of a product's last wave of tiles that costs no time, 0 … 1.
  double matmul_wave_overlap = 0.0;
  /// Fraction of peak_fp8 that 8-bit products reach of which `low_bit_products` tells nothing;
  /// nullopt: matmul_efficiency.
  std::optional<double> fp8_matmul_efficiency = std::nullopt;
  std::vector<LowBitProducts> low_bit_products = {};  ///< At most one entry per format.
  /// Whether 8-bit products read their factors in any layout; else only rows along k.
  bool fp8_any_layout = false;
  bool fp8_mx = false;  ///< Whether the matrix units take a scale for every 32 elements.
  /// The only tile in which products are formed; nullopt: the tiles of operations/gemm.h.
  std::optional<MatmulTile> matmul_tile = std::nullopt;
  /// Fraction of memory bandwidth that memory-bound products reach, 0 … 1.
  double matmul_memory_efficiency = 0.0;
  /// Fraction of memory bandwidth that element-wise kernels reach, 0 … 1.
  double memory_efficiency = 0.0;
  /// Fraction of memory bandwidth that casts to 8 bits reach, 0 … 1; nullopt: memory_efficiency.
  std::optional<double> cast_efficiency = std::nullopt;
  /// Fixed time of a cast; nullopt: casts start as all kernels.
  std::optional<Seconds> cast_start = std::nullopt;
  Seconds kernel_latency;  ///< Time from the end of a kernel to full speed of the next.
  std::vector<AttentionRate> attention_rates;
  /// Measured times, at most one table per operation and precision. They correct modeled times.
  std::vector<MeasuredOperation> measured_operations = {};
  /// What whole dense layers took, on top of everything else (cost_model/layer/measured_layers.h).
  std::vector<LayerFactor> layer_factors = {};

  /// Returns the peak of matrix products in `precision`; 0: the GPU lacks it.
  [[nodiscard]] FlopsPerSecond peak(Precision precision) const {
    switch (precision) {
      case Precision::kFp16:
        return peak_fp16;
      case Precision::kBf16:
        return peak_bf16;
      case Precision::kFp32:
        return peak_fp32;
      case Precision::kTf32:
        return peak_tf32;
      case Precision::kFp64:
        return peak_fp64;
    }
    return {};
  }
  /// Returns the peak of matrix products in a format of 8 or 4 bits; 0: the GPU lacks it.
  [[nodiscard]] FlopsPerSecond peak(LowBitFormat format) const {
    return format == LowBitFormat::kNvfp4 ? peak_fp4 : peak_fp8;
  }
  friend bool operator==(const GpuSpec&, const GpuSpec&) = default;
};

// The functions describe() read and write JSON: `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, AttentionRate>& rate);
template <class Fields>
void describe(Fields& fields, Described<Fields, LowBitProducts>& products);
template <class Fields>
void describe(Fields& fields, Described<Fields, MatmulTile>& tile);
template <class Fields>
void describe(Fields& fields, Described<Fields, LayerFactor>& factor);
/// Reads or writes a GPU's JSON. A file that names its `architecture` may leave out what kernels
/// reach: the shipped GPU of that architecture which was measured stands in.
template <class Fields>
void describe(Fields& fields, Described<Fields, GpuSpec>& gpu);

/// Reads a GPU's profile by name ("a100-80gb-sxm") or path. Throws Error as profile_file() does.
[[nodiscard]] GpuSpec find_gpu(const std::string& name_or_path);

}  // namespace ptdp
