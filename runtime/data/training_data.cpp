#include "runtime/data/training_data.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cost_model/error.h"
#include "kernels/counter_random.h"

namespace ptdp {
namespace {

constexpr std::uint64_t kWindowStream = 0x77696e64;

/// Draws a number below n by (key, sample). Each probability is off from 1/n by 2^-64 at most.
std::int64_t draw_below(std::int64_t n, std::uint64_t key, std::int64_t sample) {
  // The upper 64 bits of the 128-bit product of 64 random bits and n.
  const std::uint64_t bits = derived_key(key, static_cast<std::uint64_t>(sample));
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>((Wide{bits} * static_cast<std::uint64_t>(n)) >> 64U);
}

}  // namespace

TrainingData::TrainingData(Source source, int seq_length, std::uint64_t seed)
    : source_(std::move(source)), seq_length_(seq_length), key_(derived_key(seed, kWindowStream)) {}

TrainingData TrainingData::synthetic(int vocab_size, int seq_length, std::uint64_t seed) {
  return {SyntheticLanguage(vocab_size, seed), seq_length, seed};
}

TrainingData TrainingData::from_file(const TokenSource& source, int vocab_size, int seq_length,
                                     std::uint64_t seed) {
  TokenFile file(source, vocab_size);
  if (file.size() <= seq_length) {
    throw Error(source.path.string() + ": " + std::to_string(file.size()) + " tokens, expected " +
                std::to_string(std::int64_t{1} + seq_length) +
                " at least: a sequence and the target of its last token");
  }
  return {std::move(file), seq_length, seed};
}

std::vector<std::int32_t> TrainingData::sample(std::int64_t number) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq_length_) + 1);
  if (const auto* language = std::get_if<SyntheticLanguage>(&source_)) {
    language->write(number, tokens);
  } else {
    const auto& file = std::get<TokenFile>(source_);
    file.read(draw_below(file.size() - seq_length_, key_, number), tokens);
  }
  return tokens;
}

TokenBatch TrainingData::batch(std::int64_t first, int count) const {
  const auto b = static_cast<std::size_t>(count);
  const auto s = static_cast<std::size_t>(seq_length_);
  TokenBatch batch{.tokens = std::vector<std::int32_t>(s * b),
                   .targets = std::vector<std::int32_t>(s * b)};
  for (std::size_t i = 0; i < b; ++i) {
    const std::vector<std::int32_t> tokens = sample(first + static_cast<std::int64_t>(i));
    for (std::size_t position = 0; position < s; ++position) {
      batch.tokens[position * b + i] = tokens[position];
      batch.targets[position * b + i] = tokens[position + 1];
    }
  }
  return batch;
}

std::string TrainingData::describe() const {
  if (const auto* file = std::get_if<TokenFile>(&source_)) {
    const TokenLayout& layout = file->layout();
    return fmt::format("{} tokens of {} ({})", layout.count, name_of(layout.type), layout.kind);
  }
  return "a synthetic language";
}

std::optional<double> TrainingData::entropy() const {
  if (const auto* language = std::get_if<SyntheticLanguage>(&source_)) {
    return language->entropy();
  }
  return std::nullopt;
}

}  // namespace ptdp
