// Which tokens a step trains on: the same for every layout, without any state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/data/synthetic_language.h"
#include "runtime/data/token_file.h"

namespace ptdp {

/// Some samples as the model takes them: [s, b], position by position.
struct TokenBatch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;  ///< The token behind each.
};

/// Sample g of the training, g = step · global batch + its place there, is s + 1 tokens: s inputs,
/// and the same moved by one as targets. It is a function of (source, s, seed, g) alone. Several
/// threads may read at once.
class TrainingData {
 public:
  /// Text number g of a synthetic language.
  [[nodiscard]] static TrainingData synthetic(int vocab_size, int seq_length, std::uint64_t seed);
  /// A window of a file, from a token that a counter-based generator draws uniformly by (seed, g)
  /// among all that have s more behind them: nanoGPT's get_batch without its state. Throws Error
  /// for what TokenFile refuses and files too short for one sample.
  [[nodiscard]] static TrainingData from_file(const TokenSource& source, int vocab_size,
                                              int seq_length, std::uint64_t seed);

  /// The s + 1 tokens of a sample.
  [[nodiscard]] std::vector<std::int32_t> sample(std::int64_t number) const;
  /// Samples first … first + count − 1. Throws Error where a file changed since it was opened.
  [[nodiscard]] TokenBatch batch(std::int64_t first, int count) const;

  /// "338025 tokens of uint16 (raw)", or "a synthetic language".
  [[nodiscard]] std::string describe() const;
  /// The smallest mean loss that a model can reach [nats per token], where it is known: of the
  /// synthetic language.
  [[nodiscard]] std::optional<double> entropy() const;

 private:
  using Source = std::variant<SyntheticLanguage, TokenFile>;
  TrainingData(Source source, int seq_length, std::uint64_t seed);

  Source source_;
  int seq_length_ = 0;
  std::uint64_t key_ = 0;  ///< Of windows.
};

}  // namespace ptdp
