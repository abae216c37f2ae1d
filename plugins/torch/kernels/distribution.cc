// Numbers of distributions whose parameters are tensors.
#include "plugins/torch/generator.h"
#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// Numbers by `parameters`, which have the shape of the result.
at::Tensor draw(Call& call, uhal_parameter_distribution distribution, const at::Tensor& p, const at::Tensor& q,
                const std::optional<at::Generator>& generator) {
  const at::Tensor result = empty(p.sizes(), p.scalar_type());
  if (result.numel() == 0) return result;
  // A sequence for each element: a block of four words of the generator's.
  const RandomPart part = take_random(generator, call.device(), 4 * result.numel(), sizeof(uint32_t));
  uhal_random_distribution_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.distribution = distribution;
  attributes.key = part.key;
  attributes.counter[0] = part.counter;
  const View first = view_of(call.keep(p));
  View second;
  if (q.defined()) second = view_of(call.keep(q));
  const View y = view_of(result);
  call.launch(UHAL_OP_RANDOM_DISTRIBUTION, {&first, q.defined() ? &second : nullptr}, {&y}, &attributes);
  return result;
}

// (self, generator)
void poisson(Call& call) {
  refuse_unless(call.tensor(0).ge(0), "invalid Poisson rate, expected rate to be non-negative");
  call.set_result(0, draw(call, UHAL_RANDOM_POISSON, call.tensor(0), {}, call.generator(1)));
}

// (count, prob, generator): outside their domain parameters count as its nearest ones, as on PyTorch's CPU.
void binomial(Call& call) {
  const at::Tensor& count = call.tensor(0);
  const at::Tensor& probability = call.tensor(1);
  TORCH_CHECK(count.scalar_type() == probability.scalar_type(), "Found dtype ", probability.scalar_type(),
              " but expected ", count.scalar_type());
  const std::vector<at::Tensor> parameters = at::broadcast_tensors({count.clamp_min(0), probability.clamp(0, 1)});
  call.set_result(0, draw(call, UHAL_RANDOM_BINOMIAL, parameters[0], parameters[1], call.generator(2)));
}

// The smallest normal number of a floating dtype, and the largest number below 1.
struct Range {
  double least, largest;
};

Range range_below_one(at::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "range_below_one", [&] {
    return Range{static_cast<double>(std::numeric_limits<scalar_t>::min()),
                 1 - static_cast<double>(std::numeric_limits<scalar_t>::epsilon()) / 2};
  });
}

// Gamma numbers, of which none is 0: those below the smallest normal number, and NaN, are that one.
at::Tensor gamma_numbers(Call& call, const at::Tensor& shape, int generator) {
  const at::Tensor numbers = draw(call, UHAL_RANDOM_GAMMA, shape, {}, call.generator(generator));
  if (numbers.numel() == 0) return numbers;
  const View y = view_of(numbers),
             least = call.constant(range_below_one(shape.scalar_type()).least, shape.scalar_type());
  call.map(uhal_map_fmax, {&y, &least}, {&y});
  return numbers;
}

// (self, generator)
void gamma(Call& call) { call.set_result(0, gamma_numbers(call, call.tensor(0), 1)); }

// The slope of a drawn number with its place in the distribution held: (self, output)
void gamma_backward(Call& call) {
  const std::vector<at::Tensor> operands = at::broadcast_tensors({call.tensor(0), call.tensor(1)});
  const at::Tensor& result = call.make_result(0, operands[0].sizes(), operands[0].scalar_type());
  if (result.numel() == 0) return;
  const View shape = view_of(operands[0]), number = view_of(operands[1]), y = view_of(result);
  const View one = call.constant(1, result.scalar_type());
  call.map(uhal_map_gamma_sample_backward, {&shape, &number, &one}, {&y});
}

