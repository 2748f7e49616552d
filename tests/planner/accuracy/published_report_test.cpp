// Tests of the page of errors in Markdown.
#include "planner/accuracy/published_report.h"

#include <gmock/gmock.h>

#include "planner/accuracy/partial_runs.h"
#include "planner/accuracy/validation_report.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(ParseNotes, TakesTheTextBelowEachHeading) {
  const GroupNotes notes =
      parse_notes("# Title\nleft out\n\n## a\n\none\ntwo\n\n## b\n### not a group\n", "notes.md");
  EXPECT_EQ(notes, (GroupNotes{{"a", "one\ntwo"}, {"b", "### not a group"}}));
}

TEST(ParseNotes, OfNothingAreNone) {
  EXPECT_TRUE(parse_notes("", "notes.md").empty());
  EXPECT_EQ(parse_notes("## a", "notes.md"), (GroupNotes{{"a", ""}}));
}

TEST(ParseNotes, RefuseAHeadingThatIsThereTwice) {
  EXPECT_THAT(message_of([] { return parse_notes("## a\n## a\n", "notes.md"); }),
              testing::StrEq("notes.md: heading \"a\" is there twice"));
}

/// Returns a run of `group` that takes `ratio` times as long as predicted, and a row that is
/// skipped.
CostedRuns runs_with(const std::string& group, double ratio) {
  return {.costed = {run_of("stack", group, ratio)}, .skipped = {{"x", "g", "one|two"}}};
}

TEST(ErrorPage, ExplainsTheGroupsThatNeedIt) {
  EXPECT_THAT(to_markdown(runs_with("bad", 2.0), {{"bad", "because"}}),
              HasSubstr("### bad: median 50.0 %\n\nbecause\n"));
  EXPECT_THAT(to_markdown(runs_with("bad", 2.0), {}), HasSubstr("Not explained."));
  EXPECT_THAT(to_markdown(runs_with("good", 1.0), {}), Not(HasSubstr("### good")));
}

TEST(ErrorPage, EscapesWhatWouldEndACell) {
  EXPECT_THAT(to_markdown(runs_with("group", 1.0), {}), HasSubstr("| one\\|two | 1 | g |"));
}

TEST(PublishedNotes, NameEveryGroupThatNeedsThemAndNoOther) {
  const GroupNotes notes = read_notes();
  CostedRuns runs = cost_runs(read_published_runs());
  complete_partial_runs(runs);
  const ValidationReport report = make_validation_report(runs, CalibrationKind::kNone);
  std::vector<std::string> names;
  for (const ValidatedPartialRun& run : report.partial) {
    names.push_back(run.group);
  }
  for (const GroupErrors& group : report.groups) {
    names.push_back(group.group);
    EXPECT_TRUE(group.errors.median_absolute <= kNeedsExplanation || notes.contains(group.group))
        << group.group;
  }
  for (const auto& [group, note] : notes) {
    EXPECT_THAT(names, testing::Contains(group));
    EXPECT_THAT(note, Not(testing::IsEmpty())) << group;
  }
}

// A batch of 4 on one stage in microbatches of 1, 2 and 4: q is a quarter of the time in each. What
// takes more than 1.2 times the 1 s of the largest stands there, the rows of a group in one cell.
TEST(ErrorPage, ListsTheRowsThatContradictThemselvesByGroup) {
  CostedRuns runs;
  const auto add = [&](const std::string& group, const std::string& id, int b, double seconds) {
    CostedRun& run = runs.costed.emplace_back(run_of("stack", group, seconds));
    run.run.id = id;
    run.run.global_batch_size = 4;
    run.run.config.micro_batch_size = b;
  };
  add("a", "fast", 4, 1.0);
  EXPECT_THAT(to_markdown(runs, {}), HasSubstr("of one with a smaller b.\n\nNone.\n\n"));
  add("b", "slow", 1, 1.3);
  add("a", "slower", 1, 1.5);
  add("b", "slowest", 2, 2.0);
  EXPECT_THAT(to_markdown(runs, {}),
              HasSubstr("\n| group | rows | |\n|---|---|---|\n"
                        "| a | 1 | slower |\n| b | 2 | slow, slowest |\n\n"));
  for (int i = 0; i < 20; ++i) {
    add("b", "another" + std::to_string(i), 1, 1.4);
  }
  EXPECT_THAT(to_markdown(runs, {}), HasSubstr("\n| b | 22 | slow, slowest, another0, "));
  EXPECT_THAT(to_markdown(runs, {}),
              HasSubstr(", another17 and others, all in `--format json` |\n\n"));
}

// Group a is off by -20 %, four times; b by +25 and +100 %, of one stack each. The others' factor
// of about 1.25 makes a right within a few tenths; held out, each group is predicted by the other's
// stack. The half-width without calibration is interval.h's: (1.42 - 0.92) / 2.
TEST(ErrorPage, TabulatesErrorsIntervalsAndFactors) {
  CostedRuns runs;
  for (int i = 0; i < 4; ++i) {
    runs.costed.push_back(run_of("one", "a", 1.25));
  }
  runs.costed.push_back(run_of("two", "b", 0.8));
  runs.costed.push_back(run_of("two", "b", 0.5));
  runs.skipped = {{"x", "g", "no profile"}, {"y", "h", "no profile"}, {"z", "g", "another"}};
  const std::string page = to_markdown(runs, {});
  EXPECT_THAT(page, ContainsRegex(R"(\| a \| 4 \| 20.0 \| 20.0 \| 20.0 \| 20.0 \| -20.0 \| 0\.)"));
  EXPECT_THAT(page, HasSubstr("| b | 2 | 62.5 | 62.5 | 92.5 | 100.0 | +62.5 | "));
  EXPECT_THAT(page, HasSubstr("| **all** | 6 | 34.2 | 20.0 | 62.5 | 100.0 | +7.5 | "));
  EXPECT_THAT(
      page,
      ContainsRegex(R"(\| a \| 4 \| 100 \| 25.0 \| 100 \| .* its kind of program \| unseen \|)"));
  EXPECT_THAT(page,
              ContainsRegex(R"(\| b \| 2 \| 0 \| 25.0 \| .* its kind of program \| unseen \|)"));
  EXPECT_THAT(page,
              ContainsRegex(R"(\| selene-a100 \| one \| dense \| 4 \| 1.2[0-9]+ \| 20.0 \|)"));
  EXPECT_THAT(page, HasSubstr("\n| its kind of program | 2 | 6 | "));
  EXPECT_THAT(page, HasSubstr("\n## Not modelled\n\n3 of 9 rows.\n\n"
                              "| reason | rows | groups |\n|---|---|---|\n"
                              "| another | 1 | g |\n| no profile | 2 | g, h |\n"));
  // The worst first.
  EXPECT_LT(page.find("\n### b: median 62.5 %\n"), page.find("\n### a: median 20.0 %\n"));
  EXPECT_THAT(page, HasSubstr("\n### a: median 20.0 %\n"));
}

}  // namespace
}  // namespace ptdp
