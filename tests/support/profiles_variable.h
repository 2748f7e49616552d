// The environment variable that names a directory of profiles, set for a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace ptdp {

/// Sets or clears PTDP_PROFILES during its lifetime.
class ProfilesVariable {
 public:
  explicit ProfilesVariable(const std::optional<std::string>& value) {
    if (const char* before = std::getenv(kVariable)) {
      before_ = before;
    }
    set(value);
  }
  ProfilesVariable(const ProfilesVariable&) = delete;
  ProfilesVariable& operator=(const ProfilesVariable&) = delete;
  ProfilesVariable(ProfilesVariable&&) = delete;
  ProfilesVariable& operator=(ProfilesVariable&&) = delete;
  ~ProfilesVariable() { set(before_); }

 private:
  static void set(const std::optional<std::string>& value) {
    if (value.has_value()) {
      ::setenv(kVariable, value->c_str(), 1);
    } else {
      ::unsetenv(kVariable);
    }
  }

  static constexpr const char* kVariable = "PTDP_PROFILES";
  std::optional<std::string> before_;
};

}  // namespace ptdp
