#include "kernels/epilogue.h"

namespace ptdp {

Buffer plain_result(const EpilogueCall& call) {
  return call.epilogue == Epilogue::kActivation ? call.x : call.c;
}

void finish_product(Backend& backend, const EpilogueCall& call) {
  const std::int64_t rows = call.product.m;
  switch (call.epilogue) {
    case Epilogue::kBias:
      backend.add_bias(call.c, call.bias, rows);
      break;
    case Epilogue::kActivation:
      backend.activation(
          {.kind = call.activation, .x = call.x, .bias = call.bias, .y = call.c, .rows = rows});
      break;
    case Epilogue::kActivationGradient:
      backend.activation_backward(
          {.kind = call.activation, .x = call.x, .dy = call.c, .dx = call.c, .rows = rows});
      break;
    case Epilogue::kBiasGradient:
      backend.bias_gradient(call.a, call.bias_gradient, call.product.k);
      break;
  }
}

void multiply_apart(Backend& backend, const EpilogueCall& call) {
  backend.matmul(call.product, call.a, call.b, plain_result(call));
  finish_product(backend, call);
}

}  // namespace ptdp