// (self, generator): gamma numbers that sum to 1, of which none is 0 or 1. As on PyTorch's CPU they are drawn as
// doubles, where those of small shapes are not all 0.
void dirichlet(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor numbers = gamma_numbers(call, call.keep(self.to(at::kDouble)), 1);
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  if (result.numel() == 0) return;
  const at::Tensor sums = call.keep(numbers.sum(-1, /*keepdim=*/true).expand(numbers.sizes()));
  const View part = view_of(numbers), whole = view_of(sums), y = view_of(result);
  // NaN, of infinite shapes, counts as the least number.
  const Range range = range_below_one(self.scalar_type());
  const View least = call.constant(range.least, at::kDouble);
  Chain chain(3);
  const int number = chain.step(uhal_map_fmax, {chain.step(uhal_map_divide, {0, 1}), 2});
  chain.step(uhal_map_clip, {number}, {range.least, range.largest});
  call.launch(UHAL_OP_MAP_CHAIN, {&part, &whole, &least}, {&y}, chain.program());
}

// (self, *, generator)
void bernoulli(Call& call) {
  const at::Tensor& self = call.tensor(0);
  call.set_result(0, at::empty(self.sizes(), self.options()).bernoulli_(self, call.generator(1)));
}

void normal_of(Call& call, const at::Tensor& mean, const at::Tensor& deviation) {
  TORCH_CHECK(!deviation.is_complex(), "normal expects standard deviation to be non-complex");
  TORCH_CHECK(deviation.numel() == 0 || deviation.is_meta() || deviation.min().ge(0).item<bool>(),
              "normal expects all elements of std >= 0.0");
  const auto sizes = at::infer_size(mean.sizes(), deviation.sizes());
  call.set_result(0, at::empty(sizes, mean.options()).normal_(0, 1, call.generator(2)).mul_(deviation).add_(mean));
}

// (mean, std, *, generator), either of them a number
void normal_by_tensors(Call& call) { normal_of(call, call.tensor(0), call.tensor(1)); }
void normal_by_mean(Call& call) {
  TORCH_CHECK(call.real(1) >= 0, "normal expects std >= 0.0, but found std ", call.real(1));
  const at::Tensor& mean = call.tensor(0);
  call.set_result(0, at::empty(mean.sizes(), mean.options()).normal_(0, 1, call.generator(2)) * call.real(1) + mean);
}
void normal_by_deviation(Call& call) {
  const at::Tensor& deviation = call.tensor(1);
  normal_of(call, at::full({}, call.real(0), deviation.options()), deviation);
}

// (self, noise, lower, upper, training, generator): what is not positive times a random slope, which noise keeps
void random_relu(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::Tensor noise = call.tensor(1);
  const double low = call.real(2), high = call.real(3);
  TORCH_CHECK(low <= high, "Lower bound should be less than or equal to the upper bound");
  if (!call.boolean(4)) return call.set_result(0, at::leaky_relu(self, (low + high) / 2));
  TORCH_CHECK(self.sizes() == noise.sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  const at::Tensor slopes = at::empty(self.sizes(), self.options()).uniform_(low, high, call.generator(5));
  noise.copy_(at::where(self.le(0), slopes, at::ones({}, self.options())));
  call.set_result(0, self * noise);
}

constexpr Kernel kDistributionKernels[] = {
    {"poisson", kFloats, poisson},
    {"binomial", kFloats, binomial},
    {"_standard_gamma", kFloats, gamma},
    {"_standard_gamma_grad", kFloats, gamma_backward},
    {"_sample_dirichlet", kFloats, dirichlet},
    {"bernoulli", kFloats, bernoulli},
    {"normal.Tensor_Tensor", kFloats | kComplex, normal_by_tensors},
    {"normal.Tensor_float", kFloats | kComplex, normal_by_mean},
    {"normal.float_Tensor", kFloats, normal_by_deviation},
    {"rrelu_with_noise", kFloats, random_relu},
};

}  // namespace

void register_distribution() { register_kernels(kDistributionKernels); }

}  // namespace unihal::pytorch
