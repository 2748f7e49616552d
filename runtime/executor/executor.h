// One rank of a training run: walks through the schedule that the simulator times.
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

#include "cost_model/inputs/zero_sharding.h"
#include "cost_model/schedule/lane.h"
#include "kernels/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/training_data.h"
#include "runtime/executor/process_groups.h"
#include "runtime/executor/step_record.h"
#include "runtime/executor/timed_communicator.h"
#include "runtime/executor/training_settings.h"
#include "runtime/executor/work_lane.h"
#include "runtime/model/transformer_stage.h"
#include "runtime/optimizer/loss_scaler.h"
#include "runtime/optimizer/optimizer.h"

namespace ptdp {

/// Told of the actions of a rank, by the thread that runs them: of each lane one at a time. What
/// `before` throws is as if the action threw it. Any may be empty.
struct ActionHooks {
  std::function<void(std::int64_t step, const Action& action, Lane lane)> before;
  std::function<void(Lane lane)> after;   ///< Not where the action threw:
  std::function<void(Lane lane)> failed;  ///< What it threw is the current exception.
  /// Within an action: the thread waits for another lane of its rank, or no longer.
  std::function<void(bool begins)> waits;
};

/// Every rank of the world makes one with the same settings and runs the same steps. Faults of the
/// transport and of the backend are thrown as they come.
class Executor {
 public:
  /// What is referred to must outlive the executor.
  Executor(Backend& backend, Communicator& world, const TrainingSettings& settings,
           const TrainingData& data, ActionHooks hooks = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  Executor(Executor&&) = delete;
  Executor& operator=(Executor&&) = delete;
  ~Executor() = default;

  /// One iteration over the next global batch. When it throws, the world was aborted: the ranks'
  /// lanes must end.
  [[nodiscard]] StepRecord run_step();

  /// The virtual stages that this rank holds, by number, and the optimizer of their parameters.
  [[nodiscard]] const std::map<int, std::unique_ptr<TransformerStage>>& stages() const {
    return stages_;
  }
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  [[nodiscard]] const ProcessGroups& groups() const { return groups_; }
  /// How far the training is.
  [[nodiscard]] const TrainingState& state() const { return state_; }
  /// Goes on from a checkpoint of this model, whatever layout saved it.
  void restore(const Checkpoint& checkpoint);
  /// Microbatches of virtual stages whose activations were held at the worst moment so far.
  [[nodiscard]] int peak_activations() const { return peak_activations_; }
  /// What this rank sent so far, by group.
  void add_sent(RankRecord& record) const;
  /// What the transport expects of the calls of the last step, where it says so.
  [[nodiscard]] std::vector<CallEstimate> estimates() const;

 private:
  /// A result on its way to the stage that takes it.
  struct Message {
    Tensor tensor;
    Request request = {};
    std::size_t action = 0;  ///< The receive, whose time is when it arrives.
    bool is_received = false;
  };
  using Key = std::pair<int, int>;  ///< Stage and microbatch.
  using Messages = std::map<Key, Message>;

  /// Tokens of a microbatch on the first stage, targets on the last.
  struct Tokens {
    Tensor inputs;
    Tensor targets;
  };

  /// A collective within an action.
  struct InnerCollective {
    std::size_t action = 0;
    CallGroup group = CallGroup::kTensor;
    TimedCollective call;
  };

  /// What was posted on a lane.
  struct Posted {
    Lane lane = Lane::kCompute;
    WorkLane::Ticket ticket = 0;
    std::size_t action = 0;
  };

  /// When an action ran; a receive: when the message was there.
  struct ActionEvents {
    Event start;
    Event end;
    bool is_known = false;
  };

  /// A stage's buckets: REDUCE_GRAD or UNSHARD, in the order of the list.
  struct Buckets {
    std::vector<std::size_t> actions;  ///< Their places in the list.
    std::vector<Posted> posted = {};   ///< Of them.
  };

  [[nodiscard]] Lane lane_of(ActionKind kind) const {
    return ptdp::lane_of(kind, settings_.messages, settings_.data);
  }
  [[nodiscard]] WorkLane& lane(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] static std::map<int, Buckets> buckets_of(const std::vector<Action>& order,
                                                         ActionKind kind);
  [[nodiscard]] bool is_used(Lane lane) const;
  [[nodiscard]] WorkLane make_lane(Lane lane);
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
  /// Has the kernels of an action launched at once, where nothing but kernels comes of it: it
  /// `posts` no work on other lanes. Equal actions of a stage have the same ones in every
  /// microbatch and step.
  void issue(const Action& action, bool posts, const std::function<void()>& kernels);
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
  void reduce_tied(const Action& action);
  void reduce_norm();
  void step_optimizer(const Action& action);

  [[nodiscard]] bool is_sharded() const { return shards_optimizer(settings_.config); }
  /// Whether compute runs as graphs: where it waits for nobody.
  [[nodiscard]] bool runs_graphs() const {
    return settings_.uses_graphs && tensor_->size() == 1 && shards_ == nullptr;
  }
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
  ProcessGroups groups_;
  TimedCommunicator* tensor_ = nullptr;
  TimedCommunicator* shards_ = nullptr;  ///< Null where no unit is sharded.
  const std::vector<Action>& order_;
  std::map<int, std::unique_ptr<TransformerStage>> stages_;
  std::unique_ptr<Optimizer> optimizer_;

  std::map<int, Buckets> reductions_;         ///< By stage.
  std::map<int, Buckets> gathers_;            ///< Likewise; posted until its first forward pass.
  std::map<int, int> weight_gradients_left_;  ///< By stage, in this step.
  std::map<Key, Tokens> tokens_;
  Messages activations_;                   ///< Inputs of stages that are here or on their way,
  Messages gradients_;                     ///< and gradients of their outputs.
  std::map<Key, Tensor> outputs_;          ///< Made here and not yet handed over.
  std::map<Key, Tensor> input_gradients_;  ///< Likewise.
  Tensor total_;                           ///< f64, one element.
  double squares_ = 0.0;                   ///< Of all gradients as stored.
  LossScaler loss_scaler_;
  TrainingState state_;

  // Of this step.
  Event compute_start_;
  std::vector<ActionEvents> events_;  ///< Beside the list.
  std::vector<InnerCollective> collectives_;
  std::array<std::optional<Posted>, kNumLanes> last_posted_;  ///< By Lane.
  StepRecord record_;
  int peak_activations_ = 0;
  /// Whether communicators only queue work: then this thread asks for the work of all lanes.
  bool is_queued_ = false;
  std::array<WorkLane, kNumLanes>
      lanes_;  ///< By Lane. The last member: what runs on them ends first.
};

}  // namespace ptdp
