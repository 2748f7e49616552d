// The GPUs of a program that emulates them: as many H200s as PTDP_EMULATED_GPUS says, or one.
#include <cuda_runtime_api.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace ptdp {
namespace {

constexpr const char* kVariable = "PTDP_EMULATED_GPUS";
constexpr int kMostGpus = 16;
constexpr int kMultiprocessors = 132;                         // those of an H200
constexpr std::size_t kMemory = std::size_t{143'771} << 20U;  // what its driver reports

/// Returns the number of GPUs; ends the program for a value that is none.
int num_gpus() {
  const char* const value = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) {
    return 1;
  }
  const std::string_view text(value);
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMostGpus) {
    const std::string fault = std::string(kVariable) + ": expected a number from 1 to " +
                              std::to_string(kMostGpus) + ", got \"" + value + "\"\n";
    static_cast<void>(std::fputs(fault.c_str(), stderr));
    std::_Exit(2);
  }
  return count;
}

/// Set before main(), which knows nothing of emulations.
[[maybe_unused]] const bool kIsSet = [] {
  const int count = num_gpus();
  emulated_gpu::set_devices(count);
  emulated_gpu::set_identity({.name = "emulated NVIDIA H200", .multiprocessors = kMultiprocessors});
  emulated_gpu::set_memory(kMemory);  // which they share, but each says to have all of it
  return true;
}();

}  // namespace
}  // namespace ptdp
