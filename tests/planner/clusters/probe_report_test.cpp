#include "planner/clusters/probe_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/operations/gemm.h"
#include "planner/clusters/new_cluster.h"
#include "tests/support/error_of.h"
#include "tests/support/round_trip.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

const char* const kLayerShape =
    R"("hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 8, "kv_channels": 128,
       "ffn_hidden_size": 14336, "gated_linear_unit": true, "normalization": "rms-norm",
       "activation_func": "silu", "add_bias_linear": false, "rope": true, "seq_length": 4096)";

std::string probe_text(const std::string& more = "") {
  return std::string(R"({"schema": "ptdp.probe/1", "source": "a test",
    "device": {"name": "NVIDIA H100 80GB HBM3", "memory_GiB": 79.2, "num_multiprocessors": 132,
               "compute_capability": "9.0", "power_limit_W": 700.0, "backend": "cuda"},
    "torch": "2.11.0", "precision": "bf16",
    "measured_operations": [
      {"operation": "forward-product", "precision": "bf16", "m": [4096, 8192, 16384],
       "n": [4096, 4096, 4096], "k": [4096, 4096, 4096], "time_us": [230.0, 440.0, 880.0]},
      {"operation": "rms-norm", "precision": "bf16", "rows": [4096, 8192], "width": [4096, 4096],
       "time_us": [20.0, 40.0]}],
    "kernel_latency_us": 2.5, "host_time_per_kernel_us": 14.0, "memory_bandwidth_GBps": 3015.0,
    "matmul_sustained": 0.9,
    "layers": [)") +
         "{" + kLayerShape +
         R"(, "micro_batch_size": 1, "tp": 1, "precision": "bf16",
            "forward_us": 3000.0, "backward_us": 7000.0, "peak_memory_bytes": 1000}, {)" +
         kLayerShape +
         R"(, "micro_batch_size": 2, "tp": 4, "precision": "bf16",
            "forward_us": 2000.0, "backward_us": 4500.0, "peak_memory_bytes": null}],
    "collectives": [{"operation": "all-reduce", "ranks": 8, "nodes": 1,
       "points": [{"bytes": 1048576, "time_us": 50.0}, {"bytes": 16777216, "time_us": 130.0}]}],
    "skipped": ["attention: --only"], "warnings": [])" +
         more + "}";
}

ClusterFacts facts_of(const std::string& text) {
  return {.from = find_cluster("dgx-h100"),
          .probe = FromFile<ProbeReport>{"probe.json", read_probe(text, "probe.json")}};
}

LayerCosts costs_of(const ClusterSpec& cluster, const TransformerConfig& model,
                    const ParallelConfig& config) {
  StackSpec stack = find_stack(kProbedStack);
  return layer_costs(
      {.job = {.model = model, .global_batch_size = 64}, .cluster = cluster, .stack = stack},
      config);
}

