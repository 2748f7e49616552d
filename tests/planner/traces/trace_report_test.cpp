// Tests of splitting a trace, by hand: steps, terms, collectives, products, the plan beside them.
#include "planner/traces/trace_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/traces/trace_reader.h"
#include "planner/traces/trace_steps.h"
#include "tests/planner/traces/written_trace.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kAllReduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)";

/// Adds an iteration whose kernels run `lag` us after the host launches them:
///   0 to 4 ms a product, to 5 ms a norm, from 6.5 to 8 ms the optimizer;
///   beside these from 3 to 7 ms an all-reduce, and from 7.5 to 9 ms a copy from the host.
void add_iteration(WrittenTrace& trace, int number, double start, double lag) {
  const auto kernel = [&](const char* name, double from, double length, int stream,
                          WrittenTrace::json more = WrittenTrace::json::object()) {
    trace.kernel(name, start + lag + from, length, stream, start + 0.1 * from, std::move(more));
  };
  trace.step(number, start, 10000.0);
  trace.operation("aten::mm", number, WrittenTrace::json::parse("[[2048, 512], [512, 1024]]"));
  kernel("mystery", 0.0, 4000.0, 7, {{"External id", number}});
  kernel("void vectorized_layer_norm_kernel<float>", 4000.0, 1000.0, 7);
  kernel("void multi_tensor_apply_kernel<AdamFunctor<float>>", 6500.0, 1500.0, 7);
  kernel(kAllReduce, 3000.0, 4000.0, 20,
         {{"Collective name", "allreduce"},
          {"In msg nelems", 1000000},
          {"Out msg nelems", 1000000},
          {"dtype", "BFloat16"},
          {"Group size", 4},
          {"Process Group Name", "1"},
          {"Process Group Description", "mesh_dp"}});
  trace.work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", start + lag + 7500.0, 1500.0, 30);
}

/// Three iterations of 10 ms, whose GPU is 2 ms behind its host.
WrittenTrace three_iterations() {
  WrittenTrace trace;
  for (int i = 0; i < 3; ++i) {
    add_iteration(trace, 5 + i, 10000.0 * i, 2000.0);
  }
  trace.step(8, 30000.0, 100.0);  // the profiler stops in it
  return trace;
}

TraceReport report_of(const WrittenTrace& trace, const std::optional<Plan>& plan = std::nullopt) {
  return report_trace(trace_of(trace.text(), "x.json"), "x.json", plan);
}

// On the GPU an iteration is from 2 ms behind its mark to 2 ms behind the next one.
TEST(StepsOf, AreThoseOfTheGpu) {
  const TraceSteps steps = steps_of(trace_of(three_iterations().text(), "x.json"));
  ASSERT_THAT(steps.windows, SizeIs(2));
  EXPECT_EQ(steps.windows[0].number, 6);
  EXPECT_EQ(steps.windows[0].start, 12'000'000);
  EXPECT_EQ(steps.windows[0].end, 22'000'000);
  EXPECT_EQ(steps.windows[1].end, 30'000'000);  // its mark ends with its last kernel
  EXPECT_EQ(steps.first_left_out, 1);
  EXPECT_EQ(steps.incomplete, 1);
}

// A stream that prepares the next batch runs ahead of the one that computes.
TEST(StepsOf, FollowTheStreamThatComputesMost) {
  WrittenTrace trace = three_iterations();
  trace.kernel("bucketize", 10001.0, 1.0, 9, 10000.5);
  EXPECT_EQ(steps_of(trace_of(trace.text(), "x.json")).windows[0].start, 12'000'000);
}

// What was launched before the trace began is no iteration's.
TEST(StepsOf, LeaveOutWhatWasLaunchedBefore) {
  WrittenTrace trace = three_iterations();
  trace.work("kernel", "early", 10001.0, 1.0, 7, {{"correlation", 1}});
  EXPECT_EQ(steps_of(trace_of(trace.text(), "x.json")).windows[0].start, 12'000'000);
}

