// Tests the memory of the host's backend (alignment, accounting, what it keeps, what it refuses),
// and its events.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/host_values.h"

// Sanitizers end the program where malloc would return null, unless told otherwise.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the sanitizers' names
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace ptdp {
namespace {

TEST(Memory, IsAlignedTo64BytesAndWritableInAnySize) {
  CpuBackend backend;
  for (const std::int64_t size : {0, 1, 63, 64, 65, 4097}) {
    const Tensor x(backend, DataType::kFloat64, size);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): an address as a number
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.buffer().data) % 64, 0U) << size;
    backend.fill(x, 1.0);
  }
}

TEST(Memory, CountsBytesInUseAndTheirPeak) {
  CpuBackend backend;
  {
    const Tensor a(backend, DataType::kFloat32, 100);
    {
      const Tensor b(backend, DataType::kBFloat16, 50);
      EXPECT_EQ(backend.bytes_in_use(), 500);
    }
    EXPECT_EQ(backend.bytes_in_use(), 400);
    EXPECT_EQ(backend.peak_bytes(), 500);
    backend.reset_peak();
    EXPECT_EQ(backend.peak_bytes(), 400);
  }
  EXPECT_EQ(backend.bytes_in_use(), 0);
}

TEST(Tensor, KeepsItsMemoryWhereverItIsMoved) {
  CpuBackend backend;
  Tensor x = tensor_of(backend, DataType::kFloat32, {1.0, 2.0, 3.0});
  void* const memory = x.buffer().data;
  Tensor& same = x;
  x = std::move(same);
  EXPECT_EQ(x.buffer().data, memory);
  EXPECT_EQ(backend.bytes_in_use(), 12);
  EXPECT_EQ(read_values(x), (Values{1.0, 2.0, 3.0}));

  Tensor y(backend, DataType::kFloat64, 5);
  y = std::move(x);
  EXPECT_EQ(backend.bytes_in_use(), 12) << "what y had is released";
  EXPECT_EQ(y.buffer().data, memory);
  EXPECT_EQ(y.buffer().size, 3);
  EXPECT_EQ(y.buffer().type, DataType::kFloat32);
  EXPECT_TRUE(x.empty());  // NOLINT(bugprone-use-after-move,hicpp-invalid-access-moved): meant

  const Tensor z(std::move(y));
  EXPECT_EQ(z.buffer().data, memory);
  EXPECT_TRUE(y.empty());  // NOLINT(bugprone-use-after-move,hicpp-invalid-access-moved): meant
  y.reset();
  EXPECT_EQ(backend.bytes_in_use(), 12);
}

TEST(Tensor, IsReleasedOnceAndAtOnce) {
  CpuBackend backend;
  Tensor x(backend, DataType::kFloat16, 7);
  EXPECT_EQ(backend.bytes_in_use(), 14);
  x.reset();
  EXPECT_TRUE(x.empty());
  EXPECT_EQ(backend.bytes_in_use(), 0);
  x.reset();
  EXPECT_EQ(backend.bytes_in_use(), 0);
  x = Tensor(backend, DataType::kFloat32, 2);
  EXPECT_EQ(backend.bytes_in_use(), 8);
  EXPECT_EQ(backend.peak_bytes(), 14);
}

TEST(Memory, OfMessagesIsAlignedAndNotCounted) {
  CpuBackend backend;
  for (const std::int64_t bytes : {0, 1, 100}) {
    const std::shared_ptr<void> memory = backend.message_memory(bytes);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): an address as a number
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0U) << bytes;
    EXPECT_EQ(backend.bytes_in_use(), 0);
  }
  try {
    static_cast<void>(backend.message_memory(std::int64_t{1} << 60));
    FAIL() << "2^60 bytes were allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(), "out of memory: 1152921504606846976 bytes asked for a message");
  }
}

TEST(Memory, CountsWhatOperationsUseBesideTheirArguments) {
  CpuBackend backend;
  const Attention shape{.seq_length = 512,
                        .batch = 1,
                        .heads = 2,
                        .key_heads = 2,
                        .total_heads = 2,
                        .head_size = 32,
                        .scale = 0.25};
  const std::int64_t size = shape.seq_length * shape.heads * shape.head_size;
  const Tensor qkv = tensor_of(backend, DataType::kFloat32, random_values(3 * size, 1));
  const Tensor out(backend, DataType::kFloat32, size);
  const Tensor log_sum(backend, DataType::kFloat32, shape.heads * shape.seq_length);
  const std::int64_t arguments = backend.bytes_in_use();
  backend.reset_peak();
  const auto vectors_from = [&](std::int64_t first) {
    return VectorRows{qkv.buffer().slice(first, 3 * size - first), 6 * 32};
  };
  const VectorRows q = vectors_from(0);
  const VectorRows k = vectors_from(2 * 32);
  const VectorRows v = vectors_from(4 * 32);
  backend.attention({shape, q, k, v, out, log_sum});
  backend.attention_backward({shape, q, k, v, out, log_sum, out, q, k, v});
  EXPECT_EQ(backend.bytes_in_use(), arguments);
  EXPECT_GT(backend.peak_bytes(), arguments);
  // Far below the 512² scores of one head.
  EXPECT_LT(backend.peak_bytes() - arguments, 512 * 512 * 4 / 2);
}

TEST(Memory, GivesAReleasedBlockToTheNextRequestOfItsSize) {
  CpuBackend backend;
  const Tensor keeps_the_peak_up(backend, DataType::kFloat32, 1000);
  Tensor x(backend, DataType::kFloat32, 777);
  void* const memory = x.buffer().data;
  x.reset();
  const Tensor y(backend, DataType::kFloat32, 777);
  EXPECT_EQ(y.buffer().data, memory);
}

TEST(Memory, RefusesMoreThanThereIsAndSaysHowMuch) {
  CpuBackend backend;
  const Tensor x(backend, DataType::kFloat64, 3);
  constexpr std::int64_t huge = std::int64_t{1} << 60;
  try {
    static_cast<void>(backend.allocate(huge));
    FAIL() << "2^60 bytes were allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(), "out of memory: 1152921504606846976 bytes asked for, 24 in use");
  }
  EXPECT_EQ(backend.bytes_in_use(), 24);
}

TEST(Events, MeasureTheTimeBetweenThem) {
  CpuBackend backend;
  backend.use_lane(0);
  const Event first = backend.record();
  const Event second = backend.record();
  backend.wait(second);
  backend.synchronize();
  EXPECT_GE(backend.seconds_between(first, second), 0.0);
  EXPECT_DOUBLE_EQ(backend.seconds_between({.nanoseconds = 5}, {.nanoseconds = 1'500'000'005}),
                   1.5);
}

}  // namespace
}  // namespace ptdp
