// Reads lists of layers from JSON.
#include "planner/partition_report/layer_list.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"

namespace ptdp {
namespace {

constexpr Range kLayerTime = {0.0, 1e6, "seconds per microbatch"};
constexpr Range kGibibytes = {0.0, 1e4, "GiB"};

ListedLayer read_layer(ObjectReader& reader) {
  ListedLayer layer;
  reader.text("name", layer.name);
  if (reader.has("time_s")) {
    for (const char* part : {"forward_s", "backward_s"}) {
      if (reader.has(part)) {
        throw Error(reader.place_of(part) + ": expected either time_s, or forward_s and " +
                    "backward_s, got both");
      }
    }
    reader.quantity("time_s", layer.time, 1.0, kLayerTime);
  } else if (reader.has("forward_s") || reader.has("backward_s")) {
    Seconds forward;
    Seconds backward;
    reader.quantity("forward_s", forward, 1.0, kLayerTime);
    reader.quantity("backward_s", backward, 1.0, kLayerTime);
    layer.time = forward + backward;
  } else {
    reader.quantity("time_s", layer.time, 1.0, kLayerTime);  // throws: the key is missing
  }
  if (reader.has("memory_GiB")) {
    reader.quantity("memory_GiB", layer.memory, kGibi, kGibibytes);
  }
  return layer;
}

std::optional<ListedLayer> read_end(ObjectReader& reader, const std::string& key) {
  if (!reader.has(key)) {
    return std::nullopt;
  }
  ObjectReader nested = reader.child(key);
  ListedLayer layer = read_layer(nested);
  nested.finish();
  return layer;
}

LayerList read_list(ObjectReader& reader) {
  reader.schema(kLayersSchema);
  LayerList list;
  reader.text("name", list.name);
  if (reader.has("source")) {
    reader.text("source", list.source);
  }
  list.embedding = read_end(reader, "embedding");
  list.logits = read_end(reader, "logits");
  std::int64_t num_layers = 0;
  for (ObjectReader& nested : reader.children("layers")) {
    ListedLayer& layer = list.layers.emplace_back(read_layer(nested));
    if (nested.has("count")) {
      nested.count("count", layer.count, 1, kMostLayers);
    }
    nested.finish();
    num_layers += layer.count;
  }
  reader.finish();
  if (num_layers < 1 || num_layers > kMostLayers) {
    throw Error(reader.place_of("layers") + ": expected 1 to " + std::to_string(kMostLayers) +
                " layers, got " + std::to_string(num_layers));
  }
  return list;
}

bool takes_time(const LayerList& list) {
  const auto is_timed = [](const ListedLayer& layer) { return layer.time > Seconds(0.0); };
  return std::any_of(list.layers.begin(), list.layers.end(), is_timed) ||
         (list.embedding && is_timed(*list.embedding)) || (list.logits && is_timed(*list.logits));
}

}  // namespace

LayerList parse_layer_list(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  LayerList list = read_list(reader);
  if (!takes_time(list)) {
    throw Error(place + ": layers: expected one or more that take time, got none");
  }
  return list;
}

LayerList read_layer_list(const std::filesystem::path& path) {
  return parse_layer_list(read_file(path), path.string());
}

}  // namespace ptdp
