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

/// In which order the weight gradients of a step are formed.
enum class BackwardOrder {
  kWhole,       ///< backward() of each microbatch after its forward pass.
  kSplit,       ///< backward_input, then backward_weights.
  kWeightsLast  ///< All forward passes, all input gradients, then all weight gradients.
};

/// How the step is spread over ranks and time. All stages are on each tensor-parallel rank.
struct Layout {
  int tp = 1;
  bool sequence_parallel = false;
  bool overlaps_tensor = false;
  Recompute recompute = Recompute::kNone;
  BackwardOrder order = BackwardOrder::kWhole;
  int num_stages = 1;
  bool shares_table = false;  ///< The last stage uses the table of the first.
  int micro_batch_size = 1;
  bool adds_gradients_apart = false;
  int first_microbatch = 0;
};

[[nodiscard]] std::string to_string(const Layout& layout);

/// A model, its numbers and a global batch.
struct Task {
  TransformerConfig model;
  DataType type = DataType::kFloat64;
  double dropout = 0.1;
  int global_batch_size = 6;
  int num_samples = 6;  ///< That are trained on, from the layout's first microbatch on.
  double loss_scale = 1.0;
};

/// A GPT of four layers, of odd sizes: s 8, h 20, 4 heads of 6, f 36, 61 tokens.
[[nodiscard]] Task small_task();

/// By name; the whole matrix, without what pads it.
using Matrices = std::map<std::string, std::vector<double>>;

/// What a step computed.
struct Outcome {
  double loss = 0.0;  ///< Sum over tokens.
  Matrices gradients;
  std::vector<SentBytes> sent;  ///< By tensor-parallel rank.
};

/// Changes weights before the step: called for each store of each rank.
using ChangeWeights = std::function<void(Backend&, ParameterStore&)>;

/// Of what the ranks are made.
struct Machine {
  /// Called in each rank's thread; empty: hosts.
  std::function<std::unique_ptr<Backend>()> make_backend = {};
  /// The tensor-parallel group that the layers are given, which may borrow both; empty: that one.
  std::function<std::unique_ptr<Communicator>(Backend&, Communicator&)> tensor_group = {};
};

/// Norms and biases begin at values of no symmetry. Throws if two ranks disagree about something
/// that both hold.
[[nodiscard]] Outcome run_step(const Task& task, const Layout& layout,
                               const ChangeWeights& change = {}, const Machine& machine = {});

/// Calls `body` on `ranks` threads, each with a backend and its end of a group of all.
void on_ranks(int ranks, const std::function<void(Backend&, Communicator&)>& body,
              const Machine& machine = {});

/// The settings of a task in a layout.
[[nodiscard]] StageSettings settings_of(const Task& task, const Layout& layout);

/// A microbatch with its tokens.
class Batch {
 public:
  /// Sequences [first_sample, first_sample + b) of a fixed random text; targets are the next
  /// tokens.
  Batch(Backend& backend, const Task& task, int micro_batch_size, int index);

  [[nodiscard]] const Microbatch& microbatch() const { return microbatch_; }

 private:
  Tensor tokens_;
  Tensor targets_;
  Microbatch microbatch_;
};

}  // namespace ptdp
