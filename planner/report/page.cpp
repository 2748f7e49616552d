// Writes a report as a page.
#include <cstddef>
#include <string>
#include <string_view>

#include "planner/report/page_files.h"
#include "planner/report/report.h"

namespace ptdp {
namespace {

/// Returns the text as HTML shows it, in elements and in quoted attributes.
std::string in_html(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

/// Returns a JSON document without blanks that holds nothing that ends a script, begins a tag or a
/// comment, or breaks a line of JavaScript. Such characters stand inside strings alone.
std::string in_script(const std::string& document) {
  std::string script;
  script.reserve(document.size());
  bool is_in_string = false;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char letter = document[i];
    if (!is_in_string) {
      is_in_string = letter == '"';
      if (letter != ' ' && letter != '\n') {
        script += letter;
      }
      continue;
    }
    switch (letter) {
      case '"':
        is_in_string = false;
        script += letter;
        break;
      case '\\':
        script += letter;
        script += document[++i];  // what is escaped ends no string
        break;
      case '<':
        script += "\\u003c";
        break;
      case '>':
        script += "\\u003e";
        break;
      case '&':
        script += "\\u0026";
        break;
      case '\xE2':  // the first of the three bytes of U+2028 and U+2029
        if (document.compare(i, 2, "\xE2\x80") == 0 &&
            (document[i + 2] == '\xA8' || document[i + 2] == '\xA9')) {
          script += document[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
          i += 2;
          break;
        }
        [[fallthrough]];
      default:
        script += letter;
    }
  }
  return script;
}

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="ptdp )" PTDP_VERSION R"(">
)";

std::string answer(const Report& report) {
  std::string html = "<header>\n<h1>" + in_html(report.title) + "</h1>\n<p class=\"sentence\">" +
                     in_html(report.sentence) + "</p>\n";
  if (!report.rests_on.empty()) {
    html += "<h2 class=\"rests-on\">Rests on</h2>\n<ul class=\"rests-on\">\n";
    for (const std::string& line : report.rests_on) {
      html += "<li>" + in_html(line) + "</li>\n";
    }
    html += "</ul>\n";
  }
  return html + "</header>\n";
}

}  // namespace

std::string to_html(const Report& report) {
  std::string html(kHead);
  html += "<title>" + in_html(report.title) + "</title>\n<style>\n";
  html += page_style();
  html += "</style>\n</head>\n<body>\n<main>\n" + answer(report);
  html +=
      R"(<noscript><p>The pictures and tables below need JavaScript, and no network.</p></noscript>
<div id="sections"></div>
</main>
<footer><p>Written by ptdp )" PTDP_VERSION;
  html += report.command.empty() ? "" : ": <code>" + in_html(report.command) + "</code>";
  html += "</p></footer>\n<script type=\"application/json\" id=\"report\">";
  html += in_script(to_json(report));
  html += "</script>\n<script type=\"module\">\n";
  html += page_script();
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace ptdp
