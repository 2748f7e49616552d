// Tests of the model of NCCL's tuner against NCCL's own answers.
#include "cost_model/network/nccl_tuner.h"

#include <gtest/gtest.h>

#include <string>

#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

constexpr double kKibi = 1024.0;
constexpr double kMebi = 1024.0 * 1024.0;

NcclChannels channels(int count, double within, double between) {
  return {.count = count,
          .within = gigabytes_per_second(within),
          .between = gigabytes_per_second(between)};
}

/// Returns the eight H100s of a node as the vectors have them.
NcclGraph h100() {
  return {.compute_capability = 90, .ring = channels(16, 20, 20), .nvls = channels(16, 24, 24)};
}

/// Returns nodes of eight H100s and eight 400 Gb/s NICs as the vectors have them.
NcclGraph h100_nodes() {
  return {.compute_capability = 90, .ring = channels(16, 24, 24), .nvls = channels(16, 24, 24)};
}

constexpr NcclMethod kRingSimple = {NcclAlgorithm::kRing, NcclProtocol::kSimple};

/// Tests against NCCL 2.30.7's own answers (tests/golden/README.md).
class TunerVectors : public testing::Test {
 protected:
  [[nodiscard]] double number(const std::string& column) const {
    return parse_number(table_.text(row_, column), 0.0, 1e12, table_.place_of(row_, column));
  }
  [[nodiscard]] int count(const std::string& column) const {
    return static_cast<int>(number(column));
  }
  [[nodiscard]] NcclGraph graph() const {
    return {.compute_capability = count("cc"),
            .cpu = count("cpuVendor") == 2 ? CpuVendor::kAmd : CpuVendor::kIntel,
            .ring = channels(count("ringCh"), number("ringBwIntra"), number("ringBwInter")),
            .nvls = channels(count("nvlsCh"), number("nvlsBwIntra"), number("nvlsBwInter"))};
  }
  [[nodiscard]] NcclCall call() const {
    return {.collective = table_.text(row_, "coll") == "AllReduce" ? Collective::kAllReduce
                                                                   : Collective::kAllGather,
            .ranks = count("ranks"),
            .nodes = count("nodes")};
  }
  [[nodiscard]] NcclMethod method() const {
    const std::string algorithm = table_.text(row_, "algo");
    const std::string protocol = table_.text(row_, "proto");
    return {.algorithm = algorithm == "Tree"   ? NcclAlgorithm::kTree
                         : algorithm == "Ring" ? NcclAlgorithm::kRing
                         : algorithm == "NVLS" ? NcclAlgorithm::kNvls
                                               : NcclAlgorithm::kNvlsTree,
            .protocol = protocol == "LL"      ? NcclProtocol::kLl
                        : protocol == "LL128" ? NcclProtocol::kLl128
                                              : NcclProtocol::kSimple};
  }
  /// Expects `value` to equal the column within `printed`. That is what the column leaves open:
  /// half a unit of its last digit, and NCCL's single precision. It is less than the 0.1 % that the
  /// model promises.
  void expect(double value, const std::string& column, double printed) const {
    const double expected = number(column);
    EXPECT_NEAR(value, expected, printed + kSinglePrecision * expected)
        << table_.place_of(row_, column);
    EXPECT_LT(printed + kSinglePrecision * expected, 1e-3 * expected);
  }
  template <class Check>
  void for_each_row(Check check) {
    ASSERT_EQ(table_.num_rows(), 96U);
    for (row_ = 0; row_ < table_.num_rows(); ++row_) {
      check();
    }
  }

 private:
  static constexpr double kSinglePrecision = 1e-6;

  CsvTable table_ =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/nccl_tuning_vectors.csv");
  std::size_t row_ = 0;
};

TEST_F(TunerVectors, HaveOurLatencyAndBandwidth) {
  for_each_row([&] {
    const auto cost = nccl_cost(graph(), call(), method());
    ASSERT_TRUE(cost);
    expect(cost->latency.value() / kMicro, "lat_us", 5e-5);
    expect(cost->bandwidth.value() / kGiga, "bw_GBs", 5e-5);
  });
}

TEST_F(TunerVectors, HaveOurTimes) {
  for_each_row([&] {
    const auto microseconds_of = [&](double bytes) {
      const auto time = nccl_time(Bytes(bytes), graph(), call(), method());
      return time ? time->total().value() / kMicro : 0.0;
    };
    expect(microseconds_of(8 * kKibi), "t_8KiB", 5e-4);
    expect(microseconds_of(kMebi), "t_1MiB", 5e-4);
    expect(microseconds_of(64 * kMebi), "t_64MiB", 5e-4);
    expect(microseconds_of(1024 * kMebi), "t_1GiB", 5e-4);
  });
}

// The vectors have a row for every method that NCCL offers on a communicator, and so also show what
// it does not offer.
TEST_F(TunerVectors, HoldTheMethodsThatWeOfferButForPat) {
  std::size_t offered = 0;
  std::string last;
  for_each_row([&] {
    const NcclCall c = call();
    const std::string communicator = std::to_string(static_cast<int>(c.collective)) + ' ' +
                                     std::to_string(c.ranks) + ' ' + std::to_string(c.nodes) + ' ' +
                                     std::to_string(graph().compute_capability);
    if (communicator == last) {
      return;
    }
    last = communicator;
    for (const NcclMethod m : kNcclMethods) {
      if (m.algorithm != NcclAlgorithm::kPat && nccl_cost(graph(), c, m)) {
        ++offered;
      }
    }
  });
  EXPECT_EQ(offered, 96U);
}

