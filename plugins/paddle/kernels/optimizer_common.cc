#include <algorithm>

#include "plugins/paddle/kernels/optimizer.h"

namespace unihal::paddle {
namespace {}  // namespace

Step::Step(const Context& context, Input parameter, OptionalInput master, bool multi_precision, Output parameter_out,
           Output master_out)
    : context_(context), rounded_(context.allocate(parameter_out, parameter.uhal())) {
  use_master_ = multi_precision && master && master_out;
  before_ = use_master_ ? master.view() : parameter.view();
  after_ = use_master_ ? context.allocate(master_out, before_.dtype) : rounded_;
}

void pass_through(const Context& context, Input x, Output y) {
  if (!y) return;
  const View in = x.view(), out = context.allocate(y, in.dtype);
  copy_or_cast(context, in, out);
}

Gradient::Gradient(const Context& context, SparseInput gradient, Input parameter) {
  const View values = gradient.value().view();
  dense_.emplace(context, values.dtype, parameter.view());
  fill_zero(context, *dense_);
  if (!gradient.rows().empty()) add_rows(context, DeviceIntegers(context, gradient.rows()), values, *dense_);
  view_ = *dense_;
}

MergedRows::MergedRows(const Context& context, SparseInput gradient) : rows_(gradient.rows()) {
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  std::vector<int64_t> positions;
  for (int64_t row : gradient.rows()) {
    positions.push_back(std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin());
  }
  indices_.emplace(context, rows_);

  const View values = gradient.value().view();
  View merged = values;
  merged.shape[0] = static_cast<int64_t>(rows_.size());
  values_.emplace(context, values.dtype, merged);
  fill_zero(context, *values_);
  if (!rows_.empty()) add_rows(context, DeviceIntegers(context, positions), values, *values_);
}

}  // namespace unihal::paddle
