#include "runtime/weights/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/strict_json.h"

namespace ptdp {
namespace {

using nlohmann::json;
using NamedTensor = std::pair<const std::string, StoredTensor>;

constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kTypeKey = "dtype";
constexpr const char* kShapeKey = "shape";
constexpr const char* kOffsetsKey = "data_offsets";

/// Returns where a tensor stands in messages.
std::string place_of_tensor(const std::string& place, std::string_view name) {
  return place + ": tensor " + in_quotes(name);
}

/// Returns a number that is a size or a place. Throws Error at `place` when the value is none.
std::int64_t read_size(const json& value, const std::string& place) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{most}) {
    throw Error(fmt::format("{}: expected a whole number from 0 to {}, got {}", place, most,
                            in_quotes(value.dump())));
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> read_sizes(const json& value, const std::string& place) {
  if (!value.is_array()) {
    throw Error(place + ": expected an array of whole numbers, got " + in_quotes(value.dump()));
  }
  std::vector<std::int64_t> sizes;
  sizes.reserve(value.size());
  for (const json& size : value) {
    sizes.push_back(read_size(size, fmt::format("{}[{}]", place, sizes.size())));
  }
  return sizes;
}

/// Throws Error unless the object has the keys of a tensor, and no other.
void check_keys(const json& object, const std::string& place) {
  if (!object.is_object()) {
    throw Error(fmt::format("{}: expected an object with {}, {} and {}, got {}", place, kTypeKey,
                            kShapeKey, kOffsetsKey, in_quotes(object.dump())));
  }
  for (const char* key : {kTypeKey, kShapeKey, kOffsetsKey}) {
    if (!object.contains(key)) {
      throw Error(fmt::format("{}: expected {}, {} and {}, found no {}", place, kTypeKey, kShapeKey,
                              kOffsetsKey, key));
    }
  }
  for (const auto& item : object.items()) {
    if (item.key() != kTypeKey && item.key() != kShapeKey && item.key() != kOffsetsKey) {
      throw Error(fmt::format("{}: expected {}, {} and {} alone, got {}", place, kTypeKey,
                              kShapeKey, kOffsetsKey, in_quotes(item.key())));
    }
  }
}

/// Reads a tensor, and checks what it says against itself.
StoredTensor read_tensor(const json& object, const std::string& place) {
  check_keys(object, place);
  const json& type = object.at(kTypeKey);
  const auto bits = type.is_string() ? stored_bits(type.get_ref<const std::string&>())
                                     : std::optional<std::int64_t>();
  if (!bits) {
    throw Error(fmt::format(
        "{}: {}: expected one of {}, got {}", place, kTypeKey, stored_type_names(),
        type.is_string() ? in_quotes(type.get_ref<const std::string&>()) : in_quotes(type.dump())));
  }
  StoredTensor tensor{
      .type = type.get<std::string>(),
      .shape = read_sizes(object.at(kShapeKey), fmt::format("{}: {}", place, kShapeKey))};
  const std::string offsets_place = fmt::format("{}: {}", place, kOffsetsKey);
  const auto offsets = read_sizes(object.at(kOffsetsKey), offsets_place);
  if (offsets.size() != 2) {
    throw Error(fmt::format("{}: expected a begin and an end, got {}", offsets_place,
                            in_quotes(object.at(kOffsetsKey).dump())));
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.end < tensor.begin) {
    throw Error(fmt::format("{}: end {}, expected at least the begin, {}", offsets_place,
                            tensor.end, tensor.begin));
  }
  const auto bytes = tensor_bytes(*bits, tensor.shape);
  const std::string shape = sizes_text(tensor.shape);
  if (!bytes) {
    throw Error(fmt::format("{}: shape {} of {}, expected a whole number of bytes, at most {} bits",
                            place, shape, tensor.type, std::numeric_limits<std::int64_t>::max()));
  }
  if (*bytes != tensor.end - tensor.begin) {
    throw Error(fmt::format("{}: {} to {} are {} bytes, expected {} for shape {} of {}",
                            offsets_place, tensor.begin, tensor.end, tensor.end - tensor.begin,
                            *bytes, shape, tensor.type));
  }
  return tensor;
}

std::map<std::string, std::string, std::less<>> read_metadata(const json& object,
                                                              const std::string& place) {
  if (!object.is_object()) {
    throw Error(fmt::format("{}: {}: expected an object of texts, got {}", place, kMetadataKey,
                            in_quotes(object.dump())));
  }
  std::map<std::string, std::string, std::less<>> texts;
  for (const auto& item : object.items()) {
    if (!item.value().is_string()) {
      throw Error(fmt::format("{}: {}: {}: expected a text, got {}", place, kMetadataKey,
                              in_quotes(item.key()), in_quotes(item.value().dump())));
    }
    texts[item.key()] = item.value().get<std::string>();
  }
  return texts;
}

/// Throws Error unless the tensors, in the order of their places, tile the data from end to end.
void check_tiles(const SafetensorsHeader& header, std::int64_t data_bytes,
                 const std::string& place) {
  std::vector<const NamedTensor*> order;
  order.reserve(header.tensors.size());
  for (const NamedTensor& tensor : header.tensors) {
    order.push_back(&tensor);
  }
  std::ranges::sort(order, {}, [](const NamedTensor* tensor) {
    return std::tuple(tensor->second.begin, tensor->second.end);
  });
  std::int64_t end = 0;
  std::string where = "where the data begin";
  for (const NamedTensor* named : order) {
    const auto& [name, tensor] = *named;
    if (tensor.begin != end) {
      throw Error(fmt::format("{}: {}: begins at byte {}, expected {}, {}",
                              place_of_tensor(place, name), kOffsetsKey, tensor.begin, end, where));
    }
    if (tensor.end > data_bytes) {
      throw Error(fmt::format("{}: {}: ends at byte {}, expected at most {}, where the file ends",
                              place_of_tensor(place, name), kOffsetsKey, tensor.end, data_bytes));
    }
    end = tensor.end;
    where = "where tensor " + in_quotes(name) + " ends";
  }
  if (end != data_bytes) {
    throw Error(fmt::format("{}: {} bytes behind the header, expected {}, {}", place, data_bytes,
                            end, where));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes,
                                           const std::string& place) {
  const std::string header_place = place + ": header";
  if (!text.starts_with('{')) {
    throw Error(header_place + ": expected a JSON object that begins with \"{\", got " +
                in_quotes(text));
  }
  check_json(text, header_place);
  const json document = json::parse(text);
  SafetensorsHeader header;
  for (const auto& item : document.items()) {
    if (item.key() == kMetadataKey) {
      header.metadata = read_metadata(item.value(), place);
    } else {
      header.tensors[item.key()] = read_tensor(item.value(), place_of_tensor(place, item.key()));
    }
  }
  check_tiles(header, data_bytes, place);
  return header;
}

std::string safetensors_head(const std::vector<std::pair<std::string, StoredTensor>>& tensors) {
  nlohmann::ordered_json header = {{kMetadataKey, {{"format", "pt"}}}};
  std::string text = header.dump();
  text.pop_back();
  // One by one, since an ordered object of the library takes quadratic time.
  for (const auto& [name, tensor] : tensors) {
    const nlohmann::ordered_json fields = {{kTypeKey, tensor.type},
                                           {kShapeKey, tensor.shape},
                                           {kOffsetsKey, {tensor.begin, tensor.end}}};
    text += "," + json(name).dump() + ":" + fields.dump();
  }
  text += "}";
  constexpr std::size_t alignment = 8;
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  std::string head;
  for (unsigned i = 0; i < kHeaderLengthBytes; ++i) {
    head += static_cast<char>((text.size() >> (8 * i)) & 0xFFU);
  }
  return head + text;
}

}  // namespace ptdp
