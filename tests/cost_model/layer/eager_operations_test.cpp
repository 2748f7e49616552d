// Tests of what runs as single operations of PyTorch, against what PyTorch launches and moves
// (tests/golden/README.md).
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost_model/layer/expert_biases.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/layer_activations.h"
#include "cost_model/layer/sequence_copies.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/text/csv_table.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

constexpr LayerKind kLayerOfExperts = {.has_experts = true};
constexpr double kRows = 1024.0;  // of the experts, for two sequences of small_expert_model()

/// Returns a scenario of GPT-OSS's kind: experts with biases and a bounded gate, queries and keys
/// as wide as each other, whose positions grow.
Scenario oss_scenario(bool is_fused) {
  TransformerConfig model = small_expert_model();
  model.add_bias_linear = true;
  model.activation_func = Activation::kQuickGelu;
  model.activation_func_clamp_value = 7.0;
  model.glu_linear_offset = 1.0;
  model.rotary = {.scaling = RopeScaling::kYarn, .factor = 32.0, .original_seq_length = 64};
  Scenario scenario = plain_scenario(model);
  scenario.stack.fused_expert_biases = is_fused;
  scenario.stack.fused_yarn_rotary = is_fused;
  return scenario;
}

/// Returns a scenario of experts whose sequences are copied.
Scenario plain_with_experts() {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.copies_sequences = true;
  return scenario;
}

/// Returns `scenario` with a dispatcher that sends the weights of visits as a table's row has them.
Scenario with_weights(Scenario scenario, const std::string& weights) {
  scenario.stack.expert_dispatch =
      weights == "fp32" ? ExpertDispatch::kHierarchical : ExpertDispatch::kAllToAll;
  return scenario;
}

/// A row of the golden table: what PyTorch launches, and moves per number, for an operation.
struct EagerOperation {
  std::string operation;
  std::string weights;
  bool is_forward = false;
  double parts = 0.0;
  double kernels = 0.0;
  double bytes = 0.0;
  std::string place;
};

/// Returns the golden table's rows of `operations`.
std::vector<EagerOperation> eager_operations(const std::set<std::string>& operations) {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/eager_operations.csv");
  std::vector<EagerOperation> rows;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto number = [&](std::string_view column) {
      return parse_number(table.text(row, column), 0.0, 1e300, table.place_of(row, column));
    };
    if (operations.contains(table.text(row, "operation"))) {
      rows.push_back({.operation = table.text(row, "operation"),
                      .weights = table.text(row, "weights"),
                      .is_forward = table.text(row, "pass") == "forward",
                      .parts = number("parts"),
                      .kernels = number("kernels"),
                      .bytes = number("bytes"),
                      .place = table.place_of(row, "operation")});
    }
  }
  return rows;
}

TEST(EagerOperations, OfExpertsMoveWhatPyTorchMoves) {
  const std::vector<EagerOperation> rows = eager_operations({"bounds", "biases"});
  EXPECT_EQ(rows.size(), 10U);
  for (const EagerOperation& row : rows) {
    const bool is_bounds = row.operation == "bounds";
    Scenario scenario = with_weights(oss_scenario(false), row.weights);
    TransformerConfig& model = scenario.job.model;
    if (is_bounds) {
      model.add_bias_linear = false;
    } else {
      model.activation_func_clamp_value = 0.0;
    }
    const auto [forward, backward, bounds] =
        expert_bias_traffic(model, scenario.stack, kRows, model.moe_ffn_hidden_size);
    const double numbers = kRows * (is_bounds ? model.moe_ffn_hidden_size : model.hidden_size);
    EXPECT_DOUBLE_EQ((row.is_forward ? forward : backward).value(), row.bytes * numbers)
        << row.place;
    EXPECT_EQ(bounds, is_bounds ? forward : Bytes(0.0));

    const double experts = row.parts;
    const ExpertBiasKernels kernels = expert_bias_kernels(model, scenario.stack, experts);
    // Beyond the golden's: the gate's offset is copied to the device, and gradients of an expert's
    // two biases are added to their sums.
    const double more =
        is_bounds ? (row.is_forward ? 1.0 : 0.0) : (row.is_forward ? 0.0 : 2.0 * experts);
    EXPECT_EQ(row.is_forward ? kernels.forward : kernels.backward, row.kernels + more) << row.place;
  }
}

