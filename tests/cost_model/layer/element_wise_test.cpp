// Tests of the time of element-wise operations, one by one.
#include "cost_model/layer/element_wise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "cost_model/layer/element_wise_operations.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

constexpr double kOneLatency = 1e-3;  // so long that every operation counts

/// Returns a model with two heads of four features, an MLP of 24 and 16 tokens.
TransformerConfig narrow_model() {
  return {.num_layers = 2,
          .hidden_size = 8,
          .num_attention_heads = 2,
          .ffn_hidden_size = 24,
          .vocab_size = 1000,
          .seq_length = 16};
}

/// Returns a scenario without measured operations, so that an operation takes its passes over
/// memory and its latency.
Scenario without_measurements(const TransformerConfig& model) {
  Scenario scenario = plain_scenario(model);
  scenario.cluster.gpu.kernel_latency = Seconds(kOneLatency);
  scenario.cluster.gpu.memory_bandwidth = BytesPerSecond(1.0);
  return scenario;
}

/// Returns the time of one operation on two-byte elements at 1 B/s.
double time_of_passes(double passes, double rows, double width) {
  return passes * rows * width * 2.0 + kOneLatency;
}

// Three sequences, sequence parallelism over two ranks: 48 rows, of which a rank has 24.
constexpr double kAllRows = 48.0;
constexpr double kOwnRows = 24.0;
constexpr double kFeatures = 8.0;
const ParallelConfig kTwoRanks = {.tp = 2, .micro_batch_size = 3, .sequence_parallel = true};

void expect_time(Seconds time, double expected) {
  EXPECT_NEAR(time.value(), expected, 1e-9 * expected);
}

// QKV of 3·8/2 columns, an MLP of 24/2; what is gathered is copied first: one copy for each of the
// two gathers of a pass.
TEST(ElementWiseTime, OfALayerIsThatOfItsOperationsOneByOne) {
  const ElementWiseTime time =
      layer_element_wise_time(without_measurements(narrow_model()), kTwoRanks);
  const double copy = time_of_passes(2, kOwnRows, kFeatures);
  const double norm = time_of_passes(2, kOwnRows, kFeatures);
  const double dropout_add = time_of_passes(3, kOwnRows, kFeatures);
  const double sum_and_norm = time_of_passes(4, kOwnRows, kFeatures);  // in the middle
  expect_time(time.forward, 2.0 * copy + norm + sum_and_norm + dropout_add +
                                time_of_passes(3, kAllRows, 12.0) +
                                time_of_passes(2, kAllRows, 12.0));
  const double bias_gradients =
      2.0 * time_of_passes(1, kAllRows, 12.0) + 2.0 * time_of_passes(1, kOwnRows, kFeatures);
  expect_time(time.weight_gradient, 2.0 * copy + bias_gradients);
  expect_time(time.backward - time.weight_gradient,
              time_of_passes(3, kAllRows, 12.0) + 2.0 * time_of_passes(4, kOwnRows, kFeatures) +
                  2.0 * time_of_passes(2, kOwnRows, kFeatures));
}

// A layer without biases, dropout and sequence parallelism has two norms, one of them with its sum,
// another sum with a residual, and an activation. Their gradients follow, of which none waits with
// the weights'.
TEST(ElementWiseTime, OfALayerWithoutBiasesLeavesTheirOperationsOut) {
  TransformerConfig model = narrow_model();
  model.add_bias_linear = false;
  model.dropout = false;
  const ParallelConfig two{.tp = 2, .micro_batch_size = 3};
  const ElementWiseTime time = layer_element_wise_time(without_measurements(model), two);
  const double rows = time_of_passes(2, kAllRows, kFeatures) +
                      time_of_passes(4, kAllRows, kFeatures) +
                      time_of_passes(3, kAllRows, kFeatures);
  expect_time(time.forward, rows + time_of_passes(3, kAllRows, 12.0));
  EXPECT_EQ(time.weight_gradient, Seconds(0.0));
  expect_time(time.backward,
              time_of_passes(3, kAllRows, 12.0) + 2.0 * time_of_passes(4, kAllRows, kFeatures));
  model.add_qkv_bias = true;
  const ElementWiseTime with_bias = layer_element_wise_time(without_measurements(model), two);
  expect_time(with_bias.forward - time.forward, time_of_passes(2, kAllRows, 12.0));
  expect_time(with_bias.weight_gradient, time_of_passes(1, kAllRows, 12.0));
}

