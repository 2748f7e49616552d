// Compares models of Hugging Face's types with what transformers computed of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/open_file.h"
#include "runtime/weights/safetensors_file.h"
#include "tests/runtime/weights/computed_model.h"

namespace ptdp::testing {
namespace {

const std::filesystem::path kGolden =
    std::filesystem::path(PTDP_SOURCE_DIR) / "tests/runtime/weights/transformers/golden";

/// Returns a tensor of a file in f64.
ResultTensor stored(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.tensor(name);
  std::int64_t size = 1;
  for (const std::int64_t dimension : tensor.shape) {
    size *= dimension;
  }
  ResultTensor result{.shape = tensor.shape,
                      .values = std::vector<double>(static_cast<std::size_t>(size))};
  const std::int64_t columns = tensor.shape.back();
  if (tensor.shape.size() <= 2) {
    file.read(name, {.rows = size / columns, .columns = columns, .total_columns = columns},
              {.data = result.values.data(), .size = size, .type = DataType::kFloat64});
  } else {
    // The file ends with the last tensor's data.
    std::int64_t data = 0;
    for (const auto& [unused, other] : file.header().tensors) {
      data = std::max(data, other.end);
    }
    const OpenFile bytes(file.path());
    const std::int64_t begin = bytes.size() - data + tensor.begin;
    if (tensor.type == "F64") {
      bytes.read(begin, std::as_writable_bytes(std::span(result.values)));
    } else {
      std::vector<float> narrow(result.values.size());
      bytes.read(begin, std::as_writable_bytes(std::span(narrow)));
      result.values.assign(narrow.begin(), narrow.end());
    }
  }
  return result;
}

/// Returns the largest difference over the largest expected value.
double relative_difference(const ResultTensor& found, const ResultTensor& expected) {
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    largest = std::max(largest, std::abs(expected.values[i]));
    difference = std::max(difference, std::abs(found.values[i] - expected.values[i]));
  }
  return largest > 0.0 ? difference / largest : difference;
}

double tolerance_of(const std::string& name) {
  if (name.starts_with("grad.")) {
    return 1e-9;
  }
  if (name == "logits_f32") {
    return 1e-4;
  }
  return name == "loss_f32" ? 1e-5 : 1e-10;
}

class Transformers : public ::testing::TestWithParam<const char*> {};

TEST_P(Transformers, ComputeTheSame) {
  const std::filesystem::path directory = kGolden / GetParam();
  const Results results = computed_model(directory);
  const SafetensorsFile expected(directory / "expected.safetensors");
  EXPECT_EQ(results.size(), expected.header().tensors.size());
  for (const auto& [name, unused] : expected.header().tensors) {
    ASSERT_TRUE(results.contains(name)) << name;
    const ResultTensor of_expected = stored(expected, name);
    ASSERT_EQ(results.at(name).shape, of_expected.shape) << name;
    EXPECT_LE(relative_difference(results.at(name), of_expected), tolerance_of(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Transformers,
                         ::testing::Values("llama-3", "mistral-5", "qwen2-4", "qwen3-9", "gemma2-0",
                                           "gpt_neox-8", "phi3-12", "olmo2-1", "gpt2-2",
                                           "nemotron-2", "granite-1", "phi3-32"));

}  // namespace
}  // namespace ptdp::testing
