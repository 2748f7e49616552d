// A file of safetensors or an index of any bytes is refused, or lies within its bounds: every
// tensor can be read, and every file of an index lies below its directory.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cost_model/text/descriptor.h"
#include "runtime/weights/safetensors_file.h"
#include "runtime/weights/weights_index.h"
#include "tests/fuzz/fuzzing.h"

namespace ptdp {
namespace {

/// A file of safetensors that exists only in memory.
class WeightsInMemory {
 public:
  explicit WeightsInMemory(std::string_view content) : file_(::memfd_create("weights", 0)) {
    require(::write(file_.get(), content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()));
  }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  Descriptor file_;
};

/// Reads a whole tensor as f64. A tensor that cannot be read is refused with an Error.
void read_whole(const SafetensorsFile& file, const std::string& name, const StoredTensor& tensor) {
  const std::int64_t rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  const bool is_small = tensor.end - tensor.begin > 0 && tensor.shape.size() <= 2;
  std::vector<double> values(is_small ? static_cast<std::size_t>(rows * columns) : 0);
  try {
    file.read(name, {.rows = rows, .columns = columns, .total_columns = columns},
              {.data = values.data(),
               .size = static_cast<std::int64_t>(values.size()),
               .type = DataType::kFloat64});
  } catch (const Error&) {
    require(!element_type_of(tensor.type) || tensor.shape.empty() || tensor.shape.size() > 2);
  }
}

void check_file(std::string_view content) {
  const WeightsInMemory memory(content);
  const SafetensorsFile file(memory.path());
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : file.header().tensors) {
    require(tensor.begin >= 0 && tensor.begin <= tensor.end);
    require(tensor.end <= static_cast<std::int64_t>(content.size()));
    bytes += tensor.end - tensor.begin;
    read_whole(file, name, tensor);
  }
  require(bytes <= static_cast<std::int64_t>(content.size()) - kHeaderLengthBytes);
}

void check_weights_index(std::string_view text) {
  const WeightMap files = parse_weights_index(text, "index.json");
  require(!files.empty());
  for (const auto& [name, file] : files) {
    require(!file.starts_with('/') && !file.starts_with("..") &&
            file.find("/..") == std::string::npos && file.find('\0') == std::string::npos);
  }
  require(parse_weights_index(weights_index_text(files, 0), "written.json") == files);
}

}  // namespace
}  // namespace ptdp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ptdp::fuzz(data, size, [](std::string_view content) { ptdp::check_file(content); });
  return ptdp::fuzz(data, size, [](std::string_view text) { ptdp::check_weights_index(text); });
}
