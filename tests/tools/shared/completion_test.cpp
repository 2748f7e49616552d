// Tests of what may follow on an unfinished command line.
#include "tools/shared/completion.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CommandTable completed_table() {
  boost::program_options::options_description flags("flags");
  flags.add_options()("runs", texts_value("FILE"), "files")("save", text_value("DIR"), "where")(
      "format", text_value("FORMAT", {"text", "table", "json"}), "how")(
      "overlap", text_value("OVERLAP,...", {"none", "messages", "reductions"}), "what")(
      "config",
      keyed_value("CONFIG", {{"tp"}, {"recompute", {"none", "full"}}, {"recompute_layers"}}),
      "which")("gpus", text_value("N"), "GPUs")("gpu", text_value("GPU"), "a GPU")(
      "output,o", text_value("FILE"), "file")("quiet", "less");
  return {.name = "ptdp-plan",
          .usage = "usage: ptdp-plan\n",
          .groups = {{"flags", flags}},
          .first_words = {{"list", {.name = "KIND", .choices = {"models", "gpus"}}},
                          {"show", {.name = "FILE"}},
                          {"new-cluster"}}};
}

/// Returns the words that may stand in place of the last one.
std::vector<std::string> words_after(const std::vector<std::string>& typed) {
  std::vector<std::string> words;
  for (const WordChoices::Word& word : complete(completed_table(), typed).words) {
    words.push_back(word.text);
  }
  return words;
}

TEST(Complete, OffersFlagsThatAreNotYetGiven) {
  EXPECT_THAT(words_after({"--g"}), ElementsAre("--gpus", "--gpu"));
  EXPECT_THAT(words_after({"--gpus", "8", "--g"}), ElementsAre("--gpu"));
  EXPECT_THAT(words_after({"--gpus=8", "--gpus"}), IsEmpty());
  EXPECT_THAT(words_after({"--world-size", "8", "--g"}), ElementsAre("--gpu"))
      << "--gpus by another name";
  EXPECT_THAT(words_after({"--runs", "a.csv", "--r"}), ElementsAre("--runs")) << "may be repeated";
  EXPECT_EQ(words_after({"-"}).size(), 9);
}

TEST(Complete, OffersTheValuesOfAFlag) {
  EXPECT_THAT(words_after({"--format", "t"}), ElementsAre("text", "table"));
  EXPECT_THAT(words_after({"--format=t"}), ElementsAre("--format=text", "--format=table"));
  EXPECT_THAT(words_after({"--format", ""}), ElementsAre("text", "table", "json"));
  EXPECT_THAT(words_after({"--gpus", ""}), IsEmpty());
}

TEST(Complete, GoesOnBehindTheLastComma) {
  EXPECT_THAT(words_after({"--overlap", "messages,r"}), ElementsAre("messages,reductions"));
  EXPECT_THAT(words_after({"--overlap=messages,r"}), ElementsAre("--overlap=messages,reductions"));
  EXPECT_THAT(words_after({"--format", "text,j"}), IsEmpty()) << "takes one";
}

TEST(Complete, OffersNoItemOfAListTwice) {
  EXPECT_THAT(words_after({"--overlap", "messages,"}),
              ElementsAre("messages,none", "messages,reductions"));
  EXPECT_THAT(words_after({"--overlap", "messages,reductions,m"}), IsEmpty());
}

TEST(Complete, OffersKeysAndTheirValues) {
  EXPECT_THAT(words_after({"--config", ""}), ElementsAre("tp=", "recompute=", "recompute_layers="));
  EXPECT_THAT(words_after({"--config", "tp=8,"}),
              ElementsAre("tp=8,recompute=", "tp=8,recompute_layers="));
  EXPECT_THAT(words_after({"--config=recompute="}),
              ElementsAre("--config=recompute=none", "--config=recompute=full"));
  EXPECT_THAT(words_after({"--config", "tp=8,recompute=f"}), ElementsAre("tp=8,recompute=full"));
  EXPECT_THAT(words_after({"--config", "tp=8,tp="}), IsEmpty());
  EXPECT_THAT(words_after({"--config", "recompute=none,recompute=f"}), IsEmpty()) << "given";
}

TEST(Complete, KnowsWhereFilesAndDirectoriesStand) {
  EXPECT_TRUE(complete(completed_table(), {"-o", ""}).has_files);
  EXPECT_TRUE(complete(completed_table(), {"--save", ""}).has_directories);
  EXPECT_FALSE(complete(completed_table(), {"--save", ""}).has_files);
  EXPECT_TRUE(complete(completed_table(), {"show", ""}).has_files);
  EXPECT_FALSE(complete(completed_table(), {"--quiet", ""}).has_files) << "takes nothing";
}

TEST(Complete, OffersShippedProfilesAndFiles) {
  const WordChoices found = complete(completed_table(), {"--gpu", "h100"});
  EXPECT_TRUE(found.has_files);
  ASSERT_FALSE(found.words.empty());
  for (const WordChoices::Word& word : found.words) {
    EXPECT_THAT(word.text, testing::StartsWith("h100"));
  }
}

TEST(Complete, OffersCommandsAndWhatFollowsThem) {
  EXPECT_THAT(words_after({}), ElementsAre("list", "show", "new-cluster"));
  EXPECT_THAT(words_after({"--quiet", "s"}), ElementsAre("show"));
  EXPECT_THAT(words_after({"--gpus", "list", "m"}), IsEmpty()) << "list is the value of --gpus";
  EXPECT_THAT(words_after({"list", "m"}), ElementsAre("models"));
  EXPECT_THAT(words_after({"new-cluster", ""}), IsEmpty());
}

TEST(ToLines, PutsMeaningsBehindATabAndKindsAtTheEnd) {
  EXPECT_EQ(to_lines({.words = {{"--a", "does a"}, {"b"}}, .has_files = true}),
            "--a\tdoes a\nb\n:files\n");
  EXPECT_EQ(to_lines({.has_directories = true}), ":directories\n");
  EXPECT_EQ(to_lines({}), "");
}

}  // namespace
}  // namespace ptdp
