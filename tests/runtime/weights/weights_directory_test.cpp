// Tests of directories of weights: one file, several with an index, and what is refused.
#include "runtime/weights/weights_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/weights/hand_made.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a file with these tensors of one element each.
std::string file_with(const std::vector<std::string>& names) {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += (i == 0 ? "\"" : ",\"") + names[i] +
              R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" + std::to_string(4 * i) + "," +
              std::to_string(4 * i + 4) + "]}";
  }
  return safetensors_bytes(header + "}", std::string(4 * names.size(), '\0'));
}

/// Returns an index without metadata.
std::string index_of(const std::string& map) {
  return R"({"weight_map":{)" + map + "}}";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  result += text;
  return result + "\"";
}

/// A directory of files, and what opening it says.
class Files {
 public:
  Files& add(const std::string& name, const std::string& content) {
    (void)directory_.file(name, content);
    return *this;
  }
  Files& index(const std::string& content) { return add("model.safetensors.index.json", content); }
  /// Returns what is wrong, without the directory's path before it.
  [[nodiscard]] std::string message() const {
    const std::string text =
        message_of([&] { return WeightsDirectory(directory_.path()).names().size(); });
    const std::string path = directory_.path().string();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text.starts_with(path) ? text.substr(path.size()) : text;
  }

 private:
  TemporaryDirectory directory_;
};

TEST(WeightsDirectory, ReadsOneFile) {
  const WeightsDirectory weights(golden_weights(""));
  EXPECT_EQ(weights.names().size(), 16);
  std::vector<float> row(5);
  weights.read("row", block_of(0, 1, 0, 5, 5), buffer_of(row, DataType::kFloat32));
  EXPECT_THAT(row, ElementsAre(-0.625F, -0.5F, -0.375F, -0.25F, -0.125F));
}

// The numbers of all tensors follow one another: (i − 5)/8, i from 0, 24, 48 and 60 on.
TEST(WeightsDirectory, ReadsShardsThatTheLibraryWrote) {
  const WeightsDirectory weights(golden_weights("sharded"));
  EXPECT_THAT(weights.names(), ElementsAre("a.weight", "b.weight", "c.weight", "d.bias"));
  EXPECT_EQ(weights.tensor("b.weight").type, "BF16");
  EXPECT_TRUE(weights.has("d.bias"));
  EXPECT_FALSE(weights.has("d.weight"));
  weights.require_shape("a.weight", std::vector<std::int64_t>{4, 6});
  std::vector<double> block(2);
  const auto read = [&](const std::string& name, const MatrixBlock& place) {
    weights.read(name, place, buffer_of(block, DataType::kFloat64));
    return block;
  };
  EXPECT_THAT(read("a.weight", block_of(1, 2, 5, 1, 6)), ElementsAre(6.0 / 8, 12.0 / 8));
  EXPECT_THAT(read("b.weight", block_of(5, 1, 1, 2, 4)), ElementsAre(40.0 / 8, 41.0 / 8));
  EXPECT_THAT(read("c.weight", block_of(2, 1, 0, 2, 4)), ElementsAre(51.0 / 8, 52.0 / 8));
  EXPECT_THAT(read("d.bias", block_of(0, 1, 3, 2, 5)), ElementsAre(58.0 / 8, 59.0 / 8));
}

TEST(WeightsDirectory, ReadsAnIndexOfOneFileAndFoldersBelow) {
  EXPECT_EQ(Files()
                .add("model.safetensors", file_with({"a"}))
                .index(index_of(R"("a":"model.safetensors")"))
                .message(),
            "nothing was thrown");
  EXPECT_EQ(
      Files()
          .add("parts/1.safetensors", file_with({"a"}))
          .index(R"({"metadata":{"total_size":4.0},"weight_map":{"a":"parts/1.safetensors"}})")
          .message(),
      "nothing was thrown");
}

TEST(WeightsDirectory, RefusesDirectoriesWithoutSafetensors) {
  const std::string expected = ": expected model.safetensors or model.safetensors.index.json, ";
  EXPECT_EQ(Files().message(), expected + "found no weights");
  EXPECT_EQ(Files().add("config.json", "{}").message(), expected + "found no weights");
  EXPECT_EQ(Files().add("pytorch_model.bin", "x").message(),
            expected +
                "found \"pytorch_model.bin\": pickled weights are not read; save them as "
                "safetensors");
  EXPECT_EQ(Files().add("consolidated.00.pth", "x").message(),
            expected +
                "found \"consolidated.00.pth\": pickled weights are not read; save them as "
                "safetensors");
  EXPECT_EQ(Files().add("model-00001-of-00002.safetensors", file_with({"a"})).message(),
            expected + "found \"model-00001-of-00002.safetensors\" alone");
  EXPECT_EQ(message_of([] { return WeightsDirectory("/nonexistent").names().size(); }),
            "/nonexistent: expected a directory with weights: No such file or directory");
}

