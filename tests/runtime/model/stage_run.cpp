#include "tests/runtime/model/stage_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"

namespace ptdp {
namespace {

/// Returns the layers of virtual stage `stage`. The division is as even as possible, with the
/// larger stages last.
StageLayers layers_of(const Task& task, const Layout& layout, int stage) {
  const int p = layout.num_stages;
  const int first = task.model.num_layers * stage / p;
  return {.first = first,
          .count = task.model.num_layers * (stage + 1) / p - first,
          .begins_model = stage == 0,
          .ends_model = stage == p - 1,
          .holds_both_ends = layout.shares_table};
}

/// Adds random values, by global element, to norms and biases, which would begin at 0 or 1.
void disturb_constants(Backend& backend, const StageSettings& settings, ParameterStore& store) {
  for (ParameterId id = 0; id < static_cast<int>(store.parameters().size()); ++id) {
    const Parameter& parameter = store.parameters()[static_cast<std::size_t>(id)];
    if (parameter.deviation == 0.0) {
      const Tensor change(backend, settings.type, parameter.size());
      backend.fill_normal(change, parameter.block, std::hash<std::string>()(parameter.name), 0.2);
      backend.add(change, store.weights(id));
    }
  }
}

std::vector<double> doubles_of(Backend& backend, Buffer buffer) {
  const Tensor wide(backend, DataType::kFloat64, buffer.size);
  if (buffer.type == DataType::kFloat64) {
    backend.copy(buffer, wide);
  } else {
    backend.convert(buffer, wide);
  }
  std::vector<double> values(static_cast<std::size_t>(buffer.size));
  backend.copy_out(wide, values.data());
  return values;
}

/// Puts the gradients of all ranks together, block by block.
class Collector {
 public:
  /// Adds the gradients of one store of tensor-parallel rank `rank`.
  void add(Backend& backend, const ParameterStore& store, int rank) {
    for (ParameterId id = 0; id < static_cast<int>(store.parameters().size()); ++id) {
      const std::vector<double> values = doubles_of(backend, store.gradient(id));
      const std::lock_guard lock(mutex_);
      add_block(store.parameters()[static_cast<std::size_t>(id)], values, rank);
    }
  }
  [[nodiscard]] Matrices take() { return std::move(matrices_); }

 private:
  void add_block(const Parameter& parameter, const std::vector<double>& values, int rank) {
    if (parameter.is_replicated) {
      const auto [known, is_new] = replicas_.emplace(parameter.name, values);
      if (!is_new && known->second != values) {
        throw std::runtime_error("ranks disagree about " + parameter.name);
      }
      if (is_new) {
        matrices_[parameter.name] = values;
      }
      return;
    }
    const MatrixBlock& block = parameter.block;
    std::vector<double>& whole = matrices_[parameter.name];
    whole.resize(static_cast<std::size_t>(parameter.total_rows * block.total_columns));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
      const std::int64_t row = block.first_row + i / block.columns;
      const double value = values[static_cast<std::size_t>(i)];
      if (row < parameter.total_rows) {
        const std::int64_t place =
            row * block.total_columns + block.first_column + i % block.columns;
        whole[static_cast<std::size_t>(place)] += value;
      } else if (value != 0.0) {
        throw std::runtime_error("rank " + std::to_string(rank) + " has a gradient where " +
                                 parameter.name + " is padded");
      }
    }
  }

  std::mutex mutex_;
  Matrices matrices_;
  Matrices replicas_;
};

/// The stages of one rank, and a step on them.
class RankStages {
 public:
  RankStages(Backend& backend, Communicator& tensor_group, const Task& task, const Layout& layout,
             const ChangeWeights& change)
      : backend_(backend), task_(task), layout_(layout), settings_(settings_of(task, layout)) {
    for (int stage = 0; stage < layout.num_stages; ++stage) {
      const bool borrows = layout.shares_table && stage > 0 && stage == layout.num_stages - 1;
      stages_.push_back(std::make_unique<TransformerStage>(
          backend, tensor_group, settings_, layers_of(task, layout, stage),
          borrows ? &stages_.front()->parameters() : nullptr));
      disturb_constants(backend, settings_, stages_.back()->parameters());
      if (change) {
        change(backend, stages_.back()->parameters());
      }
    }
  }

  void run() {
    const int b = layout_.micro_batch_size;
    for (int i = 0; i < task_.num_samples / b; ++i) {
      batches_.emplace_back(backend_, task_, b, layout_.first_microbatch + i);
    }
    if (layout_.order == BackwardOrder::kWeightsLast) {
      for_all([this](const Microbatch& microbatch) { forward(microbatch); });
      for_all([this](const Microbatch& microbatch) { backward(microbatch, false); });
      for_all([this](const Microbatch& microbatch) { backward_weights(microbatch); });
    } else {
      for_all([this](const Microbatch& microbatch) {
        const bool is_whole = layout_.order == BackwardOrder::kWhole;
        forward(microbatch);
        backward(microbatch, is_whole);
        if (!is_whole) {
          backward_weights(microbatch);
        }
      });
    }
    for (const auto& stage : stages_) {
      stage->finish_gradients();
    }
  }

  [[nodiscard]] double loss() const {
    return doubles_of(backend_, stages_.back()->loss_total()).front();
  }
  [[nodiscard]] const std::vector<std::unique_ptr<TransformerStage>>& stages() const {
    return stages_;
  }

