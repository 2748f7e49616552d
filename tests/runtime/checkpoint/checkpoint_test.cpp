// Tests of checkpoints that are saved in one layout and restored in another.
#include "runtime/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/text/files.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "tests/runtime/checkpoint/checkpointed_model.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const CheckpointLayout kWhole{};
const CheckpointLayout kMany{.tp = 2, .pp = 2, .dp = 3, .shards_states = true, .num_buckets = 3};

std::string describe_layout(const CheckpointLayout& layout) {
  return "tp " + std::to_string(layout.tp) + " pp " + std::to_string(layout.pp) + " dp " +
         std::to_string(layout.dp) + " zero " +
         (layout.shards_units    ? "3 "
          : layout.shards_states ? "1 "
                                 : "0 ") +
         std::string(name_of(layout.type));
}

// A model of 276·32 elements, of which 50 ranks have some 192 each, and the last of them padding
// alone.
TEST(Checkpoint, RestoresEveryBitInAnyOtherLayout) {
  std::vector<CheckpointLayout> layouts = {
      kWhole,
      {.tp = 2},
      {.tp = 3},
      {.tp = 6, .pp = 2},
      {.pp = 2, .dp = 2},
      {.dp = 5, .shards_states = true},
      {.dp = 50, .shards_states = true, .num_buckets = 2},
      {.tp = 2, .dp = 5, .shards_states = true, .shards_units = true},
      {.dp = 50, .shards_states = true, .shards_units = true},
      kMany};
  for (CheckpointLayout& layout : layouts) {
    layout.width = 32;
  }
  for (const CheckpointLayout& saved : layouts) {
    const TemporaryDirectory directory;
    save_checkpoint(directory.path(), saved, 10, 0.5);
    const Checkpoint checkpoint = Checkpoint::open(directory.path());
    EXPECT_EQ(checkpoint.state().step, 10);
    EXPECT_THAT(checkpoint.passed_over(), IsEmpty());
    for (const CheckpointLayout& restored : layouts) {
      EXPECT_EQ(find_restored_difference(checkpoint, restored, 0.5), "")
          << describe_layout(saved) << " to " << describe_layout(restored);
    }
  }
}

TEST(Checkpoint, RestoresIntoOtherWorkingTypes) {
  for (const DataType saved :
       {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    const TemporaryDirectory directory;
    save_checkpoint(directory.path(), {.tp = 2, .type = saved}, 3, 0.25);
    const Checkpoint checkpoint = Checkpoint::open(directory.path());
    for (const DataType restored :
         {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
      EXPECT_EQ(find_restored_difference(checkpoint, {.dp = 2, .type = restored}, 0.25), "")
          << name_of(saved) << " to " << name_of(restored);
    }
  }
}

/// A rank's part of a matrix of 3 by 800,000 elements, which is written and read in pieces of 2^20.
struct LongMatrix {
  static constexpr std::int64_t kRows = 3;
  static constexpr std::int64_t kColumns = 800'000;

  /// Makes the part of one of `tp` ranks that divide the columns. The rank shares the part's states
  /// with others if `group_size` is above 1.
  LongMatrix(int tp, int tensor_rank, int group_size, int group_rank)
      : columns(kColumns / tp), first_column(tensor_rank * columns) {
    store.declare({.name = "long",
                   .block = {.first_column = first_column,
                             .rows = kRows,
                             .columns = columns,
                             .total_columns = kColumns},
                   .total_rows = kRows,
                   .group = GradientGroup::kOwn,
                   .constant = 1.0});
    store.allocate(backend, DataType::kFloat32, /*seed=*/1, {.group_size = group_size});
    optimizer.emplace(backend, std::vector<StoreShare>{{.store = &store,
                                                        .group_size = group_size,
                                                        .group_rank = group_rank,
                                                        .shards_states = group_size > 1}});
  }

  /// Calls visit(buffer, values) for each state; an element's value is its place in the whole
  /// matrix plus the kind of state.
  template <class Visit>
  void for_each_state(const Visit& visit) {
    for (const OwnedSlice& slice : optimizer->owned_slices(0)) {
      int kind = 0;
      for (const Buffer& state : {slice.master, slice.moment1, slice.moment2}) {
        std::vector<float> values;
        for (std::int64_t i = slice.range.first; i < slice.range.first + slice.range.count; ++i) {
          const std::int64_t place = i / columns * kColumns + first_column + i % columns;
          values.push_back(static_cast<float>(place + kind * (std::int64_t{1} << 22)));
        }
        visit(state, values);
        ++kind;
      }
    }
  }

  std::int64_t columns;
  std::int64_t first_column;
  CpuBackend backend;
  ParameterStore store;
  std::optional<Optimizer> optimizer;
};

TEST(Checkpoint, RestoresWhatIsWrittenAndReadInPieces) {
  const TemporaryDirectory directory;
  LongMatrix whole(1, 0, 1, 0);
  whole.for_each_state([&](const Buffer& state, const std::vector<float>& values) {
    whole.backend.copy_in(values.data(), state);
  });
  const CheckpointWriter writer(directory.path(), 10);
  writer.begin();
  writer.write_shard(0, whole.backend, *whole.optimizer);
  writer.finish(state_at(10), 1);
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  for (const int group_size : {1, 2}) {
    LongMatrix part(2, 1, group_size, group_size - 1);
    checkpoint.restore(part.backend, *part.optimizer);
    std::int64_t count = 0;
    part.for_each_state([&](const Buffer& state, const std::vector<float>& values) {
      std::vector<float> found(values.size());
      part.backend.copy_out(state, found.data());
      EXPECT_TRUE(found == values);
      count += state.size;
    });
    EXPECT_EQ(count, 3 * 1'200'000 / group_size);
  }
}

TEST(Checkpoint, KeepsTheStateOfTheTraining) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kWhole, 7, 0.0);
  const TrainingState state = Checkpoint::open(directory.path()).state();
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.optimizer_steps, 6);
  EXPECT_EQ(state.next_sample, 84);
  EXPECT_EQ(state.seed, 0xFEDCBA9876543210U);
  EXPECT_EQ(state.loss_scaler, (LossScaler::State{.scale = 32768.0, .good_steps = 7}));
  EXPECT_EQ(state.model, checkpointed_config());
}

