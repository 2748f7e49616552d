// Tests of manifests and indices of checkpoints: read and refused.
#include "runtime/checkpoint/checkpoint_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/text/files.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "tests/runtime/checkpoint/checkpointed_model.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::HasSubstr;

ordered_json some_index() {
  return {{"schema", "ptdp.checkpoint-shard/1"},
          {"data", {{"name", "rank-00000.bin"}, {"bytes", 36}, {"xxh64", "0123456789abcdef"}}},
          {"type", "f32"},
          {"entries",
           {{{"parameter", "x"},
             {"total_rows", 4},
             {"total_columns", 3},
             {"first_row", 2},
             {"first_column", 1},
             {"rows", 2},
             {"columns", 2},
             {"first", 1},
             {"count", 3},
             {"offset", 0}}}}};
}

std::string message_for(const ordered_json& index) {
  return error_of([&] { (void)parse_shard_index(index.dump(), "place"); });
}

/// Returns the message about an index with one value of its entry replaced.
std::string message_with(const std::string& key, int value) {
  ordered_json index = some_index();
  index["entries"][0][key] = value;
  return message_for(index);
}

TEST(ShardIndex, ReadsWhatLiesWithinItsBounds) {
  const ShardIndex index = parse_shard_index(some_index().dump(), "place");
  EXPECT_EQ(index.data.xxh64, 0x0123456789ABCDEFU);
  EXPECT_EQ(index.type, DataType::kFloat32);
  EXPECT_EQ(index.entries.at(0).parameter, "x");
  EXPECT_EQ(index.entries.at(0).block.first_row, 2);
  EXPECT_EQ(index.entries.at(0).range.count, 3);
}

TEST(ShardIndex, RefusesEntriesBeyondTheMatrixTheBlockOrTheFile) {
  for (const std::string key : {"first_row", "first_column", "rows", "columns", "first", "count"}) {
    EXPECT_THAT(message_with(key, 4), HasSubstr("place: entries[0]." + key)) << key;
  }
}

// Entries of three elements, a master and two moments of 4 bytes each: 36 bytes from one to the
// next.
TEST(ShardIndex, RefusesEntriesThatDoNotTileTheShard) {
  const auto with_offsets = [](const std::vector<int>& offsets, int bytes) {
    ordered_json index = some_index();
    index["data"]["bytes"] = bytes;
    const ordered_json entry = index["entries"][0];
    index["entries"].clear();
    for (const int offset : offsets) {
      index["entries"].push_back(entry);
      index["entries"].back()["offset"] = offset;
    }
    return message_for(index);
  };
  EXPECT_EQ(with_offsets({0, 36, 72}, 108), "nothing thrown");
  EXPECT_EQ(with_offsets({}, 0), "nothing thrown");
  struct Row {
    std::vector<int> offsets;
    int bytes;
    std::string message;
  };
  const std::string expected =
      "place: entries[1] (x): expected offset 36, where the entry before "
      "ends, got ";
  for (const Row& row : {Row{{0, 0, 72}, 108, expected + "0"}, Row{{0, 1, 72}, 108, expected + "1"},
                         Row{{0, 40, 76}, 112, expected + "40"},
                         Row{{4, 40}, 76, "place: entries[0] (x): expected offset 0"},
                         Row{{0, 36},
                             71,
                             "entries[1] (x): 3 elements at byte 36, where a shard of "
                             "71 bytes has no room for them"},
                         Row{{0, 36},
                             73,
                             "place: entries: end at byte 72, expected the shard's "
                             "end, 73"},
                         Row{{}, 12, "place: entries: end at byte 0, expected"}}) {
    EXPECT_THAT(with_offsets(row.offsets, row.bytes), HasSubstr(row.message));
  }
}

ordered_json some_manifest() {
  return {{"schema", "ptdp.checkpoint/1"},
          {"step", 10},
          {"next_sample", 80},
          {"optimizer_steps", 9},
          {"seed", 1},
          {"loss_scale", 65536.0},
          {"good_steps", 0},
          {"model",
           {{"num_layers", 2},
            {"hidden_size", 6},
            {"num_attention_heads", 2},
            {"vocab_size", 13},
            {"seq_length", 5}}},
          {"files", ordered_json::array()}};
}

std::string manifest_message_with(const std::string& key, std::int64_t value) {
  ordered_json manifest = some_manifest();
  manifest[key] = value;
  return error_of([&] { (void)parse_manifest(manifest.dump(), "place"); });
}

