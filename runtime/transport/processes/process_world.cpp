// Makes JobProcess and JobWorld out of any engine.
#include "runtime/transport/processes/process_world.h"

#include <cassert>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/transport/processes/process_communicator.h"

namespace ptdp {
namespace {

/// A world of processes over a ProcessEngine.
class ProcessWorld final : public JobWorld {
 public:
  ProcessWorld(std::shared_ptr<ProcessEngine> engine, int size, CollectiveAlgorithm algorithm)
      : state_(std::make_shared<ProcessWorldState>(std::move(engine), algorithm)), size_(size) {
    assert(size >= 1 && size <= state_->engine().place().size);
  }

  [[nodiscard]] std::unique_ptr<Communicator> communicator(Backend& backend) override {
    assert(state_->engine().place().rank < size_);
    std::vector<int> all(static_cast<std::size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    return std::make_unique<ProcessCommunicator>(state_,
                                                 ProcessGroup{.id = 0, .members = std::move(all)},
                                                 state_->engine().place().rank, backend);
  }
  void abort(int status) noexcept override { state_->engine().abort(status); }
  [[nodiscard]] bool is_aborted() const noexcept override { return state_->engine().is_aborted(); }

 private:
  std::shared_ptr<ProcessWorldState> state_;
  int size_ = 1;
};

/// This process of a job, over a ProcessEngine that it shares with its worlds.
class EngineProcess final : public JobProcess {
 public:
  explicit EngineProcess(std::shared_ptr<ProcessEngine> engine) : engine_(std::move(engine)) {}

  [[nodiscard]] std::string transport() const override { return engine_->transport(); }
  [[nodiscard]] int rank() const override { return engine_->place().rank; }
  [[nodiscard]] int size() const override { return engine_->place().size; }
  [[nodiscard]] const std::string& host() const override { return engine_->place().host; }
  [[nodiscard]] const std::string& address() const override { return engine_->place().address; }
  [[nodiscard]] int ranks_on_host() const override { return engine_->place().ranks_on_host; }
  [[nodiscard]] int place_on_host() const override { return engine_->place().place_on_host; }
  [[nodiscard]] std::unique_ptr<JobWorld> make_world(int size,
                                                     CollectiveAlgorithm algorithm) override {
    return std::make_unique<ProcessWorld>(engine_, size, algorithm);
  }
  [[nodiscard]] int finish(int status) noexcept override { return engine_->finish(status); }
  [[nodiscard]] int awaited_at_end() const noexcept override { return engine_->awaited_at_end(); }
  [[nodiscard]] std::string loss() const override { return engine_->loss(); }

 private:
  std::shared_ptr<ProcessEngine> engine_;
};

}  // namespace

std::unique_ptr<JobProcess> process_of(std::shared_ptr<ProcessEngine> engine) {
  return std::make_unique<EngineProcess>(std::move(engine));
}

}  // namespace ptdp
