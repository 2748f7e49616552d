#include "planner/import/shell/inner_script.h"

#include "planner/import/shell/shell_variables.h"

namespace ptdp {
namespace {

bool is_shell(const std::string& word) {
  return word == "sh" || word == "bash" || word.ends_with("/sh") || word.ends_with("/bash");
}

}  // namespace

std::optional<InnerScript> inner_script(const std::vector<std::string>& words,
                                        const std::vector<std::string>& positional) {
  if (words.front() == "eval") {
    const std::string text = joined_values({words.begin() + 1, words.end()});
    if (!text.empty()) {
      return InnerScript{.text = text, .is_eval = true, .positional = positional};
    }
  }
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string& flag = words[i + 1];
    if (is_shell(words[i]) && (flag == "-c" || flag == "-lc" || flag == "-xc") &&
        !words[i + 2].empty()) {
      return InnerScript{
          .text = words[i + 2],
          .positional = {words.begin() + static_cast<std::ptrdiff_t>(i) + 3, words.end()}};
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
