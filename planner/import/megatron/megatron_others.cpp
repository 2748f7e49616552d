#include "planner/import/megatron/megatron_others.h"

#include <array>
#include <string_view>
#include <vector>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// What a program or a flag stands for.
struct OtherModel {
  std::string_view name;
  std::string_view what;
};

constexpr std::string_view kHybrid = "layers of state spaces among those of attention";

// Sources: programs and arguments.py of Megatron-LM, d98e8a6.
constexpr std::array kPrograms = {
    OtherModel{"pretrain_bert.py", "BERT"},
    OtherModel{"pretrain_t5.py", "T5"},
    OtherModel{"pretrain_ict.py", "an encoder for retrieval"},
    OtherModel{"pretrain_retro.py", "RETRO"},
    OtherModel{"pretrain_vision_classify.py", "a vision model"},
    OtherModel{"pretrain_vision_dino.py", "a vision model"},
    OtherModel{"pretrain_vision_inpaint.py", "a vision model"},
    OtherModel{"pretrain_vlm.py", "a vision-language model"},
    OtherModel{"pretrain_mamba.py", kHybrid},
    OtherModel{"pretrain_hybrid.py", kHybrid},
};
constexpr std::array kFlags = {
    OtherModel{"--hybrid-layer-pattern", kHybrid},
    OtherModel{"--hybrid-override-pattern", kHybrid},
    OtherModel{"--hybrid-attention-ratio", kHybrid},
    OtherModel{"--hybrid-mlp-ratio", kHybrid},
    OtherModel{"--is-hybrid-model", kHybrid},
    OtherModel{"--decoder-seq-length", "an encoder beside the decoder"},
    OtherModel{"--decoder-num-layers", "an encoder beside the decoder"},
    OtherModel{"--vision-model-type", "a vision-language model"},
    OtherModel{"--vision-pretraining", "a vision model"},
    OtherModel{"--retro-add-retriever", "RETRO"},
    OtherModel{"--heterogeneous-layers-config-path", "layers that differ from each other"},
    OtherModel{"--heterogeneous-layers-config-encoded-json", "layers that differ from each other"},
    OtherModel{"--experimental-attention-variant", "another kind of attention"},
    OtherModel{"--linear-attention-freq", "linear attention"},
};
constexpr const char* kExpected = "expected a decoder whose layers are attention and MLP, got ";

}  // namespace

void refuse_other_models(const FlagList& flags, const std::string& program,
                         const std::string& place) {
  for (const OtherModel& other : kPrograms) {
    if (program == other.name) {
      throw Error(
          std::string(place).append(": ").append(program).append(": ").append(kExpected).append(
              other.what));
    }
  }
  for (const OtherModel& other : kFlags) {
    // A log lists "hybrid_attention_ratio ... 0.0" for models that are none.
    const auto values = flags.values(other.name);
    if (values && *values != std::vector<std::string>{"0.0"}) {
      flags.refuse(other.name, kExpected + std::string(other.what));
    }
  }
}

}  // namespace ptdp
