// Tests of writing weights: the bytes of the libraries, from several ranks, and nothing half.
#include "runtime/weights/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/weights/weights_directory.h"
#include "tests/runtime/weights/hand_made.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The tensors of the golden files, divided into files of at most 150 bytes.
const std::vector<NewTensor>& golden_tensors() {
  static const std::vector<NewTensor> tensors = {
      {.name = "a.weight", .type = DataType::kFloat32, .shape = {4, 6}},
      {.name = "b.weight", .type = DataType::kBFloat16, .shape = {6, 4}},
      {.name = "c.weight", .type = DataType::kFloat64, .shape = {3, 4}},
      {.name = "d.bias", .type = DataType::kFloat32, .shape = {5}}};
  return tensors;
}
constexpr std::int64_t kSmallShard = 150;
constexpr int kNumWriters = 3;
constexpr const char* kSafetensorsPython = PTDP_SAFETENSORS_PYTHON;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> entries_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Writes a block with the values (i − 5)/8, i counted through all tensors in the given order.
void write_values(SafetensorsWriter& writer, const std::vector<NewTensor>& tensors,
                  std::size_t number, const MatrixBlock& block) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < number; ++i) {
    const auto& shape = tensors[i].shape;
    first += std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  std::vector<double> values;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    for (std::int64_t column = 0; column < block.columns; ++column) {
      const std::int64_t i =
          first + (block.first_row + row) * block.total_columns + block.first_column + column;
      values.push_back(static_cast<double>(i - 5) / 8);
    }
  }
  writer.write(tensors[number].name, block, buffer_of(values, DataType::kFloat64));
}

/// Returns the whole of a tensor, or one of `parts` equal parts of its columns.
MatrixBlock part_of(const NewTensor& tensor, std::int64_t part = 0, std::int64_t parts = 1) {
  const std::int64_t rows = tensor.shape.size() == 1 ? 1 : tensor.shape[0];
  const std::int64_t columns = tensor.shape.back();
  const std::int64_t begin = columns * part / parts;
  return block_of(0, rows, begin, columns * (part + 1) / parts - begin, columns);
}

void write_all(SafetensorsWriter& writer, const std::vector<NewTensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    write_values(writer, tensors, i, part_of(tensors[i]));
  }
}

void expect_golden(const fs::path& directory) {
  const std::vector<std::string> names = {"model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors",
                                          "model.safetensors.index.json"};
  ASSERT_EQ(entries_in(directory), names);
  EXPECT_EQ(bytes_of_file(directory / names[0]),
            bytes_of_file(golden_weights("sharded") / names[0]));
  EXPECT_EQ(bytes_of_file(directory / names[1]),
            bytes_of_file(golden_weights("sharded") / names[1]));
  // transformers ends the index with a newline, huggingface_hub does not.
  EXPECT_EQ(bytes_of_file(directory / names[2]),
            bytes_of_file(golden_weights("sharded") / names[2]) + "\n");
}

TEST(SafetensorsWriter, WritesTheBytesOfAHandMadeFile) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(),
                           {{.name = "h", .type = DataType::kFloat16, .shape = {1}},
                            {.name = "b", .type = DataType::kBFloat16, .shape = {1, 2}},
                            {.name = "n", .type = DataType::kFloat16, .shape = {0, 3}}});
  writer.begin();
  std::vector<float> one = {1.0F};
  std::vector<float> two = {-2.0F, 0.5F};
  writer.write("h", block_of(0, 1, 0, 1, 1), buffer_of(one, DataType::kFloat32));
  writer.write("b", block_of(0, 1, 0, 2, 2), buffer_of(two, DataType::kFloat32));
  writer.finish(writer.written());
  // bf16 comes before fp16. The header is filled up to a multiple of 8.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
      R"("h":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},)"
      R"("n":{"dtype":"F16","shape":[0,3],"data_offsets":[6,6]}})";
  const std::string filled = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_THAT(entries_in(directory.path()), ElementsAre("model.safetensors"));
  EXPECT_EQ(bytes_of_file(directory.path() / "model.safetensors"),
            safetensors_bytes(filled, std::string("\x00\xC0\x00\x3F\x00\x3C", 6)));
}

TEST(SafetensorsWriter, WritesTheBytesOfTheLibraries) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path() / "new/weights", golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  EXPECT_THAT(writer.written(), ElementsAre(24, 24, 12, 5));
  writer.finish(writer.written());
  expect_golden(directory.path() / "new/weights");
}