TEST(CheckpointManifest, RefusesCountersThatNoTrainingHas) {
  EXPECT_EQ(manifest_message_with("step", 10), "nothing thrown");
  for (const std::int64_t value :
       {std::int64_t{-1}, std::int64_t{1'000'000'001}, std::int64_t{INT64_MAX}}) {
    EXPECT_THAT(manifest_message_with("step", value), HasSubstr("place: step")) << value;
  }
  // A step takes a sample at least, and 2^31 at most.
  EXPECT_EQ(manifest_message_with("next_sample", 10), "nothing thrown");
  for (const std::int64_t value :
       {std::int64_t{9}, 10 * (std::int64_t{1} << 31) + 1, std::int64_t{INT64_MAX}}) {
    EXPECT_THAT(manifest_message_with("next_sample", value), HasSubstr("place: next_sample"))
        << value;
  }
  EXPECT_EQ(manifest_message_with("optimizer_steps", 10), "nothing thrown");
  for (const std::int64_t value : {std::int64_t{11}, std::int64_t{INT64_MAX}}) {
    EXPECT_THAT(manifest_message_with("optimizer_steps", value),
                HasSubstr("place: optimizer_steps"))
        << value;
  }
}

// A scale is between 1 and 2^32, and grows at the thousandth good step.
TEST(CheckpointManifest, RefusesALossScaleThatNoTrainingHas) {
  for (const auto& [key, least, most] :
       {std::tuple("loss_scale", std::int64_t{1}, std::int64_t{1} << 32),
        {"good_steps", 0, 1000},
        {"decay_steps", 1, 1'000'000'000}}) {
    EXPECT_EQ(manifest_message_with(key, least), "nothing thrown");
    EXPECT_EQ(manifest_message_with(key, most), "nothing thrown");
    for (const std::int64_t value : {least - 1, most + 1}) {
      EXPECT_THAT(manifest_message_with(key, value), HasSubstr("place: " + std::string(key)))
          << value;
    }
  }
}

TEST(CheckpointManifest, ComesBackAsItWasWritten) {
  const CheckpointManifest manifest{
      .state = {.step = 1'000'000'000,
                .next_sample = 3'000'000'000,
                .optimizer_steps = 999'999'990,
                .seed = UINT64_MAX - 3,
                .decay_steps = 77,
                .loss_scaler = {.scale = 0.5 * 4294967296.0, .good_steps = 321},
                .model = checkpointed_config()},
      .files = {{.name = "rank-00000.bin", .bytes = 12, .xxh64 = 0x0000'0000'0000'00ABU},
                {.name = "rank-00000.json", .bytes = 34, .xxh64 = UINT64_MAX}}};
  const CheckpointManifest again = parse_manifest(to_json(manifest), "place");
  EXPECT_EQ(again.state.step, manifest.state.step);
  EXPECT_EQ(again.state.next_sample, manifest.state.next_sample);
  EXPECT_EQ(again.state.optimizer_steps, manifest.state.optimizer_steps);
  EXPECT_EQ(again.state.seed, manifest.state.seed);
  EXPECT_EQ(again.state.loss_scaler, manifest.state.loss_scaler);
  EXPECT_EQ(again.state.decay_steps, manifest.state.decay_steps);
  EXPECT_EQ(again.state.model, manifest.state.model);
  ASSERT_EQ(again.files.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.files[i].name, manifest.files[i].name);
    EXPECT_EQ(again.files[i].bytes, manifest.files[i].bytes);
    EXPECT_EQ(again.files[i].xxh64, manifest.files[i].xxh64);
  }
  ordered_json other = ordered_json::parse(to_json(manifest));
  other["schema"] = "ptdp.checkpoint/2";
  EXPECT_THAT(error_of([&] { (void)parse_manifest(other.dump(), "place"); }),
              HasSubstr("place: schema: expected \"ptdp.checkpoint/1\", got "
                        "\"ptdp.checkpoint/2\""));
}

TEST(CheckpointManifest, MayLeaveOutWhenTheLearningRateIsLowest) {
  ordered_json manifest = some_manifest();
  const CheckpointManifest without = parse_manifest(manifest.dump(), "place");
  EXPECT_EQ(without.state.decay_steps, 0);
  EXPECT_FALSE(ordered_json::parse(to_json(without)).contains("decay_steps"));
  manifest["decay_steps"] = 300;
  const CheckpointManifest with = parse_manifest(manifest.dump(), "place");
  EXPECT_EQ(with.state.decay_steps, 300);
  EXPECT_EQ(parse_manifest(to_json(with), "place").state.decay_steps, 300);
}

TEST(ShardIndex, RefusesOtherSchemasAndChecksums) {
  ordered_json index = some_index();
  index["schema"] = "ptdp.checkpoint-shard/2";
  EXPECT_THAT(message_for(index), HasSubstr("place: schema: expected \"ptdp.checkpoint-shard/1\", "
                                            "got \"ptdp.checkpoint-shard/2\""));
  for (const std::string text : {"123", "0123456789abcdeg", "0123456789abcdef0"}) {
    index = some_index();
    index["data"]["xxh64"] = text;
    EXPECT_THAT(message_for(index),
                HasSubstr("xxh64: expected 16 hexadecimal digits, got \"" + text + "\""));
  }
}

TEST(StepDirectory, HasANameThatOnlyItsStepHas) {
  EXPECT_EQ(step_directory_name(10), "step-00000010");
  EXPECT_EQ(step_directory_name(1'234'567'890), "step-1234567890");
  EXPECT_EQ(step_of_directory("step-00000010"), 10);
  EXPECT_EQ(step_of_directory("step-1234567890"), 1'234'567'890);
  for (const std::string name : {"step-10", "step-000000010", "step-", "step-0000001x", ".step-0",
                                 "step-99999999999999999999", "checkpoint"}) {
    EXPECT_EQ(step_of_directory(name), std::nullopt) << name;
  }
}

/// Changes the index of rank 0 and has the manifest list the changed file.
void change_index(const fs::path& step, const std::function<void(ordered_json&)>& change) {
  auto index = ordered_json::parse(read_file(step / "rank-00000.json"));
  change(index);
  const std::string text = index.dump();
  write_file_atomically(step / "rank-00000.json", text);
  auto manifest = ordered_json::parse(read_file(step / "manifest.json"));
  for (ordered_json& file : manifest["files"]) {
    if (file["name"] == "rank-00000.json") {
      file["bytes"] = text.size();
      file["xxh64"] = hexadecimal(checksum_of(text));
    }
  }
  write_file_atomically(step / "manifest.json", manifest.dump());
  write_file_atomically(step / "manifest.xxh64",
                        checksum_line(checksum_of(manifest.dump()), "manifest.json"));
}

std::string message_after(const std::function<void(ordered_json&)>& change) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), {}, 10, 0.0);
  change_index(directory.path() / "step-00000010", change);
  return error_of([&] { (void)Checkpoint::open(directory.path()); });
}

/// Halves the first entry, the table's. Returns the second half, which begins at its element
/// `first`.
ordered_json& halve(ordered_json& index, int first) {
  ordered_json& half = index["entries"][0];
  half["count"] = 39;
  ordered_json other = half;
  other["first"] = first;
  other["offset"] = 3 * 39 * 8;  // f64
  return *index["entries"].insert(index["entries"].begin() + 1, other);
}

// The shards have right checksums, as those of anybody who writes such files would.
TEST(Checkpoint, RefusesShardsThatDoNotMakeAWholeModel) {
  EXPECT_EQ(message_after([](ordered_json&) {}), "nothing thrown");
  EXPECT_EQ(message_after([](ordered_json& index) { halve(index, 39); }), "nothing thrown");
  EXPECT_THAT(message_after([](ordered_json& index) { halve(index, 39)["parameter"] = "chair"; }),
              HasSubstr("parameter chair: 39 elements, expected 78"));
  EXPECT_THAT(message_after([](ordered_json& index) { halve(index, 39)["total_rows"] = 14; }),
              HasSubstr("parameter table: has two shapes"));
  EXPECT_THAT(message_after([](ordered_json& index) { index["entries"][1]["offset"] = 1; }),
              HasSubstr("rank-00000.json: entries[1] ("));
  EXPECT_THAT(
      message_after([](ordered_json& index) { index["data"]["xxh64"] = "0000000000000000"; }),
      HasSubstr("manifest.json: does not list rank-00000.bin as its index has it"));
}

TEST(Checkpoint, OfAnIndexThatDoesNotTileItsShardIsPassedOver) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), {}, 10, 0.0);
  save_checkpoint(directory.path(), {}, 20, 0.0);
  change_index(directory.path() / "step-00000020",
               [](ordered_json& index) { index["entries"][1]["offset"] = 0; });
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  EXPECT_EQ(checkpoint.state().step, 10);
  ASSERT_EQ(checkpoint.passed_over().size(), 1U);
  EXPECT_THAT(checkpoint.passed_over()[0],
              HasSubstr("step-00000020/rank-00000.json: entries[1] ("));
}

TEST(Checkpoint, RefusesElementsThatAreThereTwiceInsteadOfOthers) {
  EXPECT_THAT(message_after([](ordered_json& index) { halve(index, 38); }),
              HasSubstr("parameter table: has elements twice, in rank-00000.bin at byte 0 and in "
                        "rank-00000.bin at byte 936"));
}

}  // namespace
}  // namespace ptdp
