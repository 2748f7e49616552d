// Ends the process with a word where memory lacks or faults.
#pragma once

namespace ptdp {

/// Installs handlers that name rank and action when SIGSEGV or SIGBUS ends the process. If address
/// space is short, the process ends with status 4: libraries use memory that they did not get, or
/// exit on a thread of their own.
void report_crashes();

/// Has the C library load its unwinder while there is memory for it. Without it an exception that
/// leaves a callback of the C library, as std::bad_alloc in std::call_once(), ends in abort().
void load_unwinder();

}  // namespace ptdp
