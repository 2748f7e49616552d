// Whatever is typed as a flag's value is refused or understood: sets of numbers, partial
// configurations.
#include "planner/explain/explain.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::IntegerRanges ranges = ptdp::IntegerRanges::parse(text, 1, 100'000'000, "--tp");
    for (const std::int64_t value : ranges.values(1000)) {
      ptdp::require(ranges.contains(value));
    }
  });
  return ptdp::fuzz(data, size, [](std::string_view text) {
    (void)ptdp::parse_partial_config(text, "--explain");
  });
}