TEST(SafetensorsWriter, TakesBlocksFromThreadsInAnyOrder) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  std::vector<std::thread> threads;
  threads.reserve(kNumWriters);
  for (int rank = 0; rank < kNumWriters; ++rank) {
    threads.emplace_back([&, rank] {
      for (std::size_t i = golden_tensors().size(); i-- > 0;) {
        write_values(writer, golden_tensors(), i, part_of(golden_tensors()[i], rank, kNumWriters));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  writer.finish(writer.written());
  expect_golden(directory.path());
}

// Each process has a writer of its own and writes each third column part.
TEST(SafetensorsWriter, TakesBlocksFromProcesses) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  std::vector<pid_t> children;
  for (int rank = 1; rank < kNumWriters; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      SafetensorsWriter own(directory.path(), golden_tensors(), kSmallShard);
      for (std::size_t i = 0; i < golden_tensors().size(); ++i) {
        write_values(own, golden_tensors(), i, part_of(golden_tensors()[i], rank, kNumWriters));
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (std::size_t i = 0; i < golden_tensors().size(); ++i) {
    write_values(writer, golden_tensors(), i, part_of(golden_tensors()[i], 0, kNumWriters));
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(writer.written(), ElementsAre(8, 6, 3, 1));
  writer.finish(std::vector<std::int64_t>{24, 24, 12, 5});
  expect_golden(directory.path());
}

// The example of huggingface_hub: tensors of 6, 6, 2, 6, 2 and 2 GB in files of 10 GB become [6],
// [6, 2], [6, 2, 2]. One that is larger than a file gets its own, in front of the one in progress.
TEST(WeightsLayout, DividesTensorsAsTheLibraryDoes) {
  const auto files = [](const std::vector<std::int64_t>& gigabytes) {
    std::vector<NewTensor> tensors;
    for (std::size_t i = 0; i < gigabytes.size(); ++i) {
      tensors.push_back({.name = std::to_string(i),
                         .type = DataType::kBFloat16,
                         .shape = {gigabytes[i] * 500, 1'000'000}});
    }
    const WeightsLayout layout(tensors, 10'000'000'000);
    std::vector<std::string> found;
    for (const auto& [name, place] : layout.places()) {
      found.push_back(layout.shards()[place.shard].file.substr(0, 20));
    }
    return found;
  };
  EXPECT_THAT(files({6, 6, 2, 6, 2, 2}),
              ElementsAre("model-00001-of-00003", "model-00002-of-00003", "model-00002-of-00003",
                          "model-00003-of-00003", "model-00003-of-00003", "model-00003-of-00003"));
  EXPECT_THAT(files({4, 11, 6}),
              ElementsAre("model-00002-of-00002", "model-00001-of-00002", "model-00002-of-00002"));
}

TEST(WeightsLayout, RefusesTensorsThatCannotBe) {
  const auto message = [](const std::vector<NewTensor>& tensors) {
    return message_of([&] { return WeightsLayout(tensors).shards().size(); }, ExitStatus::kBug);
  };
  const std::string a = "writing weights: tensor \"a\": ";
  EXPECT_EQ(message({}), "writing weights: expected tensors, got none");
  EXPECT_EQ(message({{.name = "a", .shape = {1}}, {.name = "a", .shape = {1}}}),
            a + "expected one tensor of this name, got two");
  EXPECT_EQ(message({{.name = "a", .type = DataType::kInt32, .shape = {1}}}),
            a + "type i32, expected a floating-point type");
  const std::string sizes = ", expected one or two sizes, none of them negative or too large";
  EXPECT_EQ(message({{.name = "a", .shape = {}}}), a + "shape []" + sizes);
  EXPECT_EQ(message({{.name = "a", .shape = {1, 1, 1}}}), a + "shape [1, 1, 1]" + sizes);
  EXPECT_EQ(message({{.name = "a", .shape = {-1}}}), a + "shape [-1]" + sizes);
  EXPECT_EQ(message({{.name = "a", .shape = {4294967296, 4294967296}}}),
            a + "shape [4294967296, 4294967296]" + sizes);
  for (const std::string name : {"", "__metadata__", "\xFF"}) {
    EXPECT_THAT(message({{.name = name, .shape = {1}}}), HasSubstr("expected another name"));
  }
}

TEST(SafetensorsWriter, RefusesToFinishWithoutEveryElement) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  std::vector<std::int64_t> written = writer.written();
  written[1] -= 4;
  EXPECT_EQ(message_of(
                [&] {
                  writer.finish(written);
                  return 0;
                },
                ExitStatus::kBug),
            "writing weights: tensor \"b.weight\": 20 elements written, expected 24");
  EXPECT_THAT(entries_in(directory.path()), ElementsAre(".weights.partial"));
  discard_unfinished_weights(directory.path());
  EXPECT_THAT(entries_in(directory.path()), IsEmpty());
}

TEST(SafetensorsWriter, RefusesBlocksThatWereNotAnnounced) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  const auto message = [&](const std::string& name, const MatrixBlock& block) {
    return message_of(
        [&] {
          writer.write(name, block, {});
          return 0;
        },
        ExitStatus::kBug);
  };
  EXPECT_EQ(message("e.weight", block_of(0, 1, 0, 1, 1)),
            "writing weights: tensor \"e.weight\": expected one of those announced");
  EXPECT_THAT(message("a.weight", block_of(0, 5, 0, 6, 6)), HasSubstr("shape [4, 6], expected 6"));
}

TEST(SafetensorsWriter, LeavesWeightsThatAreThereAsTheyAre) {
  const TemporaryDirectory directory;
  (void)directory.file("config.json", "{}");
  (void)directory.file("model.safetensors", "old");
  const SafetensorsWriter writer(directory.path(), golden_tensors());
  EXPECT_EQ(message_of(
                [&] {
                  writer.begin();
                  return 0;
                },
                ExitStatus::kOutputFailed),
            directory.path().string() +
                ": cannot write weights into it: it has \"model.safetensors\" already; expected a "
                "directory without weights");
  discard_unfinished_weights(directory.path());
  EXPECT_THAT(entries_in(directory.path()), ElementsAre("config.json", "model.safetensors"));
  EXPECT_EQ(bytes_of_file(directory.path() / "model.safetensors"), "old");
}

TEST(SafetensorsWriter, RefusesWhatIsNoDirectory) {
  const TemporaryDirectory directory;
  const auto path = directory.file("out", "x");
  const SafetensorsWriter writer(path, golden_tensors());
  EXPECT_THAT(message_of(
                  [&] {
                    writer.begin();
                    return 0;
                  },
                  ExitStatus::kOutputFailed),
              HasSubstr(path.string() + ": cannot create the directory: "));
}

// The file would have 320 bytes; a disk that is full is found before anything is computed.
TEST(SafetensorsWriter, FindsAFullDiskAtTheBeginning) {
  const TemporaryDirectory directory;
  const SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  std::string message;
  {
    const FileSizeLimit limit(300);
    message = message_of(
        [&] {
          writer.begin();
          return 0;
        },
        ExitStatus::kOutputFailed);
  }
  EXPECT_EQ(message,
            (directory.path() / ".weights.partial/model-00001-of-00002.safetensors").string() +
                ": cannot make it large enough: File too large");
  discard_unfinished_weights(directory.path());
  EXPECT_THAT(entries_in(directory.path()), IsEmpty());
}

TEST(SafetensorsWriter, FailsWhenItsFilesAreGone) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  EXPECT_THAT(message_of(
                  [&] {
                    write_all(writer, golden_tensors());
                    return 0;
                  },
                  ExitStatus::kOutputFailed),
              HasSubstr("model-00001-of-00002.safetensors: cannot open: No such file"));
}

// A name is taken by a directory, so that the second rename fails: the first is taken back.
TEST(SafetensorsWriter, TakesNamesBackWhenOneFails) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  fs::create_directory(directory.path() / "model-00002-of-00002.safetensors");
  EXPECT_THAT(message_of(
                  [&] {
                    writer.finish(writer.written());
                    return 0;
                  },
                  ExitStatus::kOutputFailed),
              HasSubstr("model-00002-of-00002.safetensors: cannot rename onto it: "));
  discard_unfinished_weights(directory.path());
  EXPECT_THAT(entries_in(directory.path()), ElementsAre("model-00002-of-00002.safetensors"));
}

// What is interrupted while it is synced has named nothing.
TEST(SafetensorsWriter, NamesNothingWhenItIsInterrupted) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  writer.add("config.json", "{}");
  int calls = 0;
  const auto interrupt = [&calls] {
    // Each of two files is synced in one piece.
    if (++calls == 4) {
      throw std::runtime_error("interrupted");
    }
  };
  EXPECT_THROW(writer.finish(writer.written(), interrupt), std::runtime_error);
  EXPECT_THAT(entries_in(directory.path()), ElementsAre(".weights.partial"));
  discard_unfinished_weights(directory.path());
  EXPECT_THAT(entries_in(directory.path()), IsEmpty());
}

// Files beside weights are named before them. They replace others of their names, which a failure
// leaves replaced; those that replaced none are taken back.
TEST(SafetensorsWriter, NamesOtherFilesBeforeWeights) {
  const TemporaryDirectory directory;
  (void)directory.file("config.json", "old");
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  writer.add("config.json", "new");
  writer.add("vocab.json", "{}");
  EXPECT_EQ(bytes_of_file(directory.path() / "config.json"), "old");
  fs::create_directory(directory.path() / "model-00001-of-00002.safetensors");
  EXPECT_THAT(message_of(
                  [&] {
                    writer.finish(writer.written());
                    return 0;
                  },
                  ExitStatus::kOutputFailed),
              HasSubstr("model-00001-of-00002.safetensors: cannot rename onto it: "));
  EXPECT_EQ(bytes_of_file(directory.path() / "config.json"), "new");
  EXPECT_FALSE(fs::exists(directory.path() / "vocab.json"));
  discard_unfinished_weights(directory.path());
  fs::remove(directory.path() / "model-00001-of-00002.safetensors");
  SafetensorsWriter again(directory.path(), golden_tensors(), kSmallShard);
  again.begin();
  write_all(again, golden_tensors());
  again.add("vocab.json", "{}");
  again.finish(again.written());
  EXPECT_EQ(bytes_of_file(directory.path() / "vocab.json"), "{}");
  fs::remove(directory.path() / "vocab.json");
  fs::remove(directory.path() / "config.json");
  expect_golden(directory.path());
}

// A run that is killed leaves its files: before it named any, or with some of them named.
TEST(SafetensorsWriter, RemovesWhatAKilledRunLeft) {
  const TemporaryDirectory directory;
  SafetensorsWriter killed(directory.path(), golden_tensors(), kSmallShard);
  killed.begin();
  (void)directory.file(".weights.partial/model.safetensors.index.json",
                       R"({"weight_map":{"x":"model-00001-of-00009.safetensors"}})");
  (void)directory.file("model-00001-of-00009.safetensors", "named by the killed run");
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  writer.finish(writer.written());
  expect_golden(directory.path());
}

// A file of somebody else, of a name that the killed run would have given, is not removed.
TEST(SafetensorsWriter, LeavesFilesThatAKilledRunDidNotName) {
  const TemporaryDirectory directory;
  (void)directory.file(".weights.partial/model.safetensors.index.json",
                       R"({"weight_map":{"x":"model-00001-of-00002.safetensors"}})");
  (void)directory.file(".weights.partial/model-00001-of-00002.safetensors", "half");
  (void)directory.file("model-00001-of-00002.safetensors", "another's");
  const SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  EXPECT_THAT(message_of(
                  [&] {
                    writer.begin();
                    return 0;
                  },
                  ExitStatus::kOutputFailed),
              HasSubstr("it has \"model-00001-of-00002.safetensors\" already"));
  EXPECT_EQ(bytes_of_file(directory.path() / "model-00001-of-00002.safetensors"), "another's");
}

// An attempt that ended while it wrote its index named no file yet.
TEST(SafetensorsWriter, RemovesAnAttemptWithHalfAnIndex) {
  const TemporaryDirectory directory;
  (void)directory.file(".weights.partial/model.safetensors.index.json", "{\"weight_m");
  const SafetensorsWriter writer(directory.path(), golden_tensors());
  writer.begin();
  discard_unfinished_weights(directory.path());
  EXPECT_THAT(entries_in(directory.path()), IsEmpty());
}

TEST(SafetensorsWriter, WritesWhatTheDirectoryReads) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), golden_tensors(), kSmallShard);
  writer.begin();
  write_all(writer, golden_tensors());
  writer.finish(writer.written());
  const WeightsDirectory weights(directory.path());
  std::vector<double> values(12);
  weights.read("c.weight", block_of(0, 3, 0, 4, 4), buffer_of(values, DataType::kFloat64));
  EXPECT_EQ(values.front(), (48 - 5) / 8.0);
  EXPECT_EQ(values.back(), (59 - 5) / 8.0);
}

