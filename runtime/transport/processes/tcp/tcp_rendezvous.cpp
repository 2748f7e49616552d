// Starts a rank's part of a meeting, and answers questions on its result.
#include "runtime/transport/processes/tcp/tcp_rendezvous.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/rendezvous_parts.h"

namespace ptdp {

void fail_to_meet(const std::string& what) {
  throw Error(what, ExitStatus::kRuntimeFault);
}

void Patience::notice(const std::function<std::string()>& what) {
  if (options_->notice && RendezvousClock::now() >= next_notice_) {
    next_notice_ += steady_duration(options_->notice_interval);
    const std::string limit =
        options_->timeout ? fmt::format(" of {:.4g} s", options_->timeout->value()) : "";
    options_->notice(fmt::format("waiting for {} ({:.0f} s{})", what(), seconds(), limit));
  }
}

Rendezvous rendezvous(const TcpJobOptions& options, PacketPool& pool) {
  if (options.size == 1) {
    Rendezvous alone{.listening = listen_on(0, "127.0.0.1")};
    alone.processes.push_back(own_process(alone.listening));
    return alone;
  }
  return options.rank == 0 ? host_rendezvous(options, pool) : join_rendezvous(options, pool);
}

ProcessPlace place_in(const Rendezvous& rendezvous, int rank) {
  const MetProcess& own = rendezvous.processes[static_cast<std::size_t>(rank)];
  ProcessPlace place{.rank = rank,
                     .size = static_cast<int>(std::ssize(rendezvous.processes)),
                     .ranks_on_host = 0,
                     .host = own.host,
                     .address = rendezvous.listening.address};
  for (int other = 0; other < place.size; ++other) {
    if (rendezvous.processes[static_cast<std::size_t>(other)].machine == own.machine) {
      place.ranks_on_host += 1;
      place.place_on_host += other < rank ? 1 : 0;
    }
  }
  return place;
}

std::vector<std::string> ways_to(const MetProcess& to, const MetProcess& from) {
  std::vector<std::string> ways = to.addresses;
  if (to.machine == from.machine) {
    std::stable_partition(ways.begin(), ways.end(), is_loopback);
  } else {
    std::erase_if(ways, is_loopback);
  }
  return ways;
}

}  // namespace ptdp