// One kernel turns queries and one keys where they are fused: a pass to read, one to write.
TEST(EagerOperations, OfPositionsMoveWhatPyTorchMoves) {
  const Scenario fused = oss_scenario(true);
  const Scenario single = oss_scenario(false);
  const LayerTraffic of_fused = layer_traffic(fused.job.model, 2, 1, false, fused.stack);
  const LayerTraffic of_single = layer_traffic(single.job.model, 2, 1, false, single.stack);
  const LayerKernels kernels_fused = kernels_without_experts(fused, {});
  const LayerKernels kernels_single = kernels_without_experts(single, {});
  // Queries and keys of 64 for two sequences of 256, and the kernels of each.
  const double numbers = 2.0 * 64 * 512;
  const std::vector<EagerOperation> rows = eager_operations({"positions"});
  EXPECT_EQ(rows.size(), 2U);
  for (const EagerOperation& row : rows) {
    const Bytes more = row.is_forward ? of_single.forward - of_fused.forward
                                      : of_single.backward - of_fused.backward;
    EXPECT_DOUBLE_EQ(more.value(), (row.bytes - 2.0 * 2) * numbers);
    const double kernels = row.is_forward
                               ? kernels_single.forward.by_host - kernels_fused.forward.by_host
                               : kernels_single.backward.by_host - kernels_fused.backward.by_host;
    EXPECT_EQ(kernels, 2.0 * (row.kernels - 1.0));
  }
}

// Where kernels do it, a layer has the context's transposition, 2 passes over queries each way, the
// split of QKV backward, 2 over all heads, and a gate of 3 and 5.
TEST(EagerOperations, OfHeadsAndGatesMoveWhatPyTorchMoves) {
  const std::vector<EagerOperation> rows = eager_operations({"heads", "gate"});
  EXPECT_EQ(rows.size(), 6U);
  for (const EagerOperation& row : rows) {
    const bool is_heads = row.operation == "heads";
    TransformerConfig model = small_dense_model();
    model.num_query_groups = is_heads ? static_cast<int>(4.0 / row.parts) : 4;
    model = resolved(model, "model");
    const StackSpec fused;
    StackSpec single;
    single.copies_heads = is_heads;
    single.splits_gates = !is_heads;
    const LayerTraffic of_fused = layer_traffic(model, 2, 1, false, fused);
    const LayerTraffic of_single = layer_traffic(model, 2, 1, false, single);
    const Bytes more = row.is_forward ? of_single.forward - of_fused.forward
                                      : of_single.backward - of_fused.backward;
    const double passes_of_fused =
        is_heads ? 2.0 + (row.is_forward ? 0.0 : 2.0 * (1.0 + 2.0 / row.parts))
                 : (row.is_forward ? 3.0 : 5.0);
    const double numbers = 512.0 * (is_heads ? 64 : 192);
    EXPECT_DOUBLE_EQ(more.value(), (row.bytes - 2.0 * passes_of_fused) * numbers) << row.place;
  }
}

// Rows of queries, keys and values are looked up, and attention's are put back: all of 64 features.
TEST(EagerOperations, ByIndexMoveWhatPyTorchMoves) {
  double forward = 0.0;
  double backward = 0.0;
  for (const EagerOperation& row : eager_operations({"look up", "put back"})) {
    const double tensors = row.operation == "look up" ? 3.0 : 1.0;
    (row.is_forward ? forward : backward) += tensors * row.bytes * 64 * 512;
  }
  const TransformerConfig model = resolved(small_dense_model(), "model");
  const LayerTraffic without = layer_traffic(model, 2, 1, false, {});
  const LayerTraffic with = layer_traffic(model, 2, 1, false, {.looks_up_tokens = true});
  EXPECT_EQ(without.looked_up_forward + without.looked_up_backward, Bytes(0.0));
  EXPECT_DOUBLE_EQ((with.forward - without.forward + with.looked_up_forward).value(), forward);
  EXPECT_DOUBLE_EQ((with.backward - without.backward + with.looked_up_backward).value(), backward);
  // Four tensors are copied by index each way, and read and written.
  EXPECT_EQ(with.looked_up_forward, Bytes(4.0 * 2 * 2 * 64 * 512));
  EXPECT_EQ(with.looked_up_backward, with.looked_up_forward);
}

// The two measurements on an H100 that the share was read from, 67 MB in 85 us and 84 MB in 136 us,
// lie this far apart: what is tested is the unit.
TEST(EagerOperations, ByIndexTakeAboutWhatWasMeasured) {
  const GpuSpec gpu = find_gpu("h100-80gb-sxm");
  EXPECT_NEAR(look_up_time(Bytes(4.0 * 4096 * 4096), gpu).value() / 85e-6, 1.0, 0.2);
  EXPECT_NEAR(look_up_time(Bytes(4.0 * 4096 * 5120), gpu).value() / 135.6e-6, 1.0, 0.1);
}

