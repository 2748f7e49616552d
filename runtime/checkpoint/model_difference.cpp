#include "runtime/checkpoint/model_difference.h"

#include <nlohmann/json.hpp>

#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

nlohmann::ordered_json fields_of(const TransformerConfig& model) {
  ObjectWriter writer;
  describe(writer, model);
  return nlohmann::ordered_json::parse(writer.dump());
}

std::string value_of(const nlohmann::ordered_json& fields, const std::string& key) {
  return fields.contains(key) ? fields[key].dump() : "the usual";
}

}  // namespace

std::optional<ModelDifference> model_difference(const TransformerConfig& found,
                                                const TransformerConfig& expected) {
  const nlohmann::ordered_json of_found = fields_of(found);
  const nlohmann::ordered_json of_expected = fields_of(expected);
  for (const nlohmann::ordered_json* fields : {&of_expected, &of_found}) {
    for (const auto& item : fields->items()) {
      const std::string& key = item.key();
      if (value_of(of_found, key) != value_of(of_expected, key)) {
        return ModelDifference{key, value_of(of_found, key), value_of(of_expected, key)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