TEST(Probes, AreRead) {
  const ProbeReport probe = read_probe(probe_text(), "probe.json");
  EXPECT_EQ(probe.device_name, "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(probe.operations, SizeIs(2));
  EXPECT_THAT(probe.layers, SizeIs(2));
  EXPECT_EQ(probe.layers[1].layer.tp, 4);
  EXPECT_EQ(probe.collectives.at(0).ranks, 8);
  EXPECT_THAT(probe.notes, Contains(HasSubstr("--only")));
}

/// Returns the probe's text with another share that products keep in seconds of work.
std::string with_sustained(const std::string& share) {
  return replaced(probe_text(), "\"matmul_sustained\": 0.9", "\"matmul_sustained\": " + share);
}

TEST(Probes, MakeLayersAsLongAsMeasured) {
  const ClusterSpec cluster = make_cluster(facts_of(with_sustained("1.0"))).cluster;
  const TransformerConfig model = read_probe(probe_text(), "p").layers[0].layer.model;
  const LayerCosts whole = costs_of(cluster, model, {.micro_batch_size = 1});
  EXPECT_NEAR(whole.forward.total().value(), 3000e-6, 1e-9);
  EXPECT_NEAR((whole.backward.total() + whole.gradient_accumulation).value(), 7000e-6, 1e-9);
  // A quarter of the layer: without its collectives, and what they leave of launches, it is as
  // long.
  const LayerCosts part = costs_of(cluster, model, {.tp = 4, .micro_batch_size = 2});
  EXPECT_NEAR((part.forward.total() - part.forward.collectives()).value(), 2000e-6, 100e-6);
}

TEST(Probes, MakeProductsAsLongAsMeasuredInAStep) {
  const ClusterSpec cluster = make_cluster(facts_of(probe_text())).cluster;
  const Seconds time =
      product_time(DeviceOperation::kForwardProduct, {.m = 8192, .n = 4096, .k = 4096}, cluster.gpu,
                   Precision::kBf16);
  EXPECT_NEAR(time.value(), 440e-6 / 0.9, 1e-9);
  EXPECT_EQ(cluster.gpu.kernel_latency, microseconds(2.5));
  EXPECT_NEAR(cluster.gpu.memory_efficiency, 0.9, 1e-12);
  EXPECT_NEAR(cluster.launch_slowdown, 2.0, 1e-12);  // 14 us for the usual 7
  EXPECT_THAT(cluster.all_reduce_curves, Contains(testing::Field(&AllReduceCurve::ranks, 8)));
}

// A limit of power acts on a step, not on the short rows that were measured.
TEST(Probes, MakeLayersLongerByWhatPowerTakesFromProducts) {
  const TransformerConfig model = read_probe(probe_text(), "p").layers[0].layer.model;
  const ClusterSpec full = make_cluster(facts_of(with_sustained("1.0"))).cluster;
  const ClusterSpec limited = make_cluster(facts_of(with_sustained("0.5"))).cluster;
  const PassTime before = costs_of(full, model, {.micro_batch_size = 1}).forward;
  const PassTime after = costs_of(limited, model, {.micro_batch_size = 1}).forward;
  EXPECT_NEAR(after.matmul / before.matmul, 2.0, 0.1);
  EXPECT_GT(after.total(), 1.5 * before.total());
}

TEST(Probes, OfAnotherShippedGpuAreRefused) {
  const std::string text = replaced(probe_text(), "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB");
  EXPECT_THAT(error_of([&] { (void)make_cluster(facts_of(text)); }),
              HasSubstr("probe.json: expected the probe of a GPU h100-80gb-sxm, got one of"));
}

TEST(Probes, MakeAnAssumedGpuAMeasuredOne) {
  ClusterFacts facts = facts_of(probe_text());
  facts.from = find_cluster("8x-gh200");
  facts.probe->report.device_name = "NVIDIA GH200 480GB";
  EXPECT_TRUE(facts.from->gpu.is_assumed);
  facts.probe->report.collectives.clear();
  const NewCluster made = make_cluster(facts);
  EXPECT_FALSE(made.cluster.gpu.is_assumed);
  EXPECT_THAT(made.warnings, testing::Not(Contains(HasSubstr("what kernels reach"))));
}

TEST(Probes, LeaveOutTimesThatContradictOthers) {
  const std::string text = replaced(probe_text(), "230.0, 440.0, 880.0", "230.0, 9000.0, 880.0");
  const ProbeReport probe = read_probe(text, "probe.json");
  EXPECT_THAT(probe.operations[0].points(), SizeIs(2));
  EXPECT_THAT(probe.notes, Contains(HasSubstr("contradicts others: forward-product of m 8192")));
}

// Twice the sequences took 2000 us forward where one took 3000: something held that one up.
TEST(Probes, LeaveOutLayersThatTookLongerThanWithMoreSequences) {
  const std::string text = replaced(probe_text(), "\"tp\": 4", "\"tp\": 1");
  const NewCluster made = make_cluster(facts_of(text));
  EXPECT_THAT(made.warnings, Contains(HasSubstr("left out 1 layer that took longer")));
  EXPECT_THAT(made.cluster.gpu.layer_factors, SizeIs(1));
  EXPECT_EQ(made.cluster.gpu.layer_factors[0].tokens, 2.0 * 4096);
  EXPECT_THAT(make_cluster(facts_of(probe_text())).cluster.gpu.layer_factors, SizeIs(2));
}

// A small buffer that took longer than the larger one leaves no curve.
TEST(Probes, LeaveOutCollectivesOfFewTimes) {
  const std::string text = replaced(probe_text(), "\"time_us\": 50.0", "\"time_us\": 950.0");
  const ProbeReport probe = read_probe(text, "probe.json");
  EXPECT_THAT(probe.collectives, SizeIs(0));
  EXPECT_THAT(probe.notes, Contains(HasSubstr("all-reduce of 8 ranks: left out")));
}

TEST(Probes, OfAnotherFormAreRefused) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return error_of([&] { (void)read_probe(replaced(probe_text(), from, to), "probe.json"); });
  };
  EXPECT_THAT(refusal("ptdp.probe/1", "ptdp.probe/2"), HasSubstr("probe.json: schema"));
  EXPECT_THAT(refusal("rms-norm\", \"precision", "rms\", \"precision"),
              HasSubstr("probe.json: measured_operations[1].operation: expected an operation"));
  EXPECT_THAT(refusal("\"tp\": 4", "\"tp\": 5"),
              HasSubstr("layers[1].tp: expected a divisor of num_attention_heads"));
  EXPECT_THAT(refusal("\"time_us\": [20.0, 40.0]", "\"time_us\": [20.0]"),
              HasSubstr("measured_operations[1].rows: expected 1 numbers"));
  EXPECT_THAT(refusal("\"torch\"", "\"torhc\""), HasSubstr("\"torhc\": unknown key"));
}

TEST(Probes, BoundWhatLaunchesTakeByTheLayers) {
  // A forward pass of 15 to 60 kernels that takes 300 us leaves each 5 to 20 us: where the probe
  // did not time launches, its host cannot take nine times 7 us for one.
  std::string text = replaced(probe_text(), "\"seq_length\": 4096", "\"seq_length\": 128");
  text = replaced(text, "\"host_time_per_kernel_us\": 14.0", "\"host_time_per_kernel_us\": null");
  text = replaced(text, "\"forward_us\": 3000.0", "\"forward_us\": 300.0");
  ClusterFacts facts = facts_of(text);
  facts.from->launch_slowdown = 9.0;
  const NewCluster made = make_cluster(facts);
  EXPECT_GT(made.cluster.launch_slowdown, 5.0 / 7.0);
  EXPECT_LT(made.cluster.launch_slowdown, 20.0 / 7.0);
  EXPECT_THAT(made.lines, Contains(HasSubstr("the most that fits into probe.json")));
  // A host that leaves room keeps what its profile says.
  facts.from->launch_slowdown = 0.5;
  EXPECT_DOUBLE_EQ(make_cluster(facts).cluster.launch_slowdown, 0.5);
}

TEST(Probes, TakeDropoutThatTheLayersHad) {
  const ProbeReport probe = read_probe(
      replaced(probe_text(), "\"rope\": true", R"("rope": true, "dropout": true)"), "probe.json");
  EXPECT_TRUE(has_dropout(probe.layers[0].layer.model));
  EXPECT_FALSE(has_dropout(probe.layers[1].layer.model));
}

}  // namespace
}  // namespace ptdp
