// What MKL asks before it takes its code for AVX-512, in PyTorch's wheel for one: on other processors it takes older
// code, and a comparison there says nothing of a machine of Intel's. Loaded first, this answers as one of those would:
//
//     cc -shared -fPIC benchmarks/mkl_as_on_intel.c -o mkl_as_on_intel.so
//     LD_PRELOAD=./mkl_as_on_intel.so python benchmarks/one_thread.py adapters.py --framework torch --device rdna:0 \
//         --only fft
int mkl_serv_intel_cpu(void) { return 1; }
int mkl_serv_intel_cpu_true(void) { return 1; }
