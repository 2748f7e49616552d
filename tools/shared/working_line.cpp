#include "tools/shared/working_line.h"

#include <unistd.h>

#include <chrono>

#include "cost_model/text/as_typed.h"
#include "cost_model/text/shown_text.h"
#include "tools/shared/terminal.h"

namespace ptdp {

WorkingLine::WorkingLine(const std::string& program, const std::string& what) {
  if (::isatty(STDERR_FILENO) == 1) {
    thread_ =
        std::thread([this, text = shown_line(as_typed(program) + ": " + what)] { show(text); });
  }
}

WorkingLine::~WorkingLine() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void WorkingLine::show(const std::string& text) {
  std::unique_lock lock(mutex_);
  for (int seconds = 1;; ++seconds) {
    if (ended_.wait_for(lock, std::chrono::seconds(1), [&] { return is_ended_; })) {
      if (seconds > 1) {
        write_progress(kEraseLine);
      }
      return;
    }
    write_progress(kEraseLine + text + ", " + std::to_string(seconds) + " s");
  }
}

}  // namespace ptdp
