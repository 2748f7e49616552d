// Returns what a call throws, for tests of messages.
#pragma once

#include <optional>
#include <string>

#include "cost_model/error.h"

namespace ptdp {

/// Returns the message of the Error that `call` throws; "nothing thrown" if it throws none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

/// Returns the status of the Error that `call` throws; nullopt if it throws none.
template <class Call>
std::optional<ExitStatus> status_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return std::nullopt;
}

}  // namespace ptdp
