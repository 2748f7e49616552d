// How fast logs are read. Goal: 100 MB in a second.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "planner/logs/training_log.h"

namespace ptdp {
namespace {

constexpr std::int64_t kBytes = 100'000'000;

/// A file of kBytes: Megatron's lines of progress, each with `others` lines of timers behind it.
class LargeLog {
 public:
  explicit LargeLog(std::int64_t others)
      : path_(std::filesystem::temp_directory_path() /
              ("ptdp-log-" + std::to_string(::getpid()) + ".log")) {
    std::ofstream file(path_, std::ios::binary);
    std::int64_t size = 0;
    for (std::int64_t step = 1; size < kBytes; ++step) {
      std::string text =
          "[default7]: [2026-08-22 10:11:12.500000] iteration       " + std::to_string(step) +
          "/  900000 | consumed samples:        61440 | elapsed time per iteration (ms): 2000.5 | "
          "throughput per GPU (TFLOP/s/GPU): 163.2 | learning rate: 1.500000E-04 | global batch "
          "size:  3072 | lm loss: 7.250000E+00 | loss scale: 65536.0 | grad norm: 1.250 |\n";
      for (std::int64_t i = 0; i < others; ++i) {
        text +=
            "[default0]:time (ms) | forward-compute: 265.42 | forward-recv: 1118.94 | "
            "backward-compute: 462.83 | backward-send: 65.31 | backward-send-forward-recv: "
            "152.65\n";
      }
      file << text;
      size += std::ssize(text);
    }
  }
  LargeLog(const LargeLog&) = delete;
  LargeLog& operator=(const LargeLog&) = delete;
  LargeLog(LargeLog&&) = delete;
  LargeLog& operator=(LargeLog&&) = delete;
  ~LargeLog() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void read_log(benchmark::State& state) {
  const LargeLog log(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(read_training_log(log.path()));
  }
  state.SetBytesProcessed(state.iterations() * kBytes);
}
BENCHMARK(read_log)->Arg(0)->Arg(1)->Arg(20)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ptdp
