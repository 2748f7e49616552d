#include "runtime/checkpoint/checkpoint_format.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
/// Limit on rows, columns and elements of a parameter, so that a product of two does not overflow.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
/// Limit on samples of a step, so that the samples of the longest training do not overflow.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 31;

constexpr std::array kStateTypes = {NamedValue<DataType>{DataType::kFloat32, "f32"},
                                    NamedValue<DataType>{DataType::kFloat64, "f64"}};

constexpr std::string_view kStepPrefix = "step-";

/// Returns the number that all of `text` spells in base `base`; nullopt for other text.
std::optional<std::uint64_t> parse_number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

template <class Fields>
void describe_checksum(Fields& fields, Described<Fields, std::uint64_t>& value) {
  std::string text = hexadecimal(value);
  fields.name("xxh64", text);
  if constexpr (Fields::kIsReading) {
    const auto parsed = parse_number(text, 16);
    if (!parsed || text.size() != 16) {
      throw Error(fields.place_of("xxh64") + ": expected 16 hexadecimal digits, got " +
                  in_quotes(text));
    }
    value = *parsed;
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, FileDigest>& file) {
  fields.name("name", file.name);
  fields.count("bytes", file.bytes, 0, kMost);
  describe_checksum(fields, file.xxh64);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, ShardEntry>& entry) {
  auto& block = entry.block;
  fields.name("parameter", entry.parameter);
  fields.count("total_rows", entry.total_rows, 1, kLargestSize);
  fields.count("total_columns", block.total_columns, 1, kLargestSize);
  fields.count("first_row", block.first_row, 0, entry.total_rows - 1);
  fields.count("first_column", block.first_column, 0, block.total_columns - 1);
  fields.count("rows", block.rows, 1, entry.total_rows - block.first_row);
  fields.count("columns", block.columns, 1, block.total_columns - block.first_column);
  const std::int64_t size = block.rows * block.columns;
  fields.count("first", entry.range.first, 0, size - 1);
  fields.count("count", entry.range.count, 1, size - entry.range.first);
  fields.count("offset", entry.offset, 0, kMost);
}

namespace {

/// Throws Error, naming the entry, unless the entries tile the shard: each begins where the one
/// before ends, and the last ends where the shard does.
void check_tiling(const ShardIndex& index, const std::string& place) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < index.entries.size(); ++i) {
    const ShardEntry& entry = index.entries[i];
    const std::string here = fmt::format("{}[{}] ({})", place, i, entry.parameter);
    if (entry.offset != end) {
      throw Error(fmt::format("{}: expected offset {}, where the entry before ends, got {}", here,
                              end, entry.offset));
    }
    const std::int64_t element = 3 * bytes_of(index.type);  // a master and two moments
    if (entry.range.count > (index.data.bytes - end) / element) {
      throw Error(
          fmt::format("{}: {} elements at byte {}, where a shard of {} bytes has no room "
                      "for them",
                      here, entry.range.count, end, index.data.bytes));
    }
    end += element * entry.range.count;
  }
  if (end != index.data.bytes) {
    throw Error(fmt::format("{}: end at byte {}, expected the shard's end, {}", place, end,
                            index.data.bytes));
  }
}

template <class Fields>
void describe_document(Fields& fields, Described<Fields, ShardIndex>& index) {
  fields.schema(kShardSchema);
  fields.object("data", index.data);
  fields.choice("type", index.type, NamedValues<DataType>(kStateTypes));
  fields.objects("entries", index.entries);
  if constexpr (Fields::kIsReading) {
    check_tiling(index, fields.place_of("entries"));
  }
}

template <class Fields>
void describe_document(Fields& fields, Described<Fields, CheckpointManifest>& manifest) {
  auto& state = manifest.state;
  fields.schema(kCheckpointSchema);
  fields.count("step", state.step, 0, kMostTrainingSteps);
  fields.count("next_sample", state.next_sample, state.step, state.step * kMostSamples);
  fields.count("optimizer_steps", state.optimizer_steps, 0, state.step);
  // JSON's integers are signed here: a seed of 2^63 or more is written as the negative number of
  // equal bits.
  auto seed = static_cast<std::int64_t>(state.seed);
  fields.count("seed", seed, std::numeric_limits<std::int64_t>::min(), kMost);
  if constexpr (Fields::kIsReading) {
    state.seed = static_cast<std::uint64_t>(seed);
  }
  fields.number("loss_scale", state.loss_scaler.scale,
                {LossScaler::kSmallestScale, LossScaler::kLargestScale});
  fields.count("good_steps", state.loss_scaler.good_steps, 0, LossScaler::kGrowthInterval);
  if (fields.optional("decay_steps", state.decay_steps > 0)) {
    fields.count("decay_steps", state.decay_steps, 1, kMostTrainingSteps);
  }
  fields.object("model", state.model);
  fields.objects("files", manifest.files);
}

template <class Document>
std::string write(const Document& document) {
  ObjectWriter writer;
  describe_document(writer, document);
  return writer.dump();
}

template <class Document>
Document parse(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  Document document;
  describe_document(reader, document);
  reader.finish();
  return document;
}

}  // namespace

std::string to_json(const CheckpointManifest& manifest) {
  return write(manifest);
}
std::string to_json(const ShardIndex& index) {
  return write(index);
}

CheckpointManifest parse_manifest(std::string_view text, const std::string& place) {
  auto manifest = parse<CheckpointManifest>(text, place);
  manifest.state.model = resolved(manifest.state.model, place + ": model");
  return manifest;
}

ShardIndex parse_shard_index(std::string_view text, const std::string& place) {
  return parse<ShardIndex>(text, place);
}

std::string step_directory_name(std::int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

std::optional<std::int64_t> step_of_directory(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  const auto step = parse_number(std::string_view(name).substr(kStepPrefix.size()), 10);
  if (!step || *step > static_cast<std::uint64_t>(kMost) ||
      name != step_directory_name(static_cast<std::int64_t>(*step))) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*step);
}

std::string shard_name(int rank) {
  return fmt::format("rank-{:05}.bin", rank);
}
std::string shard_index_name(int rank) {
  return fmt::format("rank-{:05}.json", rank);
}
std::string hexadecimal(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::string checksum_line(std::uint64_t xxh64, const std::string& name) {
  return hexadecimal(xxh64) + "  " + name + "\n";
}

}  // namespace ptdp
