#include "runtime/data/synthetic_language.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "kernels/counter_random.h"

namespace ptdp {
namespace {

/// Probabilities of a token's successors.
constexpr std::array kProbabilities = {0.55, 0.25, 0.15, 0.05};

// Keys that keep these streams apart from the seed's other uses.
constexpr std::uint64_t kSuccessorStream = 0x73756363;
constexpr std::uint64_t kTextStream = 0x74657874;

/// Maps a uniform 32-bit word to 0 … n − 1. Each probability is off from 1/n by 2^-32 at most.
std::int32_t below(std::uint32_t word, int n) {
  return static_cast<std::int32_t>((std::uint64_t{word} * static_cast<std::uint64_t>(n)) >> 32U);
}

/// Draws different numbers below vocab_size, all choices equally likely. The j-th is drawn among
/// the numbers left, counted past smaller ones that are taken.
void choose_successors(std::uint64_t key, std::uint64_t token, int vocab_size,
                       std::span<std::int32_t> successors) {
  const auto words = philox(key, token);
  std::array<std::int32_t, kProbabilities.size()> taken{};  // ascending
  for (std::size_t j = 0; j < successors.size(); ++j) {
    std::int32_t chosen = below(words[j], vocab_size - static_cast<int>(j));
    std::size_t place = 0;
    while (place < j && taken[place] <= chosen) {
      ++chosen;
      ++place;
    }
    std::copy_backward(taken.begin() + place, taken.begin() + j, taken.begin() + j + 1);
    taken[place] = chosen;
    successors[j] = chosen;
  }
}

}  // namespace

SyntheticLanguage::SyntheticLanguage(int vocab_size, std::uint64_t seed)
    : key_(derived_key(seed, kTextStream)), vocab_size_(vocab_size) {
  assert(vocab_size >= 1);
  const std::size_t n = std::min(kProbabilities.size(), static_cast<std::size_t>(vocab_size));
  double left = 1.0;
  for (std::size_t j = 0; j < n; ++j) {
    probabilities_.push_back(j + 1 < n ? kProbabilities[j] : left);
    left -= kProbabilities[j];
    thresholds_.push_back(
        static_cast<std::uint64_t>(std::llround((j + 1 < n ? 1.0 - left : 1.0) * 0x1p32)));
  }

  const std::uint64_t key = derived_key(seed, kSuccessorStream);
  successors_.resize(n * static_cast<std::size_t>(vocab_size));
  for (int token = 0; token < vocab_size; ++token) {
    choose_successors(key, static_cast<std::uint64_t>(token), vocab_size,
                      std::span(successors_).subspan(n * static_cast<std::size_t>(token), n));
  }
}

double SyntheticLanguage::entropy() const {
  double entropy = 0.0;
  for (const double p : probabilities_) {
    entropy -= p * std::log(p);
  }
  return entropy;
}

void SyntheticLanguage::write(std::int64_t text, std::span<std::int32_t> tokens) const {
  const std::uint64_t key = derived_key(key_, static_cast<std::uint64_t>(text));
  const std::size_t n = probabilities_.size();
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i % words.size() == 0) {
      words = philox(key, i / words.size());
    }
    const std::uint32_t word = words[i % words.size()];
    if (i == 0) {
      tokens[0] = below(word, vocab_size_);
      continue;
    }
    const auto j = std::ranges::upper_bound(thresholds_, std::uint64_t{word}) - thresholds_.begin();
    tokens[i] =
        successors_[n * static_cast<std::size_t>(tokens[i - 1]) + static_cast<std::size_t>(j)];
  }
}

}  // namespace ptdp
