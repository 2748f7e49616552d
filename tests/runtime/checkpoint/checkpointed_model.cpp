#include "tests/runtime/checkpoint/checkpointed_model.h"

#include <array>
#include <cmath>

namespace ptdp {
namespace {

enum class Cut { kRows, kColumns, kNot };

struct Shape {
  const char* name;
  std::int64_t rows;
  std::int64_t columns;
  Cut cut;
  GradientGroup group;
  bool is_on_first_stage;
  bool is_on_last_stage;
};

// Rows of the table are padded to a multiple of 4·tp: 13 to 16 or 24.
constexpr std::array kShapes = {
    Shape{"table", 13, 6, Cut::kRows, GradientGroup::kTied, true, true},
    Shape{"positions", 5, 6, Cut::kNot, GradientGroup::kOwn, true, false},
    Shape{"layers.0.gamma", 1, 6, Cut::kNot, GradientGroup::kSummedOverTensor, true, false},
    Shape{"layers.0.up.weight", 12, 6, Cut::kRows, GradientGroup::kOwn, true, false},
    Shape{"layers.0.up.bias", 1, 12, Cut::kColumns, GradientGroup::kOwn, true, false},
    Shape{"layers.1.down.weight", 6, 12, Cut::kColumns, GradientGroup::kOwn, false, true},
    Shape{"layers.1.down.bias", 1, 6, Cut::kNot, GradientGroup::kSummedOverTensor, false, true}};

Parameter parameter_of(const Shape& shape, std::int64_t width, std::int64_t tp, int tensor_rank) {
  const std::int64_t columns = shape.columns * width;
  const bool is_table = shape.group == GradientGroup::kTied;
  const std::int64_t rows = is_table ? (shape.rows + 4 * tp - 1) / (4 * tp) * (4 * tp) : shape.rows;
  Parameter parameter{.name = shape.name,
                      .block = {.rows = rows, .columns = columns, .total_columns = columns},
                      .total_rows = shape.rows,
                      .group = shape.group,
                      .is_replicated = shape.cut == Cut::kNot,
                      .deviation = 1.0};
  if (shape.cut == Cut::kRows) {
    parameter.block.rows = rows / tp;
    parameter.block.first_row = tensor_rank * parameter.block.rows;
  } else if (shape.cut == Cut::kColumns) {
    parameter.block.columns = columns / tp;
    parameter.block.first_column = tensor_rank * parameter.block.columns;
  }
  return parameter;
}

/// Returns the value of an element, which fits f32 exactly, so that all types can hold it.
double value_of(const std::string& name, std::int64_t element, int kind, double salt) {
  const double x = std::sin(0.37 * static_cast<double>(element) + 1.7 * kind +
                            0.9 * static_cast<double>(name.size()) + salt);
  return static_cast<float>(x);
}

void set(Backend& backend, const std::vector<double>& values, const Buffer& to) {
  if (to.type == DataType::kFloat64) {
    backend.copy_in(values.data(), to);
  } else {
    const std::vector<float> narrow(values.begin(), values.end());
    backend.copy_in(narrow.data(), to);
  }
}

std::vector<double> get(Backend& backend, const Buffer& from) {
  Tensor wide(backend, DataType::kFloat64, from.size);
  backend.convert(from, wide);
  std::vector<double> values(static_cast<std::size_t>(from.size));
  backend.copy_out(wide, values.data());
  return values;
}

std::array<Buffer, 3> states_of(const OwnedSlice& slice) {
  return {slice.master, slice.moment1, slice.moment2};
}

}  // namespace

CheckpointedRank::CheckpointedRank(const CheckpointLayout& layout, int rank)
    : store_(std::make_unique<ParameterStore>()) {
  const int tensor_rank = rank % layout.tp;
  const int data_rank = rank / layout.tp % layout.dp;
  const int stage = rank / (layout.tp * layout.dp);
  for (const Shape& shape : kShapes) {
    if ((stage == 0 && shape.is_on_first_stage) ||
        (stage == layout.pp - 1 && shape.is_on_last_stage)) {
      Parameter parameter = parameter_of(shape, layout.width, layout.tp, tensor_rank);
      if (layout.shards_units && parameter.group == GradientGroup::kTied) {
        parameter.group = GradientGroup::kOwn;  // one stage has both ends
      }
      if (parameter.name == "layers.0.gamma" || parameter.name == "layers.1.down.weight") {
        store_->begin_unit();
      }
      store_->declare(std::move(parameter));
    }
  }
  store_->allocate(backend_, layout.type, /*seed=*/1,
                   {.group_size = layout.shards_states ? layout.dp : 1,
                    .group_rank = layout.shards_states ? data_rank : 0,
                    .of_gradients = layout.shards_units,
                    .of_weights = layout.shards_units});
  optimizer_ = std::make_unique<Optimizer>(
      backend_, std::vector<StoreShare>{{.store = store_.get(),
                                         .num_buckets = layout.num_buckets,
                                         .group_size = layout.dp,
                                         .group_rank = data_rank,
                                         .shards_states = layout.shards_states,
                                         .counts_tied = stage == 0,
                                         .counts_replicated = tensor_rank == 0}});
}

std::vector<double> CheckpointedRank::expected(const OwnedSlice& slice, int kind,
                                               double salt) const {
  const Parameter& parameter = store_->parameters()[slice.parameter];
  const MatrixBlock& block = parameter.block;
  std::vector<double> values;
  for (std::int64_t i = 0; i < slice.range.count; ++i) {
    const std::int64_t in_block = slice.range.first - parameter.first + i;
    const std::int64_t row = block.first_row + in_block / block.columns;
    const std::int64_t column = block.first_column + in_block % block.columns;
    values.push_back(row < parameter.total_rows
                         ? value_of(parameter.name, row * block.total_columns + column, kind, salt)
                         : 0.0);
  }
  return values;
}

void CheckpointedRank::fill(double salt) {
  for (const OwnedSlice& slice : optimizer_->owned_slices(0)) {
    for (int kind = 0; kind < 3; ++kind) {
      set(backend_, expected(slice, kind, salt), states_of(slice)[kind]);
    }
  }
}

std::string CheckpointedRank::find_difference(double salt) {
  for (const OwnedSlice& slice : optimizer_->owned_slices(0)) {
    const Parameter& parameter = store_->parameters()[slice.parameter];
    for (int kind = 0; kind < 3; ++kind) {
      if (get(backend_, states_of(slice)[kind]) != expected(slice, kind, salt)) {
        return parameter.name + ", state " + std::to_string(kind);
      }
    }
    Tensor rounded(backend_, slice.weights.type, slice.weights.size);
    backend_.convert(slice.master, rounded);
    if (get(backend_, rounded) != get(backend_, slice.weights)) {
      return parameter.name + ", weights";
    }
  }
  return "";
}

TransformerConfig checkpointed_config() {
  return resolved({.num_layers = 2,
                   .hidden_size = 6,
                   .num_attention_heads = 2,
                   .vocab_size = 13,
                   .seq_length = 5},
                  "test");
}

TrainingState state_at(std::int64_t step) {
  return {.step = step,
          .next_sample = 12 * step,
          .optimizer_steps = step - step / 4,
          .seed = 0xFEDCBA9876543210U,
          .loss_scaler = {.scale = 32768.0, .good_steps = step % 1000},
          .model = checkpointed_config()};
}

void save_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout,
                     std::int64_t step, double salt) {
  const CheckpointWriter writer(directory, step);
  writer.begin();
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    CheckpointedRank saved(layout, rank);
    saved.fill(salt);
    writer.write_shard(rank, saved.backend(), saved.optimizer());
  }
  writer.finish(state_at(step), layout.world_size());
}

std::string find_restored_difference(const Checkpoint& checkpoint, const CheckpointLayout& layout,
                                     double salt) {
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    CheckpointedRank restored(layout, rank);
    restored.fill(salt + 1.0);  // nothing may be left of it
    checkpoint.restore(restored.backend(), restored.optimizer());
    const std::string difference = restored.find_difference(salt);
    if (!difference.empty()) {
      return "rank " + std::to_string(rank) + ": " + difference;
    }
  }
  return "";
}

}  // namespace ptdp
