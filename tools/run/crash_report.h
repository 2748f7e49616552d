// What a process says that a fault of memory ends.
#pragma once

namespace ptdp {

/// Names rank and action where SIGSEGV or SIGBUS ends the process. Where address space is short,
/// that ends with status 4: libraries use memory that they did not get.
void report_crashes();

}  // namespace ptdp