// Epilogues launch nothing and have no latency. GELU's input, 24 wide, is written forward and read
// backward, which is time of the products; biases and their gradients pass over nothing.
TEST(ElementWiseTime, OfEpiloguesIsThatOfTheInputOfGelu) {
  const ParallelConfig alone{.micro_batch_size = 3};
  Scenario scenario = without_measurements(narrow_model());
  scenario.stack.fused_epilogues = true;
  scenario.stack.fused_bias_gradients = true;
  const ElementWiseTime time = layer_element_wise_time(scenario, alone);
  const double gelu = time_of_passes(1, kAllRows, 24.0) - kOneLatency;
  expect_time(time.forward_epilogues, gelu);
  expect_time(time.backward_epilogues, gelu);
  expect_time(time.forward, time_of_passes(2, kAllRows, kFeatures) +
                                time_of_passes(4, kAllRows, kFeatures) +
                                time_of_passes(3, kAllRows, kFeatures));
  expect_time(time.backward, 2.0 * time_of_passes(4, kAllRows, kFeatures) +
                                 2.0 * time_of_passes(2, kAllRows, kFeatures));
  EXPECT_EQ(time.weight_gradient, Seconds(0.0));

  // In 32 bits GELU is an operation of its own. All else has twice as many bytes.
  scenario.stack.precision = Precision::kFp32;
  const ElementWiseTime wide = layer_element_wise_time(scenario, alone);
  expect_time(wide.forward, 2.0 * time.forward.value() - 3.0 * kOneLatency +
                                2.0 * time_of_passes(3, kAllRows, 24.0) - kOneLatency);
  EXPECT_EQ(wide.forward_epilogues, Seconds(0.0));
  EXPECT_EQ(wide.backward_epilogues, Seconds(0.0));
  EXPECT_EQ(wide.weight_gradient, Seconds(0.0));
  scenario.stack.precision = Precision::kBf16;

  // ReLU has no epilogue here, and reads its bias by itself; nor has GELU of rows of 12 elements.
  const double activation = time_of_passes(3, kAllRows, 24.0);
  scenario.job.model.activation_func = Activation::kRelu;
  const ElementWiseTime relu = layer_element_wise_time(scenario, alone);
  expect_time(relu.forward - time.forward, activation);
  expect_time(relu.backward - time.backward, activation);
  EXPECT_EQ(relu.forward_epilogues, Seconds(0.0));
  scenario.job.model.activation_func = {};
  const ElementWiseTime narrow =
      layer_element_wise_time(scenario, {.tp = 2, .micro_batch_size = 3});
  expect_time(narrow.forward, time.forward.value() + time_of_passes(3, kAllRows, 12.0));

  // With sequence parallelism the biases behind sums over ranks have gradients of a rank's rows.
  const ElementWiseTime split = layer_element_wise_time(scenario, kTwoRanks);
  expect_time(split.weight_gradient, 2.0 * time_of_passes(2, kOwnRows, kFeatures) +
                                         2.0 * time_of_passes(1, kOwnRows, kFeatures));

  // Sums of bias gradients may be kernels of their own: of QKV and of the MLP's products, 24 wide
  // each, and of the two ends of branches, where dropout changes the gradients on their way.
  scenario.stack.fused_bias_gradients = false;
  const ElementWiseTime apart = layer_element_wise_time(scenario, alone);
  EXPECT_EQ(apart.forward, time.forward);
  expect_time(apart.weight_gradient, 2.0 * time_of_passes(1, kAllRows, 24.0) +
                                         2.0 * time_of_passes(1, kAllRows, kFeatures));
  EXPECT_EQ(apart.backward_epilogues, time.backward_epilogues);

  // Without dropout the norms in front of branches sum the gradients at their ends as they read
  // them.
  scenario.job.model.dropout = false;
  const ElementWiseTime within = layer_element_wise_time(scenario, alone);
  expect_time(within.weight_gradient, 2.0 * time_of_passes(1, kAllRows, 24.0));
  expect_time(within.backward - within.weight_gradient,
              2.0 * time_of_passes(4, kAllRows, kFeatures));
}

