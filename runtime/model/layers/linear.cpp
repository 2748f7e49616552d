#include "runtime/model/layers/linear.h"

#include "kernels/epilogue.h"

namespace ptdp {

void Linear::multiply(const Matmul& product, Buffer a, Buffer b, Buffer c) const {
  context_.timed(OperationKind::kMatmul, [&] { context_.backend().matmul(product, a, b, c); });
}

// Where single operations follow the product, they are none of its time.
void Linear::multiply(const EpilogueCall& call) const {
  if (context_.backend().has_epilogue(call)) {
    context_.timed(OperationKind::kMatmul, [&] { context_.backend().matmul_with_epilogue(call); });
  } else {
    multiply(call.product, call.a, call.b, plain_result(call));
    finish_product(context_.backend(), call);
  }
}

void Linear::forward(Buffer x, Buffer bias, Buffer y) const {
  const Matmul product{.m = context_.rows(), .n = outputs_, .k = inputs_, .transposes_b = true};
  if (bias.empty()) {
    multiply(product, x, weight_.weights(), y);
  } else {
    multiply({.product = product,
              .a = x,
              .b = weight_.weights(),
              .c = y,
              .epilogue = Epilogue::kBias,
              .bias = bias});
  }
}

void Linear::forward_activated(Buffer x, Buffer bias, ActivationKind kind, Buffer activation_input,
                               Buffer y) const {
  multiply({.product = {.m = context_.rows(), .n = outputs_, .k = inputs_, .transposes_b = true},
            .a = x,
            .b = weight_.weights(),
            .c = y,
            .epilogue = Epilogue::kActivation,
            .bias = bias,
            .activation = kind,
            .x = activation_input});
}

void Linear::input_gradient(Buffer dy, Buffer dx) const {
  multiply({.m = context_.rows(), .n = inputs_, .k = outputs_}, dy, weight_.weights(), dx);
}

void Linear::activated_input_gradient(Buffer dy, ActivationKind kind, Buffer activation_input,
                                      Buffer dx) const {
  multiply({.product = {.m = context_.rows(), .n = inputs_, .k = outputs_},
            .a = dy,
            .b = weight_.weights(),
            .c = dx,
            .epilogue = Epilogue::kActivationGradient,
            .activation = kind,
            .x = activation_input});
}

void Linear::weight_gradient(const Matmul& product, Buffer x, Buffer dy, Buffer gradient,
                             Buffer bias_gradient) const {
  if (bias_gradient.empty()) {
    multiply(product, dy, x, gradient);
  } else {
    multiply({.product = product,
              .a = dy,
              .b = x,
              .c = gradient,
              .epilogue = Epilogue::kBiasGradient,
              .bias_gradient = bias_gradient});
  }
}

void Linear::weight_gradient(Buffer x, Buffer dy, Buffer bias_gradient) const {
  Matmul product{.m = outputs_, .n = inputs_, .k = context_.rows(), .transposes_a = true};
  if (context_.settings().adds_gradients_apart) {
    const Tensor gradient = context_.accumulator(outputs_ * inputs_);
    weight_gradient(product, x, dy, gradient, bias_gradient);
    context_.backend().add(gradient, weight_.gradient());
  } else {
    product.accumulates = true;
    weight_gradient(product, x, dy, weight_.gradient(), bias_gradient);
  }
}

void Linear::weight_gradient_apart(Buffer x, Buffer dy, Buffer gradient) const {
  multiply({.m = outputs_, .n = inputs_, .k = context_.rows(), .transposes_a = true}, dy, x,
           gradient);
}

}  // namespace ptdp
