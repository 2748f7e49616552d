// One rank of a training run, which walks through the schedule that the simulator times.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/schedule/lane.h"
#include "kernels/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/training_data.h"
#include "runtime/executor/lane_thread.h"
#include "runtime/executor/process_groups.h"
#include "runtime/executor/silent_communicator.h"
#include "runtime/executor/step_record.h"
#include "runtime/executor/timed_communicator.h"
#include "runtime/executor/training_settings.h"
#include "runtime/model/transformer_stage.h"
#include "runtime/optimizer/loss_scaler.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/weights/pretrained_weights.h"

namespace ptdp {

/// Callbacks around the actions of a rank, called on the thread that runs them. Calls for one lane
/// never overlap. An exception from `before` is treated as thrown by the action. Any callback may
/// be empty.
struct ActionHooks {
  /// Called before an action or its part on `lane`.
  std::function<void(std::int64_t step, const Action& action, Lane lane)> before;
  std::function<void(Lane lane)> after;  ///< Called after an action that did not throw.
  /// Called after an action that threw; its exception is the current one.
  std::function<void(Lane lane)> failed;
  /// Called within an action: the thread begins to wait for another lane of its rank, or ends
  /// waiting.
  std::function<void(bool begins)> waits;
};

/// One rank of a training run. Every rank of the world constructs one with the same settings and
/// runs the same steps. Faults of the transport and of the backend are thrown as they come.
class Executor {
 public:
  /// Keeps references to all arguments but `hooks`; they must outlive the executor.
  Executor(Backend& backend, Communicator& world, const TrainingSettings& settings,
           const TrainingData& data, ActionHooks hooks = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  Executor(Executor&&) = delete;
  Executor& operator=(Executor&&) = delete;
  ~Executor() = default;

  /// Runs both passes of every stage once, without exchanging anything, where ranks wait for each
  /// other on their devices. Libraries then choose and load their kernels, and memory is taken from
  /// the driver, before any rank waits for another. Weights and the training's state stay as they
  /// are. Call it before the first step.
  void warm_up();

  /// Runs one iteration over the next global batch and returns its measurements. When it throws,
  /// the world has been aborted, so that the lanes of all ranks end.
  [[nodiscard]] StepRecord run_step();

  /// Returns the virtual stages that this rank holds, by number.
  [[nodiscard]] const std::map<int, std::unique_ptr<TransformerStage>>& stages() const {
    return stages_;
  }
  /// Returns the optimizer of the parameters of all stages that this rank holds.
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  /// Returns the rank's communicators.
  [[nodiscard]] const ProcessGroups& groups() const { return groups_; }
  /// Returns how far the training has come.
  [[nodiscard]] const TrainingState& state() const { return state_; }
  /// Continues from a checkpoint of this model, whatever layout saved it.
  void restore(const Checkpoint& checkpoint);
  /// Begins with weights from files instead of initial values.
  void load(const PretrainedWeights& weights) { weights.fill(backend_, *optimizer_); }
  /// Returns the largest number of activations held at once so far, counted as pairs of virtual
  /// stage and microbatch.
  [[nodiscard]] int peak_activations() const { return peak_activations_; }
  /// Adds the bytes and messages that this rank sent so far to `record`, by group.
  void add_sent(RankRecord& record) const;
  /// Returns what the transport expects of the calls of the last step, if the transport can tell.
  [[nodiscard]] std::vector<CallEstimate> estimates() const;

 private:
  /// A result on its way to the stage that takes it.
  struct Message {
    Tensor tensor;
    Request request = {};
    /// Place of the receive in the list. Its time is when the message arrives.
    std::size_t action = 0;
    bool is_received = false;
  };
  using Key = std::pair<int, int>;  ///< A virtual stage and a microbatch.
  using Messages = std::map<Key, Message>;

  /// Input tokens of a microbatch on the first virtual stage, target tokens on the last.
  struct Tokens {
    Tensor inputs;
    Tensor targets;
  };

  /// A collective within an action, such as one of tensor parallelism.
  struct InnerCollective {
    /// Place of the action in the list.
    std::size_t action = 0;
    CallGroup group = CallGroup::kTensor;
    TimedCollective call;
  };

  /// A piece of work posted on a lane, and the action that it belongs to.
  struct Posted {
    Lane lane = Lane::kCompute;
    LaneThread::Ticket ticket = 0;
    /// Place of the action in the list.
    std::size_t action = 0;
  };

  /// Start and end of an action. For a receive, both are the time at which the message was there.
  struct ActionEvents {
    Event start;
    Event end;
    /// Whether start and end were recorded in this step.
    bool is_known = false;
  };

  /// The buckets of one stage in one collective (REDUCE_GRAD or UNSHARD), in the order of the list.
  struct Buckets {
    std::vector<std::size_t> actions;  ///< Places of the buckets' actions in the list.
    std::vector<Posted> posted = {};   ///< Buckets posted so far in this step, in order.
  };

  [[nodiscard]] Lane lane_of(ActionKind kind) const {
    return ptdp::lane_of(kind, settings_.messages, settings_.data);
  }
  [[nodiscard]] LaneThread& lane(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] static std::map<int, Buckets> buckets_of(const std::vector<Action>& order,
                                                         ActionKind kind);
  [[nodiscard]] bool is_used(Lane lane) const;
  [[nodiscard]] LaneThread make_lane(Lane lane);
  [[nodiscard]] static int num_buckets(const std::map<int, Buckets>& buckets, int stage);
  void run_actions();
  void run_at(std::size_t index);
  [[nodiscard]] std::size_t post_receives_behind(std::size_t index);
  void read_from_device(const std::function<void()>& read) const;
  void add_bucket_estimates(std::vector<CallEstimate>& estimates, const std::map<int, Buckets>& all,
                            bool is_gather) const;
  template <class Work>
  void run_told(const Action& action, Lane lane, const Work& work);
  void wait_for(const Posted& posted);
  void wait_for_all(Lane lane);
  void wait_for_lanes();
  void add_times(const Event& start, const Event& end);
  void take_collectives(std::size_t index);
  void run(const Action& action, std::size_t index);
  void forward(const Action& action);
  void backward(const Action& action);
  void input_gradient(const Action& action);
  void weight_gradient(const Action& action);
  void keep_input_gradient(const Action& action, Tensor gradient);
  [[nodiscard]] PlaceListener reduces_behind(const Action& action);
  void finish_weight_gradient(const Action& action);
  void send(const Action& action, std::size_t index);
  void receive(const Action& action, std::size_t index);
  void post_reductions(int stage, std::int64_t complete_from);
  void reduce_bucket(int stage, int part);
  void post_gather(const Action& action, std::size_t index);
  void wait_for_parameters(int stage, std::int64_t end);
  void gather_bucket(int stage, int bucket);
  Posted post(std::size_t index, std::function<void()> work);
  [[noreturn]] void fail(std::exception_ptr failure);
  void warm_up(int number, TransformerStage& stage);
  void set_silent(bool is_silent);
  void reduce_tied(const Action& action);
  void reduce_norm();
  [[nodiscard]] Buffer loss_total() const;
  void step_optimizer();
  void read_loss();
  void read_norm();

  [[nodiscard]] bool is_sharded() const { return shards_optimizer(settings_.config); }
  [[nodiscard]] double loss_scale() const;
  [[nodiscard]] Microbatch microbatch(const Action& action);
  [[nodiscard]] Tensor take(Messages& messages, const Action& action);
  [[nodiscard]] std::int64_t message_size() const;
  [[nodiscard]] Buffer own_part(const Tensor& tensor) const;
  [[nodiscard]] bool sends_parts() const;

  Backend& backend_;
  const TrainingSettings& settings_;
  const TrainingData& data_;
  ActionHooks hooks_;
  OperationClock clock_;
  std::int64_t num_steps_ = 0;    ///< Steps that this executor has begun.
  bool times_operations_ = true;  ///< Whether the present step's operations are timed.
  ProcessGroups groups_;
  std::vector<SilentCommunicator*> silenced_;  ///< Communicators of calls within passes.
  TimedCommunicator* tensor_ = nullptr;
  /// Communicator for calls within passes of sharded units; null when no unit is sharded.
  TimedCommunicator* shards_ = nullptr;
  const std::vector<Action>& order_;
  std::map<int, std::unique_ptr<TransformerStage>> stages_;
  std::unique_ptr<Optimizer> optimizer_;

  std::map<int, Buckets> reductions_;  ///< Gradient buckets by stage.
  /// Parameter buckets by stage. The first forward pass of a stage clears its posted buckets.
  std::map<int, Buckets> gathers_;
  /// Weight gradients of each stage that are left to compute in this step.
  std::map<int, int> weight_gradients_left_;
  std::map<Key, Tokens> tokens_;
  Messages activations_;  ///< Inputs of stages, received or still on their way.
  Messages gradients_;    ///< Gradients of stages' outputs, received or still on their way.
  std::map<Key, Tensor> outputs_;  ///< Outputs of stages that are not yet sent or copied.
  /// Gradients of stages' inputs that are not yet sent or copied.
  std::map<Key, Tensor> input_gradients_;
  Tensor total_;  ///< Sum of squares of the gradients, f64, one element.
  LossScaler loss_scaler_;
  TrainingState state_;

  // State of the step that runs.
  Event compute_start_;
  std::vector<ActionEvents> events_;  ///< Times of actions, in the order of the list.
  std::vector<InnerCollective> collectives_;
  /// Last work posted on each lane, by Lane.
  std::array<std::optional<Posted>, kNumLanes> last_posted_;
  StepRecord record_;
  int peak_activations_ = 0;
  /// Whether communicators only queue work on the device. The rank's thread then issues the work of
  /// all lanes.
  bool is_queued_ = false;
  std::array<LaneThread, kNumLanes>
      lanes_;  ///< Lanes, by Lane. Last member: work on them ends first.
};

}  // namespace ptdp
