#include "tools/shared/completion.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "cost_model/error.h"
#include "cost_model/inputs/profile_files.h"
#include "tools/shared/flag_synonyms.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

/// The names of values that a profile or a file of one may be.
constexpr std::array kProfileValues = {NamedValue<ProfileKind>{ProfileKind::kModel, "MODEL"},
                                       NamedValue<ProfileKind>{ProfileKind::kCluster, "CLUSTER"},
                                       NamedValue<ProfileKind>{ProfileKind::kStack, "STACK"},
                                       NamedValue<ProfileKind>{ProfileKind::kGpu, "GPU"}};

/// Returns the flag that a word is, by its letter or by any of its names; nullptr if it is none.
const po::option_description* flag_named(const std::string& word,
                                         const po::options_description& flags) {
  if (word.size() == 2 && word[0] == '-') {
    const auto& all = flags.options();
    const auto found = std::ranges::find_if(
        all, [&](const auto& flag) { return short_name_of(*flag) == word.substr(1); });
    return found == all.end() ? nullptr : found->get();
  }
  const auto name = word.starts_with("--") ? known_flag(word.substr(2), flags) : std::nullopt;
  return name ? flags.find_nothrow(*name, false) : nullptr;
}

/// Returns the items that `value` may have: its choices, or its keys, and behind the "=" of a key
/// that has been `begun` its words.
std::vector<std::string> items_of(const FlagValue& value, const std::string& begun) {
  std::vector<std::string> items = value.choices;
  for (const ValueKey& key : value.keys) {
    const std::string start = key.name + "=";
    if (!begun.starts_with(start)) {
      items.push_back(start);
      continue;
    }
    for (const std::string& choice : key.choices) {
      items.push_back(start + choice);
    }
  }
  return items;
}

/// Returns the key of an item of a list, or the whole item if it has none.
std::string key_of(const std::string& item) {
  return item.substr(0, item.find('='));
}

/// Returns the values that may begin with `begun`; each has `before` in front of it.
WordChoices complete_value(const FlagValue& value, std::string begun, std::string before) {
  std::set<std::string> chosen;
  for (std::size_t comma = begun.find(','); value.is_list && comma != std::string::npos;
       comma = begun.find(',')) {
    chosen.insert(key_of(begun.substr(0, comma)));
    before += begun.substr(0, comma + 1);
    begun.erase(0, comma + 1);
  }
  std::vector<std::string> words = items_of(value, begun);
  std::erase_if(words, [&](const std::string& word) { return chosen.contains(key_of(word)); });
  const auto profile =
      find_value(std::string_view(value.name), NamedValues<ProfileKind>(kProfileValues));
  if (profile) {
    const std::vector<std::string> shipped = list_profiles(*profile);
    words.insert(words.end(), shipped.begin(), shipped.end());
  }
  WordChoices found = {.has_files = profile || value.name == "FILE" || value.name == "CALIBRATION",
                       .has_directories = value.name == "DIR"};
  for (const std::string& word : words) {
    if (word.starts_with(begun)) {
      found.words.push_back({before + word});
    }
  }
  return found;
}

WordChoices complete_flag(const po::options_description& flags,
                          const std::vector<std::string>& typed) {
  std::set<const po::option_description*> given;
  for (std::size_t i = 0; i + 1 < typed.size(); ++i) {
    given.insert(flag_named(typed[i].substr(0, typed[i].find('=')), flags));
  }
  WordChoices found;
  for (const auto& flag : flags.options()) {
    const std::string name = "--" + flag->long_name();
    const bool is_spent = given.contains(flag.get()) && !value_of(*flag).is_repeated;
    if (name.starts_with(typed.back()) && !is_spent) {
      found.words.push_back({name, flag->description()});
    }
  }
  return found;
}

WordChoices complete_word(const CommandTable& table, const po::options_description& flags,
                          const std::vector<std::string>& typed) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i + 1 < typed.size(); ++i) {
    const po::option_description* flag = flag_named(typed[i], flags);
    if (flag != nullptr && !value_of(*flag).name.empty()) {
      ++i;  // its value
    } else if (!typed[i].starts_with('-')) {
      words.push_back(typed[i]);
    }
  }
  if (words.empty()) {
    WordChoices found = complete_value(table.operand, typed.back(), "");
    for (const FirstWord& word : table.first_words) {
      if (word.name.starts_with(typed.back())) {
        found.words.push_back({word.name});
      }
    }
    return found;
  }
  const auto first = std::ranges::find(table.first_words, words.front(), &FirstWord::name);
  return complete_value(first == table.first_words.end() ? table.operand : first->operand,
                        typed.back(), "");
}

}  // namespace

WordChoices complete(const CommandTable& table, std::vector<std::string> typed) {
  if (typed.empty()) {
    typed.emplace_back();
  }
  const po::options_description flags = table.flags();
  if (typed.size() > 1) {
    const po::option_description* flag = flag_named(typed[typed.size() - 2], flags);
    if (flag != nullptr && !value_of(*flag).name.empty()) {
      return complete_value(value_of(*flag), typed.back(), "");
    }
  }
  const std::size_t equals = typed.back().find('=');
  if (typed.back().starts_with("--") && equals != std::string::npos) {
    const po::option_description* flag = flag_named(typed.back().substr(0, equals), flags);
    return flag == nullptr ? WordChoices{}
                           : complete_value(value_of(*flag), typed.back().substr(equals + 1),
                                            typed.back().substr(0, equals + 1));
  }
  return typed.back().starts_with('-') ? complete_flag(flags, typed)
                                       : complete_word(table, flags, typed);
}

std::string to_lines(const WordChoices& completions) {
  std::string text;
  for (const WordChoices::Word& word : completions.words) {
    text += word.text + (word.meaning.empty() ? "" : "\t" + word.meaning) + "\n";
  }
  return text + (completions.has_files         ? ":files\n"
                 : completions.has_directories ? ":directories\n"
                                               : "");
}

std::optional<std::string> completion_answer(int argc, const char* const* argv,
                                             const CommandTable& table) {
  if (argc < 2 || argv[1] != std::string_view(kCompletionRequest)) {
    return std::nullopt;
  }
  return to_lines(complete(table, {argv + 2, argv + argc}));
}

}  // namespace ptdp
