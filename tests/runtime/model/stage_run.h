// Runs one step of a small model in any layout on threads, and collects what it computed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/transformer_stage.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// The order in which the weight gradients of a step are formed.
enum class BackwardOrder {
  kWhole,       ///< backward() of each microbatch right after its forward pass.
  kSplit,       ///< backward_input() of each microbatch, then its backward_weights().
  kWeightsLast  ///< All forward passes, then all input gradients, then all weight gradients.
};

/// How the step is spread over ranks and time. All stages are on each tensor-parallel rank.
struct Layout {
  int tp = 1;
  bool sequence_parallel = false;
  bool overlaps_tensor = false;
  Recompute recompute = Recompute::kNone;
  BackwardOrder order = BackwardOrder::kWhole;
  int num_stages = 1;
  bool shares_table = false;  ///< Whether the last stage uses the table of the first.
  int micro_batch_size = 1;
  bool adds_gradients_apart = false;
  int first_microbatch = 0;
};

[[nodiscard]] std::string to_string(const Layout& layout);

/// A model, its training settings and a global batch.
struct Task {
  TransformerConfig model;
  DataType type = DataType::kFloat64;
  double dropout = 0.1;
  int global_batch_size = 6;
  int num_samples = 6;  ///< Samples that are trained on, from the layout's first microbatch on.
  double loss_scale = 1.0;
};

/// Returns a GPT of four layers and odd sizes: s 8, h 20, 4 heads of 6, f 36, 61 tokens.
[[nodiscard]] Task small_task();

/// Whole matrices by name, without padding.
using Matrices = std::map<std::string, std::vector<double>>;

/// What a step computed.
struct Outcome {
  double loss = 0.0;  ///< Sum of the losses of all tokens.
  Matrices gradients;
  std::vector<SentBytes> sent;  ///< Bytes sent by each tensor-parallel rank.
};

/// Changes weights before the step. It is called for each store of each rank.
using ChangeWeights = std::function<void(Backend&, ParameterStore&)>;

/// What the ranks run on.
struct Machine {
  /// Makes a rank's backend, in the rank's thread; empty for hosts.
  std::function<std::unique_ptr<Backend>()> make_backend = {};
  /// Wraps the tensor-parallel group for the layers, and may borrow both arguments. Empty for the
  /// group itself.
  std::function<std::unique_ptr<Communicator>(Backend&, Communicator&)> tensor_group = {};
};

/// Runs one step and returns what it computed. Norms and biases begin at values without symmetry.
/// Throws if two ranks disagree about something that both hold.
[[nodiscard]] Outcome run_step(const Task& task, const Layout& layout,
                               const ChangeWeights& change = {}, const Machine& machine = {});

/// Calls `body` on `ranks` threads, each with a backend and its end of a group of all ranks.
void on_ranks(int ranks, const std::function<void(Backend&, Communicator&)>& body,
              const Machine& machine = {});

/// Returns the settings of a task in a layout.
[[nodiscard]] StageSettings settings_of(const Task& task, const Layout& layout);

/// A microbatch with its tokens on a backend.
class Batch {
 public:
  /// Takes sequences [first_sample, first_sample + b) of a fixed random text. Targets are the next
  /// tokens.
  Batch(Backend& backend, const Task& task, int micro_batch_size, int index);

  [[nodiscard]] const Microbatch& microbatch() const { return microbatch_; }

 private:
  Tensor tokens_;
  Tensor targets_;
  Microbatch microbatch_;
};

}  // namespace ptdp
