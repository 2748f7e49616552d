// Tests of where parameters lie, and of what a rank keeps of them.
#include "runtime/parameters/parameter_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

std::vector<double> host_copy(Backend& backend, Buffer buffer) {
  std::vector<double> values(static_cast<std::size_t>(buffer.size));
  backend.copy_out(buffer, values.data());
  return values;
}

/// Returns a matrix of 5 rows of 4, of which a store holds a block with two padding rows, among
/// other parameters.
Parameter matrix(std::int64_t first_row, std::int64_t first_column, std::int64_t rows,
                 std::int64_t columns) {
  return {.name = "matrix",
          .block = {.first_row = first_row,
                    .first_column = first_column,
                    .rows = rows,
                    .columns = columns,
                    .total_columns = 4},
          .total_rows = 5,
          .deviation = 0.5};
}

TEST(ParameterStore, LaysGroupsOutOneAfterTheOther) {
  CpuBackend backend;
  ParameterStore store;
  const ParameterId own =
      store.declare({.name = "own", .block = {.rows = 1, .columns = 3, .total_columns = 3}});
  const ParameterId tied = store.declare({.name = "tied",
                                          .block = {.rows = 2, .columns = 2, .total_columns = 2},
                                          .group = GradientGroup::kTied});
  const ParameterId norm = store.declare({.name = "norm",
                                          .block = {.rows = 1, .columns = 5, .total_columns = 5},
                                          .group = GradientGroup::kSummedOverTensor,
                                          .constant = 1.0});
  store.allocate(backend, DataType::kBFloat16, 0, {.group_size = 2});
  EXPECT_EQ(store.first_of(GradientGroup::kTied), 0);
  EXPECT_EQ(store.count_of(GradientGroup::kTied), 4);
  EXPECT_EQ(store.tied_range().first, 0);
  EXPECT_EQ(store.tied_range().count, 128);
  EXPECT_EQ(store.first_of(GradientGroup::kSummedOverTensor), 128);
  EXPECT_EQ(store.count_of(GradientGroup::kSummedOverTensor), 5);
  EXPECT_EQ(store.first_of(GradientGroup::kOwn), 133);
  EXPECT_EQ(store.count_of(GradientGroup::kOwn), 3);
  EXPECT_EQ(store.size(), 256);
  EXPECT_EQ(store.id_of("norm"), norm);
  EXPECT_EQ(store.parameters()[static_cast<std::size_t>(tied)].first, 0);
  EXPECT_EQ(store.weights(own).data, store.all_weights().slice(133, 3).data);
  EXPECT_EQ(store.gradient(norm).data, store.all_gradients().slice(128, 5).data);
  EXPECT_EQ(store.all_weights().type, DataType::kBFloat16);
  EXPECT_EQ(store.all_gradients().type, DataType::kFloat32);
}

// Without a tied table nothing lies before the norms. Where ranks share the work, ranges are
// multiples of 64 elements for each; a rank by itself pads nothing.
TEST(ParameterStore, PadsARangeToAMultipleOf64ElementsForEachRank) {
  CpuBackend backend;
  for (const auto& [count, sharers, size] :
       {std::array{1, 1, 1}, std::array{1, 2, 128}, std::array{129, 2, 256}, std::array{64, 3, 192},
        std::array{193, 3, 384}}) {
    ParameterStore store;
    store.declare({.name = "own",
                   .block = {.rows = 1, .columns = count, .total_columns = count},
                   .total_rows = 1,
                   .constant = 1.0});
    store.allocate(backend, DataType::kFloat64, 0, {.group_size = sharers});
    EXPECT_EQ(store.tied_range().count, 0);
    std::vector<double> expected(static_cast<std::size_t>(size));
    std::fill_n(expected.begin(), count, 1.0);
    EXPECT_EQ(host_copy(backend, store.all_weights()), expected) << count << " of " << sharers;
    EXPECT_EQ(host_copy(backend, store.all_gradients()), std::vector<double>(expected.size()));
  }
}

