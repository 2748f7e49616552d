#include "cost_model/text/did_you_mean.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::size_t kLongestName = 80;  // bounds the work on hostile input
constexpr std::size_t kMostSuggestions = 3;
constexpr int kLongestDistance = 1'000'000;  // more than any name has letters

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Returns a name without a count in front of it: "H100" of "8xH100".
std::string_view without_count(std::string_view name) {
  const std::size_t letter = name.find_first_not_of("0123456789");
  const bool has_count = letter != 0 && letter != std::string_view::npos && name[letter] == 'x';
  return has_count ? name.substr(letter + 1) : name;
}

/// Returns whether a part of `name` between hyphens or underscores is `part`, case aside.
bool has_part(std::string_view name, std::string_view part) {
  constexpr std::string_view separators = "-_";
  while (true) {
    const std::size_t end = name.find_first_of(separators);
    const std::string_view first = name.substr(0, end);
    if (first.size() == part.size() && edit_distance(first, part) == 0) {
      return true;
    }
    if (end == std::string_view::npos) {
      return false;
    }
    name.remove_prefix(end + 1);
  }
}

/// Returns the known names that are near to `found`, nearest first, at most three. Names that have
/// it as a part come first. A name is near if it begins with `found`; either of three letters or
/// more. It is also near if it is at most max(1, n/3) edits away, with n the length of the longer
/// name.
std::vector<std::string> near_names(std::string_view found, std::span<const std::string> known) {
  if (found.size() > kLongestName) {
    return {};
  }
  std::vector<std::pair<int, std::string>> near;
  for (const std::string& name : known) {
    const int distance = edit_distance(found, name);
    const auto longer = static_cast<int>(std::max(found.size(), name.size()));
    const std::string_view bare = without_count(found);
    if (bare.size() >= 3 && has_part(name, bare)) {
      near.emplace_back(distance - kLongestDistance, name);
    } else if ((found.size() >= 3 && name.starts_with(found)) ||
               distance <= std::max(1, longer / 3)) {
      near.emplace_back(distance, name);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<std::string> names;
  for (const auto& [distance, name] : near) {
    if (names.size() < kMostSuggestions) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> previous(b.size() + 1);
  std::iota(previous.begin(), previous.end(), 0);
  std::vector<int> current(b.size() + 1);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = previous[j - 1] + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
    }
    std::swap(previous, current);
  }
  return previous.back();
}

std::string did_you_mean(std::string_view found, std::span<const std::string> known) {
  const std::vector<std::string> names = near_names(found, known);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "; did you mean " : i + 1 == names.size() ? " or " : ", ";
    text += '"' + names[i] + '"';
  }
  return text.empty() ? text : text + "?";
}

std::optional<std::string> nearest(std::string_view found, std::span<const std::string> known) {
  const std::vector<std::string> names = near_names(found, known);
  return names.empty() ? std::nullopt : std::optional(names.front());
}

std::size_t find_choice(std::string_view found, std::span<const std::string> choices,
                        const std::string& place) {
  const auto choice = std::find(choices.begin(), choices.end(), found);
  if (choice != choices.end()) {
    return static_cast<std::size_t>(choice - choices.begin());
  }
  std::string listed;
  for (const std::string& name : choices) {
    listed += (listed.empty() ? "" : ", ") + name;
  }
  throw Error(place + ": expected one of " + listed + ", got " + in_quotes(found) +
              did_you_mean(found, choices));
}

}  // namespace ptdp
