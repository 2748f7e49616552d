#include "cost_model/text/as_typed.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace ptdp {
namespace {

constexpr std::string_view kBefore = "ptdp-";
constexpr std::string_view kTypedBefore = "ptdp ";
constexpr std::array<std::string_view, 6> kWords = {"plan",     "sim",       "run",
                                                    "validate", "calibrate", "profile"};
constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-_/";

/// Returns whether a command stands at `at`, and not a longer name such as ptdp-run-step or
/// /ptdp-run.
bool is_command(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + kBefore.size());
  const std::string_view word = rest.substr(0, rest.find_first_not_of(kOfNames));
  const bool is_start = at == 0 || kOfNames.find(text[at - 1]) == std::string_view::npos;
  return is_start && std::ranges::find(kWords, word) != kWords.end();
}

}  // namespace

void set_typed_command(const char* typed) {
  program_invocation_short_name = const_cast<char*>(typed);  // NOLINT: nobody writes to it
}

std::string as_typed(std::string_view text) {
  std::string result(text);
  if (!std::string_view(program_invocation_short_name).starts_with(kTypedBefore)) {
    return result;
  }
  for (std::size_t at = text.find(kBefore); at != std::string_view::npos;
       at = text.find(kBefore, at + 1)) {
    if (is_command(text, at)) {
      result.replace(at, kTypedBefore.size(), kTypedBefore);
    }
  }
  return result;
}

}  // namespace ptdp
