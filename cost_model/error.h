// The one exception of the project, and the exit statuses that every command shares.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace ptdp {

/// Exit statuses of all commands.
enum class ExitStatus {
  kDone = 0,
  kBug = 1,              ///< A fault of the program itself: please report it.
  kBadInput = 2,         ///< A flag, a file or a value from the user is wrong.
  kNothingFits = 3,      ///< No configuration can run; the tally says why.
  kRuntimeFault = 4,     ///< A device, rank, network or deadline failed while running.
  kOutputFailed = 5,     ///< Output could not be written; what was there before is intact.
  kOutsideTolerance = 6  ///< A validation missed the tolerance it was given.
};

/// A failure that the user or the machine caused. The message names the place, the value found and
/// what was expected; `main` prints it and exits with the status.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitStatus status = ExitStatus::kBadInput)
      : std::runtime_error(message), status_(status) {}
  /// Constructs a bad-input error whose `picture` of the place is printed below the message.
  Error(const std::string& message, std::string picture)
      : std::runtime_error(message), picture_(std::move(picture)) {}

  [[nodiscard]] ExitStatus status() const { return status_; }
  /// Returns the lines to print below the message; empty: none.
  [[nodiscard]] const std::string& picture() const { return picture_; }

 private:
  ExitStatus status_ = ExitStatus::kBadInput;
  std::string picture_;
};

}  // namespace ptdp
