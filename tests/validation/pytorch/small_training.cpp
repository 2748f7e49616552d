#include "tests/validation/pytorch/small_training.h"

#include <cmath>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/launch/launch.h"
#include "runtime/model/transformer_stage.h"
#include "runtime/optimizer/optimizer.h"

namespace ptdp {
namespace {

std::vector<double> doubles_of(Backend& backend, const Buffer& buffer) {
  const Tensor wide(backend, DataType::kFloat64, buffer.size);
  backend.convert(buffer, wide);
  std::vector<double> values(static_cast<std::size_t>(buffer.size));
  backend.copy_out(wide, values.data());
  return values;
}

/// Calls visit(i, element) for every element of a block that is not padding. `i` is its place in
/// the block, `element` its number in the whole.
template <class Visit>
void for_each_element(const Parameter& parameter, const Visit& visit) {
  const MatrixBlock& block = parameter.block;
  for (std::int64_t i = 0; i < parameter.size(); ++i) {
    const std::int64_t row = block.first_row + i / block.columns;
    if (row < parameter.total_rows) {
      visit(i, row * block.total_columns + block.first_column + i % block.columns);
    }
  }
}

class TrainingRank {
 public:
  TrainingRank(const TrainingTask& task, const TrainingLayout& layout, Communicator& world,
               Backend& backend)
      : task_(task),
        layout_(layout),
        world_(world),
        backend_(backend),
        tensor_(group_of(world.rank() / layout.tp * layout.tp, 1, layout.tp, 0)),
        data_(group_of(world.rank() % layout.tp, layout.tp, layout.dp, 1)) {
    for (int stage = 0; stage < layout.num_stages; ++stage) {
      add_stage(stage);
    }
    optimizer_ = std::make_unique<Optimizer>(backend, shares());
    if (task.resume_from != nullptr) {
      task.resume_from->require_model(task.model);
      task.resume_from->restore(backend, *optimizer_);
    }
  }

  void train(TrainingOutcome& outcome, std::mutex& mutex) {
    const std::int64_t first = task_.resume_from != nullptr ? task_.resume_from->state().step : 0;
    for (std::int64_t step = first; step < task_.num_steps; ++step) {
      gather_weights();
      const double loss = run_microbatches(step);
      reduce_gradients();
      if (step == first && !layout_.shards_states) {
        const std::lock_guard lock(mutex);
        collect_gradients(outcome);
      }
      const double norm = step_weights(step + 1);
      if (world_.rank() == 0) {
        outcome.losses.push_back(loss);
        outcome.gradient_norms.push_back(norm);
      }
    }
    if (task_.save_to) {
      save(*task_.save_to);
    }
  }

 private:
  std::unique_ptr<Communicator> group_of(int first, int stride, int size, int tag) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) {
      ranks[i] = first + i * stride;
    }
    return world_.group(ranks, tag);
  }

  void add_stage(int stage) {
    const int p = layout_.num_stages;
    const int first = task_.model.num_layers * stage / p;
    const StageSettings settings{
        .model = task_.model,
        .micro_batch_size = layout_.micro_batch_size,
        .type = task_.type,
        .sequence_parallel = layout_.sequence_parallel,
        .seed = task_.seed,
        .sharding = {.group_size = layout_.shards_states ? layout_.dp : 1}};
    const StageLayers layers{.first = first,
                             .count = task_.model.num_layers * (stage + 1) / p - first,
                             .begins_model = stage == 0,
                             .ends_model = stage == p - 1,
                             .holds_both_ends = layout_.shares_table};
    const bool borrows = layout_.shares_table && stage > 0 && stage == p - 1;
    stages_.push_back(std::make_unique<TransformerStage>(
        backend_, *tensor_, settings, layers, borrows ? &stages_.front()->parameters() : nullptr));
    if (task_.initial) {
      set_weights(stages_.back()->parameters());
    }
  }

