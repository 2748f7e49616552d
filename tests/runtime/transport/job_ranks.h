// Uses the processes of a job as a test's ranks, over whatever transport they joined.
#pragma once

#include <functional>
#include <memory>

#include "runtime/transport/processes/job.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {

/// Runs `body` as on_ranks() does, in a process of a job: the first `size` processes have a rank.
inline void run_as_rank(JobProcess& process, int size, CollectiveAlgorithm algorithm,
                        const std::function<std::unique_ptr<Backend>()>& make_backend,
                        const std::function<void(const TestRank&)>& body) {
  const std::unique_ptr<JobWorld> world = process.make_world(size, algorithm);
  if (process.rank() >= size) {
    return;
  }
  const WorldControl control = {.abort = [&] { world->abort(4); },
                                .is_aborted = [&] { return world->is_aborted(); }};
  const std::unique_ptr<Backend> backend = make_backend();
  const std::unique_ptr<Communicator> all = world->communicator(*backend);
  body({*all, *backend, control});
}

/// Ends a process whose tests may have aborted the last world, which is no fault. Returns the
/// result of JobProcess::finish().
inline int finish_after_tests(JobProcess& process, int status) {
  static_cast<void>(process.make_world(1, CollectiveAlgorithm::kRing));
  return process.finish(status);
}

}  // namespace ptdp
