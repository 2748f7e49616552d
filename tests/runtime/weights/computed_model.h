// Computes a model of Hugging Face with the runtime's layers, as tests compare it with
// transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ptdp::testing {

/// A tensor of results.
struct ResultTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// Results by the names that tests/runtime/weights/transformers/README.md gives them.
using Results = std::map<std::string, ResultTensor>;

/// Computes the model of a directory on its tokens: logits, mean loss and gradients in f64, and the
/// first two in f32 too. Throws Error for a directory that is at fault.
[[nodiscard]] Results computed_model(const std::filesystem::path& directory);

}  // namespace ptdp::testing
