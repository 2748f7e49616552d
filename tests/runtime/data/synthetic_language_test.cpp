// Tests of the random language that training uses without data.
#include "runtime/data/synthetic_language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace ptdp {
namespace {

std::vector<std::int32_t> text_of(const SyntheticLanguage& language, std::int64_t text,
                                  std::size_t length) {
  std::vector<std::int32_t> tokens(length);
  language.write(text, tokens);
  return tokens;
}

/// Counts how often each token follows each.
std::map<std::int32_t, std::map<std::int32_t, int>> count_pairs(
    const std::vector<std::int32_t>& tokens) {
  std::map<std::int32_t, std::map<std::int32_t, int>> counts;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    ++counts[tokens[i - 1]][tokens[i]];
  }
  return counts;
}

// −(0.55·ln 0.55 + 0.25·ln 0.25 + 0.15·ln 0.15 + 0.05·ln 0.05).
TEST(SyntheticLanguage, HasTheEntropyOfItsTransitions) {
  EXPECT_NEAR(SyntheticLanguage(50257, 1).entropy(), 1.1097385521061456, 1e-14);
  // −(0.55·ln 0.55 + 0.45·ln 0.45).
  EXPECT_NEAR(SyntheticLanguage(2, 1).entropy(), 0.6881388137135884, 1e-14);
  EXPECT_EQ(SyntheticLanguage(1, 1).entropy(), 0.0);
}

// Counted in 400,000 tokens: of the entropy's estimate, the standard error is below 0.001 and the
// bias about (pairs − tokens)/(2·400,000) = 120/800,000.
TEST(SyntheticLanguage, IsWrittenWithThatEntropy) {
  const SyntheticLanguage language(/*vocab_size=*/40, /*seed=*/7);
  const auto tokens = text_of(language, 3, 400'001);
  double entropy = 0.0;
  for (const auto& [token, successors] : count_pairs(tokens)) {
    double total = 0.0;
    for (const auto& [next, count] : successors) {
      total += count;
    }
    for (const auto& [next, count] : successors) {
      entropy -= count * std::log(count / total);
    }
  }
  EXPECT_NEAR(entropy / 400'000, language.entropy(), 0.004);
}

TEST(SyntheticLanguage, GivesEveryTokenFourSuccessorsInTheStatedShares) {
  const SyntheticLanguage language(/*vocab_size=*/10, /*seed=*/3);
  const std::array shares = {0.05, 0.15, 0.25, 0.55};
  for (const auto& [token, successors] : count_pairs(text_of(language, 0, 200'000))) {
    ASSERT_EQ(successors.size(), 4U) << "token " << token;
    std::vector<double> counts;
    double total = 0.0;
    for (const auto& [next, count] : successors) {
      counts.push_back(count);
      total += count;
    }
    std::sort(counts.begin(), counts.end());
    for (std::size_t j = 0; total > 5'000 && j < 4; ++j) {
      EXPECT_NEAR(counts[j] / total, shares[j], 0.03) << "token " << token;
    }
  }
}

TEST(SyntheticLanguage, IsAFunctionOfVocabularySeedAndText) {
  const SyntheticLanguage language(100, 5);
  const auto text = text_of(language, 12, 64);
  EXPECT_EQ(text_of(SyntheticLanguage(100, 5), 12, 64), text);
  EXPECT_NE(text_of(language, 13, 64), text);
  EXPECT_NE(text_of(SyntheticLanguage(100, 6), 12, 64), text);
  const auto beginning = text_of(language, 12, 9);
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.end(), text.begin()));
}

TEST(SyntheticLanguage, BeginsWithEveryTokenSoonerOrLater) {
  const SyntheticLanguage language(16, 2);
  std::set<std::int32_t> first;
  for (int text = 0; text < 400; ++text) {
    first.insert(text_of(language, text, 1)[0]);
  }
  EXPECT_EQ(first.size(), 16U);
}

TEST(SyntheticLanguage, StaysWithinSmallVocabularies) {
  for (const int vocab_size : {1, 2, 3, 4, 5}) {
    for (const std::int32_t token : text_of(SyntheticLanguage(vocab_size, 1), 0, 1000)) {
      ASSERT_GE(token, 0);
      ASSERT_LT(token, vocab_size);
    }
  }
}

}  // namespace
}  // namespace ptdp
