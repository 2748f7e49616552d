// Tests of reading traces: times, links, packed files, what is broken, what is no trace.
#include "planner/traces/trace_reader.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <filesystem>
#include <string>

#include "planner/traces/trace_events.h"
#include "planner/traces/trace_text.h"
#include "tests/planner/traces/written_trace.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using TraceJson = WrittenTrace::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

std::string error_of_trace(const std::string& text) {
  return message_of([&] { return trace_of(text, "x.json"); });
}

/// Returns a file with the text packed by gzip, without its last `cut` bytes.
std::filesystem::path packed_file(const TemporaryDirectory& directory, const std::string& text,
                                  std::uintmax_t cut = 0) {
  std::filesystem::path path = directory.path() / "x.json.gz";
  gzFile file = ::gzopen(path.c_str(), "wb");
  EXPECT_EQ(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  EXPECT_EQ(::gzclose(file), Z_OK);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - cut);
  return path;
}

std::string one_kernel() {
  WrittenTrace trace;
  trace.work("kernel", "nvjet_tst", 10.0, 5.0, 7);
  return trace.text();
}

TEST(NanosecondsOf, AreExact) {
  EXPECT_EQ(nanoseconds_of("1717000000000000.123"), 1717000000000000123);
  EXPECT_EQ(nanoseconds_of("12"), 12000);
  EXPECT_EQ(nanoseconds_of("0.0016"), 2);
  EXPECT_EQ(nanoseconds_of("-1.5"), -1500);
  EXPECT_EQ(nanoseconds_of("1.5e3"), 1500000);
  for (const char* none : {"", "x", "1.5x", "NaN", "inf", "1e30", "-", "3000000000000001"}) {
    EXPECT_EQ(nanoseconds_of(none), std::nullopt) << none;
  }
}

TEST(JsonMender, MendsWordsOverTheEndsOfPieces) {
  JsonMender mender;
  std::string text;
  for (const char* piece : {R"({"a NaN": Na)", R"(N, "b": -Infi)", "nity, \"c\\\"\xC3\n\": 1e",
                            "-5, ", R"("d": true, "e": inf)"}) {
    mender.mend(piece, text);
  }
  mender.finish(text);
  EXPECT_EQ(text, R"({"a NaN": null, "b": null, "c\"??": 1e-5, "d": true, "e": null)");
}

TEST(ReadTrace, TakesTimesAsNumbersAndAsTexts) {
  const Trace trace = trace_of(
      R"([{"ph": "X", "cat": "kernel", "name": "a", "ts": "2.5", "dur": 1, "args": {"device": 0}},
          {"ph": "X", "cat": "kernel", "name": "b", "ts": NaN, "dur": 1, "args": {"device": 0}},
          {"ph": "X", "cat": "kernel", "name": "c", "ts": 1, "dur": -1, "args": {}},
          {"ph": "f", "cat": "kernel", "name": "d", "ts": 9, "dur": 1},
          {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD", "ts": 0, "dur": 0.5, "args": {}}])",
      "x.json");
  ASSERT_THAT(trace.work, SizeIs(2));
  EXPECT_EQ(trace.work[0].start, 2500);
  EXPECT_EQ(trace.work[0].end, 3500);
  EXPECT_EQ(trace.work[1].kind, WorkKind::kHostCopy);
  EXPECT_EQ(trace.without_time, 2);
}

TEST(ReadTrace, LinksKernelsToOperators) {
  WrittenTrace written;
  written.work("kernel", "mystery", 0.0, 1.0, 7, {{"External id", 3}, {"correlation", 9}});
  written.operation("aten::mm", 3, TraceJson::parse("[[8, 4], [4, 2]]"));
  written.work("kernel", "ncclDevKernel_Generic", 0.0, 1.0, 8,
               {{"External id", 4}, {"correlation", 10}});
  written.add("cpu_op", "record_param_comms", 0.0, 1.0,
              {{"External id", 4},
               {"Collective name", "allreduce"},
               {"Group size", 2},
               {"dtype", "Float"},
               {"In msg nelems", 6},
               {"Process Group Name", "5"},
               {"Process Group Description", "undefined"}});
  const Trace trace = trace_of(written.text(), "x.json");
  EXPECT_EQ(trace.work[0].kind, WorkKind::kProduct);
  EXPECT_EQ(trace.names[trace.operators.at(3).shapes], "[[8,4],[4,2]]");
  ASSERT_EQ(trace.work[1].call, 0);
  EXPECT_EQ(trace.calls[0].collective, "allreduce");
  EXPECT_EQ(trace.calls[0].group, "5");
  EXPECT_EQ(trace.calls[0].sent, 6);
}

// PyTorch 1.x writes the number of the launch as "External id"; an operator may have it by chance.
TEST(ReadTrace, DoesNotLinkByTheNumbersOfLaunches) {
  WrittenTrace written;
  written.work("kernel", "mystery", 0.0, 1.0, 7, {{"External id", 3}, {"correlation", 3}});
  written.operation("aten::mm", 3, TraceJson::parse("[[8, 4], [4, 2]]"));
  EXPECT_EQ(trace_of(written.text(), "x.json").work[0].kind, WorkKind::kElementWise);
}

TEST(ReadTrace, KeepsTheDeviceOfTheRank) {
  WrittenTrace written;
  written.work("kernel", "a", 0.0, 9.0, 7);
  written.work("kernel", "b", 0.0, 1.0, 7, {{"device", 1}});
  EXPECT_EQ(trace_of(written.text(), "x.json").device, 0);  // the busiest
  written.header("distributedInfo", {{"backend", "nccl"}, {"rank", 5}, {"world_size", 8}});
  written.header("deviceProperties",
                 TraceJson::parse(R"([{"id": 0, "name": "A"}, {"id": 1, "name": "B"},
                                                     {"id": 2, "name": "C"}, {"id": 3, "name": "D"}])"));
  const Trace trace = trace_of(written.text(), "x.json");  // 5 modulo 4
  EXPECT_EQ(trace.device, 1);
  EXPECT_EQ(trace.device_name, "B");
  EXPECT_EQ(trace.rank, 5);
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.other_devices, 1);
  EXPECT_THAT(trace.work, SizeIs(1));
}

