// A file of tokens or an index of any bytes is refused, or lies within its bounds and has only
// tokens of the vocabulary.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cost_model/text/descriptor.h"
#include "runtime/data/megatron_index.h"
#include "runtime/data/token_file.h"
#include "tests/fuzz/fuzzing.h"

namespace ptdp {
namespace {

constexpr int kVocabSize = 50'257;

/// A file that exists only in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : file_(::memfd_create("tokens", 0)) {
    require(::write(file_.get(), content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()));
  }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  Descriptor file_;
};

void check_tokens(const MemoryFile& memory, std::string_view content) {
  const TokenFile file({.path = memory.path()}, kVocabSize);
  const TokenLayout& layout = file.layout();
  require(layout.begin >= 0 && layout.count >= 0);
  require(layout.begin + layout.count * bytes_of(layout.type) ==
          static_cast<std::int64_t>(content.size()));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < kVocabSize);
  }
}

void check_index(const MemoryFile& memory) {
  constexpr std::int64_t data_bytes = 40;  // bytes of the corpus's data
  const MegatronIndex index = read_megatron_index(OpenFile(memory.path()), data_bytes);
  require(index.count * bytes_of(index.type) == data_bytes);
}

}  // namespace
}  // namespace ptdp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ptdp::fuzz(data, size, [](std::string_view content) {
    ptdp::check_tokens(ptdp::MemoryFile(content), content);
  });
  return ptdp::fuzz(data, size,
                    [](std::string_view content) { ptdp::check_index(ptdp::MemoryFile(content)); });
}
