// Values of Megatron-LM's flags that are small languages of their own.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace ptdp {

/// Returns the numbers of a Python list such as "([0]*3+[1]*58)" or "[1,0,1]"; nullopt for anything
/// else and for more than 100,000 numbers.
[[nodiscard]] std::optional<std::vector<int>> python_numbers(std::string_view text);

/// Returns the layers of each virtual stage of a layout such as "Et*7|(t*9|)*2t*7L", in the order
/// of the model. E is the embedding, t a layer, m a module that predicts more tokens, L the loss.
/// Returns nullopt for anything else. Source: Megatron-LM, pipeline_parallel_layer_layout.py.
[[nodiscard]] std::optional<std::vector<int>> layers_of_layout(std::string_view layout);

}  // namespace ptdp
