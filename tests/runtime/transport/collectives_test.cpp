// Collectives of threads against sums that the test forms one rank after the other.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "runtime/transport/communicator.h"
#include "tests/runtime/transport/threads.h"

namespace ptdp {
namespace {

// Around the number of ranks, and odd ones.
constexpr std::array<std::int64_t, 12> kSizes = {0, 1, 2, 3, 5, 7, 8, 9, 10, 64, 1000, 1001};
constexpr std::array kAlgorithms = {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kOrdered};

template <class T>
using Values = std::vector<std::vector<T>>;  // By rank.

// Numbers whose sums depend on the order.
template <class T>
Values<T> random_values(int ranks, std::int64_t size) {
  std::minstd_rand random(static_cast<unsigned>(std::int64_t{ranks} * 1000003 + size));
  Values<T> values(static_cast<std::size_t>(ranks));
  for (std::vector<T>& of_rank : values) {
    of_rank.reserve(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      of_rank.push_back(T(static_cast<float>(random()) * 1e-9F - 1.0F));
    }
  }
  return values;
}

double wide(double x) {
  return x;
}
float wide(float x) {
  return x;
}
float wide(BFloat16 x) {
  return static_cast<float>(x);
}

template <class T>
T sum_of(T x, T y) {
  return T(wide(x) + wide(y));
}

// By element, the rank whose part it is in.
std::vector<int> owners(std::int64_t size, int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < ranks; ++rank) {
    while (static_cast<std::int64_t>(result.size()) < size * (rank + 1) / ranks) {
      result.push_back(rank);
    }
  }
  return result;
}

// ((x0 + x1) + x2) + ..., or from the rank behind the owner around to the owner.
template <class T>
std::vector<T> sums(const Values<T>& values, CollectiveAlgorithm algorithm) {
  const int ranks = static_cast<int>(values.size());
  const auto size = static_cast<std::int64_t>(values.front().size());
  const std::vector<int> owner = owners(size, ranks);
  std::vector<T> result;
  for (std::int64_t i = 0; i < size; ++i) {
    const int first =
        algorithm == CollectiveAlgorithm::kOrdered ? 0 : owner[static_cast<std::size_t>(i)] + 1;
    T sum = values[static_cast<std::size_t>(first % ranks)][static_cast<std::size_t>(i)];
    for (int k = 1; k < ranks; ++k) {
      sum = sum_of(
          sum, values[static_cast<std::size_t>((first + k) % ranks)][static_cast<std::size_t>(i)]);
    }
    result.push_back(sum);
  }
  return result;
}

template <class T>
bool are_same_bits(const T* x, const T* y, std::int64_t count) {
  return count == 0 || std::memcmp(x, y, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

std::string described(int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
  return std::to_string(ranks) + " ranks, " + std::to_string(size) + " elements, " +
         (algorithm == CollectiveAlgorithm::kRing ? "ring" : "ordered");
}

// Runs `body(ranks, size, algorithm)` over the lot, with parts of several slices (256 KiB) among
// them.
template <class Body>
void for_all_shapes(const Body& body) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const auto run = [&](int ranks, std::int64_t size) {
      SCOPED_TRACE(described(ranks, size, algorithm));
      body(ranks, size, algorithm);
    };
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const std::int64_t size : kSizes) {
        run(ranks, size);
      }
    }
    run(2, 300'001);
    run(3, 600'001);
    run(5, 350'003);
  }
}

template <class T>
void expect_all_reduce_sums() {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    Values<T> values = random_values<T>(ranks, size);
    const std::vector<T> expected = sums(values, algorithm);
    ThreadWorld world(ranks, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.all_reduce(buffer_of(values[static_cast<std::size_t>(all.rank())]), Reduction::kSum);
    });
    for (const std::vector<T>& of_rank : values) {
      ASSERT_TRUE(are_same_bits(of_rank.data(), expected.data(), size));
    }
  });
}

TEST(AllReduce, SumsDoublesInTheStatedOrder) {
  expect_all_reduce_sums<double>();
}
TEST(AllReduce, SumsFloatsInTheStatedOrder) {
  expect_all_reduce_sums<float>();
}
TEST(AllReduce, SumsBfloat16RoundingEachStep) {
  expect_all_reduce_sums<BFloat16>();
}

TEST(ReduceScatter, LeavesEveryRankItsPartOfTheSum) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    Values<float> values = random_values<float>(ranks, size);
    const std::vector<float> expected = sums(values, algorithm);
    ThreadWorld world(ranks, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.reduce_scatter(buffer_of(values[static_cast<std::size_t>(all.rank())]));
    });
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t first = size * rank / ranks;
      const std::int64_t count = size * (rank + 1) / ranks - first;
      ASSERT_TRUE(are_same_bits(values[static_cast<std::size_t>(rank)].data() + first,
                                expected.data() + first, count));
    }
  });
}

