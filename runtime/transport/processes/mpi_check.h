// Turns faults of MPI into errors.
#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "cost_model/error.h"

namespace ptdp {

/// Throws Error(kRuntimeFault) with MPI's own text, unless `code`, which `call` returned, is
/// MPI_SUCCESS.
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(std::string(call) + ": " + std::string(text.data(), length),
              ExitStatus::kRuntimeFault);
}

}  // namespace ptdp
