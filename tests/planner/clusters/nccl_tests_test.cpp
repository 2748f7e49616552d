#include "planner/clusters/nccl_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iomanip>
#include <sstream>
#include <string>

#include "tests/support/error_of.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// The layout of nccl-tests 2.13 (src/common.cu): eight ranks of one host.
const char* const kHeaderOfOneHost =
    "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid  112 on      node0 device  0 [0000:07:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid  112 on      node0 device  1 [0000:0a:00] NVIDIA H100\n"
    "#  Rank  2 Group  0 Pid  113 on      node1 device  0 [0000:07:00] NVIDIA H100\n"
    "#  Rank  3 Group  0 Pid  113 on      node1 device  1 [0000:0a:00] NVIDIA H100\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";

/// Returns a row of both passes, of an all-reduce of four ranks.
std::string row(double bytes, double us) {
  const double rate = bytes / us / 1e3;
  std::ostringstream text;
  text << std::fixed << std::setprecision(0) << bytes << ' ' << bytes / 4 << " float sum -1";
  text << std::setprecision(2);
  for (int pass = 0; pass < 2; ++pass) {
    text << ' ' << us << ' ' << rate << ' ' << 1.5 * rate << " N/A";
  }
  text << '\n';
  return text.str();
}

CollectiveBench read(const std::string& text, const BenchFacts& given = {},
                     const std::string& place = "all_reduce.txt") {
  return read_nccl_tests(text, place, given);
}

TEST(NcclTests, TakeRanksNodesAndTimes) {
  const CollectiveBench bench =
      read(kHeaderOfOneHost + row(1048576, 100.0) + row(2097152, 160.0) + row(4194304, 300.0));
  EXPECT_EQ(bench.collective, BenchedCollective::kAllReduce);
  EXPECT_EQ(bench.ranks, 4);
  EXPECT_EQ(bench.nodes, 2);
  ASSERT_THAT(bench.points, SizeIs(3));
  EXPECT_DOUBLE_EQ(bench.points[1].size.value(), 2097152.0);
  EXPECT_DOUBLE_EQ(bench.points[1].time.value(), 160e-6);
  // 2·3/4 of 4 MiB in 300 us.
  EXPECT_NEAR(bench.bus_bandwidth().value(), 1.5 * 4194304 / 300e-6, 1.0);
  EXPECT_THAT(bench.notes, SizeIs(0));
}

TEST(NcclTests, ReadRowsOfManyForms) {
  struct Form {
    const char* name;
    const char* row;
  };
  // 1 MiB in 100 us: 10.49 GB/s.
  for (const Form& form :
       {Form{"a launcher's prefix",
             "[1,0]<stdout>:  1048576  262144  float  sum  -1  100.0  10.49  18.35  0\n"},
        Form{"no root",
             "1048576  262144  float  sum  100.0  10.49  18.35  N/A  101.0  10.38  18.17  N/A\n"},
        Form{"no operator", "1048576  32768  half  100.0  10.49  18.35  0\n"},
        Form{"a whole number of microseconds",
             "1048576 262144 bfloat16 sum -1 100 10.49 18.35 0 99 10.59 18.53 0\n"},
        Form{"colours", "\x1b[1m1048576\x1b[0m  262144 float sum -1 100.0 10.49 18.35 0\n"},
        Form{"an error column",
             "1048576 262144 float sum 100.0 10.49 18.35 2e-07 99.0 10.59 18.5 2e-07\n"},
        Form{"statistics",
             "1048576 262144 float sum -1 100.0 10.49 18.35 99.0 101.0 101.0 0.5 0\n"}}) {
    SCOPED_TRACE(form.name);
    const CollectiveBench bench =
        read(std::string(form.row) + "4194304 1048576 float sum -1 400.0 10.49 18.35 0\n" +
                 "2097152 524288 float sum -1 200.0 10.49 18.35 0\n",
             {.ranks = 8});
    EXPECT_DOUBLE_EQ(bench.points.front().time.value(),
                     bench.points.front().size.value() < 2e6 ? 100e-6 : 200e-6);
  }
}

