// Tests of edit distance, and of suggestions for misspelled names.
#include "cost_model/text/did_you_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/thrown.h"

namespace ptdp {
namespace {

/// Returns the edit distance by its definition, without a table. The first letters are equal, or
/// one is replaced, or one is left out.
// NOLINTNEXTLINE(misc-no-recursion): it is the definition
int plain_edit_distance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) {
    return static_cast<int>(a.size() + b.size());
  }
  const std::string_view a_rest = a.substr(1);
  const std::string_view b_rest = b.substr(1);
  return std::min({plain_edit_distance(a_rest, b_rest) + (a.front() == b.front() ? 0 : 1),
                   plain_edit_distance(a_rest, b) + 1, plain_edit_distance(a, b_rest) + 1});
}

/// Returns every word of the letters a and b with at most `longest` of them.
std::vector<std::string> words(std::size_t longest) {
  std::vector<std::string> all = {""};
  for (std::size_t i = 0; all[i].size() < longest; ++i) {
    all.push_back(all[i] + "a");
    all.push_back(all[i] + "b");
  }
  return all;
}

// The textbook's pairs: Wagner & Fischer 1974 and Wikipedia, "Levenshtein distance".
TEST(EditDistance, IsThatOfTheTextbook) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("saturday", "sunday"), 3);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(EditDistance, IsThatOfTheDefinitionForAllShortWords) {
  for (const std::string& a : words(4)) {
    for (const std::string& b : words(4)) {
      EXPECT_EQ(edit_distance(a, b), plain_edit_distance(a, b)) << a << ' ' << b;
    }
  }
}

TEST(EditDistance, ComparesLettersWithoutCase) {
  EXPECT_EQ(edit_distance("GPT2-XL", "gpt2-xl"), 0);
}

TEST(DidYouMean, NamesTheOneThatIsNear) {
  const std::vector<std::string> known = {"num_layers", "hidden_size", "vocab_size"};
  EXPECT_EQ(did_you_mean("num_layer", known), "; did you mean \"num_layers\"?");
}

// Distances: selena 1, selene-a100 5 but begins with it.
TEST(DidYouMean, NamesWhatBeginsLikeItToo) {
  const std::vector<std::string> known = {"selene-a100", "selena", "dgx-h100"};
  EXPECT_EQ(did_you_mean("selen", known), "; did you mean \"selena\" or \"selene-a100\"?");
}

// h800 is one letter from h100 and another machine; what has h100 as a part comes first.
TEST(DidYouMean, NamesWhatHasItAsAPartFirst) {
  const std::vector<std::string> known = {"h800", "aws-p5-h100", "dgx-h100", "dgx-gh100"};
  for (const char* name : {"h100", "H100", "8xH100"}) {
    EXPECT_THAT(did_you_mean(name, known), testing::StartsWith("; did you mean \"dgx-h100\""))
        << name;
  }
  EXPECT_EQ(did_you_mean("gx", known), "");
}

// A name of several words is near by those that tell machines and sizes apart.
TEST(DidYouMean, NamesWhatSharesADesignation) {
  const std::vector<std::string> known = {"h800", "dgx-h100", "mosaic-a100-80gb", "dgx-a100-40gb"};
  EXPECT_EQ(did_you_mean("H100-SXM", known), "; did you mean \"dgx-h100\"?");
  EXPECT_EQ(did_you_mean("NVIDIA H100", known), "; did you mean \"dgx-h100\"?");
  EXPECT_EQ(did_you_mean("A100-80GB-SXM", known),
            "; did you mean \"mosaic-a100-80gb\" or \"dgx-a100-40gb\"?");
  EXPECT_EQ(did_you_mean("h80", known), "; did you mean \"h800\"?");
}

// fp64 is one letter from fp4, and another number.
TEST(DidYouMean, NamesWhatHasADesignationInIt) {
  const std::vector<std::string> known = {"fp64", "fp32", "nvfp4"};
  EXPECT_EQ(did_you_mean("fp4", known), "; did you mean \"nvfp4\"?");
  EXPECT_EQ(did_you_mean("fp65", known), "; did you mean \"fp64\"?");
}

TEST(DidYouMean, NamesFlagsWithTheWord) {
  const std::vector<std::string> known = {"--batch-per-gpu", "--pp", "--micro-batch-size"};
  EXPECT_EQ(did_you_mean("--batch", known),
            "; did you mean \"--batch-per-gpu\" or \"--micro-batch-size\"?");
  EXPECT_EQ(did_you_mean("--batch-scale", known), "");
}

TEST(DidYouMean, NamesAtMostThreeInTheOrderOfEqualDistances) {
  const std::vector<std::string> known = {"size-d", "size-b", "size-a", "size-c"};
  EXPECT_EQ(did_you_mean("size-x", known), "; did you mean \"size-d\", \"size-b\" or \"size-a\"?");
}

TEST(DidYouMean, NamesTheNearestFirst) {
  const std::vector<std::string> known = {"abcdxx", "abcdex", "abcdef"};
  EXPECT_EQ(did_you_mean("abcdef", known), "; did you mean \"abcdef\", \"abcdex\" or \"abcdxx\"?");
}

TEST(DidYouMean, IsSilentWhereNothingIsNear) {
  const std::vector<std::string> known = {"num_layers", "hidden_size"};
  EXPECT_EQ(did_you_mean("bandwidth", known), "");
}

TEST(DidYouMean, IsSilentWhereNothingIsKnown) {
  EXPECT_EQ(did_you_mean("bandwidth", {}), "");
}

// The work grows with the square of the length: hostile input must not buy minutes.
TEST(DidYouMean, IsSilentAboutVeryLongNames) {
  const std::vector<std::string> known = {std::string(10'000, 'x')};
  EXPECT_EQ(did_you_mean(std::string(10'000, 'x'), known), "");
  EXPECT_EQ(did_you_mean("xxx", known), "");
}

TEST(FindChoice, FindsAWordOrListsThemAll) {
  const std::vector<std::string> choices = {"ring", "tree", "nvls"};
  EXPECT_EQ(find_choice("ring", choices, "--algorithm"), 0U);
  EXPECT_EQ(find_choice("nvls", choices, "--algorithm"), 2U);
  EXPECT_EQ(message_of([&] { return find_choice("trie", choices, "--algorithm"); }),
            "--algorithm: expected one of ring, tree, nvls, got \"trie\"; did you mean \"tree\"?");
  EXPECT_EQ(message_of([&] { return find_choice("", choices, "x"); }),
            "x: expected one of ring, tree, nvls, got \"\"");
  EXPECT_EQ(message_of([&] { return find_choice("RING", choices, "x"); }),
            "x: expected one of ring, tree, nvls, got \"RING\"; did you mean \"ring\"?");
}

// The nearest; of equal ones the first.
TEST(Nearest, IsTheFirstOfTheNearestOrNone) {
  const std::vector<std::string> known = {"hidden_sizes", "hidden_size", "hidden_sixe"};
  EXPECT_EQ(nearest("hidden_sizee", known), "hidden_sizes");
  EXPECT_EQ(nearest("hidden_six", known), "hidden_sixe");
  EXPECT_EQ(nearest("vocabulary", known), std::nullopt);
  EXPECT_EQ(nearest("a", std::vector<std::string>{}), std::nullopt);
}

}  // namespace
}  // namespace ptdp
