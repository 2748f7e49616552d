// Models that programs of Megatron-LM train and that are no decoder of attention and MLP layers.
#pragma once

#include <string>

#include "planner/import/flag_list.h"

namespace ptdp {

/// Throws Error, naming the program or the flag, for a model that ptdp does not cost: an encoder, a
/// vision-language model, layers of state spaces. `program` is the name of its file, or empty.
void refuse_other_models(const FlagList& flags, const std::string& program,
                         const std::string& place);

}  // namespace ptdp
