// The commands' names as the user types them: `ptdp plan` or `ptdp-plan`.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Tells as_typed() and the messages of signal handlers how this process was called: "ptdp plan" or
/// "ptdp-plan". The text must live as long as the process. Without this call a process goes by the
/// name of its argv[0].
void set_typed_command(const char* typed);

/// Returns a text of ours with each command in it spelled as the user calls this one: "ptdp-plan
/// show" becomes "ptdp plan show" in a process that was called as `ptdp COMMAND`.
[[nodiscard]] std::string as_typed(std::string_view text);

}  // namespace ptdp
