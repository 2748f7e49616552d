// Numbers in tests of kernels: f64 on the test's side, any working type on the backend's, with
// conversions of their own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

using Values = std::vector<double>;

inline constexpr auto kDouble = DataType::kFloat64;
inline constexpr std::array<DataType, 4> kWorkingTypes = {DataType::kFloat64, DataType::kFloat32,
                                                          DataType::kBFloat16, DataType::kFloat16};

/// Returns half a unit in the last place, relative to the value: the most that one rounding may
/// lose.
[[nodiscard]] double rounding_of(DataType type);

/// Returns x rounded to nearest even, by arithmetic on f64 alone.
[[nodiscard]] double rounded(double x, DataType type);
[[nodiscard]] Values rounded(Values values, DataType type);

/// Returns the 16 bits of a value that bf16 or f16 holds exactly, or the value of 16 bits.
[[nodiscard]] std::uint16_t half_bits(double x, DataType type);
[[nodiscard]] double half_value(std::uint16_t bits, DataType type);

/// Writes values, rounded, into a buffer in the memory of a host.
void write_values(const Values& values, Buffer to);
[[nodiscard]] Values read_values(Buffer from);

/// Returns a tensor of a backend that holds these values, rounded.
[[nodiscard]] Tensor tensor_of(Backend& backend, DataType type, const Values& values);
/// Returns a tensor for a result, full of NaN.
[[nodiscard]] Tensor poisoned(Backend& backend, DataType type, std::int64_t size);

/// Returns normal variates of deviation 1; equal seeds give equal variates.
[[nodiscard]] Values random_values(std::int64_t size, unsigned seed);
/// Returns normal variates of this deviation, rounded to a type so that a backend reads them
/// exactly.
[[nodiscard]] Values random_values(std::int64_t size, unsigned seed, DataType type,
                                   double deviation = 1.0);

/// Returns ‖found − expected‖ / ‖expected‖.
[[nodiscard]] double relative_error(const Values& found, const Values& expected);
/// Expects every error to be at most `relative` times the larger of the expected magnitude and
/// `scale`.
void expect_close(const Values& found, const Values& expected, double relative, double scale,
                  const std::string& what);

}  // namespace ptdp
