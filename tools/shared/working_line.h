// A line on a terminal while a command computes: what it does, and for how long.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ptdp {

/// Shows on standard error, from the first second on, what a command does and for how many seconds,
/// and erases that at its end. Does nothing where standard error is no terminal.
class WorkingLine {
 public:
  /// `what` says what is done, such as "predicting the published runs".
  WorkingLine(const std::string& program, const std::string& what);
  WorkingLine(const WorkingLine&) = delete;
  WorkingLine& operator=(const WorkingLine&) = delete;
  WorkingLine(WorkingLine&&) = delete;
  WorkingLine& operator=(WorkingLine&&) = delete;
  ~WorkingLine();

 private:
  void show(const std::string& text);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;  // last, for it uses the others
};

/// Returns what `work` returns, with a WorkingLine meanwhile.
template <class Work>
[[nodiscard]] auto while_working(const std::string& program, const std::string& what,
                                 const Work& work) {
  const WorkingLine line(program, what);
  return work();
}

}  // namespace ptdp
