#include <memory>
#include <thread>
#include <vector>

#include "runtime/transport/threads/thread_world.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {

int most_ranks() {
  return 1024;
}

void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<std::unique_ptr<Backend>()>& make_backend,
              const std::function<void(const TestRank&)>& body) {
  ThreadWorld world(size, algorithm);
  const WorldControl control = {.abort = [&] { world.abort(); },
                                .is_aborted = [&] { return world.is_aborted(); }};
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Backend> backend = make_backend();
      const std::unique_ptr<Communicator> all = world.communicator(rank, *backend);
      body({*all, *backend, control});
    });
  }
}

}  // namespace ptdp
