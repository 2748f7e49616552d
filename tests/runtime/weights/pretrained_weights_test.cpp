// Tests how parameters lie in files of Hugging Face, read in pieces, and what is refused.
#include "runtime/weights/pretrained_weights.h"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <random>

#include "cost_model/error.h"
#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/text/files.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/model/transformer_stage.h"
#include "runtime/transport/solo_communicator.h"
#include "runtime/weights/carried_files.h"
#include "runtime/weights/safetensors_writer.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kGolden = fs::path(PTDP_SOURCE_DIR) / "tests/runtime/weights/transformers/golden";
constexpr std::array kCases = {"llama-3",  "mistral-5",  "qwen2-4",   "qwen3-9",
                               "gemma2-0", "phi3-12",    "olmo2-1",   "gpt_neox-8",
                               "gpt2-2",   "nemotron-2", "granite-1", "phi3-32"};

TransformerConfig model_of(const fs::path& directory) {
  ObjectReader reader = ObjectReader::from_file(directory / "config.json");
  return read_huggingface_config(reader);
}

std::string type_of(const std::string& name) {
  return name.substr(0, name.find('-'));
}

// Every element of every tensor belongs to one element of one parameter.
TEST(HuggingfaceTensors, HaveEveryElementOnce) {
  for (const char* name : kCases) {
    const TransformerConfig model = model_of(kGolden / name);
    std::map<std::string, std::vector<int>> seen;
    for (const PlacedParameter& parameter : huggingface_parameters(model, type_of(name))) {
      const ParameterPlace& place = parameter.place;
      const bool is_vector = parameter.inputs == 0;
      const MatrixBlock whole = is_vector ? MatrixBlock{.rows = 1,
                                                        .columns = parameter.outputs,
                                                        .total_columns = parameter.outputs}
                                          : MatrixBlock{.rows = parameter.outputs,
                                                        .columns = parameter.inputs,
                                                        .total_columns = parameter.inputs};
      std::vector<int>& elements = seen[place.tensor];
      elements.resize(static_cast<std::size_t>(place.outputs * (is_vector ? 1 : place.inputs)));
      for (const FileBlock& part : file_blocks(place, whole, {0, whole.rows * whole.columns})) {
        for (std::int64_t row = 0; row < part.block.rows; ++row) {
          for (std::int64_t column = 0; column < part.block.columns; ++column) {
            const std::int64_t there = (part.block.first_row + row) * part.block.total_columns +
                                       part.block.first_column + column;
            ++elements.at(static_cast<std::size_t>(there));
          }
        }
      }
    }
    for (const auto& [tensor, elements] : seen) {
      EXPECT_THAT(elements, ::testing::Each(1)) << name << " " << tensor;
    }
  }
}

// The parameters that a stage declares are those that files have.
TEST(HuggingfaceTensors, HaveTheParametersOfAStage) {
  for (const char* name : kCases) {
    const TransformerConfig model = model_of(kGolden / name);
    CpuBackend backend;
    SoloCommunicator group(0, 1);
    TransformerStage stage(backend, group, {.model = model, .dropout = 0.0},
                           {.count = model.num_layers,
                            .begins_model = true,
                            .ends_model = true,
                            .holds_both_ends = true},
                           nullptr);
    std::map<std::string, std::array<std::int64_t, 2>> declared;
    for (const Parameter& parameter : stage.parameters().parameters()) {
      declared[parameter.name] = {parameter.total_rows, parameter.block.total_columns};
    }
    std::map<std::string, std::array<std::int64_t, 2>> placed;
    for (const PlacedParameter& parameter : huggingface_parameters(model, type_of(name))) {
      placed[parameter.name] = parameter.inputs == 0
                                   ? std::array{std::int64_t{1}, parameter.outputs}
                                   : std::array{parameter.outputs, parameter.inputs};
    }
    EXPECT_EQ(declared, placed) << name;
  }
}

