/* An OpenCL library with one device that records the programs which it is given and computes nothing. programs.py
 * builds it and names it in UNIHAL_OPENCL_LIBRARY.
 *
 * Nothing is compiled and kernels do nothing, so that whole models run through it at the speed of their launches,
 * whatever their size. Buffers take up no memory until they are copied to; what was copied can be copied on and read
 * back, so that sizes and counters that a framework keeps on the device are right, but for long ones: those stay zeros.
 *
 * RECORDING_FOLDER  a folder; of each program HASH.cl with its text, HASH.options with the compiler's options, and for
 *                   each size of work-group that one of its kernels was launched with an empty file
 *                   HASH.KERNEL.SIZE. Any number of processes may share it
 * RECORDING_CARD    the limits of one of the cards below: gfx803, gfx1030 or gfx1100 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define UNUSED __attribute__((unused))

enum {
  SUCCESS = 0,
  OUT_OF_HOST_MEMORY = -6,
  INVALID_VALUE = -30,
  INVALID_BINARY = -42,
};

/* -- the device -------------------------------------------------------------------------------------------- */

typedef struct {
  const char* name;
  const char* board;
  uint32_t compute_units;
  uint32_t wavefront;
  uint64_t local_memory;
  uint64_t gibibytes;
} Card;

/* RDNA's drivers present pairs of compute units as one. */
static const Card cards[] = {
    {"gfx803", "Radeon RX 580 Series", 36, 64, 32768, 8},
    {"gfx1030", "AMD Radeon RX 6800 XT", 36, 32, 65536, 16},
    {"gfx1100", "AMD Radeon RX 7900 XTX", 48, 32, 65536, 24},
};

static const Card* card(void) {
  const char* wish = getenv("RECORDING_CARD");
  for (size_t i = 0; wish != NULL && i < sizeof cards / sizeof *cards; ++i) {
    if (strcmp(cards[i].name, wish) == 0) return cards + i;
  }
  fprintf(stderr, "recording_opencl: RECORDING_CARD names no card of the table\n");
  abort();
}

/* Every kind of object but programs, kernels and buffers is this one. */
static char object;

static int32_t give(const void* data, size_t bytes, size_t room, void* value, size_t* size) {
  if (value != NULL) {
    if (room < bytes) return INVALID_VALUE;
    memcpy(value, data, bytes);
  }
  if (size != NULL) *size = bytes;
  return SUCCESS;
}

static void set(int32_t* status, int32_t code) {
  if (status != NULL) *status = code;
}

EXPORT int32_t clGetPlatformIDs(uint32_t room, void** platforms, uint32_t* count) {
  if (count != NULL) *count = 1;
  if (platforms != NULL && room > 0) platforms[0] = &object;
  return SUCCESS;
}

EXPORT int32_t clGetPlatformInfo(UNUSED void* platform, UNUSED uint32_t what, size_t room, void* value, size_t* size) {
  const char text[] = "OpenCL 2.1 that records";
  return give(text, sizeof text, room, value, size);
}

EXPORT int32_t clGetDeviceIDs(UNUSED void* platform, UNUSED uint64_t type, uint32_t room, void** devices,
                              uint32_t* count) {
  if (count != NULL) *count = 1;
  if (devices != NULL && room > 0) devices[0] = &object;
  return SUCCESS;
}