 private:
  template <class Call>
  void for_all(const Call& call) {
    for (const Batch& batch : batches_) {
      call(batch.microbatch());
    }
  }
  void forward(const Microbatch& microbatch) {
    Tensor x;
    for (const auto& stage : stages_) {
      x = stage->forward(microbatch, std::move(x));
    }
  }
  void backward(const Microbatch& microbatch, bool is_whole) {
    Tensor dy;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      dy = is_whole ? stages_[i]->backward(microbatch, std::move(dy))
                    : stages_[i]->backward_input(microbatch, std::move(dy));
    }
  }
  void backward_weights(const Microbatch& microbatch) {
    for (std::size_t i = stages_.size(); i-- > 0;) {
      stages_[i]->backward_weights(microbatch);
    }
  }

  Backend& backend_;
  const Task& task_;
  const Layout& layout_;
  StageSettings settings_;
  std::vector<std::unique_ptr<TransformerStage>> stages_;
  std::vector<Batch> batches_;
};

}  // namespace

std::string to_string(const Layout& layout) {
  return "tp " + std::to_string(layout.tp) + (layout.sequence_parallel ? " sp " : " ") +
         std::string(name_of(layout.recompute)) + " order " +
         std::to_string(static_cast<int>(layout.order)) + " stages " +
         std::to_string(layout.num_stages) + (layout.shares_table ? " shared" : "") + " b " +
         std::to_string(layout.micro_batch_size) + (layout.overlaps_tensor ? " overlapped" : "");
}

Task small_task() {
  return {.model = resolved({.num_layers = 4,
                             .hidden_size = 20,
                             .num_attention_heads = 4,
                             .kv_channels = 6,
                             .ffn_hidden_size = 36,
                             .vocab_size = 61,
                             .seq_length = 8,
                             .init_method_std = 0.2},
                            "test")};
}

StageSettings settings_of(const Task& task, const Layout& layout) {
  return {.model = task.model,
          .micro_batch_size = layout.micro_batch_size,
          .type = task.type,
          .recompute = layout.recompute,
          .sequence_parallel = layout.sequence_parallel,
          .overlaps_tensor = layout.overlaps_tensor,
          .dropout = task.dropout,
          .seed = 17,
          .adds_gradients_apart = layout.adds_gradients_apart};
}

Batch::Batch(Backend& backend, const Task& task, int micro_batch_size, int index)
    : tokens_(backend, DataType::kInt32,
              std::int64_t{1} * micro_batch_size * task.model.seq_length),
      targets_(backend, DataType::kInt32, tokens_.buffer().size) {
  const int s = task.model.seq_length;
  const int b = micro_batch_size;
  std::mt19937 random(5);
  std::vector<std::int32_t> text(static_cast<std::size_t>(task.global_batch_size * (s + 1)));
  std::ranges::generate(text, [&] {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(task.model.vocab_size));
  });
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  for (int position = 0; position < s; ++position) {
    for (int i = 0; i < b; ++i) {
      const int place = (index * b + i) * (s + 1) + position;
      const auto from = text.begin() + place;
      tokens.push_back(from[0]);
      targets.push_back(from[1]);
    }
  }
  backend.copy_in(tokens.data(), tokens_);
  backend.copy_in(targets.data(), targets_);
  microbatch_ = {.index = index,
                 .step = 3,
                 .first_sample = std::int64_t{1} * index * b,
                 .tokens = tokens_,
                 .targets = targets_,
                 .gradient_scale = task.loss_scale / (task.global_batch_size * s)};
}

void on_ranks(int ranks, const std::function<void(Backend&, Communicator&)>& body,
              const Machine& machine) {
  std::function<std::unique_ptr<Backend>()> make_backend = machine.make_backend;
  if (!make_backend) {
    make_backend = [] { return std::make_unique<CpuBackend>(); };
  }
  run_ranks({.size = ranks,
             .algorithm = CollectiveAlgorithm::kOrdered,
             .make_backend = std::move(make_backend)},
            [&](Communicator& world, Backend& backend) {
              if (!machine.tensor_group) {
                return body(backend, world);
              }
              const std::unique_ptr<Communicator> group = machine.tensor_group(backend, world);
              body(backend, *group);
            });
}

Outcome run_step(const Task& task, const Layout& layout, const ChangeWeights& change,
                 const Machine& machine) {
  Collector collector;
  std::vector<double> losses(static_cast<std::size_t>(layout.tp));
  Outcome outcome;
  outcome.sent.resize(losses.size());
  on_ranks(
      layout.tp,
      [&](Backend& backend, Communicator& tensor_group) {
        const auto rank = static_cast<std::size_t>(tensor_group.rank());
        RankStages stages(backend, tensor_group, task, layout, change);
        stages.run();
        losses[rank] = stages.loss();
        outcome.sent[rank] = tensor_group.sent();
        for (const auto& stage : stages.stages()) {
          collector.add(backend, stage->parameters(), tensor_group.rank());
        }
      },
      machine);
  if (std::ranges::count(losses, losses.front()) != layout.tp) {
    throw std::runtime_error("ranks disagree about the loss");
  }
  outcome.loss = losses.front();
  outcome.gradients = collector.take();
  return outcome;
}

}  // namespace ptdp
