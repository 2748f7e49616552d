#include "tests/runtime/weights/computed_model.h"

#include <utility>

#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/forwarding_backend.h"
#include "runtime/host_values.h"
#include "runtime/model/transformer_stage.h"
#include "runtime/parameters/block_range.h"
#include "runtime/transport/solo_communicator.h"
#include "runtime/weights/pretrained_weights.h"

namespace ptdp::testing {
namespace {

/// A host that keeps the logits of which maxima are taken.
class ListeningBackend final : public ForwardingBackend<ListeningBackend> {
 public:
  void use_lane(int lane) override { host_.use_lane(lane); }
  [[nodiscard]] Event record() override { return host_.record(); }
  void wait(const Event& event) override { host_.wait(event); }
  void synchronize() override { host_.synchronize(); }
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    return host_.seconds_between(first, second);
  }
  [[nodiscard]] bool replaces_attention_inputs() const override {
    return host_.replaces_attention_inputs();
  }
  void row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                  std::int64_t rows) override {
    logits_ = copied_out(host_, logits);
    host_.row_maxima(logits, shard, maxima, rows);
  }
  [[nodiscard]] const std::vector<double>& logits() const { return logits_; }

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override { return host_.allocate(bytes); }
  void release_memory(void* memory, std::int64_t bytes) noexcept override {
    host_.release(memory, bytes);
  }

 private:
  friend class ForwardingBackend<ListeningBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    (host_.*kOperation)(arguments...);
  }

  CpuBackend host_;
  std::vector<double> logits_;
};

/// Tokens of a batch, with the targets that follow them.
struct Tokens {
  explicit Tokens(const std::filesystem::path& directory) {
    const SafetensorsFile file(directory / "tokens.safetensors");
    const StoredTensor& tensor = file.tensor("tokens");
    batch = tensor.shape.at(0);
    length = tensor.shape.at(1) - 1;
    const OpenFile bytes(directory / "tokens.safetensors");
    std::vector<std::int64_t> all(static_cast<std::size_t>(batch * (length + 1)));
    bytes.read(bytes.size() - static_cast<std::int64_t>(all.size() * sizeof(std::int64_t)),
               std::as_writable_bytes(std::span(all)));
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t sample = 0; sample < batch; ++sample) {
        const auto place = static_cast<std::size_t>(sample * (length + 1) + i);
        inputs.push_back(static_cast<std::int32_t>(all[place]));
        targets.push_back(static_cast<std::int32_t>(all[place + 1]));
      }
    }
  }

  std::int64_t batch = 0;
  std::int64_t length = 0;            ///< Tokens of a sequence.
  std::vector<std::int32_t> inputs;   ///< Tokens [length, batch].
  std::vector<std::int32_t> targets;  ///< Tokens behind them [length, batch].
};

/// Returns logits [s, b, padded vocabulary] as [b, s, vocabulary].
ResultTensor by_sample(const std::vector<double>& logits, const Tokens& tokens,
                       std::int64_t vocabulary) {
  const auto padded = static_cast<std::int64_t>(logits.size()) / (tokens.batch * tokens.length);
  ResultTensor result{.shape = {tokens.batch, tokens.length, vocabulary}, .values = {}};
  for (std::int64_t sample = 0; sample < tokens.batch; ++sample) {
    for (std::int64_t i = 0; i < tokens.length; ++i) {
      const double* const row = logits.data() + (i * tokens.batch + sample) * padded;
      result.values.insert(result.values.end(), row, row + vocabulary);
    }
  }
  return result;
}

/// Adds the gradient of a parameter to that of its tensor.
void add_gradient(const Parameter& parameter, const ParameterPlace& place,
                  const std::vector<double>& gradient, ResultTensor& tensor) {
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  for (const FileBlock& part : file_blocks(place, block, {0, block.rows * block.columns})) {
    const MatrixBlock& there = part.block;
    for (std::int64_t i = 0; i < part.values.count; ++i) {
      const std::int64_t row =
          there.first_row + (place.is_transposed ? i % there.rows : i / there.columns);
      const std::int64_t column =
          there.first_column + (place.is_transposed ? i / there.rows : i % there.columns);
      tensor.values[static_cast<std::size_t>(row * there.total_columns + column)] +=
          gradient[static_cast<std::size_t>(part.values.first + i)];
    }
  }
}

/// Computes the model in one type and adds the results.
void compute(const std::filesystem::path& directory, TransformerConfig model, const Tokens& tokens,
             DataType type, Results& results) {
  const PretrainedWeights weights(directory, model);
  model.seq_length = static_cast<int>(tokens.length);
  ListeningBackend backend;
  SoloCommunicator group(0, 1);
  TransformerStage stage(backend, group,
                         {.model = model,
                          .micro_batch_size = static_cast<int>(tokens.batch),
                          .type = type,
                          .dropout = 0.0},
                         {.count = model.num_layers,
                          .begins_model = true,
                          .ends_model = true,
                          .holds_both_ends = true},
                         nullptr);
  ParameterStore& store = stage.parameters();
  std::vector<double> values;
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    values.resize(static_cast<std::size_t>(parameter.size()));
    weights.read(parameter, {0, parameter.size()}, values);
    copy_rounded(backend, values, store.weights(static_cast<ParameterId>(i)));
  }
  const std::int64_t count = tokens.batch * tokens.length;
  const Tensor inputs(backend, DataType::kInt32, count);
  const Tensor targets(backend, DataType::kInt32, count);
  backend.copy_in(tokens.inputs.data(), inputs);
  backend.copy_in(tokens.targets.data(), targets);
  const Microbatch microbatch{
      .tokens = inputs, .targets = targets, .gradient_scale = 1.0 / static_cast<double>(count)};
  static_cast<void>(stage.forward(microbatch, {}));
  static_cast<void>(stage.backward(microbatch, {}));
  const std::string suffix = type == DataType::kFloat32 ? "_f32" : "";
  results["logits" + suffix] = by_sample(backend.logits(), tokens, model.vocab_size);
  results["loss" + suffix] = {
      .shape = {1},
      .values = {copied_out(backend, stage.loss_total()).front() / static_cast<double>(count)}};
  if (type == DataType::kFloat32) {
    return;
  }
  const WeightsDirectory files(directory);
  const ParameterPlaces places = places_by_name(huggingface_parameters(model, weights.type()));
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    const ParameterPlace& place = places.at(parameter.name);
    ResultTensor& tensor = results["grad." + place.tensor];
    if (tensor.values.empty()) {
      tensor.shape = files.tensor(place.tensor).shape;
      std::int64_t size = 1;
      for (const std::int64_t dimension : tensor.shape) {
        size *= dimension;
      }
      tensor.values.resize(static_cast<std::size_t>(size));
    }
    add_gradient(parameter, place, copied_out(backend, store.gradient(static_cast<ParameterId>(i))),
                 tensor);
  }
}

}  // namespace

Results computed_model(const std::filesystem::path& directory) {
  ObjectReader reader = ObjectReader::from_file(directory / "config.json");
  const TransformerConfig model = read_huggingface_config(reader);
  const Tokens tokens(directory);
  Results results;
  compute(directory, model, tokens, DataType::kFloat64, results);
  compute(directory, model, tokens, DataType::kFloat32, results);
  return results;
}

}  // namespace ptdp::testing