// The package itself reads one file with all four types, and files with an index.
TEST(SafetensorsPackage, ReadsWhatIsWritten) {
  if (std::string(kSafetensorsPython).empty()) {
    GTEST_SKIP() << "no Python with the package safetensors";
  }
  const std::vector<NewTensor> all_types = {
      {.name = "a\"\\\n\x7F", .type = DataType::kFloat16, .shape = {3, 5}},
      {.name = "b", .type = DataType::kBFloat16, .shape = {7}},
      {.name = "c", .type = DataType::kFloat32, .shape = {0, 2}},
      {.name = "d", .type = DataType::kFloat64, .shape = {2, 2}},
      {.name = "gr\xC3\xB6\xC3\x9F", .type = DataType::kFloat32, .shape = {1, 3}}};
  for (const auto& [tensors, largest, said] :
       {std::tuple(all_types, kLargestShard, "1 files, 5 tensors\n"),
        std::tuple(golden_tensors(), kSmallShard, "2 files, 4 tensors\n"),
        std::tuple(all_types, std::int64_t{1}, "5 files, 5 tensors\n")}) {
    const TemporaryDirectory directory;
    SafetensorsWriter writer(directory.path(), tensors, largest);
    writer.begin();
    write_all(writer, tensors);
    writer.finish(writer.written());
    const ProgramRun run = run_program(
        kSafetensorsPython,
        {PTDP_SOURCE_DIR "/tests/runtime/weights/read_written.py", directory.path().string()});
    EXPECT_EQ(run.output, said) << run.errors;
    EXPECT_EQ(run.status, 0) << run.errors;
  }
}

}  // namespace
}  // namespace ptdp
