// Small Python programs that exports carry: they train on made-up tokens until users bring data.
#pragma once

#include <string_view>

namespace ptdp {

/// Trains with nanotron 0.4's DistributedTrainer, whose wheel brings no program of its own.
extern const std::string_view kNanotronTrain;
/// Starts Megatron-DeepSpeed's pretrain_gpt.py, on a made-up corpus unless --data-path is given.
extern const std::string_view kDeepspeedPretrain;
/// Trains a Hugging Face model with Accelerate, as model.json and batch.json say.
extern const std::string_view kAccelerateTrain;

}  // namespace ptdp