/// Returns a store of two units, of 300 and 210 elements. Each has a weight and a norm, and the
/// norms come before the weights.
ParameterStore two_units(Backend& backend, const StoreShards& shards) {
  ParameterStore store;
  const auto declare = [&](const char* name, std::int64_t size, GradientGroup group) {
    store.declare({.name = name,
                   .block = {.rows = 1, .columns = size, .total_columns = size},
                   .total_rows = 1,
                   .group = group,
                   .deviation = 1.0});
  };
  declare("a", 200, GradientGroup::kOwn);
  declare("norm of a", 100, GradientGroup::kSummedOverTensor);
  store.begin_unit();
  declare("b", 150, GradientGroup::kOwn);
  declare("norm of b", 60, GradientGroup::kSummedOverTensor);
  store.allocate(backend, DataType::kFloat64, 5, shards);
  return store;
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// For two ranks the units are padded to 384 and 256 elements. Rank 1 has elements 192 to 383 of the
// first, whose elements 0 to 99 are its norm. Of the second it has 128 to 255, in flat coordinates
// 512 to 639.
TEST(ParameterStore, KeepsThisRanksPartOfEachUnit) {
  CpuBackend backend;
  const ParameterStore whole = two_units(backend, {.group_size = 2, .of_gradients = true});
  const std::vector<double> all = host_copy(backend, whole.all_weights());
  ASSERT_EQ(all.size(), 640U);
  for (const auto& [first, end] : {std::pair{300, 384}, std::pair{594, 640}}) {
    EXPECT_TRUE(std::all_of(all.begin() + first, all.begin() + end,
                            [](double value) { return value == 0.0; }));
  }
  const ParameterStore shards = two_units(
      backend, {.group_size = 2, .group_rank = 1, .of_gradients = true, .of_weights = true});
  EXPECT_EQ(shards.size(), 640);
  EXPECT_EQ(host_copy(backend, shards.all_weights()),
            joined({all.begin() + 192, all.begin() + 384}, {all.begin() + 512, all.begin() + 640}));
  EXPECT_EQ(host_copy(backend, shards.all_gradients()), std::vector<double>(192 + 128));
  EXPECT_EQ(host_copy(backend, shards.kept_weights({520, 100})),
            std::vector<double>(all.begin() + 520, all.begin() + 620));
  EXPECT_EQ(shards.kept_gradients({200, 50}).data, shards.all_gradients().slice(8, 50).data);

  const std::vector<Part> summed = shards.summed_over_tensor();
  ASSERT_EQ(summed.size(), 2U);
  EXPECT_EQ(summed[0].count, 0);
  EXPECT_EQ(summed[1].count, 0);
  const std::vector<Part> of_other = whole.summed_over_tensor();
  EXPECT_EQ(of_other[0].first, 0);
  EXPECT_EQ(of_other[0].count, 100);
  EXPECT_EQ(of_other[1].first, 384);
  EXPECT_EQ(of_other[1].count, 60);
}

// Names decide what a parameter begins with, not its place.
TEST(ParameterStore, FindsParametersInWholeUnits) {
  CpuBackend backend;
  const ParameterStore plain = two_units(backend, {});
  ParameterStore shards = two_units(
      backend, {.group_size = 3, .group_rank = 1, .of_gradients = true, .of_weights = true});
  for (int unit = 0; unit < 2; ++unit) {
    const Part range = shards.units()[unit].range;
    shards.whole_weights(unit) = Tensor(backend, DataType::kFloat64, range.count);
    shards.fill_initial(backend, range.first, shards.whole_weights(unit));
    shards.whole_gradients(unit) = Tensor(backend, DataType::kFloat64, range.count);
  }
  for (ParameterId id = 0; id < 4; ++id) {
    EXPECT_EQ(host_copy(backend, shards.weights(id)), host_copy(backend, plain.weights(id))) << id;
  }
  EXPECT_EQ(shards.gradient(2).data, shards.whole_gradients(1).buffer().slice(60, 150).data);
}

TEST(ParameterStore, BeginsWithTheSameNumbersInEveryBlock) {
  CpuBackend backend;
  ParameterStore whole;
  whole.declare(matrix(0, 0, 5, 4));
  whole.allocate(backend, DataType::kFloat64, 7);
  const std::vector<double> all = host_copy(backend, whole.all_weights());

  ParameterStore part;
  part.declare(
      {.name = "other", .block = {.rows = 1, .columns = 3, .total_columns = 3}, .constant = 2.0});
  part.declare(matrix(3, 1, 4, 3));
  part.allocate(backend, DataType::kFloat64, 7, {.group_size = 2});
  std::vector<double> expected = {2.0,     2.0,     2.0,      // the other
                                  all[13], all[14], all[15],  // row 3, columns 1 to 3
                                  all[17], all[18], all[19],  // row 4
                                  0.0,     0.0,     0.0,      // rows that pad
                                  0.0,     0.0,     0.0};
  expected.resize(128);  // what pads the store
  EXPECT_EQ(host_copy(backend, part.all_weights()), expected);
  EXPECT_EQ(host_copy(backend, part.all_gradients()), std::vector<double>(expected.size()));
  // Any range of it again.
  for (std::int64_t first = 0; first < 128; ++first) {
    for (std::int64_t end = first + 1; end <= 128; ++end) {
      const Tensor range(backend, DataType::kFloat64, end - first);
      part.fill_initial(backend, first, range);
      EXPECT_EQ(host_copy(backend, range),
                std::vector<double>(expected.begin() + first, expected.begin() + end));
    }
  }
}

TEST(ParameterStore, GivesOtherNumbersToOtherNamesAndSeeds) {
  CpuBackend backend;
  const auto begin = [&](const char* name, std::uint64_t seed) {
    ParameterStore store;
    Parameter parameter = matrix(0, 0, 5, 4);
    parameter.name = name;
    store.declare(parameter);
    store.allocate(backend, DataType::kFloat64, seed);
    return host_copy(backend, store.all_weights());
  };
  EXPECT_NE(begin("matrix", 7), begin("other", 7));
  EXPECT_NE(begin("matrix", 7), begin("matrix", 8));
  EXPECT_EQ(begin("matrix", 7), begin("matrix", 7));
}

// The names, shapes and spreads of GPT-2 as runtime/model/README.md gives them.
TEST(TransformerStage, DeclaresTheParametersOfGpt2) {
  Task task = small_task();
  task.model.num_layers = 1;
  on_ranks(1, [&](Backend& backend, Communicator& tensor_group) {
    TransformerStage stage(backend, tensor_group, settings_of(task, {}),
                           {.first = 0, .count = 1, .begins_model = true, .ends_model = true},
                           nullptr);
    struct Row {
      const char* name;
      std::int64_t rows, columns;
      double deviation;
      bool decays;
    };
    const double end_of_branch = 0.2 / std::sqrt(2.0);
    const std::vector<Row> expected = {
        {"embedding.word.weight", 128, 20, 0.2, true},
        {"embedding.position.weight", 8, 20, 0.2, true},
        {"final_norm.gamma", 1, 20, 0.0, false},
        {"final_norm.beta", 1, 20, 0.0, false},
        {"layers.0.ln1.gamma", 1, 20, 0.0, false},
        {"layers.0.ln1.beta", 1, 20, 0.0, false},
        {"layers.0.attention.query.weight", 24, 20, 0.2, true},
        {"layers.0.attention.key.weight", 24, 20, 0.2, true},
        {"layers.0.attention.value.weight", 24, 20, 0.2, true},
        {"layers.0.attention.query.bias", 1, 24, 0.0, false},
        {"layers.0.attention.key.bias", 1, 24, 0.0, false},
        {"layers.0.attention.value.bias", 1, 24, 0.0, false},
        {"layers.0.attention.projection.weight", 20, 24, end_of_branch, true},
        {"layers.0.attention.projection.bias", 1, 20, 0.0, false},
        {"layers.0.ln2.gamma", 1, 20, 0.0, false},
        {"layers.0.ln2.beta", 1, 20, 0.0, false},
        {"layers.0.mlp.fc1.weight", 36, 20, 0.2, true},
        {"layers.0.mlp.fc1.bias", 1, 36, 0.0, false},
        {"layers.0.mlp.fc2.weight", 20, 36, end_of_branch, true},
        {"layers.0.mlp.fc2.bias", 1, 20, 0.0, false}};
    const auto parameters = stage.parameters().parameters();
    ASSERT_EQ(parameters.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(parameters[i].name, expected[i].name);
      EXPECT_EQ(parameters[i].block.rows, expected[i].rows) << expected[i].name;
      EXPECT_EQ(parameters[i].block.columns, expected[i].columns) << expected[i].name;
      EXPECT_DOUBLE_EQ(parameters[i].deviation, expected[i].deviation) << expected[i].name;
      EXPECT_EQ(parameters[i].decays, expected[i].decays) << expected[i].name;
    }
  });
}

}  // namespace
}  // namespace ptdp
