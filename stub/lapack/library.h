// LAPACK and the BLAS below it, found at run time and never linked.
//
// Looked for, in this order: the file in UNIHAL_LAPACK_LIBRARY ("none" turns LAPACK off); libscipy_openblas.so in the
// folder scipy_openblas32/lib beside this package, where pip puts PyPI's scipy-openblas32; and liblapack.so.3, then
// libopenblas.so.0, by name, as the dynamic linker finds Debian's. Integers are 32 bits wide in all of them.
//
// Without it triangular systems, Cholesky, LU and QR factorizations run on plain loops (stub/ops/dense.h), and what
// needs an iteration (eigenvalues, singular values) is refused.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

namespace unihal::stub {

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

// The functions of one dtype, as Fortran has them: all arguments by reference, then the lengths of the texts. A
// factorization of a Hermitian or a complex matrix has the array `rwork` more, which is in the place of nothing in the
// real ones: eigen_symmetric.cc, svd.cc and eigen.cc know both forms.
template <typename T>
struct Lapack {
  using Int = int32_t;
  using R = Real<T>;
  // Both are nullptr but in OpenBLAS: others may leave out the products with zeros, of which some are NaN.
  void (*gemm)(const char* transa, const char* transb, const Int* m, const Int* n, const Int* k, const T* alpha,
               const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta, T* c, const Int* ldc, size_t,
               size_t);
  void (*gemv)(const char* trans, const Int* m, const Int* n, const T* alpha, const T* a, const Int* lda, const T* x,
               const Int* incx, const T* beta, T* y, const Int* incy, size_t);
  void (*trsm)(const char* side, const char* uplo, const char* transa, const char* diag, const Int* m, const Int* n,
               const T* alpha, const T* a, const Int* lda, T* b, const Int* ldb, size_t, size_t, size_t, size_t);
  void (*potrf)(const char* uplo, const Int* n, T* a, const Int* lda, Int* info, size_t);
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork, Int* info);
  // Since LAPACK 3.4; nullptr in others.
  void (*geqrt)(const Int* m, const Int* n, const Int* nb, T* a, const Int* lda, T* t, const Int* ldt, T* work,
                Int* info);
  // orgqr, of complex numbers ungqr
  void (*form_q)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work,
                 const Int* lwork, Int* info);
  // syevd, of complex numbers heevd
  void (*eigen_symmetric)(const char* jobz, const char* uplo, const Int* n, T* a, const Int* lda, R* w, T* work,
                          const Int* lwork, Int* iwork, const Int* liwork, Int* info, size_t, size_t);
  void (*eigen_hermitian)(const char* jobz, const char* uplo, const Int* n, T* a, const Int* lda, R* w, T* work,
                          const Int* lwork, R* rwork, const Int* lrwork, Int* iwork, const Int* liwork, Int* info,
                          size_t, size_t);
  // gesdd
  void (*svd_real)(const char* jobz, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u, const Int* ldu,
                   T* vt, const Int* ldvt, T* work, const Int* lwork, Int* iwork, Int* info, size_t);
  void (*svd_complex)(const char* jobz, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u, const Int* ldu,
                      T* vt, const Int* ldvt, T* work, const Int* lwork, R* rwork, Int* iwork, Int* info, size_t);
  // geev
  void (*eigen_real)(const char* jobvl, const char* jobvr, const Int* n, T* a, const Int* lda, R* wr, R* wi, T* vl,
                     const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, Int* info, size_t, size_t);
  void (*eigen_complex)(const char* jobvl, const char* jobvr, const Int* n, T* a, const Int* lda, T* w, T* vl,
                        const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, R* rwork, Int* info, size_t,
                        size_t);
};

// The functions for float, double and the complex numbers of them; nullptr if there is no LAPACK. Loads it at the first
// call; any thread.
template <typename T>
const Lapack<T>* lapack();

// What runs, for a person: "OpenBLAS 0.3.29", "LAPACK (liblapack.so.3)", or "built-in kernels (...)" with the reason.
// Valid for the life of the process. Any thread.
const char* lapack_description();

// What is wrong with the library that UNIHAL_LAPACK_LIBRARY names; "" if nothing, or it names none. Loads it then.
const char* lapack_refusal();

// On how many threads the library's functions run from now on, where it can be told: 1 while several threads call it.
void set_lapack_threads(int threads);

}  // namespace unihal::stub
