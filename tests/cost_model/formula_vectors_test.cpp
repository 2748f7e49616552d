// The closed formulas against an independent implementation on random configurations
// (tests/golden/README.md).
#include <gtest/gtest.h>

#include <string>

#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/memory/memory.h"
#include "cost_model/memory/pipeline_formulas.h"
#include "cost_model/network/collectives.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

constexpr double kPrinted = 1e-6;  // the vectors are printed with seven digits

class FormulaVectors : public testing::Test {
 protected:
  [[nodiscard]] double number(const std::string& column) const {
    return parse_number(table_.text(row_, column), 0.0, 1e300, table_.place_of(row_, column));
  }
  [[nodiscard]] int count(const std::string& column) const {
    return static_cast<int>(number(column));
  }
  [[nodiscard]] TransformerConfig model() const {
    TransformerConfig config;
    config.num_layers = count("layers");
    config.hidden_size = count("hidden");
    config.num_attention_heads = count("heads");
    config.vocab_size = count("vocab");
    config.seq_length = count("seq");
    return resolved(config, "vector");
  }
  [[nodiscard]] Recompute recompute() const {
    const std::string text = table_.text(row_, "recompute");
    return text == "none"   ? Recompute::kNone
           : text == "full" ? Recompute::kFull
                            : Recompute::kSelective;
  }
  void expect_ratio_of_one(double value, const std::string& column) const {
    const double expected = number(column);
    EXPECT_NEAR(value, expected, kPrinted * expected) << table_.place_of(row_, column);
  }
  template <class Check>
  void for_each_row(Check check) {
    ASSERT_EQ(table_.num_rows(), 240U);
    for (row_ = 0; row_ < table_.num_rows(); ++row_) {
      check();
    }
  }

 private:
  CsvTable table_ =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/formula_vectors.csv");
  std::size_t row_ = 0;
};

TEST_F(FormulaVectors, Parameters) {
  for_each_row([&] {
    expect_ratio_of_one(sc21_parameter_count(model()), "parameters_eq2");
    EXPECT_EQ(static_cast<double>(parameter_count(model())), number("parameters_exact"));
  });
}

TEST_F(FormulaVectors, Flops) {
  for_each_row([&] {
    expect_ratio_of_one(sc21_flops(model(), count("global_batch")).value(), "flops_full_recompute");
    expect_ratio_of_one(model_flops(model(), count("global_batch")).value(), "flops_model");
  });
}

TEST_F(FormulaVectors, Bubble) {
  for_each_row([&] {
    expect_ratio_of_one(bubble_fraction(count("pp"), count("vpp"), number("num_microbatches")),
                        "bubble_fraction");
  });
}

TEST_F(FormulaVectors, Communication) {
  for_each_row([&] {
    // The vectors count the four all-reduces without recomputation, and one crossing per
    // microbatch.
    expect_ratio_of_one(tensor_parallel_elements(model(), count("micro_batch"), count("tp"),
                                                 Recompute::kNone, false),
                        "tp_elements_per_layer_microbatch");
    expect_ratio_of_one(pipeline_elements(model(), count("micro_batch"), 1, 1), "p2p_elements");
    expect_ratio_of_one(pipeline_elements(model(), count("micro_batch"), 1, count("tp")),
                        "p2p_elements_scatter_gather");
  });
}

TEST_F(FormulaVectors, Activations) {
  for_each_row([&] {
    expect_ratio_of_one(layer_activations(model(), count("micro_batch"), count("tp"), recompute(),
                                          count("sequence_parallel") == 1)
                            .value(),
                        "activation_bytes_per_layer");
    const double layers_per_chunk = 1.0 * count("layers") / count("pp") / count("vpp");
    expect_ratio_of_one(layers_per_chunk * chunks_in_flight(count("pp"), count("vpp"), 0,
                                                            number("num_microbatches")),
                        "layers_in_flight_first_stage");
  });
}

TEST_F(FormulaVectors, ModelState) {
  for_each_row([&] {
    TransformerConfig unpadded = model();
    ParallelConfig config;
    config.tp = count("tp");
    config.pp = count("pp");
    // The vectors neither pad the vocabulary nor count the final norm.
    unpadded.vocab_size = 0;
    const double embedding = number("vocab") * unpadded.hidden_size / config.tp;
    const double norm = config.pp == 1 ? 2.0 * unpadded.hidden_size : 0.0;
    expect_ratio_of_one(rank_parameters(unpadded, config, 0).total() - norm + embedding,
                        "parameters_fullest_gpu");
    const StackSpec stack{.weight_bytes = 2.0, .gradient_bytes = 4.0, .optimizer_bytes = 12.0};
    expect_ratio_of_one(
        model_state(stack, {.dp = count("dp"), .zero_stage = count("distributed_optimizer")},
                    {.dense = 1.0}, {})
            .value(),
        "state_bytes_per_parameter");
  });
}

}  // namespace
}  // namespace ptdp
