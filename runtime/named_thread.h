// Starts threads that carry a name for debuggers, and reports a failure to start one as an Error.
#pragma once

#include <pthread.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {

/// Starts a thread that runs `body`. Debuggers show the first 15 characters of `name`. Throws
/// Error(kRuntimeFault) when the system gives no thread.
template <class Body>
[[nodiscard]] std::thread named_thread(const std::string& name, Body&& body) {
  constexpr std::size_t longest_name = 15;  // Linux
  try {
    std::thread thread(std::forward<Body>(body));
    pthread_setname_np(thread.native_handle(), name.substr(0, longest_name).c_str());
    return thread;
  } catch (const std::system_error& error) {
    throw Error("cannot start the thread " + name + ": " + error.what(), ExitStatus::kRuntimeFault);
  }
}

}  // namespace ptdp
