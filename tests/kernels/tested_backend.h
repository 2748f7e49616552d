// The backend that a program tests, a host's or a GPU's. The program is linked with
// host_backend.cpp or with cuda/gpu_backend.cpp. Numbers are f64 on the test's side.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/host_values.h"

namespace ptdp {

/// Makes the backend that is tested; returns null if there is no GPU for it.
[[nodiscard]] std::unique_ptr<Backend> make_tested_backend();
/// Returns the types in which the tested backend computes, the widest first. Operations that only
/// move, add or compare take all types.
[[nodiscard]] std::span<const DataType> computed_types();
/// Whether the error of each element has a bound. A real GPU's functions are approximations and its
/// products are a library's: their errors are bounded only in the norm.
[[nodiscard]] bool bounds_each_element();
/// Calls try_case(type, each) for every type and case of a test. On a host, and on an emulated GPU,
/// which take long, cases of 16 bits are tried in one of the two types, in turn.
template <class Cases, class TryCase>
void for_each_type_and_case(const Cases& cases, const TryCase& try_case) {
  for (const DataType type : computed_types()) {
    bool is_in_turn = type == DataType::kBFloat16;
    for (const auto& each : cases) {
      if (!bounds_each_element() || bytes_of(type) != 2 || is_in_turn) {
        try_case(type, each);
      }
      is_in_turn = !is_in_turn;
    }
  }
}

[[nodiscard]] inline DataType widest_type() {
  return computed_types().front();
}

/// Buffers of a backend, as long as the object lives. They begin `offset` elements after an aligned
/// address.
class BuffersOf {
 public:
  explicit BuffersOf(Backend& backend) : backend_(backend) {}

  /// Returns a buffer that holds these values, rounded.
  [[nodiscard]] Buffer put(DataType type, const Values& values, std::int64_t offset = 0) {
    const auto size = static_cast<std::int64_t>(values.size());
    tensors_.emplace_back(backend_, type, offset + size);
    const Buffer buffer = tensors_.back().buffer().slice(offset, size);
    std::vector<std::byte> bytes(buffer.bytes());
    write_values(values, {bytes.data(), size, type});
    backend_.copy_in(bytes.data(), buffer);
    return buffer;
  }
  /// Returns a buffer for a result, full of NaN.
  [[nodiscard]] Buffer poison(DataType type, std::int64_t size, std::int64_t offset = 0) {
    return put(type, Values(size, std::numeric_limits<double>::quiet_NaN()), offset);
  }
  [[nodiscard]] Values get(const Buffer& buffer) {
    std::vector<std::byte> bytes(buffer.bytes());
    backend_.copy_out(buffer, bytes.data());
    return read_values({bytes.data(), buffer.size, buffer.type});
  }

 private:
  Backend& backend_;
  std::vector<Tensor> tensors_;
};

/// Tests that run on a backend of their own.
class OnBackend : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = make_tested_backend();
    if (backend_ == nullptr) {
      GTEST_SKIP() << "no GPU";
    }
    buffers_.emplace(*backend_);
  }

  [[nodiscard]] Backend& backend() const { return *backend_; }
  [[nodiscard]] Buffer put(DataType type, const Values& values, std::int64_t offset = 0) {
    return buffers_->put(type, values, offset);
  }
  [[nodiscard]] Buffer poison(DataType type, std::int64_t size, std::int64_t offset = 0) {
    return buffers_->poison(type, size, offset);
  }
  [[nodiscard]] Values get(const Buffer& buffer) { return buffers_->get(buffer); }

 private:
  std::unique_ptr<Backend> backend_;
  std::optional<BuffersOf> buffers_;
};

/// Returns what a result of this type may differ by, in the norm, from f64's on the same inputs.
inline double allowed_error(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return 1e-12;
    case DataType::kFloat32:
      return 1e-5;
    case DataType::kBFloat16:
      return 1e-2;
    case DataType::kFloat16:
      return 2e-3;
    case DataType::kInt32:
      return 0.0;
  }
  return 0.0;
}

inline void expect_near_in_norm(const Values& found, const Values& expected, DataType type,
                                const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  const double error = relative_error(found, expected);
  // Not a number is not within anything.
  EXPECT_TRUE(error <= allowed_error(type))
      << what << ": relative error " << error << ", allowed " << allowed_error(type);
}

/// What an element may differ by, if that has a bound: `units` roundings of the accumulator's type,
/// and `roundings` of a narrower result's type. Roundings are relative to the element or to
/// `scale`.
struct Accuracy {
  double units = 0.0;
  double scale = 1.0;
  double roundings = 1.005;
};

/// Expects a result to be near f64's on the same inputs.
inline void expect_near(const Values& found, const Values& expected, DataType type,
                        const Accuracy& accuracy, const std::string& what) {
  expect_near_in_norm(found, expected, type, what);
  if (bounds_each_element()) {
    const DataType accumulator = accumulator_of(type);
    const double roundings = type == accumulator ? 0.0 : accuracy.roundings;
    expect_close(found, expected,
                 roundings * rounding_of(type) + accuracy.units * rounding_of(accumulator),
                 accuracy.scale, what);
  }
}

}  // namespace ptdp
