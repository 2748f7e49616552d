// Computes the model of a directory for tests/runtime/weights/transformers/check_live.py.
// usage: compute_model DIRECTORY, which gets results.safetensors
#include <cstdio>
#include <exception>
#include <filesystem>

#include "runtime/weights/safetensors_writer.h"
#include "tests/runtime/weights/computed_model.h"

namespace {

bool is_f32(const std::string& name) {
  return name.ends_with("_f32");
}

}  // namespace

int main(int count, char** words) try {
  if (count != 2) {
    std::fputs("usage: compute_model DIRECTORY\n", stderr);
    return 2;
  }
  using namespace ptdp;
  const std::filesystem::path directory = words[1];
  const testing::Results results = testing::computed_model(directory);
  std::vector<NewTensor> tensors;
  for (const auto& [name, tensor] : results) {
    // Files have one or two dimensions here; the reader knows the third.
    std::vector<std::int64_t> shape = tensor.shape;
    if (shape.size() == 3) {
      shape = {shape[0] * shape[1], shape[2]};
    }
    tensors.push_back({name, is_f32(name) ? DataType::kFloat32 : DataType::kFloat64, shape});
  }
  const std::filesystem::path part = directory / "results.partial";
  std::filesystem::remove_all(part);
  SafetensorsWriter writer(part, tensors);
  writer.begin();
  for (const auto& [name, tensor] : results) {
    std::vector<double> values = tensor.values;
    const std::int64_t columns = tensor.shape.back();
    writer.write(
        name, {.rows = std::ssize(values) / columns, .columns = columns, .total_columns = columns},
        {.data = values.data(), .size = std::ssize(values), .type = DataType::kFloat64});
  }
  writer.finish(writer.written());
  std::filesystem::rename(part / "model.safetensors", directory / "results.safetensors");
  std::filesystem::remove_all(part);
  return 0;
} catch (const std::exception& fault) {
  std::fprintf(stderr, "compute_model: %s\n", fault.what());
  return 1;
}