// Blocks of any rank and ranges of any slice are parts of the whole.
TEST(PretrainedWeights, AreReadInPiecesAsInWhole) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (const char* name : kCases) {
    const TransformerConfig model = model_of(kGolden / name);
    const PretrainedWeights weights(kGolden / name, model);
    for (const PlacedParameter& placed : huggingface_parameters(model, type_of(name))) {
      const bool is_vector = placed.inputs == 0;
      const std::int64_t rows = is_vector ? 1 : placed.outputs;
      const std::int64_t columns = is_vector ? placed.outputs : placed.inputs;
      const Parameter whole{.name = placed.name,
                            .block = {.rows = rows, .columns = columns, .total_columns = columns},
                            .total_rows = rows};
      std::vector<double> all(static_cast<std::size_t>(rows * columns));
      weights.read(whole, {0, rows * columns}, all);
      for (int i = 0; i < 5; ++i) {
        Parameter part = whole;
        part.block.first_row = draw(0, rows - 1);
        part.block.rows = draw(1, rows - part.block.first_row);
        part.block.first_column = draw(0, columns - 1);
        part.block.columns = draw(1, columns - part.block.first_column);
        const std::int64_t size = part.size();
        const std::int64_t first = draw(0, size - 1);
        std::vector<double> found(static_cast<std::size_t>(draw(1, size - first)));
        weights.read(part, {first, std::ssize(found)}, found);
        for (std::size_t j = 0; j < found.size(); ++j) {
          const std::int64_t element = first + static_cast<std::int64_t>(j);
          const std::int64_t row = part.block.first_row + element / part.block.columns;
          const std::int64_t column = part.block.first_column + element % part.block.columns;
          ASSERT_EQ(found[j], all[static_cast<std::size_t>(row * columns + column)])
              << name << " " << placed.name;
        }
      }
    }
  }
}

TEST(PretrainedWeights, GiveZeroForRowsThatPad) {
  const fs::path directory = kGolden / "llama-3";
  const TransformerConfig model = model_of(directory);
  const PretrainedWeights weights(directory, model);
  const std::int64_t h = model.hidden_size;
  const Parameter table{.name = "embedding.word.weight",
                        .block = {.rows = model.vocab_size + 2, .columns = h, .total_columns = h},
                        .total_rows = model.vocab_size};
  std::vector<double> values(static_cast<std::size_t>(table.size()), 7.0);
  weights.read(table, {0, table.size()}, values);
  for (std::int64_t i = model.vocab_size * h; i < table.size(); ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)], 0.0);
  }
  EXPECT_NE(values.front(), 0.0);
}

