#include "plugins/paddle/signature.h"

#include <cstring>
#include <exception>
#include <sstream>
#include <typeinfo>

#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_api.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/selected_rows.h"
#include "plugins/paddle/sparse_tensors.h"

namespace unihal::paddle {
namespace {

// phi::DataType's numbers of the dtypes that CPU kernels are looked up by, most usual first: float32, int64,
// int32, float64, bool, complex64, int8, and "any".
constexpr int32_t kLookupDtypes[] = {10, 9, 7, 11, 1, 12, 3, 0};

// phi::TensorArgDef: backend, layout, dtype, and the std::type_index of its C++ type.
constexpr size_t kDtypeOffset = 8;
constexpr size_t kTypeIndexOffset = 16;

const char* spell_type(const void* argument_definition) {
  const auto* type =
      *reinterpret_cast<const std::type_info* const*>(static_cast<const char*>(argument_definition) + kTypeIndexOffset);
  static const struct {
    const char* mangled;
    const char* code;
  } kTypes[] = {
      {"N3phi11DenseTensorE", "tensor"},
      {"PN3phi11DenseTensorE", "tensor"},
      {"N6paddle8optionalIN3phi11DenseTensorEEE", "optional"},
      {"St6vectorIPKN3phi11DenseTensorESaIS3_EE", "list"},
      {"N6paddle8optionalISt6vectorIPKN3phi11DenseTensorESaIS5_EEEE", "optional list"},
      {"St6vectorIPN3phi11DenseTensorESaIS2_EE", "list"},
      {"St6vectorIPKN3phi10TensorBaseESaIS3_EE", "mixed list"},
      {"N3phi12SelectedRowsE", kSelectedRowsCode},
      {"PN3phi12SelectedRowsE", kSelectedRowsCode},
      {"St6vectorIPKN3phi12SelectedRowsESaIS3_EE", kSelectedRowsListCode},
      {"N3phi15SparseCooTensorE", kCooCode},
      {"PN3phi15SparseCooTensorE", kCooCode},
      {"N3phi15SparseCsrTensorE", kCsrCode},
      {"PN3phi15SparseCsrTensorE", kCsrCode},
  };
  for (const auto& known : kTypes) {
    if (std::strcmp(type->name(), known.mangled) == 0) return known.code;
  }
  return type->name();
}

// Paddle prints a kernel as JSON with `"attribute":["bool","vector<int>"]` in it.
std::string spell_attributes(const void* kernel) {
  std::ostringstream stream;
  phi.print_kernel(&stream, kernel);
  const std::string text = stream.str();
  const char* key = "\"attribute\":";
  size_t at = text.find(key);
  if (at == std::string::npos) return "";
  std::string result;
  for (at += std::strlen(key); at < text.size() && text[at] != ']'; ++at) {
    if (std::strchr("[\" \n\t", text[at]) == nullptr) result += text[at];
  }
  return result;
}

// A list of argument definitions; Paddle leaves its array to us.
class Definitions {
 public:
  explicit Definitions(List list) : list_(list) {}
  Definitions(const Definitions&) = delete;
  Definitions& operator=(const Definitions&) = delete;
  ~Definitions() { phi.PD_DeletePointerList(list_); }

  size_t size() const { return list_.size; }
  void* operator[](size_t i) const { return static_cast<void**>(list_.data)[i]; }