TEST(StepsOf, AreTheWholeTraceWithoutMarks) {
  WrittenTrace trace;
  trace.work("kernel", "a", 5.0, 5.0, 7);
  trace.work("kernel", "b", 20.0, 4.0, 7);
  const TraceSteps steps = steps_of(trace_of(trace.text(), "x.json"));
  ASSERT_THAT(steps.windows, SizeIs(1));
  EXPECT_FALSE(steps.are_marked);
  EXPECT_EQ(steps.windows[0].end - steps.windows[0].start, 19'000);
  EXPECT_THAT(to_text(report_of(trace)), HasSubstr("the whole trace counts as one"));
}

// By hand, see add_iteration(): iteration 6 has 10 ms, iteration 7 ends with its mark after 8 ms,
// and cuts the copy from the host.
TEST(ReportTrace, SplitsIterations) {
  const TraceReport report = report_of(three_iterations());
  ASSERT_THAT(report.steps, SizeIs(2));
  const TraceTimes& times = report.steps[0].times;
  EXPECT_DOUBLE_EQ(times.products.value(), 4e-3);
  EXPECT_DOUBLE_EQ(times.norms.value(), 1e-3);
  EXPECT_DOUBLE_EQ(times.optimizer.value(), 1.5e-3);
  EXPECT_DOUBLE_EQ(times.exposed.value(), 1.5e-3);    // 5 to 6.5 ms
  EXPECT_DOUBLE_EQ(times.host_copies.value(), 1e-3);  // 8 to 9 ms
  EXPECT_DOUBLE_EQ(times.idle.value(), 1e-3);
  EXPECT_DOUBLE_EQ(times.total().value(), 10e-3);
  EXPECT_DOUBLE_EQ(report.steps[1].times.total().value(), 8e-3);
  EXPECT_DOUBLE_EQ(report.mean.idle.value(), 0.5e-3);
  EXPECT_DOUBLE_EQ(report.time.value(), 9e-3);
}

// 2 MB take 4 ms, of which 1.5 are exposed: 1.5·2 MB/4 ms on the bus of 4 ranks.
TEST(ReportTrace, MeasuresCollectives) {
  const TraceReport report = report_of(three_iterations());
  ASSERT_THAT(report.collectives, SizeIs(1));
  const CollectiveUse& use = report.collectives[0];
  EXPECT_EQ(use.kind, TracedCollective::kAllReduce);
  EXPECT_EQ(use.group, "mesh_dp");
  EXPECT_EQ(use.ranks, 4);
  EXPECT_DOUBLE_EQ(use.calls, 1.0);
  EXPECT_DOUBLE_EQ(use.size.value(), 2e6);
  EXPECT_NEAR(use.time.value(), 4e-3, 1e-12);
  EXPECT_NEAR(use.exposed.value(), 1.5e-3, 1e-12);
  EXPECT_NEAR(use.hidden.value(), 2.5e-3, 1e-12);
  EXPECT_NEAR(use.bus_bandwidth.value(), 0.75e9, 1.0);
  EXPECT_NEAR(use.best_bandwidth.value(), 0.75e9, 1.0);
}

// 2·2048·1024·512 FLOPs.
TEST(ReportTrace, MeasuresProductsByShape) {
  const TraceReport report = report_of(three_iterations());
  ASSERT_THAT(report.work, Not(IsEmpty()));
  EXPECT_EQ(report.work[0].name, "aten::mm 2048x1024x512");
  EXPECT_DOUBLE_EQ(report.work[0].calls, 1.0);
  EXPECT_DOUBLE_EQ(report.work[0].flops.value(), 2147483648.0);
  EXPECT_NEAR(report.work[0].time.value(), 4e-3, 1e-12);
}

TEST(ProductShape, KnowsTheOrderOfInputs) {
  EXPECT_EQ(product_shape("aten::addmm", "[[5],[2,3],[3,5]]").text, "2x5x3");
  EXPECT_EQ(product_shape("aten::bmm", "[[7,2,3],[7,3,5]]").text, "7*2x5x3");
  EXPECT_DOUBLE_EQ(product_shape("aten::bmm", "[[7,2,3],[7,3,5]]").flops.value(), 420.0);
  EXPECT_EQ(product_shape("aten::linear", "[[4,2,3],[5,3],[5]]").text, "8x5x3");
  for (const char* shapes : {"", "[]", "[[2,3]]", "[[2,3],[4,5]]", "[[],[]]", "[[2,3],[[3,5]]]"}) {
    EXPECT_EQ(product_shape("aten::mm", shapes).text, "") << shapes;
  }
}

TEST(RoleOf, FollowsTheDescriptionAndElseTheDegrees) {
  const ParallelConfig config{.tp = 4, .pp = 2, .dp = 8};
  const auto role = [&](TracedCollective kind, const char* group, int ranks) {
    return role_of({.kind = kind, .group = group, .ranks = ranks}, config);
  };
  const TracedCollective all_reduce = TracedCollective::kAllReduce;
  EXPECT_EQ(role(all_reduce, "TENSOR_MODEL_PARALLEL_GROUP", 4), GroupRole::kTensor);
  EXPECT_EQ(role(all_reduce, "EXPERT_DATA_PARALLEL_GROUP", 4), GroupRole::kData);
  EXPECT_EQ(role(all_reduce, "mesh_dp_shard_cp", 4), GroupRole::kData);
  EXPECT_EQ(role(all_reduce, "mesh_tp", 4), GroupRole::kTensor);
  EXPECT_EQ(role(all_reduce, "12", 8), GroupRole::kData);
  EXPECT_EQ(role(all_reduce, "", 4), GroupRole::kTensor);
  EXPECT_EQ(role(all_reduce, "", 0), GroupRole::kUnknown);
  EXPECT_EQ(role(TracedCollective::kMessage, "", 0), GroupRole::kPipeline);
  EXPECT_EQ(role(TracedCollective::kAllToAll, "", 4), GroupRole::kUnknown);  // none of experts
}

Plan plan_of_four_replicas() {
  const ParallelConfig config = {.dp = 4, .micro_batch_size = 16};
  return make_plan(PlannedJob(selene_2021("1.7B", 512), config), 4, 0.0, Calibration{});
}

TEST(SplitByTrace, AddsUpOnBothSides) {
  const Plan plan = plan_of_four_replicas();
  const TraceReport report = report_of(three_iterations(), plan);
  Seconds predicted;
  Seconds measured;
  for (const TracePart& part :
       split_by_trace(report.mean, report.collectives, plan.predicted.breakdown, plan.config)) {
    predicted += part.predicted.value_or(Seconds(0.0));
    measured += part.measured.value_or(Seconds(0.0));
    if (part.name == "replicas") {
      EXPECT_NEAR(part.measured.value().value(), 1.5e-3, 1e-12);
    }
  }
  EXPECT_NEAR(predicted.value(), plan.predicted.iteration_time.value.value(), 1e-9);
  EXPECT_NEAR(measured.value(), report.mean.total().value(), 1e-12);
}

TEST(SplitByTrace, CountsEveryTermOnce) {
  CostBreakdown cost;
  for (const CostTerm& term : kCostTerms) {
    cost.*term.time = Seconds(1.0);
  }
  Seconds sum;
  for (const TracePart& part : split_by_trace({}, {}, cost, {})) {
    sum += part.predicted.value_or(Seconds(0.0));
  }
  EXPECT_EQ(sum, cost.total());
}

TEST(ReportTrace, SetsAPlanBesideIt) {
  const Plan plan = plan_of_four_replicas();
  WrittenTrace trace = three_iterations();
  trace.header("distributedInfo", {{"rank", 2}, {"world_size", 4}});
  const TraceReport report = report_of(trace, plan);
  const double predicted = plan.predicted.iteration_time.value.value();
  EXPECT_NEAR(report.error().value(), predicted / 9e-3 - 1.0, 1e-9);
  EXPECT_THAT(to_text(report), HasSubstr("rank 2 of 4"));
  EXPECT_THAT(to_text(report), HasSubstr("which does not hold"));
  const json document = json::parse(to_json(report));
  EXPECT_EQ(document["schema"], "ptdp.trace/1");
  EXPECT_EQ(document["rank"], 2);
  EXPECT_EQ(document["collectives"][0]["collective"], "all-reduce");
  EXPECT_NEAR(document["collectives"][0]["bus_GBps"].get<double>(), 0.75, 1e-9);
  EXPECT_NEAR(document["mean"]["time_s"].get<double>(), 9e-3, 1e-12);
  EXPECT_NEAR(document["predicted"]["iteration_time_s"].get<double>(), predicted, 1e-9);
  EXPECT_EQ(document["split"][0]["part"], "products and attention");
}

TEST(ReportTrace, RefusesAnotherWorldThanThePlans) {
  WrittenTrace trace = three_iterations();
  trace.header("distributedInfo", {{"rank", 2}, {"world_size", 8}});
  EXPECT_THAT(message_of([&] { return report_of(trace, plan_of_four_replicas()); }),
              HasSubstr("x.json: distributedInfo.world_size: expected the plan's 4 GPUs, found 8"));
}

TEST(ReportTrace, SaysWhatItDoesNotKnow) {
  WrittenTrace trace;
  trace.work("kernel", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 0.0, 5.0, 7);
  const std::string text = to_text(report_of(trace));
  EXPECT_THAT(text, HasSubstr("send/recv or all-to-all"));
  EXPECT_THAT(text, HasSubstr("does not say the groups"));
  EXPECT_THAT(text, HasSubstr("--plan PLAN.json"));
}

TEST(ReportTrace, RefusesWorkThatTakesNoTime) {
  WrittenTrace trace;
  trace.work("kernel", "a", 5.0, 0.0, 7);
  EXPECT_THAT(message_of([&] { return report_of(trace); }), HasSubstr("x.json"));
}

}  // namespace
}  // namespace ptdp