TEST(ReadTrace, ReadsPlainAndPackedFiles) {
  const TemporaryDirectory directory;
  EXPECT_THAT(read_trace(directory.file("x.json", one_kernel())).work, SizeIs(1));
  EXPECT_THAT(read_trace(packed_file(directory, one_kernel())).work, SizeIs(1));
}

TEST(ReadTrace, RefusesPackedFilesThatAreCutOff) {
  const TemporaryDirectory directory;
  const std::string text = one_kernel();
  for (const std::uintmax_t cut : {1U, 9U, 40U}) {
    const std::filesystem::path path = packed_file(directory, text, cut);
    EXPECT_THAT(message_of([&] { return read_trace(path); }),
                AllOf(HasSubstr("x.json.gz"), HasSubstr("cut off")));
  }
  const std::filesystem::path damaged = directory.file("y.json.gz", "\x1f\x8b\x08garbage garbage");
  EXPECT_THAT(message_of([&] { return read_trace(damaged); }), HasSubstr("y.json.gz"));
}

TEST(ReadTrace, RefusesWhatIsNoTrace) {
  EXPECT_THAT(error_of_trace(""), HasSubstr("empty"));
  EXPECT_THAT(error_of_trace(" \n"), HasSubstr("empty"));
  EXPECT_THAT(error_of_trace("7"), HasSubstr("found no keys"));
  EXPECT_THAT(error_of_trace(R"({"schema": "ptdp.plan/1", "b": 1})"),
              AllOf(HasSubstr("traceEvents"), HasSubstr("schema")));
  EXPECT_THAT(error_of_trace("log of a run"), HasSubstr("byte 1"));
  EXPECT_THAT(error_of_trace("[] x"), HasSubstr("invalid JSON"));
  EXPECT_THAT(error_of_trace(R"({"traceEvents": [{"ts": 1e400}]})"), HasSubstr("out of range"));
  EXPECT_THAT(error_of_trace(R"({"traceEvents": 3})"), HasSubstr("x.json"));
  EXPECT_THAT(error_of_trace(std::string(100, '[')), HasSubstr("nested deeper"));
  WrittenTrace host;
  host.operation("aten::mm", 1, TraceJson::array());
  EXPECT_THAT(error_of_trace(host.text()),
              AllOf(HasSubstr("1 event of the host"), HasSubstr("no GPU kernels in it")));
}

TEST(ReadTrace, RefusesATraceCutAnywhere) {
  const std::string text = one_kernel();
  for (std::size_t size = 1; size < text.size(); ++size) {
    EXPECT_THAT(error_of_trace(text.substr(0, size)), HasSubstr("cut off")) << size;
  }
}

}  // namespace
}  // namespace ptdp
