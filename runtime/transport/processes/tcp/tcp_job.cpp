// Joins a job over TCP.
#include "runtime/transport/processes/tcp/tcp_job.h"

#include <cassert>

#include "runtime/transport/processes/process_world.h"
#include "runtime/transport/processes/tcp/tcp_engine.h"

namespace ptdp {

std::unique_ptr<JobProcess> join_tcp_job(const TcpJobOptions& options) {
  assert(options.size >= 1 && options.rank >= 0 && options.rank < options.size);
  return process_of(std::make_shared<TcpEngine>(options));
}

}  // namespace ptdp
