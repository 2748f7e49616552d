// Copies numbers between the host and buffers of an accumulator type, a bounded piece at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// Number of elements copied between a backend and a file at a time.
inline constexpr std::int64_t kElementsPerPiece = std::int64_t{1} << 20;

/// Copies numbers into a buffer of type f32 or f64, rounded to nearest even. Sizes must be equal.
inline void copy_rounded(Backend& backend, std::span<const double> values, const Buffer& to) {
  if (to.type == DataType::kFloat64) {
    backend.copy_in(values.data(), to);
    return;
  }
  const std::vector<float> rounded(values.begin(), values.end());
  backend.copy_in(rounded.data(), to);
}

/// Returns the numbers of a buffer of type f32 or f64.
[[nodiscard]] inline std::vector<double> copied_out(Backend& backend, const Buffer& from) {
  std::vector<double> values(static_cast<std::size_t>(from.size));
  if (from.type == DataType::kFloat64) {
    backend.copy_out(from, values.data());
    return values;
  }
  std::vector<float> narrow(values.size());
  backend.copy_out(from, narrow.data());
  std::copy(narrow.begin(), narrow.end(), values.begin());
  return values;
}

/// Calls visit(first, count) for pieces of at most kElementsPerPiece elements that make up `size`,
/// ascending.
template <class Visit>
void for_each_piece(std::int64_t size, const Visit& visit) {
  for (std::int64_t done = 0; done < size; done += kElementsPerPiece) {
    visit(done, std::min(kElementsPerPiece, size - done));
  }
}

/// Fills a buffer of type f32 or f64 piece by piece. read(first, values) gives as many elements as
/// there are values, from number `first` on.
template <class Read>
void fill_in_pieces(Backend& backend, const Buffer& to, const Read& read) {
  std::vector<double> values;
  for_each_piece(to.size, [&](std::int64_t first, std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    read(first, std::span<double>(values));
    copy_rounded(backend, values, to.slice(first, count));
  });
}

}  // namespace ptdp
