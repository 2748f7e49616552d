// Compares collectives with sums that the test forms one rank after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/transport/communicator.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

// Around the number of ranks, and odd ones.
constexpr std::array<std::int64_t, 12> kSizes = {0, 1, 2, 3, 5, 7, 8, 9, 10, 64, 1000, 1001};

template <class T>
using Values = std::vector<std::vector<T>>;  // by rank

// Returns numbers whose sums depend on the order.
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

// Returns, for each element, the rank whose part it is in.
std::vector<int> owners(std::int64_t size, int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < ranks; ++rank) {
    while (static_cast<std::int64_t>(result.size()) < size * (rank + 1) / ranks) {
      result.push_back(rank);
    }
  }
  return result;
}

// Returns the sums: ((x0 + x1) + x2) + ..., or from the rank after the owner around to the owner.
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

// Runs `body(ranks, size, algorithm)` for all shapes, some of whose parts have several slices (256
// KiB).
template <class Body>
void for_all_shapes(const Body& body) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const auto run = [&](int ranks, std::int64_t size) {
      SCOPED_TRACE(described(ranks, size, algorithm));
      if (ranks <= most_ranks()) {
        body(ranks, size, algorithm);
      }
    };
    for (int ranks = 1; ranks <= std::min(9, most_ranks()); ++ranks) {
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
std::vector<T> of_rank(const Values<T>& values, const TestRank& rank) {
  return values[static_cast<std::size_t>(rank.all.rank())];
}

template <class T>
void expect_all_reduce_sums() {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    const Values<T> values = random_values<T>(ranks, size);
    const std::vector<T> expected = sums(values, algorithm);
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      std::vector<T> own = of_rank(values, rank);
      rank.all.all_reduce(buffer_of(own), Reduction::kSum);
      EXPECT_TRUE(are_same_bits(own.data(), expected.data(), size));
    });
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
    const Values<float> values = random_values<float>(ranks, size);
    const std::vector<float> expected = sums(values, algorithm);
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      std::vector<float> own = of_rank(values, rank);
      rank.all.reduce_scatter(buffer_of(own));
      const std::int64_t first = size * rank.all.rank() / ranks;
      const std::int64_t count = size * (rank.all.rank() + 1) / ranks - first;
      EXPECT_TRUE(are_same_bits(own.data() + first, expected.data() + first, count));
    });
  });
}

TEST(AllGather, PutsThePartsTogether) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    const Values<float> values = random_values<float>(ranks, size);
    std::vector<float> expected;
    for (const int owner : owners(size, ranks)) {
      expected.push_back(values[static_cast<std::size_t>(owner)][expected.size()]);
    }
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      std::vector<float> own = of_rank(values, rank);
      rank.all.all_gather(buffer_of(own));
      EXPECT_TRUE(are_same_bits(own.data(), expected.data(), size));
    });
  });
}

TEST(AllReduce, FindsTheMaximum) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    const Values<double> values = random_values<double>(ranks, size);
    std::vector<double> expected = values.front();
    for (const std::vector<double>& other : values) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = other[i] > expected[i] ? other[i] : expected[i];
      }
    }
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      std::vector<double> own = of_rank(values, rank);
      rank.all.all_reduce(buffer_of(own), Reduction::kMaximum);
      EXPECT_EQ(own, expected);
    });
  });
}

// A rank without valid columns offers -inf as its maximum.
TEST(AllReduce, FindsTheMaximumBesideMinusInfinity) {
  const double none = -std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const Values<double> values = {{none, none}, {-3.0, none}, {none, none}};
    on_ranks(3, algorithm, [&](const TestRank& rank) {
      std::vector<double> own = of_rank(values, rank);
      rank.all.all_reduce(buffer_of(own), Reduction::kMaximum);
      EXPECT_EQ(own, (std::vector<double>{-3.0, none}));
    });
  }
}

TEST(AllReduce, PassesOnWhatIsNoNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const Values<float> values = {
        {1.0F, 1.0F, infinity}, {NAN, infinity, -infinity}, {2.0F, 2.0F, 0.0F}};
    on_ranks(3, algorithm, [&](const TestRank& rank) {
      std::vector<float> own = of_rank(values, rank);
      rank.all.all_reduce(buffer_of(own), Reduction::kSum);
      EXPECT_TRUE(std::isnan(own[0]));
      EXPECT_EQ(own[1], infinity);
      EXPECT_TRUE(std::isnan(own[2]));
    });
  }
}

// 2(n-1)S, (n-1)S and (n-1)S over the group, whatever the parts; p2p apart from them.
TEST(SentBytes, AreThoseOfTheRingInEitherAlgorithm) {
  for_all_shapes([](int ranks, std::int64_t size, CollectiveAlgorithm algorithm) {
    const Values<float> values = random_values<float>(ranks, size);
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      std::vector<float> own = of_rank(values, rank);
      rank.all.all_reduce(buffer_of(own), Reduction::kSum);
      rank.all.reduce_scatter(buffer_of(own));
      rank.all.all_gather(buffer_of(own));
      rank.all.barrier();
      const auto& sent = rank.all.sent().bytes;
      std::vector<double> total(sent.begin(), sent.end());  // whole numbers, exact
      rank.all.all_reduce(buffer_of(total), Reduction::kSum);
      const double bytes = 4.0 * static_cast<double>(size);
      EXPECT_EQ(total, (std::vector<double>{2.0 * (ranks - 1) * bytes, (ranks - 1) * bytes,
                                            (ranks - 1) * bytes, 0.0}));
    });
  });
}

TEST(MessageCommunicator, AllocatesAMebibyteAtMost) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    for (const int ranks : {2, 3, std::min(7, most_ranks())}) {
      const Values<double> values = random_values<double>(ranks, 400'001);
      on_ranks(ranks, algorithm, [&](const TestRank& rank) {
        std::vector<double> own = of_rank(values, rank);
        rank.all.all_reduce(buffer_of(own), Reduction::kSum);
        EXPECT_LE(rank.backend.peak_bytes(), 1 << 20);
        EXPECT_EQ(rank.backend.bytes_in_use(), 0);
      });
    }
  }
}

TEST(Collectives, WorkWithManyMoreRanksThanCores) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const int ranks = std::min(96, most_ranks());
    const Values<double> values = random_values<double>(ranks, 1001);
    const std::vector<double> expected = sums(values, algorithm);
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      std::vector<double> own = of_rank(values, rank);
      rank.all.all_reduce(buffer_of(own), Reduction::kSum);
      rank.all.barrier();
      EXPECT_TRUE(are_same_bits(own.data(), expected.data(), 1001));
    });
  }
}

}  // namespace
}  // namespace ptdp
