// Independent tasks on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace ptdp {

/// Runs task(worker, 0) to task(worker, count − 1), each once, on up to `num_workers` threads, and
/// throws what the failed one with the lowest number threw. A worker, 0 to num_workers − 1, is one
/// thread.
void run_tasks(std::size_t count, std::size_t num_workers,
               const std::function<void(std::size_t, std::size_t)>& task);

}  // namespace ptdp
