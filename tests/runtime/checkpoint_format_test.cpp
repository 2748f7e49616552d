#include "runtime/checkpoint_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cost_model/files.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_file.h"
#include "tests/cost_model/spec/temporary_directory.h"
#include "tests/runtime/checkpointed_model.h"
#include "tests/runtime/error_of.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::HasSubstr;

ordered_json some_index() {
  return {{"schema", "ptdp.checkpoint-shard/1"},
          {"data", {{"name", "rank-00000.bin"}, {"bytes", 100}, {"xxh64", "0123456789abcdef"}}},
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
             {"offset", 64}}}}};
}

std::string message_for(const ordered_json& index) {
  return error_of([&] { (void)parse_shard_index(index.dump(), "place"); });
}

/// With one value of its entry replaced.
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
  EXPECT_EQ(message_with("offset", 100 - 3 * 4 * 3), "nothing thrown");
  EXPECT_THAT(message_with("offset", 100 - 3 * 4 * 3 + 1),
              HasSubstr("place: entries: x: 3 elements at byte 65, where a shard of 100 bytes has "
                        "no room for them"));
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

/// Rewrites the index of rank 0 and has the manifest list it as it is.
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

// Whoever writes such files has the checksums right.
TEST(Checkpoint, RefusesShardsThatDoNotMakeAWholeModel) {
  EXPECT_EQ(message_after([](ordered_json&) {}), "nothing thrown");
  EXPECT_THAT(message_after([](ordered_json& index) { index["entries"][0]["count"] = 77; }),
              HasSubstr("parameter table: 77 elements, expected 78"));
  EXPECT_THAT(message_after([](ordered_json& index) {
                ordered_json more = index["entries"][0];
                more["total_rows"] = 14;
                index["entries"].push_back(more);
              }),
              HasSubstr("parameter table: has two shapes"));
  EXPECT_THAT(
      message_after([](ordered_json& index) { index["data"]["xxh64"] = "0000000000000000"; }),
      HasSubstr("manifest.json: does not list rank-00000.bin as its index has it"));
}

TEST(Checkpoint, RefusesElementsThatAreThereTwiceInsteadOfOthers) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), {}, 10, 0.0);
  change_index(directory.path() / "step-00000010", [](ordered_json& index) {
    ordered_json& half = index["entries"][0];
    half["count"] = 39;
    index["entries"].push_back(half);
  });
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  CheckpointedRank rank({}, 0);
  EXPECT_THAT(error_of([&] { checkpoint.restore(rank.backend(), rank.optimizer()); }),
              HasSubstr("parameter table: found 39 elements of a part, expected 78"));
}

}  // namespace
}  // namespace ptdp
