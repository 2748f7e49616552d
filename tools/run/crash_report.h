// How the process ends where memory faults or lacks.
#pragma once

namespace ptdp {

/// Installs handlers that name rank and action when SIGSEGV or SIGBUS ends the process. In limited
/// address space the process ends with status 4: libraries use memory that they did not get. It
/// does so, too, where a library exits with 1 before own_status().
void report_crashes();

/// Returns `status`, with which the process is about to end by itself.
[[nodiscard]] int own_status(int status);

/// Has the C library load its unwinder while there is memory for it. Without it an exception that
/// leaves a callback of the C library, as std::bad_alloc in std::call_once(), ends in abort().
void load_unwinder();

}  // namespace ptdp
