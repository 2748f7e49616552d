#include "cost_model/inputs/fp8_recipe.h"

namespace ptdp {

std::string_view name_of(Fp8Scaling scaling) {
  return name_of(scaling, NamedValues<Fp8Scaling>(kFp8ScalingNames));
}

template <class Fields>
void describe(Fields& fields, Described<Fields, Fp8Recipe>& recipe) {
  fields.choice("scaling", recipe.scaling, NamedValues<Fp8Scaling>(kFp8ScalingNames));
  fields.flag("norms_cast", recipe.norms_cast);
  fields.flag("keeps_inputs", recipe.keeps_inputs);
  fields.flag("casts_weights_once", recipe.casts_weights_once);
  fields.flag("has_only_fp8_weights", recipe.has_only_fp8_weights);
  fields.flag("gathers_weights", recipe.gathers_weights);
  fields.flag("gathers_activations", recipe.gathers_activations);
}

template void describe(ObjectReader&, Fp8Recipe&);
template void describe(ObjectWriter&, const Fp8Recipe&);

}  // namespace ptdp
