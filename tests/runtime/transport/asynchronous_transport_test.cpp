// Tests ranks that exchange buffers on a device that does everything late: their next operations
// are queued before any is done.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/runtime/lazy_backend.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp::testing {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

/// Runs `body` on ranks whose device is late, once for each kind of Laziness.
void on_late_ranks(int size, CollectiveAlgorithm algorithm,
                   const std::function<void(Communicator&, Backend&)>& body) {
  for (const Laziness laziness : {Laziness::kLatest, Laziness::kRandom}) {
    const auto device = std::make_shared<LazyDevice>(laziness);
    on_ranks(
        size, algorithm, [&] { return std::make_unique<LazyBackend>(device); },
        [&](const TestRank& rank) { body(rank.all, rank.backend); });
  }
}

/// Returns small integers, whose sums are exact in any order.
std::vector<double> values_of_rank(int rank, std::int64_t size) {
  std::vector<double> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 1000.0 * rank);
  return values;
}

std::vector<double> sums(int ranks, std::int64_t size) {
  std::vector<double> all(static_cast<std::size_t>(size));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<double> own = values_of_rank(rank, size);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] += own[i];
    }
  }
  return all;
}

Tensor uploaded(Backend& backend, const std::vector<double>& values) {
  Tensor tensor(backend, DataType::kFloat64, std::ssize(values));
  backend.copy_in(values.data(), tensor);
  return tensor;
}

std::vector<double> downloaded(Backend& backend, const Buffer& buffer) {
  std::vector<double> values(static_cast<std::size_t>(buffer.size));
  backend.copy_out(buffer, values.data());
  return values;
}

// Sizes from a single element to slices that are offered and rounds that overlap.
const std::vector<std::int64_t> kSizes = {1, 7, 5'000, 40'000, 400'000};

TEST(AsynchronousCollectives, AllReduceWhatIsOverwrittenAndReleasedAtOnce) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kOrdered}) {
    for (const int ranks : {2, 3, 4}) {
      on_late_ranks(ranks, algorithm, [&](Communicator& world, Backend& backend) {
        for (const std::int64_t count : kSizes) {
          const Tensor result(backend, DataType::kFloat64, count);
          {
            const Tensor x = uploaded(backend, values_of_rank(world.rank(), count));
            world.all_reduce(x, Reduction::kSum);
            backend.copy(x, result);
            backend.fill(x, kNothing);
          }
          EXPECT_EQ(downloaded(backend, result), sums(ranks, count))
              << ranks << " ranks, " << count;
        }
      });
    }
  }
}

TEST(AsynchronousCollectives, ReduceScatterAndGatherInARow) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kOrdered}) {
    on_late_ranks(3, algorithm, [&](Communicator& world, Backend& backend) {
      for (const std::int64_t count : kSizes) {
        const Tensor result(backend, DataType::kFloat64, count);
        {
          const Tensor x = uploaded(backend, values_of_rank(world.rank(), count));
          world.reduce_scatter(x);
          const Part own = part_of(count, world.size(), world.rank());
          const Tensor part(backend, DataType::kFloat64, own.count);
          backend.copy(x.buffer().slice(own.first, own.count), part);
          backend.fill(x, kNothing);
          backend.copy(part, x.buffer().slice(own.first, own.count));
          world.all_gather(x);
          backend.copy(x, result);
        }
        EXPECT_EQ(downloaded(backend, result), sums(3, count)) << count;
      }
    });
  }
}

// Whether the message or its receive comes first is chance, hence so many.
TEST(AsynchronousMessages, ArriveThoughTheirBuffersAreUsedAgain) {
  on_late_ranks(2, CollectiveAlgorithm::kRing, [](Communicator& world, Backend& backend) {
    constexpr int messages = 40;
    constexpr std::int64_t count = 3'000;
    std::vector<Tensor> received;
    const Tensor buffer(backend, DataType::kFloat64, count);
    for (int message = 0; message < messages; ++message) {
      if (world.rank() == 0) {
        const Tensor values = uploaded(backend, values_of_rank(message, count));
        world.wait(world.send(values, 1));
        backend.fill(values, kNothing);
      } else {
        backend.fill(buffer, kNothing);
        world.wait(world.receive(buffer, 0));
        received.emplace_back(backend, DataType::kFloat64, count);
        backend.copy(buffer, received.back());
      }
    }
    for (int message = 0; message < std::ssize(received); ++message) {
      EXPECT_EQ(downloaded(backend, received[message]), values_of_rank(message, count)) << message;
    }
  });
}

TEST(AsynchronousMessages, ArriveFromAndOnAnyLane) {
  on_late_ranks(2, CollectiveAlgorithm::kRing, [](Communicator& world, Backend& backend) {
    constexpr std::int64_t count = 3'000;
    for (int message = 0; message < 40; ++message) {
      backend.use_lane(message % kNumBackendLanes);
      if (world.rank() == 0) {
        const Tensor values = uploaded(backend, values_of_rank(message, count));
        world.wait(world.send(values, 1));
      } else {
        const Tensor values(backend, DataType::kFloat64, count);
        world.wait(world.receive(values, 0));
        EXPECT_EQ(downloaded(backend, values), values_of_rank(message, count)) << message;
      }
    }
  });
}

}  // namespace
}  // namespace ptdp::testing
