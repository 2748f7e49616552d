// Hands tasks to threads in order, and rethrows the first failure.
#include "planner/search/parallel_tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace ptdp {

std::size_t workers_of_all_cores() {
  // Each call of hardware_concurrency() opens files.
  static const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return cores;
}

void run_tasks(std::size_t count, std::size_t num_workers,
               const std::function<void(std::size_t, std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&](std::size_t worker) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        task(worker, i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;  // joined at the end of the block
    try {
      for (std::size_t worker = 1; worker < std::min(num_workers, count); ++worker) {
        helpers.emplace_back(work, worker);
      }
    } catch (const std::system_error&) {
      // The system has no more threads to give: the running ones do all the work.
    }
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

}  // namespace ptdp
