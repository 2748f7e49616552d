// Running independent tasks on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace ptdp {

/// Returns how many workers keep all cores of this machine busy; at least 1.
[[nodiscard]] std::size_t workers_of_all_cores();

/// Runs task(worker, 0) to task(worker, count − 1), each once, on up to `num_workers` threads. A
/// worker, 0 to num_workers − 1, is one thread; worker 0 is the caller's. When tasks fail, all
/// others still run; then the exception of the failed task with the lowest number is thrown.
void run_tasks(std::size_t count, std::size_t num_workers,
               const std::function<void(std::size_t, std::size_t)>& task);

}  // namespace ptdp
