// A random language of known entropy that a model can learn, to train on without data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ptdp {

/// A Markov chain over the vocabulary. Every token has four different successors, drawn by the
/// seed, which follow it with probability 0.55, 0.25, 0.15 and 0.05. With fewer than four tokens
/// the last successor has the probability that is left. Every row of the transition matrix has the
/// same entropy. It is therefore the entropy rate, and the smallest mean loss that a model can
/// reach: 1.1097 nats from four tokens on.
class SyntheticLanguage {
 public:
  /// Draws the successors of every token. `vocab_size` must be at least 1.
  SyntheticLanguage(int vocab_size, std::uint64_t seed);

  /// Returns the entropy rate −Σ p·ln p [nats per token].
  [[nodiscard]] double entropy() const;
  /// Writes the tokens of text number `text`: the first uniform, each later one a successor of the
  /// token before. They depend on (vocab_size, seed, text) alone, and a shorter text is the
  /// beginning of a longer one.
  void write(std::int64_t text, std::span<std::int32_t> tokens) const;

 private:
  std::vector<double> probabilities_;  ///< Probabilities of a token's successors, in order.
  /// Sums p_0 + … + p_j in units of 2^-32: a word below entry j picks at most successor j.
  std::vector<std::uint64_t> thresholds_;
  /// Successors of every token, [vocab_size, probabilities_.size()].
  std::vector<std::int32_t> successors_;
  std::uint64_t key_ = 0;
  int vocab_size_ = 0;
};

}  // namespace ptdp