EXPORT int32_t clGetDeviceInfo(UNUSED void* device, uint32_t what, size_t room, void* value, size_t* size) {
  const uint64_t memory = card()->gibibytes << 30;
  const char* text = NULL;
  uint64_t number = 0;
  size_t bytes = 4;
  const size_t sizes[3] = {256, 256, 256};
  switch (what) {
    case 0x1000: /* CL_DEVICE_TYPE: a GPU */
      number = 4, bytes = 8;
      break;
    case 0x1001: /* CL_DEVICE_VENDOR_ID */
      number = 0x1002;
      break;
    case 0x1002: /* CL_DEVICE_MAX_COMPUTE_UNITS */
      number = card()->compute_units;
      break;
    case 0x1004: /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
      number = 256, bytes = sizeof(size_t);
      break;
    case 0x1005: /* CL_DEVICE_MAX_WORK_ITEM_SIZES */
      return give(sizes, sizeof sizes, room, value, size);
    case 0x100c: /* CL_DEVICE_MAX_CLOCK_FREQUENCY */
      number = 1000;
      break;
    case 0x1010: /* CL_DEVICE_MAX_MEM_ALLOC_SIZE */
    case 0x101f: /* CL_DEVICE_GLOBAL_MEM_SIZE */
      number = memory, bytes = 8;
      break;
    case 0x1017: /* CL_DEVICE_MAX_PARAMETER_SIZE */
      number = 1024, bytes = sizeof(size_t);
      break;
    case 0x101b: /* CL_DEVICE_SINGLE_FP_CONFIG, with correctly rounded division */
      number = 0xbf, bytes = 8;
      break;
    case 0x1023: /* CL_DEVICE_LOCAL_MEM_SIZE */
      number = card()->local_memory, bytes = 8;
      break;
    case 0x1026: /* CL_DEVICE_ENDIAN_LITTLE */
    case 0x1027: /* CL_DEVICE_AVAILABLE */
    case 0x1028: /* CL_DEVICE_COMPILER_AVAILABLE */
      number = 1;
      break;
    case 0x1032: /* CL_DEVICE_DOUBLE_FP_CONFIG */
      number = 0x3f, bytes = 8;
      break;
    case 0x1035: /* CL_DEVICE_HOST_UNIFIED_MEMORY */
      break;
    case 0x102b: /* CL_DEVICE_NAME */
      text = card()->name;
      break;
    case 0x102c: /* CL_DEVICE_VENDOR */
      text = "Advanced Micro Devices, Inc.";
      break;
    case 0x102d: /* CL_DRIVER_VERSION */
      text = "1";
      break;
    case 0x102e: /* CL_DEVICE_PROFILE */
      text = "FULL_PROFILE";
      break;
    case 0x102f: /* CL_DEVICE_VERSION */
      text = "OpenCL 2.0 that records";
      break;
    case 0x1030: /* CL_DEVICE_EXTENSIONS */
      text = "cl_khr_fp64 cl_khr_fp16 cl_khr_byte_addressable_store cl_amd_device_attribute_query";
      break;
    case 0x4038: /* CL_DEVICE_BOARD_NAME_AMD */
      text = card()->board;
      break;
    case 0x4043: /* CL_DEVICE_WAVEFRONT_WIDTH_AMD */
      number = card()->wavefront;
      break;
    default:
      return INVALID_VALUE;
  }
  return text != NULL ? give(text, strlen(text) + 1, room, value, size) : give(&number, bytes, room, value, size);
}

/* -- programs ---------------------------------------------------------------------------------------------- */

typedef struct {
  char* text;
  char hash[17];
} Program;

typedef struct {
  Program* program;
  char* name;
  size_t last_group_size; /* that was noted */
} Kernel;

static uint64_t add_to_hash(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
  return hash;
}

