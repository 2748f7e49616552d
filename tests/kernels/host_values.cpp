// Optimized, since these loops over all elements take much of the time of tests of kernels.
#include "tests/kernels/host_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

namespace ptdp {
namespace {

/// A floating-point format: bits of the significand after the point, smallest normal exponent and
/// largest exponent.
struct Format {
  int fraction_bits = 0;
  int min_exponent = 0;
  int max_exponent = 0;
};
constexpr Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
    case DataType::kInt32:
      return {52, -1022, 1023};
    case DataType::kFloat32:
      return {23, -126, 127};
    case DataType::kBFloat16:
      return {7, -126, 127};
    case DataType::kFloat16:
      return {10, -14, 15};
  }
  return {};
}

/// Returns 2^exponent, a normal number. Calls of ldexp() took half of the time of tests of norms.
constexpr double power_of_two(int exponent) {
  constexpr int bias = 1023;
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + bias) << 52U);
}
/// Returns the exponent of a finite number, or one below those of all formats.
constexpr int exponent_of(double x) {
  return static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52U) & 0x7FFU) - 1023;
}
/// Returns the whole number nearest to x, even where two are; |x| is below 2^51.
constexpr double nearest_whole(double x) {
  constexpr double whole_from = 0x1.8p52;  // numbers of this size are whole
  return (x + whole_from) - whole_from;
}

/// Returns x rounded to a format that is narrower than f64.
double rounded_to(const Format& format, double x) {
  if (x == 0.0 || !std::isfinite(x)) {
    return x;
  }
  const int exponent = std::max(exponent_of(x), format.min_exponent);
  const int unit = exponent - format.fraction_bits;
  const double nearest = nearest_whole(std::abs(x) * power_of_two(-unit)) * power_of_two(unit);
  const double most =
      (2.0 - power_of_two(-format.fraction_bits)) * power_of_two(format.max_exponent);
  return std::copysign(nearest > most ? std::numeric_limits<double>::infinity() : nearest, x);
}
constexpr bool is_narrow(DataType type) {
  return type != DataType::kFloat64 && type != DataType::kInt32;
}

}  // namespace

double rounding_of(DataType type) {
  return std::ldexp(1.0, -format_of(type).fraction_bits - 1);
}

double rounded(double x, DataType type) {
  return is_narrow(type) ? rounded_to(format_of(type), x) : x;
}

std::uint16_t half_bits(double x, DataType type) {
  const Format format = format_of(type);
  const int exponent_bits = std::max(15 - format.fraction_bits, 0);
  const unsigned sign = std::signbit(x) ? 0x8000U : 0U;
  const unsigned top = ((1U << static_cast<unsigned>(exponent_bits)) - 1U)
                       << static_cast<unsigned>(format.fraction_bits);
  if (std::isnan(x)) {
    return static_cast<std::uint16_t>(sign | top | 1U);
  }
  if (std::isinf(x)) {
    return static_cast<std::uint16_t>(sign | top);
  }
  if (x == 0.0) {
    return static_cast<std::uint16_t>(sign);
  }
  const int exponent = std::max(exponent_of(x), format.min_exponent);
  const auto fraction =
      static_cast<unsigned>(std::abs(x) * power_of_two(format.fraction_bits - exponent));
  // The leading bit of a normal number carries into the exponent's field.
  const auto biased = static_cast<unsigned>(exponent - format.min_exponent);
  return static_cast<std::uint16_t>(
      sign | ((biased << static_cast<unsigned>(format.fraction_bits)) + fraction));
}

double half_value(std::uint16_t bits, DataType type) {
  const Format format = format_of(type);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const unsigned magnitude = bits & 0x7FFFU;
  const unsigned fraction = magnitude & ((1U << static_cast<unsigned>(format.fraction_bits)) - 1U);
  const auto exponent = static_cast<int>(magnitude >> static_cast<unsigned>(format.fraction_bits));
  if (exponent == format.max_exponent - format.min_exponent + 2) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const unsigned leading = exponent > 0 ? 1U << static_cast<unsigned>(format.fraction_bits) : 0U;
  return sign * static_cast<double>(fraction + leading) *
         power_of_two(std::max(exponent, 1) - 1 + format.min_exponent - format.fraction_bits);
}

void write_values(const Values& values, Buffer to) {
  ASSERT_EQ(static_cast<std::int64_t>(values.size()), to.size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = rounded(values[i], to.type);
    if (to.type == DataType::kFloat64) {
      elements<double>(to)[i] = x;
    } else if (to.type == DataType::kFloat32) {
      elements<float>(to)[i] = static_cast<float>(x);
    } else if (to.type == DataType::kInt32) {
      elements<std::int32_t>(to)[i] = static_cast<std::int32_t>(x);
    } else {
      elements<std::uint16_t>(to)[i] = half_bits(x, to.type);
    }
  }
}

Values read_values(Buffer from) {
  Values values(static_cast<std::size_t>(from.size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (from.type == DataType::kFloat64) {
      values[i] = elements<double>(from)[i];
    } else if (from.type == DataType::kFloat32) {
      values[i] = static_cast<double>(elements<float>(from)[i]);
    } else if (from.type == DataType::kInt32) {
      values[i] = elements<std::int32_t>(from)[i];
    } else {
      values[i] = half_value(elements<std::uint16_t>(from)[i], from.type);
    }
  }
  return values;
}

Tensor tensor_of(Backend& backend, DataType type, const Values& values) {
  Tensor tensor(backend, type, static_cast<std::int64_t>(values.size()));
  write_values(values, tensor);
  return tensor;
}

Tensor poisoned(Backend& backend, DataType type, std::int64_t size) {
  return tensor_of(
      backend, type,
      Values(static_cast<std::size_t>(size), std::numeric_limits<double>::quiet_NaN()));
}

Values rounded(Values values, DataType type) {
  if (is_narrow(type)) {
    const Format format = format_of(type);
    for (double& x : values) {
      x = rounded_to(format, x);
    }
  }
  return values;
}

Values random_values(std::int64_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Values values(static_cast<std::size_t>(size));
  for (double& x : values) {
    x = normal(random);
  }
  return values;
}

Values random_values(std::int64_t size, unsigned seed, DataType type, double deviation) {
  Values values = random_values(size, seed);
  for (double& x : values) {
    x *= deviation;
  }
  return rounded(std::move(values), type);
}

void expect_close(const Values& found, const Values& expected, double relative, double scale,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double allowed = relative * std::max(std::abs(expected[i]), scale);
    ASSERT_TRUE(std::abs(found[i] - expected[i]) <= allowed)
        << what << ": element " << i << " is " << found[i] << ", expected " << expected[i]
        << " within " << allowed;
  }
}

double relative_error(const Values& found, const Values& expected) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace ptdp
