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

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Returns a name without a count in front of it: "H100" of "8xH100".
std::string_view without_count(std::string_view name) {
  const std::size_t letter = name.find_first_not_of("0123456789");
  const bool has_count = letter != 0 && letter != std::string_view::npos && name[letter] == 'x';
  return has_count ? name.substr(letter + 1) : name;
}

/// Returns the words of a name: what stands between hyphens, underscores and blanks.
std::vector<std::string_view> words_of(std::string_view name) {
  constexpr std::string_view separators = "-_ ";
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(separators), name.size());
    if (end > 0) {
      words.push_back(name.substr(0, end));
    }
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

/// Returns whether a word is that of a machine or a size, with letters and digits: "h100", "70b".
bool is_designation(std::string_view word) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  return std::ranges::any_of(word, is_digit) && std::ranges::any_of(word, is_letter);
}

bool equal_words(std::string_view a, std::string_view b) {
  return a.size() == b.size() && edit_distance(a, b) == 0;
}

/// How a known name resembles the one that was found.
struct Likeness {
  int shared_words = 0;     ///< Words that both have and that tell names apart.
  bool is_part = false;     ///< Whether the known name has the other in it.
  bool is_spelled = false;  ///< Whether it begins alike, or few edits are between them.
  int distance = 0;         ///< Edits between them.
};

/// Returns how `name` resembles `found`. A name of one word shares it from three letters on; of
/// several words only designations count, since many names have the others.
Likeness likeness(std::string_view found, std::string_view name) {
  Likeness like{.distance = edit_distance(found, name)};
  const std::vector<std::string_view> searched = words_of(without_count(found));
  const std::vector<std::string_view> known = words_of(name);
  for (const std::string_view word : searched) {
    const bool tells = is_designation(word) || (searched.size() == 1 && word.size() >= 3);
    const auto is_same = [&](std::string_view other) { return equal_words(word, other); };
    like.shared_words += tells && std::ranges::any_of(known, is_same) ? 1 : 0;
  }
  const auto same_letters = [](char a, char b) { return lower(a) == lower(b); };
  like.is_part =
      found.size() >= 3 && is_designation(found) &&
      std::search(name.begin(), name.end(), found.begin(), found.end(), same_letters) != name.end();
  const auto longer = static_cast<int>(std::max(found.size(), name.size()));
  like.is_spelled =
      (found.size() >= 3 && name.starts_with(found)) || like.distance <= std::max(1, longer / 3);
  return like;
}

/// Returns the known names that are near to `found`, nearest first, at most three.
///
/// Names that share most words come first, then by the edits between them. A name is near, too, if
/// it begins with `found`, from three letters on, or is at most max(1, n/3) edits away, with n the
/// length of the longer name. Where `found` is a designation that names share or have in them, no
/// others are near: "h800" is one letter from "h100", and another machine.
std::vector<std::string> near_names(std::string_view found, std::span<const std::string> known) {
  if (found.size() > kLongestName) {
    return {};
  }
  struct Near {
    Likeness like;
    std::string name;
  };
  std::vector<Near> near;
  for (const std::string& name : known) {
    if (name.size() > kLongestName) {
      continue;  // where a key is missing, the known names are those of a hostile file
    }
    if (const Likeness like = likeness(found, name);
        like.shared_words > 0 || like.is_part || like.is_spelled) {
      near.push_back({like, name});
    }
  }
  std::ranges::stable_sort(near, [](const Near& x, const Near& y) {
    return std::pair(-x.like.shared_words, x.like.distance) <
           std::pair(-y.like.shared_words, y.like.distance);
  });
  const auto keep = [&](const auto& is_kept) {
    if (is_designation(found) && std::ranges::any_of(near, is_kept)) {
      std::erase_if(near, [&](const Near& name) { return !is_kept(name); });
    }
  };
  keep([](const Near& name) { return name.like.shared_words > 0; });
  keep([](const Near& name) { return name.like.is_part || name.like.shared_words > 0; });
  std::vector<std::string> names;
  for (Near& name : near) {
    if (names.size() < kMostSuggestions) {
      names.push_back(std::move(name.name));
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
