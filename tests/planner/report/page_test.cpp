// Tests of the page as text: what is in it, and that no name gets out of its place.
#include <gmock/gmock.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "planner/report/report.h"
#include "tests/planner/report/made_up_report.h"

namespace ptdp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Returns where `part` is in `text`, each time.
std::vector<std::size_t> places(std::string_view text, std::string_view part) {
  std::vector<std::size_t> found;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    found.push_back(at);
  }
  return found;
}

/// Returns what a browser takes for the document of the page: up to the first end of a script.
std::string document_in(const std::string& html) {
  constexpr std::string_view start = R"(<script type="application/json" id="report">)";
  const std::size_t from = html.find(start) + start.size();
  return html.substr(from, html.find("</script", from) - from);
}

TEST(Page, HoldsTheDocument) {
  const Report report = made_up_report();
  EXPECT_EQ(nlohmann::json::parse(document_in(to_html(report))),
            nlohmann::json::parse(to_json(report)));
}

TEST(Page, LeavesNothingInItsDocumentThatABrowserCouldActUpon) {
  const std::string document = document_in(to_html(made_up_report()));
  for (const char* acted_upon : {"<", ">", "&", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    EXPECT_THAT(document, Not(HasSubstr(acted_upon)));
  }
}

TEST(Page, HasNoOtherScriptsThanItsOwn) {
  const std::string html = to_html(made_up_report());
  EXPECT_EQ(places(html, "<script").size(), 2U);
  EXPECT_EQ(places(html, "</script").size(), 2U);
  EXPECT_EQ(places(html, "<style").size(), 1U);
  EXPECT_EQ(places(html, "</style").size(), 1U);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
}

TEST(Page, TellsTheAnswerWithoutAScript) {
  Report report;
  report.title = "1 < 2 & \"3\"";
  report.sentence = "So <it> is.";
  report.rests_on = {"this & that"};
  report.command = "ptdp-plan '<model>'";
  EXPECT_THAT(to_html(report),
              AllOf(StartsWith("<!doctype html>\n<html lang=\"en\">"),
                    HasSubstr("<title>1 &lt; 2 &amp; &quot;3&quot;</title>"),
                    HasSubstr("<h1>1 &lt; 2 &amp; &quot;3&quot;</h1>"),
                    HasSubstr("So &lt;it&gt; is."), HasSubstr("<li>this &amp; that</li>"),
                    HasSubstr("<code>ptdp-plan '&lt;model&gt;'</code>")));
}

TEST(Page, ForbidsEverythingButItsOwnScriptAndStyle) {
  const std::string html = to_html(made_up_report());
  const std::size_t policy = html.find(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action "
      "'none'\">");
  ASSERT_NE(policy, std::string::npos);
  EXPECT_LT(policy, html.find("<script"));
  EXPECT_LT(policy, html.find("<style"));
}

TEST(Page, ShowsBytesThatAreNoTextAsSuch) {
  Report report;
  report.title = "\xFF\xC3";
  EXPECT_THAT(document_in(to_html(report)), HasSubstr("\"title\":\"\xEF\xBF\xBD"));
}

TEST(Page, IsTheSameForEqualReports) {
  EXPECT_EQ(to_html(made_up_report()), to_html(made_up_report()));
}

}  // namespace
}  // namespace ptdp