TEST(EagerOperations, ByIndexLengthenAndWidenLayers) {
  Scenario scenario = plain_scenario(small_dense_model());
  const ParallelConfig config{.micro_batch_size = 2};
  const LayerCosts plain = layer_costs(scenario, config, LayerKind{});
  const Bytes kept = kept_by_layer(scenario, config, LayerKind{});
  scenario.stack.looks_up_tokens = true;
  const LayerCosts longer = layer_costs(scenario, config, LayerKind{});
  const double tensor = 2.0 * 64 * 512;  // bytes of queries, of keys, of values, of the output
  const double looked_up = 4.0 * 2 * tensor / 0.2;
  EXPECT_NEAR((longer.forward.total() - plain.forward.total()).value(),
              (looked_up + tensor) / kPlainBandwidth, 1e-15);
  EXPECT_NEAR((longer.backward.total() - plain.backward.total()).value(),
              (looked_up + 3.0 * tensor) / kPlainBandwidth, 1e-15);
  EXPECT_EQ(kept_by_layer(scenario, config, LayerKind{}) - kept, Bytes(tensor));
}

// Attention's output and the projection's input are one for a single sequence. A gate keeps what
// its activation returns, 192 numbers of each token.
TEST(EagerOperations, OfHeadsAndGatesKeepTheirCopies) {
  const auto kept = [](int micro_batch_size, bool copies_heads, bool splits_gates) {
    Scenario scenario = plain_scenario(small_dense_model());
    scenario.stack.copies_heads = copies_heads;
    scenario.stack.splits_gates = splits_gates;
    return kept_by_layer(scenario, {.tp = 2, .micro_batch_size = micro_batch_size}, LayerKind{});
  };
  EXPECT_EQ(kept(1, true, false), kept(1, false, false));
  EXPECT_EQ(kept(2, true, false) - kept(2, false, false), Bytes(2.0 * 512 * 64 / 2));
  EXPECT_EQ(kept(1, false, true) - kept(1, false, false), Bytes(2.0 * 256 * 192 / 2));
}

TEST(EagerOperations, CostNothingWhereKernelsDoThem) {
  const Scenario scenario = oss_scenario(true);
  const auto traffic = expert_bias_traffic(scenario.job.model, scenario.stack, kRows, 128.0);
  EXPECT_EQ(traffic.forward + traffic.backward + traffic.bounds, Bytes(0.0));
  const auto kernels = expert_bias_kernels(scenario.job.model, scenario.stack, 8.0);
  EXPECT_EQ(kernels.forward + kernels.backward + kernels.bounds, 0.0);
  // SwiGLU is bounded within its kernel, and rows without biases have none to add.
  Scenario swiglu = oss_scenario(false);
  swiglu.job.model.activation_func = Activation::kSilu;
  EXPECT_FALSE(bounds_apart(swiglu.job.model, swiglu.stack));
  swiglu.job.model.add_bias_linear = false;
  EXPECT_EQ(expert_bias_traffic(swiglu.job.model, swiglu.stack, kRows, 128.0).forward, Bytes(0.0));
}

// Queries, keys and values of 192 in all, an MLP, two sequences of 256: attention and the MLP
// gather 64 features forward and scatter their gradients backward, and the other way round.
TEST(EagerOperations, AroundCollectivesOfSequencesCopyWhatPyTorchCopies) {
  Scenario scenario = plain_scenario(small_dense_model());
  scenario.stack.copies_sequences = true;
  const ParallelConfig config{.tp = 4, .micro_batch_size = 2, .sequence_parallel = true};
  const SequenceCopies copies = sequence_copies(scenario, config, LayerKind{});
  const double numbers = 2.0 * 64 * 512;
  std::map<std::pair<std::string, bool>, Bytes> copied;  // by whether the pass is forward
  for (const EagerOperation& row : eager_operations({"gather", "scatter"})) {
    copied[{row.operation, row.is_forward}] = Bytes(row.bytes * numbers);
  }
  EXPECT_EQ(copies.gathers, (copied[{"gather", true}]));
  EXPECT_EQ(copies.scatters(), (copied[{"scatter", true}]));
  EXPECT_EQ(copies.out_of_mlp, copies.out_of_attention);
  EXPECT_EQ(copies.backward, (copied[{"gather", false}] + copied[{"scatter", false}]));
  EXPECT_EQ(copies.forward(), Bytes(2.0 * 4 * numbers));

  // What is gathered in 8 bits is copied in 8 bits.
  Scenario in_8_bits = scenario;
  in_8_bits.stack.fp8_recipes = {{.scaling = Fp8Scaling::kCurrent, .gathers_activations = true}};
  in_8_bits.stack.fp8 = Fp8Scaling::kCurrent;
  EXPECT_EQ(sequence_copies(in_8_bits, config, {}).gathers, copies.gathers * 0.5);
  EXPECT_EQ(sequence_copies(in_8_bits, config, {}).scatters(), copies.scatters());
  // Routed experts have collectives of their own.
  EXPECT_EQ(sequence_copies(plain_with_experts(), config, kLayerOfExperts).forward(),
            Bytes(4.0 * numbers));

  for (const ParallelConfig& other :
       {ParallelConfig{.tp = 4, .micro_batch_size = 2}, ParallelConfig{.micro_batch_size = 2}}) {
    EXPECT_EQ(sequence_copies(scenario, other, {}).forward(), Bytes(0.0));
    EXPECT_EQ(sequence_copies(scenario, other, {}).backward, Bytes(0.0));
  }
  scenario.stack.copies_sequences = false;
  EXPECT_EQ(sequence_copies(scenario, config, {}).forward(), Bytes(0.0));
}

