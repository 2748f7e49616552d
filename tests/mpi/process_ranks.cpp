// Uses the processes of a job as a test's ranks, and has the main function of their tests.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "runtime/transport/processes/mpi_world.h"
#include "tests/mpi/process_ranks.h"
#include "tests/runtime/transport/job_ranks.h"

namespace ptdp {
namespace {

std::unique_ptr<JobProcess> process;

/// Prints only failures.
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
              const std::function<std::unique_ptr<Backend>()>& make_backend,
              const std::function<void(const TestRank&)>& body) {
  run_as_rank(*process, size, algorithm, make_backend, body);
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
  return ptdp::finish_after_tests(*ptdp::process, RUN_ALL_TESTS());
}
