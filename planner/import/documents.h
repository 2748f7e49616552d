// Configuration files in YAML, TOML and JSON as values under dotted keys.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Values under dotted keys: "model.hidden_size" has one, a list has several. A list of lists has
/// the keys "key.0", "key.1". Truth values are "true" and "false"; a null is left out.
using DocumentSettings = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Returns the settings of a YAML document. A value that holds "${...}", which OmegaConf fills in,
/// is unknown (planner/import/shell/shell_expansion.h). The last one of equal keys counts, as in
/// PyYAML. Throws Error, with `place` and line, for text that is no YAML.
[[nodiscard]] DocumentSettings yaml_settings(std::string_view text, const std::string& place);
/// Returns the settings of a TOML document. Throws Error, with `place` and line, for other text.
[[nodiscard]] DocumentSettings toml_settings(std::string_view text, const std::string& place);
/// Returns the settings of a JSON object. Throws Error, with `place` and line, for other text.
[[nodiscard]] DocumentSettings json_settings(std::string_view text, const std::string& place);

}  // namespace ptdp
