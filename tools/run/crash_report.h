// Reports a memory fault that ends the process.
#pragma once

namespace ptdp {

/// Installs handlers that name rank and action when SIGSEGV or SIGBUS ends the process. If address
/// space is short, the process ends with status 4: libraries use memory that they did not get.
void report_crashes();

}  // namespace ptdp
