#include "runtime/weights/weights_index.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/strict_json.h"

namespace ptdp {
namespace {

constexpr const char* kMapKey = "weight_map";
constexpr const char* kIndexMetadataKey = "metadata";

/// Returns whether a path names a file below the directory that it is relative to.
bool stays_below(const std::string& file) {
  const std::filesystem::path path(file);
  return !file.empty() && path.is_relative() && path.has_filename() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".."; }) &&
         std::ranges::none_of(file, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

std::string read_shard(const nlohmann::json& value, const std::string& place) {
  const std::string* file = value.get_ptr<const std::string*>();
  if (file == nullptr || !stays_below(*file) || !file->ends_with(".safetensors")) {
    throw Error(place +
                ": expected the name of a .safetensors file in the index's directory, got " +
                in_quotes(file == nullptr ? value.dump() : *file));
  }
  return *file;
}

}  // namespace

WeightMap parse_weights_index(std::string_view text, const std::string& place) {
  check_json(text, place);
  const nlohmann::json document = nlohmann::json::parse(text);
  if (!document.is_object() || !document.contains(kMapKey)) {
    throw Error(place + ": expected an object with \"weight_map\", got " +
                in_quotes(document.dump()));
  }
  for (const auto& item : document.items()) {
    if (item.key() != kMapKey && item.key() != kIndexMetadataKey) {
      throw Error(place + R"(: expected "metadata" and "weight_map" alone, got )" +
                  in_quotes(item.key()));
    }
  }
  const nlohmann::json& map = document.at(kMapKey);
  if (!map.is_object()) {
    throw Error(place + ": weight_map: expected an object of file names, got " +
                in_quotes(map.dump()));
  }
  WeightMap files;
  for (const auto& item : map.items()) {
    files[item.key()] = read_shard(item.value(), place + ": weight_map: " + in_quotes(item.key()));
  }
  if (files.empty()) {
    throw Error(place + ": weight_map: expected tensors, found none");
  }
  return files;
}

std::string weights_index_text(const WeightMap& files, std::int64_t total_bytes) {
  const nlohmann::json index = {{kIndexMetadataKey, {{"total_size", total_bytes}}},
                                {kMapKey, files}};
  return index.dump(/*indent=*/2, /*indent_char=*/' ', /*ensure_ascii=*/true) + "\n";
}

}  // namespace ptdp