// Sums of f32 in 96 KiB of shared memory: three of layer norms, two of RMS norms.
TEST(ElementWiseTime, OfBiasGradientsAtTheEndsOfBranchesFollowsTheWidthThatNormsCanSum) {
  using enum DeviceOperation;
  TransformerConfig model = narrow_model();
  model.dropout = false;
  const auto count = [&](DeviceOperation kind, double width) {
    const TransformerConfig whole = plain_scenario(model).job.model;
    return std::ranges::count_if(layer_operations(whole, {}, {}),
                                 [&](const ElementWiseOperation& each) {
                                   return each.operation == kind && each.sizes[1] == width;
                                 });
  };
  model.hidden_size = 8192;
  EXPECT_EQ(count(kLayerNormBackwardBias, 8192), 2);
  EXPECT_EQ(count(kBiasGradient, 8192), 0);
  model.hidden_size = 8200;
  EXPECT_EQ(count(kLayerNormBackward, 8200), 2);
  EXPECT_EQ(count(kBiasGradient, 8200), 2);
  model.normalization = Normalization::kRmsNorm;
  EXPECT_EQ(count(kRmsNormBackwardBias, 8200), 2);
  model.hidden_size = 12288;
  EXPECT_EQ(count(kRmsNormBackwardBias, 12288), 2);
  model.hidden_size = 12296;
  EXPECT_EQ(count(kRmsNormBackward, 12296), 2);
  model.add_bias_linear = false;
  model.hidden_size = 8;
  EXPECT_EQ(count(kRmsNormBackward, 8), 2);
  model.add_mlp_bias = true;
  EXPECT_EQ(count(kRmsNormBackwardBias, 8), 1);
}

TEST(ElementWiseTime, OfTheEmbeddingIsThatOfItsOperationsOneByOne) {
  const double copy = time_of_passes(2, kOwnRows, kFeatures);
  const double rows = time_of_passes(2, kAllRows, kFeatures);
  const double gradient = time_of_passes(3, kAllRows, kFeatures);
  const ElementWiseTime time =
      embedding_element_wise_time(without_measurements(narrow_model()), kTwoRanks);
  expect_time(time.forward, rows + copy + 2.0 * time_of_passes(2, kOwnRows, kFeatures));
  expect_time(time.weight_gradient, copy + gradient + time_of_passes(1, kAllRows, kFeatures));
  expect_time(time.backward - time.weight_gradient, time_of_passes(2, kOwnRows, kFeatures));

  TransformerConfig rotary = narrow_model();
  rotary.position_embedding = PositionEmbedding::kRope;  // and no dropout
  const ElementWiseTime without =
      embedding_element_wise_time(without_measurements(rotary), kTwoRanks);
  expect_time(without.forward, rows + copy);
  expect_time(without.weight_gradient, copy + gradient);
  EXPECT_EQ(without.backward, without.weight_gradient);
}

// 1000 tokens padded to 1024, 512 on each of two ranks. The gradient of the normed rows is cleared
// before products add to it.
TEST(ElementWiseTime, OfTheLogitsIsThatOfItsOperationsOneByOne) {
  const ElementWiseTime time =
      logits_element_wise_time(without_measurements(narrow_model()), kTwoRanks);
  expect_time(time.forward,
              time_of_passes(2, kOwnRows, kFeatures) + time_of_passes(2, kAllRows, 512.0));
  expect_time(time.backward, time_of_passes(2, kAllRows, 512.0) +
                                 time_of_passes(1, kOwnRows, kFeatures) +
                                 time_of_passes(4, kOwnRows, kFeatures));
  EXPECT_EQ(time.weight_gradient, Seconds(0.0));
}

/// Returns a model like Llama: two heads of four features, of which one is a key head, gates, RMS
/// norms, rotary positions, and no biases or dropout.
TransformerConfig narrow_llama() {
  TransformerConfig model = narrow_model();
  model.num_query_groups = 1;
  model.kv_channels = 4;
  model.gated_linear_unit = true;
  model.add_bias_linear = false;
  model.position_embedding = PositionEmbedding::kRope;
  model.normalization = Normalization::kRmsNorm;
  return model;
}

// Three heads turn, forth and back. Gates and values are read, and their product is written;
// backward, three are read and two written. Each of the two branches ends with a sum of two
// operands, whose gradient passes through; the first sum is normed as it is made.
TEST(ElementWiseTime, OfALlamaIsThatOfItsOperationsOneByOne) {
  const ParallelConfig alone{.micro_batch_size = 3};
  const ElementWiseTime time = layer_element_wise_time(without_measurements(narrow_llama()), alone);
  const double turn = time_of_passes(2, 3.0 * kAllRows, 4.0);
  expect_time(time.forward, time_of_passes(2, kAllRows, kFeatures) +
                                time_of_passes(4, kAllRows, kFeatures) +
                                time_of_passes(3, kAllRows, kFeatures) + turn +
                                time_of_passes(3, kAllRows, 24.0));
  expect_time(time.backward, 2.0 * time_of_passes(4, kAllRows, kFeatures) + turn +
                                 time_of_passes(5, kAllRows, 24.0));
  EXPECT_EQ(time.weight_gradient, Seconds(0.0));
}

