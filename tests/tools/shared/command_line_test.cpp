// Tests of command lines: words, flags, values and their messages.
#include "tools/shared/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Returns the message that a call throws.
template <class Call>
std::string message_of(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Returns flags of every kind.
boost::program_options::options_description some_flags() {
  boost::program_options::options_description flags("flags");
  auto option = flags.add_options();
  option("overlap", text_value("OVERLAP"), "what runs beside compute");
  option("runs", texts_value("FILE"), "files");
  option("steps,n", text_value("N"), "a number");
  option("quiet", "says less");
  option("help,h", "this text");
  option("version", "the version");
  return flags;
}

CommandLine some_line(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ptdp-some");
  std::vector<const char*> texts;
  texts.reserve(arguments.size());
  for (const std::string& argument : arguments) {
    texts.push_back(argument.c_str());
  }
  return {static_cast<int>(texts.size()), texts.data(), some_flags()};
}

TEST(CommandLine, HasWordsAndValuesInTheirOrder) {
  const CommandLine line =
      some_line({"first", "--runs", "a", "-n", "3", "second", "--runs=b", "--quiet"});
  EXPECT_THAT(line.words(), ElementsAre("first", "second"));
  EXPECT_THAT(line.texts("runs"), ElementsAre("a", "b"));
  EXPECT_THAT(line.texts("overlap"), ElementsAre());
  EXPECT_TRUE(line.has("quiet"));
  EXPECT_FALSE(line.has("overlap"));
  EXPECT_EQ(line.text("steps"), "3");
  EXPECT_EQ(line.text("overlap"), std::nullopt);
  EXPECT_EQ(line.count("steps", 3, 3), 3);
  EXPECT_EQ(line.count("overlap", 1, 2), std::nullopt);
  EXPECT_EQ(line.number("steps", 3.0, 3.0), 3.0);
}

TEST(CommandLine, ChoosesByName) {
  constexpr std::array letters = {NamedValue<char>{'A', "a"}, NamedValue<char>{'B', "b"}};
  const CommandLine line = some_line({"-n", "b"});
  EXPECT_EQ(line.choice<char>("steps", letters), 'B');
  EXPECT_EQ(line.choice<char>("overlap", letters), std::nullopt);
  EXPECT_EQ(line.choice_or_first<char>("steps", letters), 'B');
  EXPECT_EQ(line.choice_or_first<char>("overlap", letters), 'A');
  EXPECT_THAT(some_line({"-n", "b,a,b"}).choices<char>("steps", letters),
              ElementsAre('B', 'A', 'B'));
  EXPECT_THAT(line.choices<char>("overlap", letters), ElementsAre());
  EXPECT_EQ(message_of([&] {
              return some_line({"-n", "letter"}).choice<char>("steps", letters);
            }),
            "--steps: expected one of a, b, got \"letter\"");
  EXPECT_EQ(message_of([&] {
              return some_line({"-n", "a,letter"}).choices<char>("steps", letters);
            }),
            "--steps: expected one of a, b, got \"letter\"");
  EXPECT_EQ(choices_help<char>(letters), "a, b (default: a)");
}

TEST(CommandLine, RefusesTheFirstWordTooManyAndFlagsThatWouldBeIgnored) {
  const auto message = [](const auto& check) {
    return message_of([&] {
      check();
      return 0;
    });
  };
  const CommandLine line = some_line({"show", "more", "--quiet", "--steps", "2"});
  EXPECT_EQ(message([&] { line.allow_words(2); }), "nothing was thrown");
  EXPECT_EQ(message([&] { line.allow_words(1); }),
            "unexpected word \"more\" (--help shows the flags)");
  EXPECT_EQ(message([&] { line.allow_words(0); }),
            "unexpected word \"show\" (--help shows the flags)");
  EXPECT_EQ(message([&] { line.allow_only({"quiet", "steps"}); }), "nothing was thrown");
  EXPECT_EQ(message([&] { line.allow_only({"quiet"}); }), "--steps: not used by `show` here");
  EXPECT_EQ(message([&] { line.allow_only({"steps"}, "--tune"); }), "--quiet: not used by --tune");
  EXPECT_EQ(message([] { some_line({"--quiet"}).allow_only({}); }), "--quiet: not used here");
}

// What processes of a job compare, and what a message tells people to run.
TEST(CommandLine, IsQuotedForAShellWithoutOneFlagAndItsValue) {
  const CommandLine line =
      some_line({"my plan.json", "--steps", "2", "--runs=it's", "--runs", "", "--quiet"});
  EXPECT_EQ(line.quoted_arguments_without({"overlap"}),
            "'my plan.json' --steps 2 '--runs=it'\\''s' --runs '' --quiet");
  EXPECT_EQ(line.quoted_arguments_without({"steps"}),
            "'my plan.json' '--runs=it'\\''s' --runs '' --quiet");
  EXPECT_EQ(line.quoted_arguments_without({"runs"}), "'my plan.json' --steps 2 --quiet");
  EXPECT_EQ(some_line({"--steps=2", "--quiet"}).quoted_arguments_without({"steps"}), "--quiet");
  EXPECT_EQ(some_line({"--quiet", "--steps", "2"}).quoted_arguments_without({"quiet"}),
            "--steps 2");
}

TEST(ParseSize, TakesBinaryFactorsInAnyCase) {
  struct Row {
    const char* text;
    std::int64_t value;
  };
  for (const Row& row : {Row{"7", 7}, Row{"1k", 1024}, Row{"128K", 131072}, Row{"4M", 4194304},
                         Row{"4m", 4194304}, Row{"10000k", 10240000}}) {
    const Size size = parse_size(row.text, 1, 10'240'000, "x");
    EXPECT_EQ(size.value, row.value);
    EXPECT_EQ(size.written, row.value == 7 ? "" : row.text);
  }
  for (const char* text : {"", "k", "0k", "-1k", "1kk", "1.5k", "1 k", "k1", "10001k", "10M", "1e3",
                           "9223372036854775807k", "9223372036854775808"}) {
    EXPECT_EQ(message_of([&] { return parse_size(text, 1, 10'240'000, "x"); }),
              "x: expected a whole number from 1 to 10240000 (1k is 1024, 1M is 1024k), got \"" +
                  std::string(text) + '"');
  }
}

TEST(OverlapChoice, IsWhatIsNamedOrNothingWithoutTheFlag) {
  struct Row {
    const char* text = "";
    Overlap overlap;
  };
  for (const Row& row : {Row{"none", {}},
                         Row{"all",
                             {.messages = true,
                             .reductions = true,
                             .gathers = true,
                             .tensor = true,
                             .as_possible = true}},
                         Row{"messages", {.messages = true}},
                         Row{"reductions", {.reductions = true}}, Row{"tensor", {.tensor = true}},
                         Row{"gathers,reductions", {.reductions = true, .gathers = true}},
                         Row{"tensor,messages", {.messages = true, .tensor = true}}}) {
    const std::optional<Overlap> found = overlap_choice(some_line({"--overlap", row.text}));
    ASSERT_TRUE(found) << row.text;
    EXPECT_EQ(found->messages, row.overlap.messages) << row.text;
    EXPECT_EQ(found->reductions, row.overlap.reductions) << row.text;
    EXPECT_EQ(found->gathers, row.overlap.gathers) << row.text;
    EXPECT_EQ(found->tensor, row.overlap.tensor) << row.text;
    EXPECT_EQ(found->as_possible, row.overlap.as_possible) << row.text;
  }
  EXPECT_FALSE(overlap_choice(some_line({})).has_value()) << "what the stack overlaps";
}

// The bounds are 1 and 10^18.
TEST(NumberWithSuffix, IsThousandsMillionsBillionsOrTrillions) {
  for (const auto& [text, value] : {std::pair("1", 1.0),
                                    {"0.001K", 1.0},
                                    {"2.5K", 2500.0},
                                    {"2.5k", 2500.0},
                                    {"15t", 15e12},
                                    {"3M", 3e6},
                                    {"450B", 450e9},
                                    {"1.5T", 1.5e12},
                                    {"300e9", 300e9},
                                    {"1e18", 1e18},
                                    {"1000000T", 1e18}}) {
    EXPECT_DOUBLE_EQ(parse_with_suffix(text, "--tokens"), value) << text;
  }
  for (const std::string text : {"0.999", "0.0009K", "1.001e18", "1000001T", "1g", "TT", ""}) {
    EXPECT_EQ(message_of([&] { return parse_with_suffix(text, "--tokens"); }),
              "--tokens: expected a number from 1 to 1e18, with K, M, B or T behind it if you "
              "like, got \"" +
                  text + '"');
  }
}

TEST(Fraction, IsANumberBelowOneOrAPercentage) {
  for (const auto& [text, value] : {std::pair("0", 0.0),
                                    {"0%", 0.0},
                                    {"0.08", 0.08},
                                    {"8%", 0.08},
                                    {"0.9999", 0.9999},
                                    {"99.99%", 0.9999}}) {
    EXPECT_DOUBLE_EQ(parse_fraction(text, "--memory-headroom"), value) << text;
  }
  for (const std::string text : {"0.99991", "99.991%", "-0.01", "8 %", "%8", "8%%"}) {
    EXPECT_EQ(message_of([&] { return parse_fraction(text, "--memory-headroom"); }),
              "--memory-headroom: expected a fraction from 0 to 0.9999 or a percentage, got \"" +
                  text + '"');
  }
}

constexpr std::size_t kMoreThanThereIs = std::size_t{1} << 62;

/// Calls std::terminate() while an exception passes, as a noexcept function does. The exception is
/// not caught, and std::current_exception() does not have it.
struct EndsWhereAnExceptionPasses {
  EndsWhereAnExceptionPasses() = default;
  EndsWhereAnExceptionPasses(const EndsWhereAnExceptionPasses&) = delete;
  EndsWhereAnExceptionPasses& operator=(const EndsWhereAnExceptionPasses&) = delete;
  ~EndsWhereAnExceptionPasses() { std::terminate(); }
};

void allocate_too_much() {
  ::operator delete(::operator new(kMoreThanThereIs));
}

void fail_otherwise() {
  throw std::runtime_error("a bug");
}

TEST(RunCommand, EndsWithItsStatusWhereALibraryLetsNoLackOfMemoryPass) {
  if (kIsSanitized) {
    GTEST_SKIP() << "a sanitizer ends the program where memory lacks";
  }
  const auto end_while_passing = [] {
    (void)run_command("ptdp-plan", [] {
      const EndsWhereAnExceptionPasses end;
      allocate_too_much();
      return 0;
    });
  };
  EXPECT_EXIT(end_while_passing(), ::testing::ExitedWithCode(4), ": out of memory");
  const auto end_in_noexcept = [] {
    (void)run_command("ptdp-plan", [] {
      []() noexcept { allocate_too_much(); }();
      return 0;
    });
  };
  EXPECT_EXIT(end_in_noexcept(), ::testing::ExitedWithCode(4), ": out of memory");
}

TEST(RunCommand, AbortsWhereAnythingElsePasses) {
  const auto end = [] {
    (void)run_command("ptdp-plan", []() -> int {
      if (!kIsSanitized) {
        try {
          allocate_too_much();
        } catch (const std::bad_alloc&) {
          // The exception was handled, and is not the reason of what follows.
        }
      }
      []() noexcept { fail_otherwise(); }();
      return 0;
    });
  };
  EXPECT_EXIT(end(), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace ptdp