TEST(Checkpoint, OpensTheNewestStepOrTheOneThatIsNamed) {
  const TemporaryDirectory directory;
  EXPECT_EQ(Checkpoint::newest_step(directory.path()), std::nullopt);
  for (const int step : {0, 9, 100'000'000, 10}) {
    save_checkpoint(directory.path(), kWhole, step, step % 7);
  }
  EXPECT_EQ(Checkpoint::newest_step(directory.path()), 100'000'000);
  EXPECT_EQ(Checkpoint::open(directory.path()).state().step, 100'000'000);
  const Checkpoint named = Checkpoint::open(directory.path() / "step-00000009");
  EXPECT_EQ(named.state().step, 9);
  EXPECT_EQ(find_restored_difference(named, kWhole, 9 % 7), "");
}

TEST(Checkpoint, HasEveryElementOfTheModelOnceWhateverTheLayout) {
  // 78 of the table, 30, 6, 72, 12, 72 and 6: 276, with two moments in f64.
  for (const CheckpointLayout& layout :
       {kWhole, kMany, CheckpointLayout{.tp = 2, .dp = 2},
        CheckpointLayout{.dp = 3, .shards_states = true, .shards_units = true}}) {
    const TemporaryDirectory directory;
    save_checkpoint(directory.path(), layout, 1, 0.0);
    std::int64_t bytes = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(directory.path() / "step-00000001")) {
      bytes +=
          entry.path().extension() == ".bin" ? static_cast<std::int64_t>(entry.file_size()) : 0;
    }
    EXPECT_EQ(bytes, 276 * 3 * 8) << describe_layout(layout);
  }
}

// The format as runtime/checkpoint/FORMATS.md has it, read without the code that wrote it.
TEST(Checkpoint, IsWrittenAsDocumented) {
  const TemporaryDirectory directory;
  const CheckpointLayout layout{.tp = 2, .type = DataType::kFloat32};
  save_checkpoint(directory.path(), layout, 4, 0.0);
  const auto step = directory.path() / "step-00000004";
  const auto index = nlohmann::json::parse(read_file(step / "rank-00001.json"));
  EXPECT_EQ(index["schema"], "ptdp.checkpoint-shard/1");
  EXPECT_EQ(index["type"], "f32");
  bool is_found = false;
  for (const auto& entry : index["entries"]) {
    if (entry["parameter"] != "layers.1.down.weight") {
      continue;
    }
    is_found = true;
    EXPECT_EQ(entry["total_rows"], 6);
    EXPECT_EQ(entry["total_columns"], 12);
    EXPECT_EQ(entry["first_row"], 0);
    EXPECT_EQ(entry["first_column"], 6);
    EXPECT_EQ(entry["rows"], 6);
    EXPECT_EQ(entry["columns"], 6);
    EXPECT_EQ(entry["first"], 0);
    EXPECT_EQ(entry["count"], 36);
    std::ifstream file(step / "rank-00001.bin", std::ios::binary);
    file.seekg(entry["offset"].get<std::int64_t>() + std::int64_t{4} * (2 * 36 + 7));
    std::array<char, sizeof(float)> bytes{};
    file.read(bytes.data(), bytes.size());
    // The second moment of row 1, column 7: element 19 of the whole.
    EXPECT_EQ(std::bit_cast<float>(bytes),
              static_cast<float>(std::sin(0.37 * 19 + 1.7 * 2 + 0.9 * 20)));
  }
  EXPECT_TRUE(is_found);

  const std::string manifest_text = read_file(step / "manifest.json");
  const auto manifest = nlohmann::json::parse(manifest_text);
  EXPECT_EQ(manifest["schema"], "ptdp.checkpoint/1");
  EXPECT_EQ(manifest["step"], 4);
  EXPECT_EQ(manifest["files"].size(), 4U);
  EXPECT_EQ(manifest["files"][0]["name"], "rank-00000.bin");
  EXPECT_EQ(read_file(step / "manifest.xxh64"),
            hexadecimal(checksum_of(manifest_text)) + "  manifest.json\n");
}