TEST(AllGather, PutsThePartsTogether) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    Values<float> values = random_values<float>(ranks, size);
    std::vector<float> expected;
    for (const int owner : owners(size, ranks)) {
      expected.push_back(values[static_cast<std::size_t>(owner)][expected.size()]);
    }
    ThreadWorld world(ranks, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.all_gather(buffer_of(values[static_cast<std::size_t>(all.rank())]));
    });
    for (const std::vector<float>& of_rank : values) {
      ASSERT_TRUE(are_same_bits(of_rank.data(), expected.data(), size));
    }
  });
}

TEST(AllReduce, FindsTheMaximum) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    Values<double> values = random_values<double>(ranks, size);
    std::vector<double> expected = values.front();
    for (const std::vector<double>& of_rank : values) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = of_rank[i] > expected[i] ? of_rank[i] : expected[i];
      }
    }
    ThreadWorld world(ranks, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.all_reduce(buffer_of(values[static_cast<std::size_t>(all.rank())]), Reduction::kMaximum);
    });
    for (const std::vector<double>& of_rank : values) {
      ASSERT_EQ(of_rank, expected);
    }
  });
}

// A rank without valid columns offers -inf as its maximum.
TEST(AllReduce, FindsTheMaximumBesideMinusInfinity) {
  const double none = -std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    Values<double> values = {{none, none}, {-3.0, none}, {none, none}};
    ThreadWorld world(3, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.all_reduce(buffer_of(values[static_cast<std::size_t>(all.rank())]), Reduction::kMaximum);
    });
    EXPECT_EQ(values, (Values<double>{{-3.0, none}, {-3.0, none}, {-3.0, none}}));
  }
}

TEST(AllReduce, PassesOnWhatIsNoNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    Values<float> values = {{1.0F, 1.0F, infinity}, {NAN, infinity, -infinity}, {2.0F, 2.0F, 0.0F}};
    ThreadWorld world(3, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.all_reduce(buffer_of(values[static_cast<std::size_t>(all.rank())]), Reduction::kSum);
    });
    for (const std::vector<float>& of_rank : values) {
      EXPECT_TRUE(std::isnan(of_rank[0]));
      EXPECT_EQ(of_rank[1], infinity);
      EXPECT_TRUE(std::isnan(of_rank[2]));
    }
  }
}

// 2(n-1)S, (n-1)S and (n-1)S over the group, whatever the parts; p2p apart from them.
TEST(SentBytes, AreThoseOfTheRingInEitherAlgorithm) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    Values<float> values = random_values<float>(ranks, size);
    ThreadWorld world(ranks, algorithm);
    std::mutex mutex;
    SentBytes total;
    on_all_ranks(world, [&](Communicator& all) {
      const Buffer whole = buffer_of(values[static_cast<std::size_t>(all.rank())]);
      all.all_reduce(whole, Reduction::kSum);
      all.reduce_scatter(whole);
      all.all_gather(whole);
      all.barrier();
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < total.bytes.size(); ++i) {
        total.bytes[i] += all.sent().bytes[i];
      }
    });
    const std::int64_t bytes = 4 * size;
    EXPECT_EQ(total[CollectiveKind::kAllReduce], std::int64_t{2} * (ranks - 1) * bytes);
    EXPECT_EQ(total[CollectiveKind::kReduceScatter], (ranks - 1) * bytes);
    EXPECT_EQ(total[CollectiveKind::kAllGather], (ranks - 1) * bytes);
    EXPECT_EQ(total[CollectiveKind::kSend], 0);
  });
}

TEST(MessageCommunicator, AllocatesAMebibyteAtMost) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    for (const int ranks : {2, 3, 7}) {
      Values<double> values = random_values<double>(ranks, 400'001);
      ThreadWorld world(ranks, algorithm);
      std::vector<std::jthread> threads;
      threads.reserve(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          CpuBackend backend;
          const auto all = world.communicator(rank, backend);
          all->all_reduce(buffer_of(values[static_cast<std::size_t>(rank)]), Reduction::kSum);
          EXPECT_LE(backend.peak_bytes(), 1 << 20);
          EXPECT_EQ(backend.bytes_in_use(), 0);
        });
      }
    }
  }
}

TEST(Collectives, WorkWithManyMoreRanksThanCores) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const int ranks = 96;
    Values<double> values = random_values<double>(ranks, 1001);
    const std::vector<double> expected = sums(values, algorithm);
    ThreadWorld world(ranks, algorithm);
    on_all_ranks(world, [&](Communicator& all) {
      all.all_reduce(buffer_of(values[static_cast<std::size_t>(all.rank())]), Reduction::kSum);
      all.barrier();
    });
    for (const std::vector<double>& of_rank : values) {
      EXPECT_TRUE(are_same_bits(of_rank.data(), expected.data(), 1001));
    }
  }
}

}  // namespace
}  // namespace ptdp