// A layer is longer by its copies. Full recomputation that stops early leaves out the MLP's
// scatter, and recomputing every second product all scatters.
TEST(EagerOperations, AroundCollectivesOfSequencesLengthenLayers) {
  const auto costs = [](bool copies_sequences, RecomputeModules modules) {
    Scenario scenario = plain_scenario(small_dense_model());
    scenario.stack.copies_sequences = copies_sequences;
    scenario.stack.recompute_stops_early = true;
    return layer_costs(scenario,
                       {.tp = 4,
                        .micro_batch_size = 2,
                        .recompute = Recompute::kSelective,
                        .recompute_modules = modules,
                        .sequence_parallel = true},
                       LayerKind{});
  };
  const LayerCosts plain = costs(false, {RecomputeModule::kEverySecondProduct});
  const LayerCosts copied = costs(true, {RecomputeModule::kEverySecondProduct});
  const double pass = 2.0 * 64 * 512 / kPlainBandwidth;  // over the whole sequences
  EXPECT_NEAR((copied.forward.total() - plain.forward.total()).value(), 8.0 * pass, 1e-15);
  EXPECT_NEAR((copied.backward.total() - plain.backward.total()).value(), 8.0 * pass, 1e-15);
  EXPECT_NEAR((copied.unrepeated.total() - plain.unrepeated.total()).value(), 2.0 * pass, 1e-15);
  EXPECT_NEAR((copied.selective.total() - plain.selective.total()).value(), 4.0 * pass, 1e-15);
}

// Both passes of a layer grow by what is counted above; recomputing the activation repeats bounds.
TEST(EagerOperations, LengthenLayers) {
  const ParallelConfig config{.micro_batch_size = 2,
                              .recompute = Recompute::kSelective,
                              .recompute_modules = {RecomputeModule::kMoeActivation}};
  const Scenario fused = oss_scenario(true);
  const Scenario single = oss_scenario(false);
  const LayerCosts of_fused = layer_costs(fused, config, kLayerOfExperts);
  const LayerCosts of_single = layer_costs(single, config, kLayerOfExperts);
  const double heads = 2.0 * 64 * 512;
  const double forward = 16.0 * kRows * 128 + 12.0 * kRows * 64 + 20.0 * heads;
  const double backward = 30.0 * kRows * 128 + 16.0 * kRows * 64 + 24.0 * heads;
  EXPECT_NEAR((of_single.forward.total() - of_fused.forward.total()).value(),
              forward / kPlainBandwidth, 1e-15);
  EXPECT_NEAR((of_single.backward.total() - of_fused.backward.total()).value(),
              backward / kPlainBandwidth, 1e-15);
  EXPECT_NEAR((of_single.selective.total() - of_fused.selective.total()).value(),
              16.0 * kRows * 128 / kPlainBandwidth, 1e-15);
}

// The bounded copy of both halves, 2 bytes each, is kept unless the activation is recomputed.
TEST(EagerOperations, KeepWhatTheyBounded) {
  const auto kept = [](bool is_fused, Recompute recompute) {
    const ParallelConfig config{.micro_batch_size = 2,
                                .recompute = recompute,
                                .recompute_modules = {RecomputeModule::kMoeActivation}};
    return kept_by_layer(oss_scenario(is_fused), config, kLayerOfExperts);
  };
  EXPECT_DOUBLE_EQ((kept(false, Recompute::kNone) - kept(true, Recompute::kNone)).value(),
                   2.0 * 2 * kRows * 128);
  EXPECT_EQ(kept(false, Recompute::kSelective), kept(true, Recompute::kSelective));
}

}  // namespace
}  // namespace ptdp
