#include "runtime/profiling/timed_backend.h"

#include <utility>

namespace ptdp {

void TimedBackend::start() {
  spans_.clear();
  last_end_ = inner_.record();
}

std::vector<TimedOperation> TimedBackend::take() {
  std::vector<TimedOperation> timed;
  timed.reserve(spans_.size());
  for (const Span& span : std::exchange(spans_, {})) {
    timed.push_back({.operation = span.named.operation,
                     .sizes = span.named.sizes,
                     .is_whole = span.named.is_whole,
                     .seconds = inner_.seconds_between(span.begin, span.end)});
  }
  return timed;
}

void TimedBackend::run_as_graph(std::int64_t key, const std::function<void()>& issue) {
  inner_.run_as_graph(key, [&] {
    ended(std::nullopt);
    issue();
  });
}

void TimedBackend::ended(const OperationName& name) {
  const Event end = inner_.record();
  if (name) {
    spans_.push_back({.named = *name, .begin = last_end_, .end = end});
  }
  last_end_ = end;
}

}  // namespace ptdp
