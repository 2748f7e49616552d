// Runs the fuzz targets on their corpora, without libFuzzer: every seed as it is, cut short, and
// with bytes changed. A finding ends the process; the last line before it names the input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

using FuzzTarget = int(const std::uint8_t* data, std::size_t size);

// Each target is compiled with a name of its own in place of libFuzzer's.
extern "C" {
FuzzTarget fuzz_benches;
FuzzTarget fuzz_calibration;
FuzzTarget fuzz_checkpoint;
FuzzTarget fuzz_hardware;
FuzzTarget fuzz_imports;
FuzzTarget fuzz_layers;
FuzzTarget fuzz_logs;
FuzzTarget fuzz_model;
FuzzTarget fuzz_plan;
FuzzTarget fuzz_runs;
FuzzTarget fuzz_schedule;
FuzzTarget fuzz_tokens;
FuzzTarget fuzz_trace;
FuzzTarget fuzz_weights;
FuzzTarget fuzz_words;
}

namespace ptdp {
namespace {

namespace fs = std::filesystem;

// Variants of each seed, and of all seeds of a corpus, of which each has kLeastVariants at least.
constexpr std::size_t kMostVariants = 24;
constexpr std::size_t kVariantsOfCorpus = 240;
constexpr std::size_t kLeastVariants = 6;
constexpr std::size_t kLargestSeed = 100'000;

struct Corpus {
  std::string name;
  FuzzTarget* target;
  /// Directories of the corpus, relative to the source tree.
  std::vector<std::string> directories;
};

const std::vector<Corpus>& corpora() {
  static const std::vector<Corpus> all = {
      {"Benches", fuzz_benches, {"tests/fuzz/corpus/benches"}},
      {"Calibration", fuzz_calibration, {"tests/fuzz/corpus/calibration"}},
      {"Checkpoint", fuzz_checkpoint, {"tests/fuzz/corpus/checkpoint"}},
      {"Hardware",
       fuzz_hardware,
       {"profiles/clusters", "profiles/gpus", "profiles/stacks", "profiles/curves"}},
      {"Imports", fuzz_imports, {"tests/fuzz/corpus/imports"}},
      {"Layers", fuzz_layers, {"tests/fuzz/corpus/layers"}},
      {"Logs", fuzz_logs, {"tests/fuzz/corpus/logs"}},
      {"Model", fuzz_model, {"tests/fuzz/corpus/model", "profiles/models"}},
      {"Plan", fuzz_plan, {"tests/fuzz/corpus/plan"}},
      {"Runs", fuzz_runs, {"tests/fuzz/corpus/runs", "profiles/published"}},
      {"Schedule", fuzz_schedule, {"tests/fuzz/corpus/schedule"}},
      {"Tokens", fuzz_tokens, {"tests/fuzz/corpus/tokens"}},
      {"Trace", fuzz_trace, {"tests/fuzz/corpus/trace"}},
      {"Weights", fuzz_weights, {"tests/fuzz/corpus/weights"}},
      {"Words", fuzz_words, {"tests/fuzz/corpus/words"}}};
  return all;
}

std::vector<fs::path> seeds_of(const Corpus& corpus) {
  std::vector<fs::path> seeds;
  for (const std::string& directory : corpus.directories) {
    for (const auto& entry : fs::directory_iterator(fs::path(PTDP_SOURCE_DIR) / directory)) {
      if (entry.is_regular_file()) {
        seeds.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(seeds);
  return seeds;
}

std::vector<std::uint8_t> content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> content{std::istreambuf_iterator<char>(file), {}};
  content.resize(std::min(content.size(), kLargestSeed));
  return content;
}

/// Returns a number below `below` that looks random but follows from `seed`.
std::size_t drawn(std::size_t seed, std::size_t below) {
  std::uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 31U)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::size_t>((x ^ (x >> 29U)) % below);
}

class Corpora : public testing::TestWithParam<Corpus> {};

TEST_P(Corpora, AreReadOrRefused) {
  const Corpus& corpus = GetParam();
  const std::vector<fs::path> seeds = seeds_of(corpus);
  ASSERT_FALSE(seeds.empty());
  const std::size_t variants =
      std::clamp(kVariantsOfCorpus / seeds.size(), kLeastVariants, kMostVariants);
  std::size_t number = 0;  // of a variant, so that those of each seed are others
  for (const fs::path& seed : seeds) {
    const std::vector<std::uint8_t> whole = content_of(seed);
    std::cerr << seed.filename().string() << '\n';
    EXPECT_EQ(corpus.target(whole.data(), whole.size()), 0);
    for (std::size_t i = 0; i < variants && !whole.empty(); ++i, ++number) {
      const std::size_t place = drawn(2 * number, whole.size());
      EXPECT_EQ(corpus.target(whole.data(), place), 0);
      std::vector<std::uint8_t> changed = whole;
      changed[place] = static_cast<std::uint8_t>(drawn(2 * number + 1, 256));
      EXPECT_EQ(corpus.target(changed.data(), changed.size()), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpora, testing::ValuesIn(corpora()),
                         [](const auto& corpus) { return corpus.param.name; });

}  // namespace
}  // namespace ptdp
