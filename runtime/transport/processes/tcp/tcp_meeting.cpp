#include "runtime/transport/processes/tcp/tcp_meeting.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/meeting_parts.h"

namespace ptdp {

void fail_to_meet(const std::string& what) {
  throw Error(what, ExitStatus::kRuntimeFault);
}

void Patience::notice(const std::function<std::string()>& what) {
  if (options_->notice && MeetingClock::now() >= next_notice_) {
    next_notice_ += steady_duration(options_->notice_interval);
    const std::string limit =
        options_->timeout ? fmt::format(" of {:.4g} s", options_->timeout->value()) : "";
    options_->notice(fmt::format("waiting for {} ({:.0f} s{})", what(), seconds(), limit));
  }
}

Meeting meet(const TcpJobOptions& options, PacketPool& pool) {
  if (options.size == 1) {
    Meeting alone{.listening = listen_on(0, "127.0.0.1")};
    alone.processes.push_back(own_process(alone.listening));
    return alone;
  }
  return options.rank == 0 ? host_meeting(options, pool) : join_meeting(options, pool);
}

ProcessPlace place_in(const Meeting& meeting, int rank) {
  const MetProcess& own = meeting.processes[static_cast<std::size_t>(rank)];
  ProcessPlace place{.rank = rank,
                     .size = static_cast<int>(std::ssize(meeting.processes)),
                     .ranks_on_host = 0,
                     .host = own.host,
                     .address = meeting.listening.address};
  for (int other = 0; other < place.size; ++other) {
    if (meeting.processes[static_cast<std::size_t>(other)].machine == own.machine) {
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