  void set_weights(ParameterStore& store) {
    for (ParameterId id = 0; id < static_cast<int>(store.parameters().size()); ++id) {
      const Parameter& parameter = store.parameters()[id];
      std::vector<double> values(static_cast<std::size_t>(parameter.size()));
      for_each_element(parameter, [&](std::int64_t i, std::int64_t element) {
        values[i] = task_.initial(parameter.name, element);
      });
      const Tensor wide(backend_, DataType::kFloat64, parameter.size());
      backend_.copy_in(values.data(), wide);
      backend_.convert(wide, store.weights(id));
    }
  }

  [[nodiscard]] std::vector<StoreShare> shares() {
    std::vector<StoreShare> shares;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      shares.push_back({.store = &stages_[i]->parameters(),
                        .num_buckets = layout_.num_buckets,
                        .group_size = layout_.dp,
                        .group_rank = data_->rank(),
                        .shards_states = layout_.shards_states,
                        .counts_tied = i == 0,
                        .counts_replicated = tensor_->rank() == 0});
    }
    return shares;
  }

  /// Calls visit(range) for each part of a flat buffer that one collective reduces or gathers.
  template <class Visit>
  void for_each_range(const ParameterStore& store, const Visit& visit) {
    for (int bucket = 0; bucket < layout_.num_buckets; ++bucket) {
      for (const Part& range : reduction_ranges(store, bucket, layout_.num_buckets)) {
        visit(range);
      }
    }
  }

  void gather_weights() {
    for (const auto& stage : stages_) {
      const ParameterStore& store = stage->parameters();
      for_each_range(store, [&](const Part& range) {
        if (layout_.shards_states) {
          data_->all_gather(store.all_weights().slice(range.first, range.count));
        }
      });
    }
  }

  /// Runs all microbatches of a step; returns the mean loss over the global batch.
  double run_microbatches(std::int64_t step) {
    const int b = layout_.micro_batch_size;
    const int count = task_.global_batch_size / (b * layout_.dp);
    const Buffer total = stages_.back()->loss_total();
    backend_.fill(total, 0.0);
    for (int i = 0; i < count; ++i) {
      run_microbatch(step, i, (i * layout_.dp + data_->rank()) * b);
    }
    for (const auto& stage : stages_) {
      stage->finish_gradients();
    }
    data_->all_reduce(total, Reduction::kSum);
    return doubles_of(backend_, total).front() /
           (static_cast<double>(task_.global_batch_size) * task_.model.seq_length);
  }

  void run_microbatch(std::int64_t step, int index, int first_sample) {
    const int s = task_.model.seq_length;
    const int b = layout_.micro_batch_size;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(s * b));
    std::vector<std::int32_t> targets(tokens.size());
    for (int i = 0; i < b; ++i) {
      const auto sample = task_.samples(step * task_.global_batch_size + first_sample + i);
      for (int position = 0; position < s; ++position) {
        tokens[position * b + i] = sample[position];
        targets[position * b + i] = sample[position + 1];
      }
    }
    const Tensor device_tokens(backend_, DataType::kInt32, std::ssize(tokens));
    const Tensor device_targets(backend_, DataType::kInt32, std::ssize(targets));
    backend_.copy_in(tokens.data(), device_tokens);
    backend_.copy_in(targets.data(), device_targets);
    const Microbatch microbatch{
        .index = index,
        .step = step,
        .first_sample = first_sample,
        .tokens = device_tokens,
        .targets = device_targets,
        .gradient_scale = 1.0 / (static_cast<double>(task_.global_batch_size) * s)};
    Tensor x;
    for (const auto& stage : stages_) {
      x = stage->forward(microbatch, std::move(x));
    }
    Tensor dy;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      dy = stages_[i]->backward(microbatch, std::move(dy));
    }
  }

  void reduce_gradients() {
    for (const auto& stage : stages_) {
      const ParameterStore& store = stage->parameters();
      for_each_range(store, [&](const Part& range) {
        const Buffer gradients = store.all_gradients().slice(range.first, range.count);
        if (layout_.shards_states) {
          data_->reduce_scatter(gradients);
        } else {
          data_->all_reduce(gradients, Reduction::kSum);
        }
      });
    }
    const bool has_two_tables = stages_.size() > 1 && !layout_.shares_table;
    if (has_two_tables && !task_.model.untied_embeddings) {
      const auto table = [](const std::unique_ptr<TransformerStage>& stage) {
        const ParameterStore& store = stage->parameters();
        return store.all_gradients().slice(store.first_of(GradientGroup::kTied),
                                           store.count_of(GradientGroup::kTied));
      };
      backend_.add(table(stages_.back()), table(stages_.front()));
      backend_.copy(table(stages_.front()), table(stages_.back()));
    }
  }

  /// Updates the weights; returns the norm of all gradients.
  double step_weights(std::int64_t step) {
    const Tensor squares(backend_, DataType::kFloat64, 1);
    backend_.fill(squares, 0.0);
    optimizer_->add_squares(squares);
    (layout_.shards_states ? world_ : *tensor_).all_reduce(squares, Reduction::kSum);
    const double total = doubles_of(backend_, squares).front();
    optimizer_->step({.learning_rate = learning_rate(task_.rates, step),
                      .beta1 = task_.beta1,
                      .beta2 = task_.beta2,
                      .epsilon = task_.epsilon,
                      .weight_decay = task_.weight_decay,
                      .step = step,
                      .largest_norm = task_.clip,
                      .squares = squares});
    return std::sqrt(total);
  }

  void collect_gradients(TrainingOutcome& outcome) {
    for (const auto& stage : stages_) {
      const ParameterStore& store = stage->parameters();
      for (ParameterId id = 0; id < static_cast<int>(store.parameters().size()); ++id) {
        const Parameter& parameter = store.parameters()[id];
        std::vector<double>& whole = outcome.gradients[parameter.name];
        whole.resize(
            static_cast<std::size_t>(parameter.total_rows * parameter.block.total_columns));
        const auto values = doubles_of(backend_, store.gradient(id));
        for_each_element(parameter,
                         [&](std::int64_t i, std::int64_t element) { whole[element] = values[i]; });
      }
    }
  }

  void save(const std::filesystem::path& directory) {
    const CheckpointWriter writer(directory, task_.num_steps);
    if (world_.rank() == 0) {
      writer.begin();
    }
    world_.barrier();
    writer.write_shard(world_.rank(), backend_, *optimizer_);
    world_.barrier();
    if (world_.rank() == 0) {
      writer.finish({.step = task_.num_steps,
                     .next_sample = std::int64_t{1} * task_.num_steps * task_.global_batch_size,
                     .optimizer_steps = task_.num_steps,
                     .seed = task_.seed,
                     .model = task_.model},
                    world_.size());
    }
  }

  const TrainingTask& task_;
  const TrainingLayout& layout_;
  Communicator& world_;
  Backend& backend_;
  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> data_;
  std::vector<std::unique_ptr<TransformerStage>> stages_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

std::string to_string(const TrainingLayout& layout) {
  return "tp " + std::to_string(layout.tp) + " dp " + std::to_string(layout.dp) + " stages " +
         std::to_string(layout.num_stages) + (layout.sequence_parallel ? " sp" : "") +
         (layout.shares_table ? " shared" : "") + (layout.shards_states ? " zero" : "") +
         " buckets " + std::to_string(layout.num_buckets) + " b " +
         std::to_string(layout.micro_batch_size);
}

TrainingOutcome train(const TrainingTask& task, const TrainingLayout& layout) {
  TrainingOutcome outcome;
  std::mutex mutex;
  run_ranks({.size = layout.tp * layout.dp,
             .make_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              TrainingRank(task, layout, world, backend).train(outcome, mutex);
            });
  return outcome;
}

}  // namespace ptdp