// Sequence parallelism gathers the gradient at the end of each branch from a buffer of its own. Of
// parallel branches whose weight gradients wait each keeps the gradient behind both.
TEST(ElementWiseTime, HasCopiesOfGradientsThatAreGatheredOrKeptTwice) {
  TransformerConfig model = narrow_llama();
  model.num_query_groups = 2;
  const auto input_gradient = [&](const ParallelConfig& config) {
    const ElementWiseTime time = layer_element_wise_time(without_measurements(model), config);
    return time.backward - time.weight_gradient;
  };
  expect_time(
      input_gradient(kTwoRanks),
      2.0 * (time_of_passes(4, kOwnRows, kFeatures) + time_of_passes(2, kOwnRows, kFeatures)) +
          time_of_passes(2, 2.0 * kAllRows, 4.0) + time_of_passes(5, kAllRows, 12.0));
  const ParallelConfig at_once{.micro_batch_size = 3};
  const ParallelConfig waiting{.micro_batch_size = 3, .schedule = ScheduleKind::kZbH1};
  EXPECT_EQ(input_gradient(waiting), input_gradient(at_once));
  model.parallel_residual = true;
  expect_time(input_gradient(waiting) - input_gradient(at_once),
              time_of_passes(2, kAllRows, kFeatures));
}

// Qwen3's norms take a head each; OLMo 2's take all heads of a token.
TEST(ElementWiseTime, OfNormsOfHeadsFollowsTheirWidth) {
  const ParallelConfig alone{.micro_batch_size = 3};
  TransformerConfig model = narrow_llama();
  const ElementWiseTime without = layer_element_wise_time(without_measurements(model), alone);
  model.qk_layernorm = true;
  const ElementWiseTime by_head = layer_element_wise_time(without_measurements(model), alone);
  expect_time(by_head.forward - without.forward,
              time_of_passes(2, 2.0 * kAllRows, 4.0) + time_of_passes(2, kAllRows, 4.0));
  expect_time(by_head.backward - without.backward,
              time_of_passes(4, 2.0 * kAllRows, 4.0) + time_of_passes(4, kAllRows, 4.0));
  model.qk_layernorm_width = QkNormWidth::kAllHeads;
  const std::vector<ElementWiseOperation> list = layer_operations(model, alone, {});
  const auto norms = [&](double rows, double width) {
    return std::ranges::count_if(list, [&](const ElementWiseOperation& each) {
      return each.operation == DeviceOperation::kRmsNorm &&
             each.sizes == OperationSizes{rows, width, 1.0};
    });
  };
  EXPECT_EQ(norms(kAllRows, 8.0), 2) << "one of hidden states, and one of queries";
  EXPECT_EQ(norms(kAllRows, 4.0), 1) << "of keys";
}

// Gemma 2's branches end with a norm behind which the residual is added. OLMo 2's have no norm in
// front, and add their gradient to the residual's.
TEST(ElementWiseTime, OfNormsBehindBranchesHasTheirSums) {
  const ParallelConfig alone{.micro_batch_size = 3};
  TransformerConfig model = narrow_llama();
  const ElementWiseTime before = layer_element_wise_time(without_measurements(model), alone);
  model.norm_placement = NormPlacement::kBeforeAndBehind;
  const double norm = time_of_passes(2, kAllRows, kFeatures);
  const double norm_backward = time_of_passes(4, kAllRows, kFeatures);
  const double add = time_of_passes(3, kAllRows, kFeatures);
  const double pass = time_of_passes(2, kAllRows, kFeatures);
  const ElementWiseTime both = layer_element_wise_time(without_measurements(model), alone);
  expect_time(both.forward - before.forward, 2.0 * norm);
  expect_time(both.backward - before.backward, 2.0 * norm_backward);
  model.norm_placement = NormPlacement::kBehind;
  const ElementWiseTime behind = layer_element_wise_time(without_measurements(model), alone);
  expect_time(both.forward - behind.forward,
              norm + time_of_passes(4, kAllRows, kFeatures) - add);  // one norm is with its sum
  expect_time(both.backward - behind.backward, 2.0 * (norm_backward - add));
  // A factor of branches costs a pass over a gradient that a norm behind the branch gets.
  model.residual_multiplier = 0.22;
  const ElementWiseTime scaled = layer_element_wise_time(without_measurements(model), alone);
  EXPECT_EQ(scaled.forward, behind.forward);
  expect_time(scaled.backward - behind.backward, 2.0 * pass);
  // So it does where the gradient of a branch's result would pass through.
  model.norm_placement = NormPlacement::kBefore;
  expect_time(
      layer_element_wise_time(without_measurements(model), alone).backward - before.backward,
      2.0 * pass);
}