/* Writes a file of the folder once, whoever else does: it is complete when it has its name. */
static void record(const char* name, const char* content) {
  const char* folder = getenv("RECORDING_FOLDER");
  if (folder == NULL) return;
  char path[4096], part[4200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (access(path, F_OK) == 0) return;
  snprintf(part, sizeof part, "%s.%d.part", path, (int)gettid());
  FILE* file = fopen(part, "w");
  if (file == NULL || fputs(content, file) < 0 || fclose(file) != 0 || rename(part, path) != 0) {
    perror(part);
    abort();
  }
}

EXPORT void* clCreateProgramWithSource(UNUSED void* context, uint32_t count, const char** texts, const size_t* lengths,
                                       int32_t* status) {
  Program* program = calloc(1, sizeof *program);
  size_t length = 0;
  for (uint32_t i = 0; i < count; ++i) length += lengths != NULL && lengths[i] != 0 ? lengths[i] : strlen(texts[i]);
  program->text = calloc(1, length + 1);
  for (uint32_t i = 0; i < count; ++i) {
    strncat(program->text, texts[i], lengths != NULL && lengths[i] != 0 ? lengths[i] : strlen(texts[i]));
  }
  set(status, SUCCESS);
  return program;
}

EXPORT void* clCreateProgramWithBinary(UNUSED void* context, UNUSED uint32_t count, UNUSED void* const* devices,
                                       UNUSED const size_t* lengths, UNUSED const unsigned char** binaries,
                                       int32_t* taken, int32_t* status) {
  set(taken, INVALID_BINARY);
  set(status, INVALID_BINARY);
  return NULL;
}

EXPORT int32_t clBuildProgram(void* handle, UNUSED uint32_t count, UNUSED void* const* devices, const char* options,
                              UNUSED void (*notify)(void*, void*), UNUSED void* user_data) {
  Program* program = handle;
  uint64_t hash = add_to_hash(0xcbf29ce484222325, program->text);
  hash = add_to_hash(hash, options);
  snprintf(program->hash, sizeof program->hash, "%016llx", (unsigned long long)hash);
  char name[64];
  snprintf(name, sizeof name, "%s.options", program->hash);
  record(name, options);
  snprintf(name, sizeof name, "%s.cl", program->hash);
  record(name, program->text);
  return SUCCESS;
}

EXPORT int32_t clGetProgramInfo(UNUSED void* program, UNUSED uint32_t what, UNUSED size_t room, UNUSED void* value,
                                UNUSED size_t* size) {
  return INVALID_VALUE; /* there is no binary */
}

EXPORT int32_t clGetProgramBuildInfo(UNUSED void* program, UNUSED void* device, UNUSED uint32_t what, size_t room,
                                     void* value, size_t* size) {
  return give("", 1, room, value, size);
}

EXPORT int32_t clReleaseProgram(UNUSED void* program) { return SUCCESS; } /* its kernels may outlive it */

EXPORT void* clCreateKernel(void* program, const char* name, int32_t* status) {
  Kernel* kernel = calloc(1, sizeof *kernel);
  kernel->program = program;
  kernel->name = strdup(name);
  set(status, SUCCESS);
  return kernel;
}

EXPORT int32_t clReleaseKernel(void* handle) {
  Kernel* kernel = handle;
  free(kernel->name);
  free(kernel);
  return SUCCESS;
}

EXPORT int32_t clSetKernelArg(UNUSED void* kernel, UNUSED uint32_t index, UNUSED size_t bytes,
                              UNUSED const void* value) {
  return SUCCESS;
}

EXPORT int32_t clGetKernelWorkGroupInfo(UNUSED void* kernel, UNUSED void* device, uint32_t what, size_t room,
                                        void* value, size_t* size) {
  const size_t most = 256, declared[3] = {0, 0, 0};
  if (what == 0x11b0) return give(&most, sizeof most, room, value, size);        /* CL_KERNEL_WORK_GROUP_SIZE */
  if (what == 0x11b1) return give(declared, sizeof declared, room, value, size); /* ..._COMPILE_WORK_GROUP_SIZE */
  return INVALID_VALUE;
}

/* -- work: done when it is enqueued ------------------------------------------------------------------------- */

static int32_t done(void** event) {
  if (event != NULL) *event = &object;
  return SUCCESS;
}

EXPORT int32_t clEnqueueNDRangeKernel(UNUSED void* queue, void* handle, uint32_t dimensions,
                                      UNUSED const size_t* offset, UNUSED const size_t* global, const size_t* local,
                                      UNUSED uint32_t waits, UNUSED void* const* events, void** event) {
  Kernel* kernel = handle;
  size_t group_size = 1;
  for (uint32_t axis = 0; axis < dimensions; ++axis) group_size *= local[axis];
  if (group_size != kernel->last_group_size) {
    kernel->last_group_size = group_size;
    char name[256];
    snprintf(name, sizeof name, "%s.%s.%zu", kernel->program->hash, kernel->name, group_size);
    record(name, "");
  }
  return done(event);
}

typedef struct {
  char* data;
  size_t bytes;
} Buffer;

/* What is longer is data, and no size or counter. */
#define MOST_BYTES ((size_t)1 << 20)

EXPORT int32_t clEnqueueReadBuffer(UNUSED void* queue, void* from, UNUSED uint32_t blocking, size_t offset,
                                   size_t bytes, void* to, UNUSED uint32_t waits, UNUSED void* const* events,
                                   void** event) {
  if (bytes <= MOST_BYTES) {
    memcpy(to, ((Buffer*)from)->data + offset, bytes);
  } else {
    memset(to, 0, bytes);
  }
  return done(event);
}

EXPORT int32_t clEnqueueWriteBuffer(UNUSED void* queue, void* to, UNUSED uint32_t blocking, size_t offset, size_t bytes,
                                    const void* from, UNUSED uint32_t waits, UNUSED void* const* events, void** event) {
  if (bytes <= MOST_BYTES) memcpy(((Buffer*)to)->data + offset, from, bytes);
  return done(event);
}

EXPORT int32_t clEnqueueCopyBuffer(UNUSED void* queue, void* from, void* to, size_t from_offset, size_t to_offset,
                                   size_t bytes, UNUSED uint32_t waits, UNUSED void* const* events, void** event) {
  if (bytes <= MOST_BYTES) memmove(((Buffer*)to)->data + to_offset, ((Buffer*)from)->data + from_offset, bytes);
  return done(event);
}

EXPORT int32_t clEnqueueFillBuffer(UNUSED void* queue, void* to, const void* pattern, size_t pattern_bytes,
                                   size_t offset, size_t bytes, UNUSED uint32_t waits, UNUSED void* const* events,
                                   void** event) {
  if (bytes <= MOST_BYTES) {
    for (size_t i = 0; i < bytes; i += pattern_bytes) memcpy(((Buffer*)to)->data + offset + i, pattern, pattern_bytes);
  }
  return done(event);
}

EXPORT int32_t clEnqueueUnmapMemObject(UNUSED void* queue, UNUSED void* buffer, UNUSED void* mapped,
                                       UNUSED uint32_t waits, UNUSED void* const* events, void** event) {
  return done(event);
}

EXPORT int32_t clEnqueueMarkerWithWaitList(UNUSED void* queue, UNUSED uint32_t waits, UNUSED void* const* events,
                                           void** event) {
  return done(event);
}

EXPORT int32_t clEnqueueBarrierWithWaitList(UNUSED void* queue, UNUSED uint32_t waits, UNUSED void* const* events,
                                            void** event) {
  return done(event);
}

EXPORT int32_t clFlush(UNUSED void* queue) { return SUCCESS; }
EXPORT int32_t clFinish(UNUSED void* queue) { return SUCCESS; }

/* -- contexts, queues, memory, events ------------------------------------------------------------------------ */

EXPORT void* clCreateContext(UNUSED const intptr_t* properties, UNUSED uint32_t count, UNUSED void* const* devices,
                             UNUSED void (*notify)(const char*, const void*, size_t, void*), UNUSED void* user_data,
                             int32_t* status) {
  set(status, SUCCESS);
  return &object;
}

EXPORT void* clCreateCommandQueue(UNUSED void* context, UNUSED void* device, UNUSED uint64_t properties,
                                  int32_t* status) {
  set(status, SUCCESS);
  return &object;
}

EXPORT int32_t clReleaseContext(UNUSED void* context) { return SUCCESS; }
EXPORT int32_t clReleaseCommandQueue(UNUSED void* queue) { return SUCCESS; }

EXPORT void* clCreateBuffer(UNUSED void* context, UNUSED uint64_t flags, size_t bytes, UNUSED void* host,
                            int32_t* status) {
  void* data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    set(status, OUT_OF_HOST_MEMORY);
    return NULL;
  }
  Buffer* buffer = calloc(1, sizeof *buffer);
  buffer->data = data;
  buffer->bytes = bytes;
  set(status, SUCCESS);
  return buffer;
}