TEST(WeightsDirectory, RefusesAFileThatTheIndexDoesNotKnow) {
  EXPECT_EQ(Files()
                .add("model.safetensors", file_with({"a"}))
                .add("1.safetensors", file_with({"a"}))
                .index(index_of(R"("a":"1.safetensors")"))
                .message(),
            ": expected model.safetensors or model.safetensors.index.json, found both, and the "
            "index does not list model.safetensors");
}

TEST(WeightsDirectory, RefusesAnIndexThatContradictsItsFiles) {
  const std::string map = "/model.safetensors.index.json: weight_map: ";
  EXPECT_EQ(Files().index(index_of(R"("a":"1.safetensors")")).message(),
            map + "\"a\": file \"1.safetensors\" is missing");
  EXPECT_EQ(Files()
                .add("1.safetensors", file_with({"a"}))
                .index(index_of(R"("a":"1.safetensors","b":"1.safetensors")"))
                .message(),
            map + "\"b\": file \"1.safetensors\" has no such tensor");
  EXPECT_EQ(Files()
                .add("1.safetensors", file_with({"a", "c"}))
                .index(index_of(R"("a":"1.safetensors")"))
                .message(),
            "/1.safetensors: tensor \"c\": expected in the index, which does not list it");
  EXPECT_EQ(Files()
                .add("1.safetensors", file_with({"a", "b"}))
                .add("2.safetensors", file_with({"b"}))
                .index(index_of(R"("a":"1.safetensors","b":"2.safetensors")"))
                .message(),
            "/1.safetensors: tensor \"b\": expected in the index, which lists it in "
            "\"2.safetensors\"");
  EXPECT_THAT(Files()
                  .add("1.safetensors", file_with({"a"}).substr(0, 20))
                  .index(index_of(R"("a":"1.safetensors")"))
                  .message(),
              HasSubstr("/1.safetensors: header of "));
}

TEST(WeightsDirectory, RefusesFilesOutsideOfIt) {
  const std::string expected =
      "/model.safetensors.index.json: weight_map: \"a\": expected the name of a .safetensors file "
      "in the index's directory, got ";
  for (const std::string file :
       {"../1.safetensors", "/tmp/1.safetensors", "x/../../1.safetensors", "x/..", "..", "",
        "1.bin", "pytorch_model-00001-of-00002.bin", "x/"}) {
    EXPECT_EQ(Files().index(index_of(R"("a":)" + quoted(file))).message(), expected + quoted(file));
  }
  EXPECT_EQ(Files().index(index_of(R"("a":"1\u0000.safetensors")")).message(),
            expected + "\"1\\x00.safetensors\"");
  EXPECT_EQ(Files().index(index_of(R"("a":7)")).message(), expected + "\"7\"");
}

TEST(WeightsDirectory, RefusesAFaultyIndex) {
  const std::string place = "/model.safetensors.index.json: ";
  EXPECT_EQ(Files().index("").message(), place + "empty; expected a JSON object");
  EXPECT_EQ(Files().index("{").message(), place + "line 1, column 2: not valid JSON");
  EXPECT_EQ(Files().index("[]").message(),
            place + "expected an object with \"weight_map\", got \"[]\"");
  EXPECT_EQ(Files().index(R"({"metadata":{}})").message(),
            place + "expected an object with \"weight_map\", got \"{\"metadata\":{}}\"");
  EXPECT_EQ(Files().index(R"({"weight_map":[]})").message(),
            place + "weight_map: expected an object of file names, got \"[]\"");
  EXPECT_EQ(Files().index(index_of("")).message(),
            place + "weight_map: expected tensors, found none");
  EXPECT_EQ(Files().index(index_of(R"("a":"1.safetensors","a":"2.safetensors")")).message(),
            place + "duplicate key \"weight_map.a\"");
  EXPECT_EQ(Files().index(R"({"weight_map":{},"weights":{}})").message(),
            place + "expected \"metadata\" and \"weight_map\" alone, got \"weights\"");
}

TEST(WeightsDirectory, NamesNearMissesOfATensor) {
  const WeightsDirectory weights(golden_weights("sharded"));
  EXPECT_THAT(message_of([&] { return weights.tensor("e.weight").begin; }),
              HasSubstr("no tensor \"e.weight\"; did you mean \"a.weight\""));
}

}  // namespace
}  // namespace ptdp
