#include "runtime/model/layers/linear.h"

namespace ptdp {

void Linear::multiply(const Matmul& product, Buffer a, Buffer b, Buffer c) const {
  context_.timed(OperationKind::kMatmul, [&] { context_.backend().matmul(product, a, b, c); });
}

void Linear::forward(Buffer x, Buffer y) const {
  multiply({.m = context_.rows(), .n = outputs_, .k = inputs_, .transposes_b = true}, x,
           weight_.weights(), y);
}

void Linear::input_gradient(Buffer dy, Buffer dx) const {
  multiply({.m = context_.rows(), .n = inputs_, .k = outputs_}, dy, weight_.weights(), dx);
}

void Linear::weight_gradient(Buffer x, Buffer dy) const {
  if (context_.settings().adds_gradients_apart) {
    const Tensor gradient = context_.accumulator(outputs_ * inputs_);
    weight_gradient_apart(x, dy, gradient);
    context_.backend().add(gradient, weight_.gradient());
  } else {
    multiply({.m = outputs_,
              .n = inputs_,
              .k = context_.rows(),
              .transposes_a = true,
              .accumulates = true},
             dy, x, weight_.gradient());
  }
}

void Linear::weight_gradient_apart(Buffer x, Buffer dy, Buffer gradient) const {
  multiply({.m = outputs_, .n = inputs_, .k = context_.rows(), .transposes_a = true}, dy, x,
           gradient);
}

}  // namespace ptdp
