// Reads lists of layers from JSON.
#include "planner/partition_report/layer_list.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"

namespace ptdp {
namespace {

constexpr Range kLayerTime = {0.0, 1e6, "seconds per microbatch"};
constexpr Range kGibibytes = {0.0, 1e4, "GiB"};
constexpr double kMebibyte = kGibi / 1024.0;
constexpr Range kMebibytes = {0.0, 1e7, "MiB"};
constexpr Range kParameters = {0.0, 1e15, "parameters"};
constexpr Range kBytesPerParameter = {0.0, 100.0, "bytes per parameter"};
constexpr int kMostOfASize = 100'000'000;

constexpr std::size_t kNamedMissing = 3;

void read_number(ObjectReader& reader, const std::string& key, const Range& range,
                 std::optional<double>& value) {
  if (reader.has(key)) {
    reader.number(key, value.emplace(), range);
  }
}

std::optional<Bytes> read_output(ObjectReader& reader) {
  Bytes output;
  if (!reader.has("output_MiB")) {
    return std::nullopt;
  }
  reader.quantity("output_MiB", output, kMebibyte, kMebibytes);
  return output;
}

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
    layer.forward = forward;
  } else {
    reader.quantity("time_s", layer.time, 1.0, kLayerTime);  // throws: the key is missing
  }
  if (reader.has("memory_GiB")) {
    reader.quantity("memory_GiB", layer.memory, kGibi, kGibibytes);
  }
  read_number(reader, "parameters", kParameters, layer.parameters);
  if (reader.has("activation_GiB")) {
    reader.quantity("activation_GiB", layer.activations.emplace(), kGibi, kGibibytes);
  }
  layer.output = read_output(reader);
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
  if (reader.has("tp")) {
    reader.count("tp", list.tp, 1, kMostOfASize);
  }
  if (reader.has("micro_batch_size")) {
    reader.count("micro_batch_size", list.micro_batch_size, 1, kMostOfASize);
  }
  read_number(reader, "weight_bytes", kBytesPerParameter, list.weight_bytes);
  read_number(reader, "gradient_bytes", kBytesPerParameter, list.gradient_bytes);
  read_number(reader, "optimizer_bytes", kBytesPerParameter, list.optimizer_bytes);
  const std::optional<Bytes> usual_output = read_output(reader);
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
  const auto hand_on_the_usual = [&](ListedLayer& layer) {
    layer.output = layer.output ? layer.output : usual_output;
  };
  std::ranges::for_each(list.layers, hand_on_the_usual);
  if (list.embedding) {
    hand_on_the_usual(*list.embedding);
  }
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

std::vector<const ListedLayer*> entries_of(const LayerList& list) {
  std::vector<const ListedLayer*> entries;
  if (list.embedding) {
    entries.push_back(&*list.embedding);
  }
  for (const ListedLayer& layer : list.layers) {
    entries.push_back(&layer);
  }
  if (list.logits) {
    entries.push_back(&*list.logits);
  }
  return entries;
}

void check_searchable(const LayerList& list, const std::string& place) {
  std::vector<std::string> missing;
  const std::vector<const ListedLayer*> entries = entries_of(list);
  for (const ListedLayer* layer : entries) {
    const bool is_last = layer == entries.back() && layer->count == 1;
    const std::string name = list.embedding && layer == &*list.embedding ? "embedding"
                             : list.logits && layer == &*list.logits
                                 ? "logits"
                                 : "layers[" + std::to_string(layer - list.layers.data()) + "]";
    for (const auto& [is_there, key] :
         {std::pair(layer->parameters.has_value(), ".parameters"),
          std::pair(layer->activations.has_value(), ".activation_GiB"),
          std::pair(layer->output.has_value() || is_last, ".output_MiB")}) {
      if (!is_there) {
        missing.push_back(name + key);
      }
    }
  }
  if (missing.empty()) {
    return;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(missing.size(), kNamedMissing); ++i) {
    text += (text.empty() ? "" : ", ") + missing[i];
  }
  if (missing.size() > kNamedMissing) {
    text += " and " + std::to_string(missing.size() - kNamedMissing) + " more";
  }
  throw Error(place + ": " + text +
              ": missing; a search over degrees needs what each layer holds, keeps and hands on " +
              as_typed("(`ptdp-plan partition` does not)"));
}

LayerList read_layer_list(const std::filesystem::path& path) {
  return parse_layer_list(read_file(path), path.string());
}

}  // namespace ptdp