TEST(NcclTests, LeaveOutWhatCannotBe) {
  const CollectiveBench bench = read(
      kHeaderOfOneHost + std::string("0 0 float sum -1 9.0 0.00 0.00 N/A\n") + row(524288, 80.0) +
      "1048576 262144 float sum -1 100.0 1.00 1.50 N/A\n"  // 1 GB/s is not 1 MiB in 100 us
      + row(2097152, 900.0) + row(4194304, 300.0));
  ASSERT_THAT(bench.points, SizeIs(2));
  EXPECT_DOUBLE_EQ(bench.points[0].size.value(), 524288.0);
  EXPECT_DOUBLE_EQ(bench.points[1].size.value(), 4194304.0);
  EXPECT_THAT(bench.notes, testing::ElementsAre(HasSubstr("bandwidth is not size over time"),
                                                HasSubstr("longer than a larger message")));
}

TEST(NcclTests, ReadLinesOfAnyLength) {
  const std::string text = std::string(1 << 20, 'a') + "\n" + kHeaderOfOneHost +
                           row(1048576, 100.0) + row(2097152, 160.0);
  EXPECT_EQ(read(text).ranks, 4);
}

TEST(NcclTests, TakeTheMedianOfRepeatedSizes) {
  const CollectiveBench bench = read(kHeaderOfOneHost + row(1048576, 100.0) + row(1048576, 500.0) +
                                     row(1048576, 110.0) + row(2097152, 160.0));
  EXPECT_DOUBLE_EQ(bench.points[0].time.value(), 110e-6);
}

TEST(NcclTests, InterpolateWideGaps) {
  const CollectiveBench bench = read(kHeaderOfOneHost + row(8192, 10.0) + row(1048576, 40.0));
  const MeasuredCurve curve(bench.points, "test");
  EXPECT_DOUBLE_EQ(curve.time(Bytes(8192)).value(), 10e-6);
  EXPECT_DOUBLE_EQ(curve.time(Bytes(1048576)).value(), 40e-6);
  // In the middle of the logarithms: the root of 10·40.
  EXPECT_NEAR(curve.time(Bytes(std::sqrt(8192.0 * 1048576.0))).value(), 20e-6, 1e-12);
  EXPECT_THAT(bench.notes, testing::Contains(HasSubstr("interpolated")));
}

TEST(NcclTests, ReadTheJson) {
  const std::string text = R"({"version": "2.17.8", "args": ["/opt/all_gather_perf", "-b", "8"],
    "devices": [{"rank": 0, "host": "a"}, {"rank": 1, "host": "a"},
                {"rank": 2, "host": "b"}, {"rank": 3, "host": "b"}],
    "results": [
      {"size": 1048576, "count": 1, "type": "float",
       "out_of_place": {"time": 100.0, "alg_bw": 10.49, "bus_bw": 7.86, "nwrong": "N/A"},
       "in_place": {"time": 99.0, "alg_bw": 10.59, "bus_bw": 7.94, "nwrong": 0}},
      {"size": 2097152, "count": 1, "type": "float", "out_of_place": null,
       "in_place": {"time": 180.0, "alg_bw": 11.65, "bus_bw": 8.74, "nwrong": 0}}],
    "average_bus_bandwidith": {"bandwith": 8.3}})";
  const CollectiveBench bench = read(text, {}, "b.json");
  EXPECT_EQ(bench.collective, BenchedCollective::kAllGather);
  EXPECT_EQ(bench.ranks, 4);
  EXPECT_EQ(bench.nodes, 2);
  EXPECT_DOUBLE_EQ(bench.points[0].time.value(), 100e-6);
  EXPECT_DOUBLE_EQ(bench.points[1].time.value(), 180e-6);
}