// From the specification of XXH64 and from xxhsum's sanity checks.
TEST(Checksum, IsXxh64) {
  EXPECT_EQ(hexadecimal(checksum_of("")), "ef46db3751d8e999");
  EXPECT_EQ(hexadecimal(checksum_of("abc")), "44bc2cf5ad770999");
}

TEST(Checkpoint, NamesTheFieldInWhichAnotherModelDiffers) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kWhole, 10, 0.0);
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  checkpoint.require_model(checkpointed_config());
  TransformerConfig model = checkpointed_config();
  model.num_layers = 3;
  EXPECT_THAT(error_of([&] { checkpoint.require_model(model); }),
              HasSubstr("step-00000010: a checkpoint of another model: num_layers: found 2, "
                        "expected 3"));
  model = checkpointed_config();
  model.untied_embeddings = true;
  EXPECT_THAT(error_of([&] { checkpoint.require_model(model); }),
              HasSubstr("untied_embeddings: found the usual, expected true"));
}

// A model file leaves out what is as usual: the field is in the checkpoint alone.
TEST(Checkpoint, NamesTheFieldThatAnotherModelLeavesOut) {
  const TemporaryDirectory directory;
  TrainingState state = state_at(10);
  state.model.layernorm_epsilon = 0.001;
  const CheckpointWriter writer(directory.path(), 10);
  writer.begin();
  CheckpointedRank rank(kWhole, 0);
  rank.fill(0.0);
  writer.write_shard(0, rank.backend(), rank.optimizer());
  writer.finish(state, 1);
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  checkpoint.require_model(state.model);
  EXPECT_THAT(error_of([&] { checkpoint.require_model(checkpointed_config()); }),
              HasSubstr("a checkpoint of another model: layernorm_epsilon: found 0.001, expected "
                        "the usual"));
}

TEST(Checkpoint, NamesTheParameterThatIsMissingOrHasAnotherShape) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kWhole, 10, 0.0);
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  const auto message_for = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    const Parameter parameter{.name = name,
                              .block = {.rows = rows, .columns = columns, .total_columns = columns},
                              .total_rows = rows};
    std::vector<double> value(1);
    return error_of([&] { checkpoint.read(parameter, {0, 1}, StateKind::kMaster, value); });
  };
  EXPECT_EQ(message_for("table", 13, 6), "nothing thrown");
  EXPECT_THAT(message_for("table", 13, 8),
              HasSubstr("parameter table: found [13, 6], expected [13, 8]"));
  EXPECT_THAT(message_for("table", 14, 6),
              HasSubstr("parameter table: found [13, 6], expected [14, 6]"));
  EXPECT_THAT(message_for("layers.2.gamma", 1, 6),
              HasSubstr("parameter layers.2.gamma: found nothing, expected [1, 6]"));
}

// The last three of 16 rows pad the 13 there are, and of four columns two lie beyond the six: of
// the 13·4 elements that could be there 13·2 are.
TEST(Checkpoint, CountsWhatAPartLacksWithoutItsPadding) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kWhole, 10, 0.0);
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  const Parameter parameter{
      .name = "table",
      .block = {.first_column = 4, .rows = 16, .columns = 4, .total_columns = 6},
      .total_rows = 13};
  std::vector<double> values(64);
  EXPECT_EQ(
      error_of([&] {
        checkpoint.read(parameter, {0, 64}, StateKind::kMaster, values);
      }),
      checkpoint.path().string() + ": parameter table: found 26 elements of a part, expected 52");
}

TEST(Checkpoint, SaysWhereThereIsNone) {
  const TemporaryDirectory directory;
  const auto message_for = [](const std::filesystem::path& path) {
    return error_of([&] { (void)Checkpoint::open(path); });
  };
  EXPECT_THAT(message_for(directory.path() / "x"),
              HasSubstr("x: expected a directory of checkpoints, found nothing"));
  EXPECT_THAT(message_for(directory.file("y", "")),
              HasSubstr("y: expected a directory of checkpoints, found a file"));
  EXPECT_THAT(message_for(directory.path()),
              HasSubstr("no checkpoint, expected directories as step-00000010"));
  std::filesystem::create_directory(directory.path() / "step-00000003");
  EXPECT_THAT(message_for(directory.path()),
              HasSubstr("none of 1 checkpoints is whole; the newest: "));
}

}  // namespace
}  // namespace ptdp
