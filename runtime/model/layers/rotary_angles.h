// The angles of rotary positions.
#pragma once

#include <vector>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Returns the cosines, then the sines, of the angles of each position and pair, [s, 2, r/2] for
/// the width r = rotary_width(model). Scalings change wavelengths; YaRN and LongRoPE also multiply
/// cosines and sines. LongRoPE's wavelengths depend on whether model.seq_length exceeds the
/// original sequence. Source: modeling_rope_utils.py of huggingface/transformers.
[[nodiscard]] std::vector<double> rotary_angles(const TransformerConfig& model);

}  // namespace ptdp
