#include "planner/clusters/probe_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

constexpr Range kMicrosecondsRange = {1e-4, 1e12, "microseconds"};
constexpr int kMostProbedSize = 1'000'000'000;

constexpr std::array kProbedCollectives = {
    NamedValue<BenchedCollective>{BenchedCollective::kAllReduce, "all-reduce"},
    NamedValue<BenchedCollective>{BenchedCollective::kAllGather, "all-gather"},
    NamedValue<BenchedCollective>{BenchedCollective::kReduceScatter, "reduce-scatter"},
    NamedValue<BenchedCollective>{BenchedCollective::kAllToAll, "all-to-all"},
    NamedValue<BenchedCollective>{BenchedCollective::kSendReceive, "send-receive"}};

enum class ProbeBackend { kCuda, kRocm, kCpu };
constexpr std::array kProbeBackends = {NamedValue<ProbeBackend>{ProbeBackend::kCuda, "cuda"},
                                       NamedValue<ProbeBackend>{ProbeBackend::kRocm, "rocm"},
                                       NamedValue<ProbeBackend>{ProbeBackend::kCpu, "cpu"}};

/// Returns the operation of a table's name; nullopt for one that no GPU's file has.
std::optional<DeviceOperation> operation_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DeviceOperation::kAdamW); ++i) {
    const auto operation = static_cast<DeviceOperation>(i);
    if (name_of(operation) == name) {
      return operation;
    }
  }
  return std::nullopt;
}

/// Reads a table of sizes and times. Points that contradict others are left out.
void read_operation(ObjectReader& table, ProbeReport& probe) {
  std::string name;
  table.name("operation", name);
  const std::optional<DeviceOperation> operation = operation_named(name);
  if (!operation) {
    throw Error(table.place_of("operation") + ": expected an operation of measured_operations " +
                "(profiles/README.md), got \"" + name + "\"");
  }
  Precision precision = Precision::kBf16;
  table.choice("precision", precision, NamedValues<Precision>(kPrecisionNames));
  std::vector<double> times;
  table.numbers("time_us", times, kMicrosecondsRange);
  std::vector<MeasuredOperation::Point> points(times.size());
  const std::vector<std::string> sizes = size_names(*operation);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<double> column;
    table.numbers(sizes[i], column, {1.0, 1e12});
    if (column.size() != times.size()) {
      throw Error(fmt::format("{}: expected {} numbers, as many as of time_us, got {}",
                              table.place_of(sizes[i]), times.size(), column.size()));
    }
    for (std::size_t row = 0; row < column.size(); ++row) {
      points[row].sizes.at(i) = column[row];
      points[row].time = microseconds(times[row]);
    }
  }
  std::vector<std::size_t> outliers = find_outliers(*operation, points);
  std::reverse(outliers.begin(), outliers.end());  // the last first: places before it stay
  for (const std::size_t outlier : outliers) {
    probe.notes.push_back("left out, for it contradicts others: " + name + " of " +
                          describe_point(*operation, points[outlier]));
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(outlier));
  }
  if (points.size() >= 2) {
    probe.operations.emplace_back(*operation, precision, std::move(points),
                                  table.place_of("time_us"));
  }
}

/// Reads the keys of a layer's shape, which have the names of `ptdp.model/1`.
TransformerConfig read_layer_shape(ObjectReader& layer) {
  TransformerConfig model{.num_layers = 1, .vocab_size = 1, .dropout = false};
  layer.count("hidden_size", model.hidden_size, 1, kMostProbedSize);
  layer.count("num_attention_heads", model.num_attention_heads, 1, kMostProbedSize);
  layer.count("num_query_groups", model.num_query_groups, 1, kMostProbedSize);
  layer.count("kv_channels", model.kv_channels, 1, kMostProbedSize);
  layer.count("ffn_hidden_size", model.ffn_hidden_size, 1, kMostProbedSize);
  layer.count("seq_length", model.seq_length, 1, kMostProbedSize);
  layer.flag("gated_linear_unit", model.gated_linear_unit);
  layer.flag("add_bias_linear", model.add_bias_linear);
  if (layer.has("dropout")) {
    layer.flag("dropout", model.dropout.emplace());
  }
  layer.choice("normalization", model.normalization,
               NamedValues<Normalization>(kNormalizationNames));
  layer.choice("activation_func", model.activation_func.emplace(),
               NamedValues<Activation>(kActivationNames));
  bool has_rope = false;
  layer.flag("rope", has_rope);
  model.position_embedding = has_rope ? PositionEmbedding::kRope : PositionEmbedding::kNone;
  return resolved(model, layer.place());
}