EXPORT void* clEnqueueMapBuffer(UNUSED void* queue, void* buffer, UNUSED uint32_t blocking, UNUSED uint64_t flags,
                                size_t offset, UNUSED size_t bytes, UNUSED uint32_t waits, UNUSED void* const* events,
                                void** event, int32_t* status) {
  set(status, done(event));
  return ((Buffer*)buffer)->data + offset;
}

EXPORT int32_t clReleaseMemObject(void* handle) {
  Buffer* buffer = handle;
  munmap(buffer->data, buffer->bytes);
  free(buffer);
  return SUCCESS;
}

EXPORT int32_t clWaitForEvents(UNUSED uint32_t count, UNUSED void* const* events) { return SUCCESS; }

EXPORT int32_t clGetEventInfo(UNUSED void* event, UNUSED uint32_t what, size_t room, void* value, size_t* size) {
  const int32_t complete = 0;
  return give(&complete, sizeof complete, room, value, size);
}

EXPORT int32_t clGetEventProfilingInfo(UNUSED void* event, UNUSED uint32_t what, size_t room, void* value,
                                       size_t* size) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t nanoseconds = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
  return give(&nanoseconds, sizeof nanoseconds, room, value, size);
}

EXPORT void* clCreateUserEvent(UNUSED void* context, int32_t* status) {
  set(status, SUCCESS);
  return &object;
}

EXPORT int32_t clSetUserEventStatus(UNUSED void* event, UNUSED int32_t code) { return SUCCESS; }
EXPORT int32_t clRetainEvent(UNUSED void* event) { return SUCCESS; }
EXPORT int32_t clReleaseEvent(UNUSED void* event) { return SUCCESS; }
