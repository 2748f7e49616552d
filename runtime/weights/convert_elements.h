// Conversion of floating-point elements in host memory.
#pragma once

#include "kernels/data_type.h"

namespace ptdp {

/// Converts elements of host memory to the type of `to`. Values are rounded to nearest even, once;
/// those beyond the type's range become infinite. Both buffers are equally long, do not overlap,
/// and have floating-point types.
void convert_elements(const Buffer& from, const Buffer& to);

}  // namespace ptdp
