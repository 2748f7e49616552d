// A random language that a model can learn, whose entropy is known: what to train on without data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ptdp {

/// A Markov chain over the vocabulary: every token has four successors, chosen at random by the
/// seed and all different, which follow it with probability 0.55, 0.25, 0.15 and 0.05. (With fewer
/// than four tokens the last successor has what is left.) Every row of the transition matrix has
/// the same entropy, so that this is the entropy rate, and the smallest mean loss that a model can
/// reach: 1.1097 nats from four tokens on.
class SyntheticLanguage {
 public:
  /// vocab_size >= 1.
  SyntheticLanguage(int vocab_size, std::uint64_t seed);

  /// −Σ p·ln p [nats per token].
  [[nodiscard]] double entropy() const;
  /// Tokens of text number `text`: the first uniform, each later one a successor of the one before.
  /// A function of (vocab_size, seed, text) alone; a shorter text is the beginning of a longer one.
  void write(std::int64_t text, std::span<std::int32_t> tokens) const;

 private:
  std::vector<double> probabilities_;      ///< Of a token's successors.
  std::vector<std::uint64_t> thresholds_;  ///< Successor j below the j-th, in units of 2^-32.
  std::vector<std::int32_t> successors_;   ///< [vocab_size, probabilities_.size()].
  std::uint64_t key_ = 0;
  int vocab_size_ = 0;
};

}  // namespace ptdp
