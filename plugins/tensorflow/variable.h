// Resource variables for kernels: locks that release themselves, and views of variables.
#pragma once

#include "plugins/tensorflow/kernel.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {

// The copy that the shim asks for where a variable must not share its memory.
void copy_variable(TF_OpKernelContext* context, TF_Tensor* source, TF_Tensor* destination, TF_Status* status);

// Write access to variables, for as long as it lives. `inputs` are the indices of the inputs that are their resources,
// or references to them; an op's output that is a reference then is one to the first of them.
class LockedVariables {
 public:
  LockedVariables(Context& context, const std::vector<int>& inputs);
  ~LockedVariables();
  LockedVariables(const LockedVariables&) = delete;
  LockedVariables& operator=(const LockedVariables&) = delete;

  // The variable behind the `index`-th of `inputs`, to be read and written in place. An empty view on failure.
  View writable(int index);

 private:
  Context& context_;
  unihal_variable_locks* locks_;
  std::vector<TF_Tensor*> tensors_;
};

// A variable to be read, for as long as it lives.
class ReadVariable {
 public:
  ReadVariable(Context& context, int input);
  ~ReadVariable();
  ReadVariable(const ReadVariable&) = delete;
  ReadVariable& operator=(const ReadVariable&) = delete;

  const View& view() const { return view_; }

 private:
  TF_Tensor* tensor_ = nullptr;
  View view_;
};

}  // namespace unihal::tensorflow