// The factor of embeddings scales a rank's rows, and then the gradients of all rows. Gemma 2 caps
// 512 logits of a rank; Cohere's are scaled.
TEST(ElementWiseTime, OfTheEndsHasFactorsAndCaps) {
  TransformerConfig model = narrow_llama();
  const ElementWiseTime embedding =
      embedding_element_wise_time(without_measurements(model), kTwoRanks);
  const ElementWiseTime logits = logits_element_wise_time(without_measurements(model), kTwoRanks);
  model.embedding_multiplier = 2.0;
  model.final_logit_softcapping = 30.0;
  model.logits_multiplier = 0.5;
  const ElementWiseTime scaled =
      embedding_element_wise_time(without_measurements(model), kTwoRanks);
  expect_time(scaled.forward - embedding.forward, time_of_passes(2, kOwnRows, kFeatures));
  expect_time(scaled.weight_gradient - embedding.weight_gradient,
              time_of_passes(2, kAllRows, kFeatures));
  const ElementWiseTime capped = logits_element_wise_time(without_measurements(model), kTwoRanks);
  expect_time(capped.forward - logits.forward, 2.0 * time_of_passes(2, kAllRows, 512.0));
  EXPECT_EQ(capped.backward, logits.backward);
}

// Branches that both take the layer's input have no norm of their sums. Of the embedding's sum,
// and of a layer's last one, the next layer computes the norm.
TEST(ElementWiseTime, OfParallelBranchesHasNormsAndSumsApart) {
  const ParallelConfig alone{.micro_batch_size = 3};
  TransformerConfig model = narrow_llama();
  const ElementWiseTime in_turn = layer_element_wise_time(without_measurements(model), alone);
  model.parallel_residual = true;
  const ElementWiseTime parallel = layer_element_wise_time(without_measurements(model), alone);
  expect_time(parallel.forward - in_turn.forward, time_of_passes(2, kAllRows, kFeatures) +
                                                      time_of_passes(3, kAllRows, kFeatures) -
                                                      time_of_passes(4, kAllRows, kFeatures));
  EXPECT_EQ(parallel.backward, in_turn.backward);
  // A norm that both share is computed once, and its gradient; the branches' gradients are summed.
  model.shared_residual_norm = true;
  const ElementWiseTime shared = layer_element_wise_time(without_measurements(model), alone);
  expect_time(parallel.forward - shared.forward, time_of_passes(2, kAllRows, kFeatures));
  expect_time(parallel.backward - shared.backward,
              time_of_passes(4, kAllRows, kFeatures) - time_of_passes(3, kAllRows, kFeatures));
}

// A profile from before there was the operation has its parts: they take 100 s each.
TEST(ElementWiseTime, OfASumWithItsNormIsThatOfBothWhereOnlyTheyWereMeasured) {
  using enum DeviceOperation;
  for (const auto& [both, sum, norm] : {std::tuple(kSumLayerNorm, kBiasAdd, kLayerNorm),
                                        {kSumRmsNorm, kAdd, kRmsNorm},
                                        {kDropoutSumLayerNorm, kBiasDropoutAdd, kLayerNorm},
                                        {kDropoutSumRmsNorm, kBiasDropoutAdd, kRmsNorm},
                                        {kLayerNormBackwardBias, kBiasGradient, kLayerNormBackward},
                                        {kRmsNormBackwardBias, kBiasGradient, kRmsNormBackward}}) {
    SCOPED_TRACE(name_of(both));
    GpuSpec gpu = without_measurements(narrow_model()).cluster.gpu;
    const auto measure = [&](DeviceOperation kind, double time) {
      const OperationSizes sizes = element_wise_sizes(kind, 6.0, 10.0);
      gpu.measured_operations.emplace_back(
          kind, Precision::kBf16,
          std::vector<MeasuredOperation::Point>{
              {.sizes = sizes, .time = Seconds(time)},
              {.sizes = {sizes[0], 2.0 * sizes[1], 1.0}, .time = Seconds(1.5 * time)}},
          "test");
    };
    const auto time = [&, both = both] {
      return element_wise_time(both, 6.0, 10.0, gpu, Precision::kBf16);
    };
    measure(norm, 100.0);
    expect_time(time(), time_of_passes(4, 6.0, 10.0));
    measure(sum, 100.0);
    expect_time(time(), 200.0);
    measure(both, 120.0);
    expect_time(time(), 120.0);
  }
}

