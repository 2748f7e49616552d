// A backend that allocates and computes nothing, so that what is in use is the layers' own memory,
// without the scratch memory of operations.
#pragma once

#include <cstdint>
#include <new>

#include "kernels/backend.h"

namespace ptdp {

class IdleBackend final : public Backend {
 public:
  void use_lane(int /*lane*/) override {}
  [[nodiscard]] Event record() override { return {}; }
  void wait(const Event& /*event*/) override {}
  void synchronize() override {}
  [[nodiscard]] double seconds_between(const Event& /*first*/, const Event& /*second*/) override {
    return 0.0;
  }
  void copy(Buffer /*from*/, Buffer /*to*/) override {}
  void copy_in(const void* /*from*/, Buffer /*to*/) override {}
  void copy_out(Buffer /*from*/, void* /*to*/) override {}
  void convert(Buffer /*from*/, Buffer /*to*/) override {}
  void fill(Buffer /*x*/, double /*value*/) override {}
  void add(Buffer /*x*/, Buffer /*to*/) override {}
  void maximum(Buffer /*x*/, Buffer /*to*/) override {}
  void scale(Buffer /*x*/, double /*factor*/) override {}
  void add_bias(Buffer /*x*/, Buffer /*bias*/, std::int64_t /*rows*/) override {}
  void bias_gradient(Buffer /*dy*/, Buffer /*gradient*/, std::int64_t /*rows*/) override {}
  void bias_gelu(Buffer /*x*/, Buffer /*bias*/, Buffer /*y*/, std::int64_t /*rows*/) override {}
  void gelu_backward(Buffer /*x*/, Buffer /*dy*/, Buffer /*dx*/) override {}
  void bias_dropout_add(Buffer /*x*/, Buffer /*bias*/, Buffer /*residual*/,
                        const Dropout& /*dropout*/, const TokenRange& /*range*/, Buffer /*y*/,
                        std::int64_t /*rows*/) override {}
  void dropout_backward(Buffer /*dy*/, const Dropout& /*dropout*/, const TokenRange& /*range*/,
                        Buffer /*dx*/, std::int64_t /*rows*/) override {}
  void matmul(const Matmul& /*product*/, Buffer /*a*/, Buffer /*b*/, Buffer /*c*/) override {}
  void layer_norm(Buffer /*x*/, Buffer /*gamma*/, Buffer /*beta*/, double /*epsilon*/, Buffer /*y*/,
                  Buffer /*mean*/, Buffer /*rstd*/, std::int64_t /*rows*/) override {}
  void layer_norm_backward(Buffer /*dy*/, Buffer /*x*/, Buffer /*mean*/, Buffer /*rstd*/,
                           Buffer /*gamma*/, Buffer /*dx*/, Buffer /*dgamma*/, Buffer /*dbeta*/,
                           std::int64_t /*rows*/) override {}
  void attention(const Attention& /*shape*/, Buffer /*qkv*/, Buffer /*out*/,
                 Buffer /*log_sum*/) override {}
  void attention_backward(const Attention& /*shape*/, Buffer /*qkv*/, Buffer /*out*/,
                          Buffer /*log_sum*/, Buffer /*dout*/, Buffer /*dqkv*/) override {}
  void embedding(Buffer /*ids*/, Buffer /*table*/, std::int64_t /*first*/,
                 Buffer /*out*/) override {}
  void embedding_gradient(Buffer /*ids*/, Buffer /*dy*/, std::int64_t /*first*/,
                          Buffer /*gradient*/) override {}
  void add_positions(Buffer /*x*/, Buffer /*positions*/, const TokenRange& /*range*/,
                     std::int64_t /*rows*/) override {}
  void position_gradient(Buffer /*dy*/, Buffer /*gradient*/, const TokenRange& /*range*/,
                         std::int64_t /*rows*/) override {}
  void row_maxima(Buffer /*logits*/, const VocabShard& /*shard*/, Buffer /*maxima*/,
                  std::int64_t /*rows*/) override {}
  void softmax_sums(Buffer /*logits*/, const VocabShard& /*shard*/, Buffer /*targets*/,
                    Buffer /*maxima*/, Buffer /*sums*/, std::int64_t /*rows*/) override {}
  void add_losses(Buffer /*sums*/, Buffer /*total*/, std::int64_t /*rows*/) override {}
  void cross_entropy_backward(Buffer /*logits*/, const VocabShard& /*shard*/, Buffer /*targets*/,
                              Buffer /*maxima*/, Buffer /*sums*/, double /*scale*/,
                              std::int64_t /*rows*/) override {}
  void add_squares(Buffer /*x*/, Buffer /*total*/) override {}
  void adamw(const AdamW& /*settings*/, std::span<const AdamWSlice> /*slices*/) override {}
  void fill_normal(Buffer /*x*/, const MatrixBlock& /*block*/, std::uint64_t /*key*/,
                   double /*deviation*/) override {}

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override {
    return ::operator new(static_cast<std::size_t>(bytes));
  }
  void release_memory(void* memory, std::int64_t /*bytes*/) noexcept override {
    ::operator delete(memory);
  }
};

}  // namespace ptdp
