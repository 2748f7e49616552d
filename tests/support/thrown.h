// Returns the message of what a call throws.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cost_model/error.h"

namespace ptdp {

/// Returns the message of the Error that `call` throws, whose status must be `status`; "nothing was
/// thrown" without one. Any other exception fails the test.
template <class Call>
std::string message_of(const Call& call, ExitStatus status = ExitStatus::kBadInput) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace ptdp
