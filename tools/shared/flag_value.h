// What flags take for values: the name that help shows, and what a shell completes.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// Declares the value of a flag that takes one text. `name` is what help shows in its place: N,
/// FILE, DIR, MODEL, .... `choices` are the words that the flag takes, if not only these. A flag
/// that takes several, separated by commas, has a name that ends in ",...".
[[nodiscard]] boost::program_options::typed_value<std::string>* text_value(
    const std::string& name, std::vector<std::string> choices = {});

/// Declares the value of a flag that takes one of the names of a table.
template <class Value>
[[nodiscard]] boost::program_options::typed_value<std::string>* choice_value(
    const std::string& name, NamedValues<Value> names) {
  return text_value(name, names_of(names));
}

/// A key of a value such as tp=8,recompute=full, and the words that it takes, if any are known.
struct ValueKey {
  std::string name;
  std::vector<std::string> choices = {};
};

/// Declares the value of a flag that takes keys with their values, separated by commas.
[[nodiscard]] boost::program_options::typed_value<std::string>* keyed_value(
    const std::string& name, std::vector<ValueKey> keys);

/// Declares the value of a flag that may be repeated.
[[nodiscard]] boost::program_options::typed_value<std::vector<std::string>>* texts_value(
    const std::string& name);

/// The value of a flag, as help and completion show it.
struct FlagValue {
  std::string name;                  ///< Empty for a switch, which takes none.
  std::vector<std::string> choices;  ///< Words that it takes.
  std::vector<ValueKey> keys = {};   ///< Keys that it takes, each with "=" and a value behind it.
  bool is_list = false;              ///< Whether it takes several, separated by commas.
  bool is_repeated = false;          ///< Whether the flag may be repeated.
};

/// Returns what was declared of a flag's value.
[[nodiscard]] FlagValue value_of(const boost::program_options::option_description& flag);

/// Returns the letter of a flag, such as "o"; empty if it has none.
[[nodiscard]] std::string short_name_of(const boost::program_options::option_description& flag);

}  // namespace ptdp
