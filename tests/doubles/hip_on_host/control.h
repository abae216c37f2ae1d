// A driver with HIP's names (libamdhip64.so, with hipRTC in it, as in ROCm 5.2), or with CUDA's (libcuda.so and
// libnvrtc.so), on host memory: devices, streams that are threads, events, memory that the host cannot touch, programs.
// It runs the GPU backends' own half without a GPU. Kernels are not computed: a launch checks its arguments and takes
// its place in the stream.
//
// Environment:
//   HIP_ON_HOST_DEVICES   NAME:ARCHITECTURE:MIB,... ("AMD Radeon RX 6800:gfx1030:2048"; under CUDA's names the
//                         architecture is the capability, "Iluvatar BI-V150:7.1:2048"); "none": no device
//   HIP_ON_HOST_VERSION   what the driver calls its version
//   HIP_ON_HOST_PROGRAMS  a folder for the text of each program that is compiled
//   HIP_ON_HOST_FAULTS    FUNCTION=CODE[@AFTER[xTIMES]],...: as on_host_fail
//   HIP_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES   numbers of devices, as the vendor reads them
//
// Stricter than the drivers where they leave it open: host functions of all streams run one at a time on one thread,
// where calls of the driver are refused; a stream and an event are used while their device is current; and the first
// access outside an allocation loses the device.
#pragma once

// Exported as "on_host_fail": of the calls of a function from now on, the (`after` + 1)-th fails with `code`, and as
// many as `times` of them (-1: for ever). Functions go by the vendor's names, and beside them
//   "work"     what a stream runs: the device is lost then, and everything later fails with the code too
//   "compile"  a program does not compile; the log says so
//   "hang"     a stream's work does not end until this rule is taken away
//   "groups"   not a failure: kernels run with at most `code` work-items in a group
using OnHostFail = void (*)(const char* function, int code, int after, int times);

// Exported as "on_host_calls": how often a function was called.
using OnHostCalls = int (*)(const char* function);
