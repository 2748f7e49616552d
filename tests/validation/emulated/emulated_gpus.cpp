// The GPUs of a program that emulates them: as many H200s as PTDP_EMULATED_GPUS says, or one. Of
// each, PTDP_EMULATED_TAKEN_MIB of memory are taken by nobody's program.
#include <cuda_runtime_api.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace ptdp {
namespace {

constexpr int kMostGpus = 16;
constexpr int kMultiprocessors = 132;  // those of an H200
constexpr int kMemoryMib = 143'771;    // what its driver reports

/// Returns the number that a variable has, or `otherwise` without it; ends the program for a value
/// that is no number from `least` to `most`.
int number_of(const char* variable, int least, int most, int otherwise) {
  const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) {
    return otherwise;
  }
  const std::string_view text(value);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    const std::string fault = std::string(variable) + ": expected a number from " +
                              std::to_string(least) + " to " + std::to_string(most) + ", got \"" +
                              value + "\"\n";
    static_cast<void>(std::fputs(fault.c_str(), stderr));
    std::_Exit(2);
  }
  return number;
}

/// Set before main(), which knows nothing of emulations.
[[maybe_unused]] const bool kIsSet = [] {
  const int count = number_of("PTDP_EMULATED_GPUS", 1, kMostGpus, 1);
  const int taken = number_of("PTDP_EMULATED_TAKEN_MIB", 0, kMemoryMib, 0);
  emulated_gpu::set_devices(count);
  for (int device = 0; device < count; ++device) {
    emulated_gpu::take_memory_beside(device, std::int64_t{taken} << 20U);
  }
  emulated_gpu::set_identity({.name = "emulated NVIDIA H200", .multiprocessors = kMultiprocessors});
  emulated_gpu::set_memory(std::size_t{kMemoryMib}
                           << 20U);  // which they share, but each says to have all of it
  return true;
}();

}  // namespace
}  // namespace ptdp
