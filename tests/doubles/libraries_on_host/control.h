// What a test tells a library and asks of it: "on_host_control" gives its address. Plain memory; one thread.
#pragma once

#include <cstddef>
#include <cstdlib>

struct LibraryControl {
  int version = 0;             // 0: a recent one
  int create_status = 0;       // of what makes handles
  int work_status = 0;         // of products and convolutions, which do nothing if it is not 0
  int advice_status = 0;       // of questions for algorithms
  int refused_compute = 0;     // a type of computation that is not supported
  int allows_tf32 = 0;         // cuDNN: else convolutions of float32 that may use it fail
  int compute = 0;             // of the last product its type of computation, of the last convolution its math type
  int advice_math = -1;        // cuDNN: cudnnMathType_t of what is advised; -1: the descriptor's
  int is_random = 0;           // cuDNN: what is advised gives other bits each time
  int engines = 0;             // cuDNN: that its graphs are offered
  int engine_note = -1;        // cuDNN: of the first of them, cudnnBackendNumericalNote_t; -1: none
  int refused_engine = -1;     // cuDNN: of which no plan is made
  int graphs = 0;              // cuDNN: convolutions that ran as one
  size_t workspace = 4096;     // that is asked for
  int algorithms = 3;          // that are offered where a library tells of some
  int last_algorithm = -1;     // that ran, from 0 on
  int refused_algorithm = -1;  // that is offered, and does not run
  int handles = 0;             // that live
  int descriptors = 0;         // that live
  int questions = 0;           // for algorithms
  // Operands may be where nobody but a stream of hip_on_host reaches: then work is counted, and not done.
  bool computes = std::getenv("LIBRARIES_ON_HOST_IDLE") == nullptr;
  int works = 0;  // products and convolutions that ran
};
