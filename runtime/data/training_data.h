// Gives the tokens that a step trains on: the same for every layout, without any state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/data/synthetic_language.h"
#include "runtime/data/token_file.h"

namespace ptdp {

/// A batch of samples as the model takes it: [s, b], position by position.
struct TokenBatch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;  ///< The token that follows each token, [s, b].
};

/// The samples of a training. Sample g = step · global batch + its place in the batch. It has s + 1
/// tokens: s inputs, and the same moved by one as targets. Sample g is a function of (source, s,
/// seed, g) alone. Several threads may read at once.
class TrainingData {
 public:
  /// Makes data whose sample g is text number g of a synthetic language.
  [[nodiscard]] static TrainingData synthetic(int vocab_size, int seq_length, std::uint64_t seed);
  /// Makes data whose sample g is a window of a file. A counter-based generator draws its first
  /// token by (seed, g), uniformly among all tokens with s more behind them. It is nanoGPT's
  /// get_batch without its state. Throws Error for what TokenFile refuses and for files too short
  /// for one sample.
  [[nodiscard]] static TrainingData from_file(const TokenSource& source, int vocab_size,
                                              int seq_length, std::uint64_t seed);

  /// Returns the s + 1 tokens of a sample.
  [[nodiscard]] std::vector<std::int32_t> sample(std::int64_t number) const;
  /// Returns samples first … first + count − 1. Throws Error when a file changed since it was
  /// opened.
  [[nodiscard]] TokenBatch batch(std::int64_t first, int count) const;

  /// Returns a description for people: "338025 tokens of uint16 (raw)", or "a synthetic language".
  [[nodiscard]] std::string describe() const;
  /// Returns the smallest mean loss that a model can reach [nats per token]. It is known for the
  /// synthetic language; nullopt for a file.
  [[nodiscard]] std::optional<double> entropy() const;

 private:
  using Source = std::variant<SyntheticLanguage, TokenFile>;
  TrainingData(Source source, int seq_length, std::uint64_t seed);

  Source source_;
  int seq_length_ = 0;
  std::uint64_t key_ = 0;  ///< Key of the generator that draws windows of a file.
};

}  // namespace ptdp