void read_layer(ObjectReader& entry, ProbeReport& probe) {
  ProbedLayer probed;
  MeasuredLayer& layer = probed.layer;
  layer.model = read_layer_shape(entry);
  entry.count("micro_batch_size", layer.micro_batch_size, 1, kMostProbedSize);
  entry.count("tp", layer.tp, 1, 100'000);
  if (layer.model.num_attention_heads % layer.tp != 0 ||
      layer.model.ffn_hidden_size % layer.tp != 0) {
    throw Error(
        fmt::format("{}: expected a divisor of num_attention_heads and ffn_hidden_size, "
                    "got {}",
                    entry.place_of("tp"), layer.tp));
  }
  entry.quantity("forward_us", layer.forward, kMicro, kMicrosecondsRange);
  entry.quantity("backward_us", layer.backward, kMicro, kMicrosecondsRange);
  entry.choice("precision", probed.precision, NamedValues<Precision>(kPrecisionNames));
  if (entry.has("stack")) {
    entry.name("stack", probed.stack);
  }
  if (entry.has_value("peak_memory_bytes")) {
    std::int64_t unused = 0;
    entry.count("peak_memory_bytes", unused, 0, std::int64_t{1} << 50U);
  }
  probe.layers.push_back(std::move(probed));
}

void read_collective(ObjectReader& entry, const std::string& place, ProbeReport& probe) {
  CollectiveBench bench{.place = place};
  entry.choice("operation", bench.collective, NamedValues<BenchedCollective>(kProbedCollectives));
  entry.count("ranks", bench.ranks, 2, 1'000'000);
  entry.count("nodes", bench.nodes, 1, 1'000'000);
  if (bench.ranks % bench.nodes != 0) {
    throw Error(fmt::format("{}: expected a divisor of {} ranks, got {}", entry.place_of("nodes"),
                            bench.ranks, bench.nodes));
  }
  std::vector<MeasuredPoint> points;
  entry.objects("points", points);
  bench.points = usable_points(points, bench.notes);
  if (bench.points.size() < 2) {
    probe.notes.push_back(
        fmt::format("{} of {} ranks: left out, for of its times fewer than two go together",
                    name_of<BenchedCollective>(bench.collective, kProbedCollectives), bench.ranks));
    return;
  }
  (void)MeasuredCurve(bench.points, entry.place_of("points"));
  probe.collectives.push_back(std::move(bench));
}

void read_device(ObjectReader& device, ProbeReport& probe) {
  device.text("name", probe.device_name);
  ProbeBackend backend = ProbeBackend::kCuda;
  device.choice("backend", backend, NamedValues<ProbeBackend>(kProbeBackends));
  probe.is_gpu = backend != ProbeBackend::kCpu;
  device.quantity("memory_GiB", probe.memory, kGibi, kMemoryRange);
  int multiprocessors = 0;
  device.count("num_multiprocessors", multiprocessors, 1, 100'000);
  if (device.has_value("compute_capability")) {
    std::string capability;
    device.text("compute_capability", capability);
  }
  if (device.has_value("power_limit_W")) {
    double watts = 0.0;
    device.number("power_limit_W", watts, {1.0, 1e5, "watts"});
  }
}

/// Reads numbers that a probe may have left out, which are null or missing then.
void read_basics(ObjectReader& file, ProbeReport& probe) {
  const auto read_time = [&](const char* key, std::optional<Seconds>& time) {
    if (file.has_value(key)) {
      file.quantity(key, time.emplace(), kMicro, kMicrosecondsRange);
    }
  };
  read_time("kernel_latency_us", probe.kernel_latency);
  read_time("host_time_per_kernel_us", probe.host_time_per_kernel);
  if (file.has_value("memory_bandwidth_GBps")) {
    file.quantity("memory_bandwidth_GBps", probe.memory_bandwidth.emplace(), kGiga,
                  kBandwidthRange);
  }
  if (file.has_value("matmul_sustained")) {
    // Noise may put the sustained rate a little above the first one.
    file.number("matmul_sustained", probe.matmul_sustained.emplace(), {1e-3, 2.0, "a fraction"});
    probe.matmul_sustained = std::min(*probe.matmul_sustained, 1.0);
  }
}

}  // namespace

ProbeReport read_probe(std::string_view text, const std::string& place) {
  ObjectReader file = ObjectReader::from_text(text, place);
  file.schema(kProbeSchema);
  ProbeReport probe;
  file.text("source", probe.source);
  file.part("device", [&](ObjectReader& device) { read_device(device, probe); });
  if (file.has("torch")) {
    std::string version;
    file.text("torch", version);
  }
  if (file.has("precision")) {
    Precision precision = Precision::kBf16;
    file.choice("precision", precision, NamedValues<Precision>(kPrecisionNames));
  }
  read_basics(file, probe);
  const auto read_each = [&](const char* key, const auto& read) {
    if (file.has_value(key)) {
      for (ObjectReader& entry : file.children(key)) {
        read(entry);
        entry.finish();
      }
    }
  };
  read_each("measured_operations", [&](ObjectReader& entry) { read_operation(entry, probe); });
  read_each("layers", [&](ObjectReader& entry) { read_layer(entry, probe); });
  read_each("collectives", [&](ObjectReader& entry) { read_collective(entry, place, probe); });
  for (const char* key : {"skipped", "warnings"}) {
    if (file.has_value(key)) {
      std::vector<std::string> lines;
      file.texts(key, lines);
      probe.notes.insert(probe.notes.end(), lines.begin(), lines.end());
    }
  }
  file.finish();
  return probe;
}

}  // namespace ptdp
