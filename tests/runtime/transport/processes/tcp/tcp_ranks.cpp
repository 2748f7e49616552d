// Uses the processes of a job over TCP as a test's ranks: as threads of the test, each with an
// engine of its own.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/runtime/transport/job_ranks.h"
#include "tests/runtime/transport/processes/tcp/tcp_processes.h"

namespace ptdp {
namespace {

constexpr int kMostRanks = 4;

/// The job of the test program: it joins when a test first needs it, and ends with the tests.
class Job : public testing::Environment {
 public:
  static Job& instance() {
    static Job* const job = [] {
      auto owned = std::make_unique<Job>();
      Job* const all = owned.get();
      testing::AddGlobalTestEnvironment(owned.release());  // gtest owns it
      return all;
    }();
    return *job;
  }

  void TearDown() override {
    if (processes_.empty()) {
      return;
    }
    run([](JobProcess& process) { EXPECT_EQ(finish_after_tests(process, 0), 0); });
    processes_.clear();
  }

  /// Calls `body` for each process, in a thread.
  template <class Body>
  void run(const Body& body) {
    if (processes_.empty()) {
      processes_ = join_all(kMostRanks);
    }
    std::vector<std::jthread> threads;
    threads.reserve(processes_.size());
    for (const auto& process : processes_) {
      threads.emplace_back([&] { body(*process); });
    }
  }

 private:
  std::vector<std::unique_ptr<JobProcess>> processes_;
};

/// Registers the job with gtest before its tests begin.
const Job* const kJob = &Job::instance();

}  // namespace

int most_ranks() {
  return kMostRanks;
}

void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<std::unique_ptr<Backend>()>& make_backend,
              const std::function<void(const TestRank&)>& body) {
  Job::instance().run(
      [&](JobProcess& process) { run_as_rank(process, size, algorithm, make_backend, body); });
}

}  // namespace ptdp