// The smallest times of the vectors at each size.
TEST(NcclChoice, IsTheFastestMethod) {
  const auto best = [](double bytes, const NcclGraph& graph, std::int64_t ranks,
                       std::int64_t nodes) {
    return nccl_choice(Bytes(bytes), graph, {.ranks = ranks, .nodes = nodes});
  };
  EXPECT_EQ(best(8 * kKibi, h100(), 8, 1).method,
            (NcclMethod{NcclAlgorithm::kRing, NcclProtocol::kLl}));
  EXPECT_NEAR(best(8 * kKibi, h100(), 8, 1).time.total().value() / kMicro, 15.102, 5e-4);
  EXPECT_EQ(best(1024 * kMebi, h100(), 8, 1).method.algorithm, NcclAlgorithm::kNvls);
  EXPECT_EQ(best(kMebi, h100_nodes(), 64, 8).method,
            (NcclMethod{NcclAlgorithm::kTree, NcclProtocol::kLl128}));
  EXPECT_EQ(best(1024 * kMebi, h100_nodes(), 1024, 128).method.algorithm, NcclAlgorithm::kNvlsTree);
}

// ml-engineering saw the same switch on eight H200: Ring/LL up to 1 MiB, NVLS from 2 MiB.
TEST(NcclChoice, SwitchesFromRingToNvlsWhereItWasSeenTo) {
  const auto algorithm = [](double bytes) {
    return nccl_choice(Bytes(bytes), h100(), {.ranks = 8, .nodes = 1}).method.algorithm;
  };
  EXPECT_EQ(algorithm(512 * kKibi), NcclAlgorithm::kRing);
  EXPECT_EQ(algorithm(2 * kMebi), NcclAlgorithm::kNvls);
}

TEST(NcclChoice, OfAReduceScatterIsThatOfAnAllGather) {
  for (const double size : {8 * kKibi, kMebi, 64 * kMebi}) {
    for (const std::int64_t nodes : {1, 2, 8}) {
      const NcclChoice gather = nccl_choice(
          Bytes(size), h100(), {.collective = Collective::kAllGather, .ranks = 8, .nodes = nodes});
      const NcclChoice scatter =
          nccl_choice(Bytes(size), h100(),
                      {.collective = Collective::kReduceScatter, .ranks = 8, .nodes = nodes});
      EXPECT_EQ(gather.method, scatter.method);
      EXPECT_EQ(gather.time.total(), scatter.time.total());
    }
  }
}

TEST(NcclChoice, IsAmongWhatIsEnabled) {
  NcclGraph graph = h100();
  const auto best = [&](double bytes) {
    return nccl_choice(Bytes(bytes), graph, {.ranks = 8, .nodes = 1}).method;
  };
  graph.enabled.algorithms[static_cast<std::size_t>(NcclAlgorithm::kNvls)] = false;
  EXPECT_EQ(best(1024 * kMebi), kRingSimple);
  graph.enabled.protocols[static_cast<std::size_t>(NcclProtocol::kLl)] = false;
  EXPECT_EQ(best(8 * kKibi), (NcclMethod{NcclAlgorithm::kTree, NcclProtocol::kLl128}));
}

// By hand for 8 GPUs, one per node, two channels of 24 GB/s: 8 + 3·(14/3.5) + 8·2.8 = 42.4 us, and
// 0.75 of 48 GB/s.
TEST(NcclCost, OfPatIsTheHandComputedOne) {
  const NcclGraph graph = {.compute_capability = 90, .ring = channels(2, 24, 24)};
  const auto cost = nccl_cost(graph, {.collective = Collective::kAllGather, .ranks = 8, .nodes = 8},
                              {NcclAlgorithm::kPat, NcclProtocol::kSimple});
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->latency.value() / kMicro, 42.4, 1e-9);
  EXPECT_NEAR(cost->bandwidth.value() / kGiga, 36.0, 1e-9);
  EXPECT_FALSE(nccl_cost(graph, {.collective = Collective::kAllGather, .ranks = 8, .nodes = 4},
                         {NcclAlgorithm::kPat, NcclProtocol::kSimple}));
}

// Two nodes of one GPU: 2 of 2 steps cross, and Simple pays the NIC's latency twice: 8.4 + 2·(14 +
// 2·5) = 56.4 us.
TEST(NcclCost, OfSimplePaysTheLatencyOfTheNicTwice) {
  NcclGraph graph = {.compute_capability = 80, .ring = channels(2, 12, 12)};
  graph.nic_latency = microseconds(5.0);
  const auto cost = nccl_cost(graph, {.ranks = 2, .nodes = 2}, kRingSimple);
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->latency.value() / kMicro, 56.4, 1e-9);
}

// PCIe: 8.4 + 2·5.7 us.
TEST(NcclCost, OfGpusOnPcieHasItsLatency) {
  const NcclGraph graph = {
      .compute_capability = 80, .node_link = NodeLink::kPci, .ring = channels(2, 10, 10)};
  const auto cost = nccl_cost(graph, {.ranks = 2, .nodes = 1}, kRingSimple);
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->latency.value() / kMicro, 19.8, 1e-9);
}

// Volta, two nodes of one GPU: 1.9·(8.4 + 2·14) us from 64 bytes per channel and rank on, that is
// 256 bytes on two channels.
TEST(NcclTime, OfARingAcrossNodesHasAPlateau) {
  const NcclGraph graph = {.compute_capability = 70, .ring = channels(2, 12, 12)};
  const NcclCall pair = {.ranks = 2, .nodes = 2};
  const auto latency = [&](double bytes) {
    const auto time = nccl_time(Bytes(bytes), graph, pair, kRingSimple);
    return time ? time->latency.value() / kMicro : 0.0;
  };
  EXPECT_NEAR(latency(255), 36.4, 1e-9);
  EXPECT_NEAR(latency(256), 1.9 * 36.4, 1e-9);
}

}  // namespace
}  // namespace ptdp
