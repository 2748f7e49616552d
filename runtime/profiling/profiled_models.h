// The models whose layers are run to measure operations.
#pragma once

#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// From tiny to as large as a pass of `most_flops` FLOPs allows, but five at least: layers whole,
/// and as tensor parallelism leaves a rank of them, for few and many tokens, short and long
/// sequences; with dropout, and some without.
[[nodiscard]] std::vector<ProfiledModel> profiled_models(double most_flops);

}  // namespace ptdp
