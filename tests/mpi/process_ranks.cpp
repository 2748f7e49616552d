// The processes of a job as a test's ranks, and the main function of their tests.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/transport/mpi_world.h"
#include "tests/mpi/process_ranks.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

std::unique_ptr<JobProcess> process;

/// Tells of failures alone.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) {
      const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
      std::cout << "rank " << process->rank() << ": " << (test != nullptr ? test->name() : "")
                << ": " << result.file_name() << ':' << result.line_number() << '\n'
                << result.message() << std::endl;
    }
  }
};

}  // namespace

JobProcess& this_process() {
  return *process;
}

int most_ranks() {
  return process->size();
}

void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<void(const TestRank&)>& body) {
  on_ranks(
      size, algorithm, [] { return std::make_unique<CpuBackend>(); }, body);
}

void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<std::unique_ptr<Backend>()>& make_backend,
              const std::function<void(const TestRank&)>& body) {
  const std::unique_ptr<JobWorld> world = process->make_world(size, algorithm);
  if (process->rank() >= size) {
    return;
  }
  const WorldControl control = {.abort = [&] { world->abort(4); },
                                .is_aborted = [&] { return world->is_aborted(); }};
  const std::unique_ptr<Backend> backend = make_backend();
  const std::unique_ptr<Communicator> all = world->communicator(*backend);
  body({*all, *backend, control});
}

}  // namespace ptdp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ptdp::process = ptdp::join_mpi_job();
  if (ptdp::process->rank() != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new ptdp::FailurePrinter);
  }
  const int status = RUN_ALL_TESTS();
  // A test may have aborted the last world, which is no fault here.
  static_cast<void>(ptdp::process->make_world(1, ptdp::CollectiveAlgorithm::kRing));
  return ptdp::process->finish(status);
}
