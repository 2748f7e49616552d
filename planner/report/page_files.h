// The script and the style of the page, which the build puts into the program.
#pragma once

#include <string_view>

namespace ptdp {

/// Returns the style sheet of the page: `page/page.css`.
[[nodiscard]] std::string_view page_style();

/// Returns the script of the page: the files `page/*.js`, one after the other.
[[nodiscard]] std::string_view page_script();

}  // namespace ptdp
