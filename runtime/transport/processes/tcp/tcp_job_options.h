// Who a process of a job over TCP is, and where it meets the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cost_model/units.h"

namespace ptdp {

/// Place of a process in its job, where rank 0 listens, and how long to wait for it.
struct TcpJobOptions {
  int rank = 0;
  int size = 1;
  std::string address;     ///< Name or address of the host of rank 0, which listens there
  std::uint16_t port = 0;  ///< at this port.
  /// What tells processes of this job from those of others that use the port; may be empty.
  std::string job = {};
  /// What all processes of the job know, and prove to know; empty: nobody asks.
  std::string secret = {};
  std::optional<Seconds> timeout = Seconds(120.0);  ///< For all processes to meet; none: for ever.
  Seconds notice_interval{10.0};                    ///< Of `notice`.
  /// Told what this process waits for.
  std::function<void(const std::string&)> notice = {};
};

}  // namespace ptdp