TEST(OptimizerPasses, ReadSquaresOnceAndUpdateInSeven) {
  const OptimizerPasses passes = optimizer_passes(without_measurements(narrow_model()), 1000.0);
  expect_time(passes.norm, time_of_passes(1, 1.0, 1000.0));
  expect_time(passes.step, time_of_passes(7, 1.0, 1000.0));
}

// Flat operations depend on the number of elements alone: 6 rows of 10 are measured as one of 60.
TEST(ElementWiseTime, IsWhatWasMeasuredOfAsManyElements) {
  Scenario scenario = without_measurements(narrow_model());
  GpuSpec& gpu = scenario.cluster.gpu;
  const auto measure = [&](DeviceOperation kind, double rows, double width) {
    gpu.measured_operations.emplace_back(
        kind, Precision::kBf16,
        std::vector<MeasuredOperation::Point>{
            {.sizes = {rows, width, 1.0}, .time = Seconds(100.0)},
            {.sizes = {2.0 * rows, width, 1.0}, .time = Seconds(150.0)}},
        "test");
  };
  const std::vector<DeviceOperation> flat = {
      DeviceOperation::kCopy,       DeviceOperation::kFill,  DeviceOperation::kGeluBackward,
      DeviceOperation::kAdd,        DeviceOperation::kScale, DeviceOperation::kSoftCap,
      DeviceOperation::kAddSquares, DeviceOperation::kAdamW, DeviceOperation::kGeluEpilogue};
  const std::vector<DeviceOperation> by_rows = {DeviceOperation::kLayerNorm,
                                                DeviceOperation::kLayerNormBackward,
                                                DeviceOperation::kLayerNormBackwardBias,
                                                DeviceOperation::kRmsNorm,
                                                DeviceOperation::kRmsNormBackward,
                                                DeviceOperation::kRmsNormBackwardBias,
                                                DeviceOperation::kRowProducts,
                                                DeviceOperation::kRotary,
                                                DeviceOperation::kGatedActivation,
                                                DeviceOperation::kGatedActivationBackward,
                                                DeviceOperation::kBias,
                                                DeviceOperation::kBiasGradient,
                                                DeviceOperation::kBiasGelu,
                                                DeviceOperation::kBiasAdd,
                                                DeviceOperation::kBiasDropoutAdd,
                                                DeviceOperation::kSumLayerNorm,
                                                DeviceOperation::kSumRmsNorm,
                                                DeviceOperation::kDropoutSumLayerNorm,
                                                DeviceOperation::kDropoutSumRmsNorm,
                                                DeviceOperation::kDropoutBackward,
                                                DeviceOperation::kEmbedding,
                                                DeviceOperation::kEmbeddingGradient,
                                                DeviceOperation::kPositions,
                                                DeviceOperation::kPositionGradient,
                                                DeviceOperation::kCrossEntropy,
                                                DeviceOperation::kCrossEntropyBackward};
  for (const DeviceOperation kind : flat) {
    measure(kind, 1.0, 60.0);
  }
  for (const DeviceOperation kind : by_rows) {
    measure(kind, 6.0, 10.0);
  }
  for (const auto& kinds : {flat, by_rows}) {
    for (const DeviceOperation kind : kinds) {
      EXPECT_NEAR(element_wise_time(kind, 6.0, 10.0, gpu, Precision::kBf16).value(), 100.0, 1e-9)
          << name_of(kind);
    }
  }
  // Another precision was not measured: four bytes an element.
  EXPECT_NEAR(element_wise_time(DeviceOperation::kBias, 6.0, 10.0, gpu, Precision::kFp32).value(),
              2.0 * 60.0 * 4.0 + kOneLatency, 1e-9);
}

}  // namespace
}  // namespace ptdp
