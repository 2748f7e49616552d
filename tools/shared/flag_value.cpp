#include "tools/shared/flag_value.h"

#include <utility>

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kListEnd = ",...";

/// A text that knows its choices, or its keys.
class ChosenText : public po::typed_value<std::string> {
 public:
  explicit ChosenText(std::vector<std::string> choices, std::vector<ValueKey> keys = {})
      : po::typed_value<std::string>(nullptr),
        choices_(std::move(choices)),
        keys_(std::move(keys)) {}

  [[nodiscard]] const std::vector<std::string>& choices() const { return choices_; }
  [[nodiscard]] const std::vector<ValueKey>& keys() const { return keys_; }

 private:
  std::vector<std::string> choices_;
  std::vector<ValueKey> keys_;
};

}  // namespace

po::typed_value<std::string>* text_value(const std::string& name,
                                         std::vector<std::string> choices) {
  // Owned by the flag that it is given to.
  return (new ChosenText(std::move(choices)))->value_name(name);  // NOLINT
}

po::typed_value<std::string>* keyed_value(const std::string& name, std::vector<ValueKey> keys) {
  return (new ChosenText({}, std::move(keys)))->value_name(name);  // NOLINT: as above
}

po::typed_value<std::vector<std::string>>* texts_value(const std::string& name) {
  return po::value<std::vector<std::string>>()->value_name(name);
}

FlagValue value_of(const po::option_description& flag) {
  const po::value_semantic& declared = *flag.semantic();
  if (declared.max_tokens() == 0) {
    return {};
  }
  FlagValue value = {.name = declared.name()};
  if (const auto* text = dynamic_cast<const ChosenText*>(&declared)) {
    value.choices = text->choices();
    value.keys = text->keys();
  } else {
    value.is_repeated = true;
  }
  value.is_list = value.name.ends_with(kListEnd) || !value.keys.empty();
  return value;
}

std::string short_name_of(const po::option_description& flag) {
  const std::string shown =
      flag.canonical_display_name(po::command_line_style::allow_dash_for_short);
  return shown.starts_with('-') ? shown.substr(1) : "";
}

}  // namespace ptdp
