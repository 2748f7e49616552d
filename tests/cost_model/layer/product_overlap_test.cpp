// Tests of collectives that run within products, chunk by chunk.
#include "cost_model/layer/product_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost_model/layer/transformer_layer.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/linear_layer.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr int kRanks = 4;
const Bytes kBuffer(256e6);

Scenario overlapping(TpCommOverlap kind) {
  Scenario scenario = plain_scenario(find_model("7.5B").config);
  scenario.stack.tp_comm_overlap = kind;
  scenario.stack.overlap_slowdown = 0.25;
  return scenario;
}

GroupPlacement four_neighbours(const Scenario& scenario) {
  return place_group(RankGrid({.tp = kRanks}), Dimension::kTensor, scenario.cluster);
}

/// Returns when a gather within a product ends, by walking the chunks: when each arrives, and when
/// its product is done. A rank has its own chunk from the start.
Seconds walked_gather(Seconds arrives_every, Seconds product_of_chunk) {
  Seconds done;
  for (int chunk = 0; chunk < kRanks; ++chunk) {
    done = std::max(done, 1.0 * chunk * arrives_every) + product_of_chunk;
  }
  return done;
}

// Products from far shorter to far longer than a chunk takes to come.
TEST(GatherWithinAProduct, TakesAsLongAsItsChunksOneByOne) {
  for (const TpCommOverlap kind : {TpCommOverlap::kUserBuffers, TpCommOverlap::kSymmetricMemory}) {
    const Scenario scenario = overlapping(kind);
    const GroupPlacement group = four_neighbours(scenario);
    const ProductOverlap overlap(scenario, group);
    ASSERT_EQ(overlap.gathered_chunks(), kRanks);
    const Seconds step = all_gather_time(kBuffer, group, scenario.cluster) / (kRanks - 1.0);
    for (const double ratio : {0.1, 0.9, 1.1, 20.0}) {
      const Seconds product = kRanks * ratio * step;
      EXPECT_NEAR((product + overlap.of_gather(kBuffer, product, product)).value(),
                  walked_gather(step, ratio * step).value(), 1e-12)
          << ratio;
    }
    // Chunks that take half as long again as the whole, and hide everything.
    const Seconds product = 100.0 * step;
    EXPECT_NEAR(overlap.of_gather(kBuffer, product, 1.5 * product).value(), (0.5 * product).value(),
                1e-12);
  }
}

// Four chunks: that of each but the last beside the next one's product, of whose time it costs a
// quarter where it is shorter; the last alone.
TEST(ScatterWithinAProduct, ExposesTheLastChunkOfUserBuffers) {
  const Scenario scenario = overlapping(TpCommOverlap::kUserBuffers);
  const GroupPlacement group = four_neighbours(scenario);
  const ProductOverlap overlap(scenario, group);
  ASSERT_EQ(overlap.scattered_chunks(), 4);
  const Seconds step = reduce_scatter_time(kBuffer / 4.0, group, scenario.cluster);
  const Seconds product = 8.0 * step;  // two for each chunk
  EXPECT_NEAR(overlap.of_scatter(kBuffer, product, product).value(),
              (3.0 * 0.25 * step + step).value(), 1e-12);
  const Seconds brief = 2.0 * step;  // a half: what is longer, and a quarter of the half
  EXPECT_NEAR(overlap.of_scatter(kBuffer, brief, brief).value(),
              (3.0 * (0.5 + 0.25 * 0.5) * step + step).value(), 1e-12);
}

// Copies hide entirely; then 256 MB are read and 64 MB written at 1 TB/s.
TEST(ScatterWithinAProduct, SumsInSymmetricMemory) {
  const Scenario scenario = overlapping(TpCommOverlap::kSymmetricMemory);
  const GroupPlacement group = four_neighbours(scenario);
  const ProductOverlap overlap(scenario, group);
  const Seconds product = 10.0 * reduce_scatter_time(kBuffer, group, scenario.cluster);
  EXPECT_NEAR(overlap.of_scatter(kBuffer, product, product).value(), 320e6 / kPlainBandwidth,
              1e-12);
}

// A layer without what would be gathered or scattered has no chunks either, and waits for no link.
TEST(ProductOverlap, OfNothingCostsNothing) {
  for (const TpCommOverlap kind : {TpCommOverlap::kUserBuffers, TpCommOverlap::kSymmetricMemory}) {
    const Scenario scenario = overlapping(kind);
    const ProductOverlap overlap(scenario, four_neighbours(scenario));
    for (const double product : {0.0, 1.0}) {
      const Seconds whole(product);
      const Seconds in_chunks = 1.5 * whole;
      EXPECT_EQ(overlap.of_gather(Bytes(0.0), whole, in_chunks), Seconds(0.0));
      EXPECT_EQ(overlap.of_scatter(Bytes(0.0), whole, in_chunks), Seconds(0.0));
    }
  }
}

TEST(ProductOverlap, NeedsSequenceParallelismInANode) {
  const Scenario scenario = overlapping(TpCommOverlap::kUserBuffers);
  const StackSpec& stack = scenario.stack;
  const GroupPlacement group = four_neighbours(scenario);
  EXPECT_TRUE(runs_within_products(stack, {.tp = 4, .sequence_parallel = true}, group));
  EXPECT_FALSE(runs_within_products(stack, {.tp = 4}, group));
  EXPECT_FALSE(runs_within_products(stack, {.tp = 1, .sequence_parallel = true}, group));
  GroupPlacement wide = group;
  wide.nodes = 2;
  EXPECT_FALSE(runs_within_products(stack, {.tp = 4, .sequence_parallel = true}, wide));
  EXPECT_FALSE(runs_within_products({}, {.tp = 4, .sequence_parallel = true}, group));
}

// Products so long that they hide all that can be hidden, and no kernel takes a multiprocessor: of
// the forward pass's four collectives the last quarters of two reduce-scatters are left, of the
// backward pass's six nothing.
TEST(ProductOverlap, LeavesOfALayerWhatNoProductHides) {
  Scenario scenario = overlapping(TpCommOverlap::kUserBuffers);
  scenario.stack.overlap_slowdown = 0.0;
  const ParallelConfig config{.tp = kRanks, .micro_batch_size = 4, .sequence_parallel = true};
  const TransformerConfig& model = scenario.job.model;
  const Bytes activations(2.0 * 4 * model.seq_length * model.hidden_size);
  const Seconds last =
      reduce_scatter_time(activations / 4.0, four_neighbours(scenario), scenario.cluster);
  const LayerCosts costs = layer_costs(scenario, config);
  EXPECT_NEAR(costs.forward.tensor_parallel.value(), (2.0 * last).value(), 1e-9);
  EXPECT_NEAR(costs.backward.tensor_parallel.value(), 0.0, 1e-9);

  scenario.stack.tp_comm_overlap = TpCommOverlap::kNone;
  EXPECT_GT(layer_costs(scenario, config).forward.tensor_parallel, 4.0 * last);
}

// Buffers of 2048 tokens and 12288 features in bf16: 50.3 MB each.
TEST(OverlapBuffers, AreTenOfUserBuffersAndOneOfSymmetricMemory) {
  StackSpec stack;
  EXPECT_EQ(overlap_buffers(stack, 2048, 12288), Bytes(0.0));
  stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  EXPECT_EQ(overlap_buffers(stack, 2048, 12288), Bytes(503316480.0));
  stack.tp_comm_overlap = TpCommOverlap::kSymmetricMemory;
  EXPECT_EQ(overlap_buffers(stack, 2048, 12288), Bytes(50331648.0));
}

}  // namespace
}  // namespace ptdp