// A folder's or an output's name is not the program's; devices of other groups do not take part.
TEST(NcclTests, TakeTheProgramAndTheFirstGroupOfJson) {
  const std::string results = R"("results": [
      {"size": 1048576, "type": "float", "out_of_place": {"time": 100.0, "alg_bw": 10.49, "bus_bw": 5.2}},
      {"size": 2097152, "type": "float", "out_of_place": {"time": -100.0, "alg_bw": 20.97, "bus_bw": 9}},
      {"size": 4194304, "type": "float", "out_of_place": {"time": 400.0, "alg_bw": 10.49, "bus_bw": 5.2}}])";
  const CollectiveBench bench =
      read(R"({"args": ["/all_reduce_study/alltoall_perf", "-J", "../all_gather_out.json"],
               "devices": [{"group": 0}, {"group": 0}, {"group": 1}, {"group": 1}], )" +
               results + "}",
           {.nodes = 2}, "x.json");
  EXPECT_EQ(bench.collective, BenchedCollective::kAllToAll);
  EXPECT_EQ(bench.ranks, 2);
  EXPECT_EQ(bench.nodes, 2);
  EXPECT_THAT(bench.points, SizeIs(2));
  EXPECT_THAT(bench.notes, testing::ElementsAre(HasSubstr("left out one row")));
}

TEST(NcclTests, ThatContradictWhatIsGivenAreRefused) {
  const std::string text = kHeaderOfOneHost + row(1048576, 100.0) + row(2097152, 160.0);
  EXPECT_THAT(error_of([&] { (void)read(text, {.ranks = 8}); }),
              HasSubstr("--ranks says 8, its header 4"));
  EXPECT_THAT(error_of([&] { (void)read(text, {.nodes = 1}); }),
              HasSubstr("--nodes says 1, its header 2"));
  EXPECT_THAT(error_of([&] {
                (void)read("# Collective test starting: all_gather_perf\n" + text,
                           {.collective = BenchedCollective::kAllToAll});
              }),
              HasSubstr("expected alltoall, as stands in front of it, got all_gather_perf"));
  EXPECT_THAT(error_of([&] { (void)read(text + text); }),
              HasSubstr("expected the output of one program, got a second one"));
}

TEST(NcclTests, TellTheCollectiveByNamesAndRatios) {
  const std::string rows = row(1048576, 100.0) + row(2097152, 160.0);
  EXPECT_EQ(read(rows, {.ranks = 4}, "/tmp/allgather-2n.log").collective,
            BenchedCollective::kAllGather);
  EXPECT_EQ(read(rows, {.collective = BenchedCollective::kAllToAll, .ranks = 4}, "x").collective,
            BenchedCollective::kAllToAll);
  // The bus moves 1.5 times the buffer: an all-reduce of four.
  const CollectiveBench bench = read(rows, {}, "x");
  EXPECT_EQ(bench.collective, BenchedCollective::kAllReduce);
  EXPECT_EQ(bench.ranks, 4);
  EXPECT_THAT(bench.notes, testing::Contains(HasSubstr("4 ranks")));
}

TEST(NcclTests, AreRefusedWithTheirPlace) {
  EXPECT_THAT(error_of([] { (void)read("nothing here\n"); }),
              HasSubstr("all_reduce.txt: expected rows of nccl-tests"));
  EXPECT_THAT(error_of([] { (void)read("{\"results\": []}"); }),
              HasSubstr("all_reduce.txt: expected rows of nccl-tests"));
  EXPECT_THAT(error_of([] { (void)read("{\"results\": ["); }), HasSubstr("all_reduce.txt"));
  EXPECT_THAT(error_of([] {
                (void)read("# Collective test starting: broadcast_perf\n" + row(1048576, 100.0) +
                           row(2097152, 160.0));
              }),
              HasSubstr("expected times of all_reduce, all_gather, reduce_scatter, alltoall, "
                        "sendrecv, got those of broadcast_perf"));
  EXPECT_THAT(error_of([] { (void)read(kHeaderOfOneHost + row(1048576, 100.0)); }),
              HasSubstr("expected the times of two sizes at least, got 1"));
  EXPECT_THAT(error_of([] {
                (void)read(
                    "1048576 1 float 100.0 10.49 7.86 0\n2097152 1 float 200.0 10.49 7.86 0\n", {},
                    "x");
              }),
              HasSubstr("alltoall=FILE"));
  EXPECT_THAT(error_of([] {
                (void)read(row(1048576, 100.0) + row(2097152, 160.0), {.ranks = 5, .nodes = 2});
              }),
              HasSubstr("equally many ranks on each node, got 5 on 2"));
}

}  // namespace
}  // namespace ptdp