/// Copies a golden directory, whose files a test then changes.
class ChangedWeights : public ::testing::Test {
 protected:
  ChangedWeights() : model_(model_of(kGolden / "llama-3")) {
    fs::create_directory(path());
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy(kGolden / "llama-3" / name, path() / name);
    }
  }

  [[nodiscard]] fs::path path() const { return directory_.path() / "model"; }
  /// Returns the message of the refusal; empty when nothing is refused.
  [[nodiscard]] std::string message() const {
    try {
      const PretrainedWeights weights(path(), model_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  /// Writes the weights anew with tensors that `change` may change.
  void rewrite(const std::function<void(std::vector<NewTensor>&)>& change) const {
    std::vector<NewTensor> tensors;
    {
      const WeightsDirectory files(path());
      for (const std::string& name : files.names()) {
        tensors.push_back({name, DataType::kFloat32, files.tensor(name).shape});
      }
    }
    fs::remove(path() / "model.safetensors");
    change(tensors);
    SafetensorsWriter writer(path(), tensors);
    writer.begin();
    for (const NewTensor& tensor : tensors) {
      const bool is_vector = tensor.shape.size() == 1;
      const std::int64_t rows = is_vector ? 1 : tensor.shape[0];
      std::vector<float> zeros(static_cast<std::size_t>(rows * tensor.shape.back()));
      writer.write(
          tensor.name,
          {.rows = rows, .columns = tensor.shape.back(), .total_columns = tensor.shape.back()},
          {.data = zeros.data(), .size = std::ssize(zeros), .type = DataType::kFloat32});
    }
    writer.finish(writer.written());
  }

  TransformerConfig model_;
  TemporaryDirectory directory_;
};

TEST_F(ChangedWeights, AreTakenAsTheyAre) {
  rewrite([](std::vector<NewTensor>&) {});
  EXPECT_EQ(message(), "");
}

TEST_F(ChangedWeights, AreRefusedWithoutATensor) {
  rewrite([](std::vector<NewTensor>& tensors) { tensors.erase(tensors.begin()); });
  EXPECT_THAT(message(), HasSubstr("no tensor \"model.embed_tokens.weight\""));
}

TEST_F(ChangedWeights, AreRefusedForAShape) {
  rewrite([](std::vector<NewTensor>& tensors) {
    for (NewTensor& tensor : tensors) {
      tensor.shape.back() += tensor.name == "model.layers.0.mlp.up_proj.weight" ? 1 : 0;
    }
  });
  EXPECT_THAT(message(), HasSubstr("model.layers.0.mlp.up_proj.weight"));
  EXPECT_THAT(message(), HasSubstr("expected"));
}

TEST_F(ChangedWeights, AreRefusedForATensorThatNothingNeeds) {
  rewrite([](std::vector<NewTensor>& tensors) {
    tensors.push_back({"model.layers.0.self_attn.sinks", DataType::kFloat32, {4}});
  });
  EXPECT_THAT(message(), HasSubstr("\"model.layers.0.self_attn.sinks\": found, but a llama"));
}

TEST_F(ChangedWeights, MayHaveTablesThatOlderVersionsStored) {
  rewrite([](std::vector<NewTensor>& tensors) {
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DataType::kFloat32, {4}});
  });
  EXPECT_EQ(message(), "");
}

TEST_F(ChangedWeights, AreRefusedForAnotherModel) {
  model_.rotary.base *= 2;
  EXPECT_THAT(message(), HasSubstr("a model other than the plan's: rotary_base: found "));
  model_ = model_of(kGolden / "llama-3");
  model_.seq_length = 3;  // training may choose it
  EXPECT_EQ(message(), "");
}

TEST_F(ChangedWeights, AreRefusedWithoutAConfiguration) {
  fs::remove(path() / "config.json");
  EXPECT_THAT(message(), HasSubstr("config.json"));
}

// A tokenizer in a cache of huggingface_hub is a link to a file elsewhere.
TEST(CarriedFiles, AreThoseOfTokenizersAndOfGeneration) {
  const TemporaryDirectory directory;
  const fs::path from = directory.path() / "from";
  fs::create_directory(from);
  fs::create_symlink(directory.file("blob", "{\"version\": \"1.0\"}"), from / "tokenizer.json");
  for (const char* name :
       {"config.json", "generation_config.json", "merges.txt", "model.safetensors", "README.md",
        "tokenizer.py", "tokenizer.safetensors", "chat_template.jinja", "vocab.json"}) {
    (void)directory.file(std::string("from/") + name, name);
  }
  fs::create_directory(from / "tokenizer");
  std::vector<std::string> found;
  for (const FileContent& file : read_carried_files(from)) {
    found.push_back(file.path.string() + ": " + file.content);
  }
  EXPECT_THAT(found, ::testing::ElementsAre(
                         "chat_template.jinja: chat_template.jinja",
                         "generation_config.json: generation_config.json", "merges.txt: merges.txt",
                         "tokenizer.json: {\"version\": \"1.0\"}", "vocab.json: vocab.json"));
  fs::remove(directory.path() / "blob");
  EXPECT_THAT(message_of([&] { (void)read_carried_files(from); }),
              HasSubstr("tokenizer.json: cannot be read: No such file"));
  EXPECT_THAT(message_of([&] { (void)read_carried_files(from / "nowhere"); }),
              HasSubstr("nowhere: cannot be read: No such file"));
}

}  // namespace
}  // namespace ptdp