 private:
  List list_;
};

std::string spell_types(const Definitions& definitions) {
  std::string result;
  for (size_t i = 0; i < definitions.size(); ++i) {
    if (i > 0) result += ',';
    result += spell_type(definitions[i]);
  }
  return result;
}

int32_t& dtype_of(void* definition) {
  return *reinterpret_cast<int32_t*>(static_cast<char*>(definition) + kDtypeOffset);
}

std::vector<int32_t> dtypes_of(const Definitions& definitions, int32_t kernel_dtype) {
  std::vector<int32_t> dtypes;
  for (size_t i = 0; i < definitions.size(); ++i) {
    const int32_t dtype = dtype_of(definitions[i]);
    dtypes.push_back(dtype == kernel_dtype                                   ? kOwnDtype
                     : dtype == kPhiComplex64 && kernel_dtype == kPhiFloat32 ? kComplexOfOwn
                     : dtype == kPhiFloat32 && kernel_dtype == kPhiComplex64 ? kRealOfOwn
                                                                             : dtype);
  }
  return dtypes;
}

void set_dtypes(const std::vector<int32_t>& dtypes, bool is_double, const Definitions& definitions) {
  for (size_t i = 0; i < dtypes.size() && i < definitions.size(); ++i) {
    if (dtypes[i] == kOwnDtype) continue;
    dtype_of(definitions[i]) = dtypes[i] == kComplexOfOwn ? (is_double ? kPhiComplex128 : kPhiComplex64)
                               : dtypes[i] == kRealOfOwn  ? (is_double ? kPhiFloat64 : kPhiFloat32)
                                                          : dtypes[i];
  }
}

// Kernels that Paddle has for GPUs only. Its generated function of the same name (with an underscore where it writes in
// place) passes its arguments on in order, so the function's mangled name, which has their types, stands for the
// signature. No argument has a dtype of its own.
struct FunctionOfKernel {
  const char* kernel;
  const char* function;
  const char* signature;
};
constexpr FunctionOfKernel kWithoutCpuKernel[] = {
    {"conv2d_transpose_double_grad",
     "_ZN6paddle12experimental28conv2d_transpose_double_gradERKNS_6TensorES3_S3_S3_S3_RKSt6vectorIiSaIiEES8_S8_RKNS0_"
     "12IntArrayBaseIS1_EERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEiS8_SK_PS1_SL_SL_",
     "tensor,tensor,tensor,tensor,tensor;vector<int>,vector<int>,vector<int>,IntArray,string,int,vector<int>,string;"
     "tensor,tensor,tensor"},
    {"depthwise_conv2d_double_grad",
     "_ZN6paddle12experimental28depthwise_conv2d_double_gradERKNS_6TensorES3_S3_RKNS_8optionalIS1_EES7_RKSt6vectorIi"
     "SaIiEESC_RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEiSC_SK_PS1_SL_SL_",
     "tensor,tensor,tensor,optional,optional;vector<int>,vector<int>,string,int,vector<int>,string;tensor,tensor,"
     "tensor"},
    {"flash_attn",
     "_ZN6paddle12experimental10flash_attnERKNS_6TensorES3_S3_RKNS_8optionalIS1_EES7_fbbbRKNSt7__"
     "cxx1112basic_stringIcSt11char_traitsIcESaIcEEENS4_ISt5tupleIJPS1_SH_SH_SH_EEEE",
     "tensor,tensor,tensor,optional,optional;float,bool,bool,bool,string;tensor,tensor,tensor,tensor"},
    {"flash_attn_grad",
     "_ZN6paddle12experimental15flash_attn_gradERKNS_6TensorES3_S3_S3_S3_S3_RKNS_8optionalIS1_EES3_fbPS1_S8_S8_",
     "tensor,tensor,tensor,tensor,tensor,tensor,optional,tensor;float,bool;tensor,tensor,tensor"},
    {"rms_norm",
     "_ZN6paddle12experimental8rms_normERKNS_6TensorERKNS_8optionalIS1_EERKSt6vectorIlSaIlEEdNS4_ISt5tupleIJPS1_SE_"
     "EEEE",
     "tensor,optional;vector<int64_t>,double;tensor,tensor"},
    {"rms_norm_grad",
     "_ZN6paddle12experimental13rms_norm_gradERKNS_6TensorERKNS_8optionalIS1_EES3_S3_RKSt6vectorIlSaIlEEdPS1_SD_",
     "tensor,optional,tensor,tensor;vector<int64_t>,double;tensor,tensor"},
    {"matmul_coo_dense", "_ZN6paddle12experimental6sparse6matmulERKNS_6TensorES4_", "coo,tensor;;tensor"},
    {"matmul_coo_dense_grad", "_ZN6paddle12experimental6sparse11matmul_gradERKNS_6TensorES4_S4_PS2_S5_",
     "coo,tensor,tensor;;coo,tensor"},
    {"memory_efficient_attention",
     "_ZN6paddle12experimental26memory_efficient_attentionERKNS_6TensorES3_S3_RKNS_8optionalIS1_EES7_S7_S7_S7_RKNS0_"
     "10ScalarBaseIS1_EESB_bdfbNS4_ISt5tupleIJPS1_SD_SD_EEEE",
     "tensor,tensor,tensor,optional,optional,optional,optional,optional;Scalar,Scalar,bool,double,float,bool;tensor,"
     "tensor,tensor"},
    {"memory_efficient_attention_grad",
     "_ZN6paddle12experimental31memory_efficient_attention_gradERKNS_6TensorES3_S3_RKNS_8optionalIS1_EES7_S7_S3_S3_S3_"
     "S3_RKNS0_10ScalarBaseIS1_EESB_bdfPS1_SC_SC_SC_",
     "tensor,tensor,tensor,optional,optional,optional,tensor,tensor,tensor,tensor;Scalar,Scalar,bool,double,float;"
     "tensor,tensor,tensor,tensor"},
    {"top_p_sampling",
     "_ZN6paddle12experimental14top_p_samplingERKNS_6TensorES3_RKNS_8optionalIS1_EES7_liRKNSt7__"
     "cxx1112basic_stringIcSt11char_traitsIcESaIcEEENS4_ISt5tupleIJPS1_SH_SH_SH_EEEE",
     "tensor,tensor,optional,optional;int64_t,int,string;tensor,tensor,tensor,tensor"},
    {"top_p_sampling",  // before 3.3
     "_ZN6paddle12experimental14top_p_samplingERKNS_6TensorES3_RKNS_8optionalIS1_EES7_iiRKNSt7__"
     "cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
     "tensor,tensor,optional,optional;int,int,string;tensor,tensor,tensor,tensor"},
    {"sync_batch_norm",
     "_ZN6paddle12experimental16sync_batch_norm_ERKNS_6TensorERS1_S4_S3_S3_bffRKNSt7__cxx1112basic_stringIcSt11char_"
     "traitsIcESaIcEEEbb",
     "tensor,tensor,tensor,tensor,tensor;bool,float,float,string,bool,bool;tensor,tensor,tensor,tensor,tensor,tensor"},
    {"sync_batch_norm_grad",
     "_ZN6paddle12experimental20sync_batch_norm_gradERKNS_6TensorES3_S3_S3_S3_RKNS_8optionalIS1_EES3_ffRKNSt7__"
     "cxx1112basic_stringIcSt11char_traitsIcESaIcEEEbbbPS1_SG_SG_",
     "tensor,tensor,tensor,tensor,tensor,optional,tensor;float,float,string,bool,bool,bool;tensor,tensor,tensor"},
    {"sync_batch_norm_coo",
     "_ZN6paddle12experimental6sparse16sync_batch_norm_ERKNS_6TensorERS2_S5_S4_S4_bffRKNSt7__cxx1112basic_stringIcSt11"
     "char_traitsIcESaIcEEEbb",
     "coo,tensor,tensor,tensor,tensor;bool,float,float,string,bool,bool;coo,tensor,tensor,tensor,tensor,tensor"},
    {"sync_batch_norm_coo_grad",
     "_ZN6paddle12experimental6sparse20sync_batch_norm_gradERKNS_6TensorES4_S4_S4_S4_RKNS_8optionalIS2_EES4_ffRKNSt7__"
     "cxx1112basic_stringIcSt11char_traitsIcESaIcEEEbbbPS2_SH_SH_",
     "coo,tensor,tensor,tensor,tensor,optional,coo;float,float,string,bool,bool,bool;coo,tensor,tensor"},
    {"fused_softmax_mask_upper_triangle_grad",
     "_ZN6paddle12experimental38fused_softmax_mask_upper_triangle_gradERKNS_6TensorES3_PS1_", "tensor,tensor;;tensor"},
};

PaddleSignature signature_of_function(const std::string& kernel) {
  for (const FunctionOfKernel& known : kWithoutCpuKernel) {
    if (kernel == known.kernel && find_paddle_library(known.function) != nullptr) return {known.signature, {}, {}};
  }
  return {};
}

}  // namespace

// Nothing of Paddle's kernel is kept: registering another one may move it.
PaddleSignature paddle_signature(const char* kernel_name) {
  const std::string name = kernel_name;
  for (int32_t dtype : kLookupDtypes) {
    const KernelKey key = {kCpuBackend, kAnyLayout, dtype};
    try {
      auto* kernel = const_cast<void*>(phi.select_kernel(phi.kernel_factory(), &name, &key));
      int status;
      void* definitions = phi.PD_KernelGetArgsDef(kernel, &status);
      const Definitions inputs(phi.PD_KernelArgsDefGetInputArgDefs(definitions, &status));
      const Definitions outputs(phi.PD_KernelArgsDefGetOutputArgDefs(definitions, &status));
      if (inputs.size() == 0 && outputs.size() == 0) continue;  // Paddle's way to say: not of this dtype
      return {spell_types(inputs) + ";" + spell_attributes(kernel) + ";" + spell_types(outputs),
              dtypes_of(inputs, dtype), dtypes_of(outputs, dtype)};
    } catch (const std::exception&) {
      break;  // no kernel of this name at all
    }
  }
  return signature_of_function(name);
}

bool takes_sparse_tensors(const void* kernel) {
  int status;
  void* definitions = phi.PD_KernelGetArgsDef(const_cast<void*>(kernel), &status);
  const Definitions inputs(phi.PD_KernelArgsDefGetInputArgDefs(definitions, &status));
  const Definitions outputs(phi.PD_KernelArgsDefGetOutputArgDefs(definitions, &status));
  for (const Definitions* list : {&inputs, &outputs}) {
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string type = spell_type((*list)[i]);
      if (type == kCooCode || type == kCsrCode) return true;
    }
  }
  return false;
}

void declare_dtypes(const PaddleSignature& signature, bool is_double, void* kernel) {
  int status;
  void* definitions = phi.PD_KernelGetArgsDef(kernel, &status);
  set_dtypes(signature.input_dtypes, is_double, Definitions(phi.PD_KernelArgsDefGetInputArgDefs(definitions, &status)));
  set_dtypes(signature.output_dtypes, is_double,
             Definitions(phi.PD_KernelArgsDefGetOutputArgDefs(definitions, &status)));
}

}  // namespace unihal::paddle
