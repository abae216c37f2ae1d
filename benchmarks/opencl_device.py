"""The little of OpenCL that benchmarks of single kernels need, through ctypes: nothing to build, no headers.

It compiles the text of csrc/kernels/source as the opencl backend does: macros, preludes, source.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent

_DEVICE_TYPE_GPU, _DEVICE_TYPE_ALL = 1 << 2, 0xFFFFFFFF
_DEVICE_NAME, _DEVICE_VERSION, _DRIVER_VERSION = 0x102B, 0x102F, 0x102D
_QUEUE_PROFILING = 1 << 1
_READ_WRITE = 1 << 0
_BUILD_LOG = 0x1183
_COMMAND_START, _COMMAND_END = 0x1282, 0x1283


class Error(RuntimeError):
    """A call of OpenCL failed."""


def kernel_text(source: str, macros: Mapping[str, str | int], dtypes: Mapping[str, str], compute: str = "float") -> str:
    """What the backend gives the compiler for a kernel of ``csrc/kernels/source``."""
    numbers = {"int64": 5, "float16": 10, "bfloat16": 11, "float32": 12, "float64": 13}
    lines = [f"#define UHAL_HAS_FLOAT64 {int(compute == 'double')}", f"#define UHAL_COMPUTE_{compute} 1"]
    lines += [f"#define {name} {value}" for name, value in macros.items()]
    for name, dtype in dtypes.items():
        lines += [
            f"#define {name}_STORAGE uhal_storage_{dtype}",
            f"#define {name}_LOAD(p, i) uhal_load_{dtype}(p, i)",
            f"#define {name}_LOAD4(p, i, v) uhal_load4_{dtype}(p, i, v)",
            f"#define {name}_STORE4(p, i, v) uhal_store4_{dtype}(p, i, v)",
            f"#define {name}_STORE(p, i, v) uhal_store_{dtype}(p, i, v)",
            f"#define {name}_DTYPE {numbers[dtype]}",
        ]
    kernels = ROOT / "csrc" / "kernels"
    files = (kernels / "prelude/opencl.h", kernels / "prelude/common.h", kernels / "source" / f"{source}.cl")
    return "\n".join(lines) + "\n" + "\n".join(_with_includes(file.read_text()) for file in files)


def _with_includes(text: str) -> str:
    include = re.compile(r'^#include "(csrc/kernels/[a-z0-9_/.]+)"$', re.MULTILINE)
    while match := include.search(text):
        text = text.replace(match.group(), (ROOT / match.group(1)).read_text())
    return text


class Buffer:
    """Device memory."""

    def __init__(self, context: Context, size: int) -> None:
        code = ctypes.c_int()
        self._context = context
        self.size = size
        self.handle = context.cl.clCreateBuffer(context.handle, _READ_WRITE, size, None, ctypes.byref(code))
        context.check(code.value, f"a buffer of {size} bytes")

    def write(self, array: NDArray[Any]) -> None:
        data = np.ascontiguousarray(array)
        call = self._context.cl.clEnqueueWriteBuffer
        code = call(self._context.queue, self.handle, 1, 0, data.nbytes, data.ctypes.data, 0, None, None)
        self._context.check(code, "writing a buffer")

    def read(self, array: NDArray[Any]) -> None:
        call = self._context.cl.clEnqueueReadBuffer
        code = call(self._context.queue, self.handle, 1, 0, array.nbytes, array.ctypes.data, 0, None, None)
        self._context.check(code, "reading a buffer")

    def release(self) -> None:
        self._context.cl.clReleaseMemObject(self.handle)


class Context:
    """A device, the first GPU if there is one, with a context and a queue."""

    def __init__(self) -> None:
        self.cl = ctypes.CDLL("libOpenCL.so.1", mode=ctypes.RTLD_GLOBAL)
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateKernel"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        self.cl.clCreateProgramWithSource.restype = ctypes.c_void_p
        self._declare()
        self.device = self._find_device()
        code = ctypes.c_int()
        devices = (ctypes.c_void_p * 1)(self.device)
        self.handle = self.cl.clCreateContext(None, 1, devices, None, None, ctypes.byref(code))
        self.check(code.value, "a context")
        self.queue = self.cl.clCreateCommandQueue(self.handle, self.device, _QUEUE_PROFILING, ctypes.byref(code))
        self.check(code.value, "a queue")

    def _declare(self) -> None:
        pointer, integer, size = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
        bits = ctypes.c_ulong
        self.cl.clCreateContext.argtypes = [pointer, integer, pointer, pointer, pointer, pointer]
        self.cl.clCreateCommandQueue.argtypes = [pointer, pointer, bits, pointer]
        self.cl.clCreateBuffer.argtypes = [pointer, bits, size, pointer, pointer]
        self.cl.clReleaseMemObject.argtypes = [pointer]
        transfer: list[Any] = [pointer, pointer, integer, size, size, pointer, integer, pointer, pointer]
        self.cl.clEnqueueWriteBuffer.argtypes = transfer
        self.cl.clEnqueueReadBuffer.argtypes = transfer
        self.cl.clCreateProgramWithSource.argtypes = [pointer, integer, pointer, pointer, pointer]
        self.cl.clBuildProgram.argtypes = [pointer, integer, pointer, ctypes.c_char_p, pointer, pointer]
        self.cl.clGetProgramBuildInfo.argtypes = [pointer, pointer, integer, size, pointer, pointer]
        self.cl.clCreateKernel.argtypes = [pointer, ctypes.c_char_p, pointer]
        self.cl.clSetKernelArg.argtypes = [pointer, integer, size, pointer]
        self.cl.clEnqueueNDRangeKernel.argtypes = [
            pointer, pointer, integer, pointer, pointer, pointer, integer, pointer, pointer,
        ]  # fmt: skip
        self.cl.clFinish.argtypes = [pointer]
        self.cl.clWaitForEvents.argtypes = [integer, pointer]
        self.cl.clReleaseEvent.argtypes = [pointer]
        self.cl.clGetEventProfilingInfo.argtypes = [pointer, integer, size, pointer, pointer]
        self.cl.clGetDeviceInfo.argtypes = [pointer, integer, size, pointer, pointer]
        self.cl.clGetDeviceIDs.argtypes = [pointer, bits, integer, pointer, pointer]

    def check(self, code: int, what: str) -> None:
        """Raises unless ``code`` is CL_SUCCESS."""
        if code != 0:
            raise Error(f"{what}: OpenCL status {code}")

    def _find_device(self) -> int:
        count = ctypes.c_uint()
        self.check(self.cl.clGetPlatformIDs(0, None, ctypes.byref(count)), "clGetPlatformIDs")
        platforms = (ctypes.c_void_p * count.value)()
        self.cl.clGetPlatformIDs(count, platforms, None)
        device = ctypes.c_void_p()
        for kind in (_DEVICE_TYPE_GPU, _DEVICE_TYPE_ALL):
            for platform in platforms:
                if self.cl.clGetDeviceIDs(platform, kind, 1, ctypes.byref(device), None) == 0:
                    assert device.value is not None
                    return device.value
        raise Error("no platform has a device")

    def describe(self) -> str:
        """The device's name, OpenCL version and driver."""
        texts = []
        for key in (_DEVICE_NAME, _DEVICE_VERSION, _DRIVER_VERSION):
            text = ctypes.create_string_buffer(256)
            self.check(self.cl.clGetDeviceInfo(self.device, key, 256, text, None), "clGetDeviceInfo")
            texts.append(text.value.decode().strip())
        return ", ".join(texts)

    def kernel(self, text: str, entry: str, options: str = "") -> Kernel:
        """Compiles a program and takes one kernel of it; ``options`` come after the backend's own."""
        code = ctypes.c_int()
        source = ctypes.c_char_p(text.encode())
        program = self.cl.clCreateProgramWithSource(self.handle, 1, ctypes.byref(source), None, ctypes.byref(code))
        self.check(code.value, "a program")
        devices = (ctypes.c_void_p * 1)(self.device)
        options = f"-cl-std=CL1.2 -cl-single-precision-constant {options}"
        if self.cl.clBuildProgram(program, 1, devices, options.encode(), None, None) != 0:
            raise Error(f"{entry} does not compile:\n{self._build_log(program)}")
        handle = self.cl.clCreateKernel(program, entry.encode(), ctypes.byref(code))
        self.check(code.value, entry)
        return Kernel(self, handle, self._build_log(program))

    def _build_log(self, program: int) -> str:
        log = ctypes.create_string_buffer(1 << 16)
        self.cl.clGetProgramBuildInfo(program, self.device, _BUILD_LOG, len(log), log, None)
        return log.value.decode(errors="replace").strip()

    def finish(self) -> None:
        """Waits for the queue."""
        self.check(self.cl.clFinish(self.queue), "clFinish")


class Kernel:
    """A compiled kernel, and what the compiler had to say."""

    def __init__(self, context: Context, handle: int, build_log: str) -> None:
        self._context = context
        self._handle = handle
        self.build_log = build_log

    def set_arguments(self, arguments: Sequence[Any]) -> None:
        """ctypes values and structs by value; a Buffer (or None) as the dialect's UHAL_POINTER."""
        index = 0
        for argument in arguments:
            values = [argument]
            if argument is None or isinstance(argument, Buffer):
                values = [ctypes.c_void_p(argument.handle if argument else None), ctypes.c_int64(0)]
            for value in values:
                size, pointer = ctypes.sizeof(value), ctypes.byref(value)
                code = self._context.cl.clSetKernelArg(self._handle, index, size, pointer)
                self._context.check(code, f"argument {index}")
                index += 1

    def run(self, groups: int, group_size: int) -> int:
        """Runs it along one axis, to its end; the device's nanoseconds."""
        cl = self._context.cl
        event = ctypes.c_void_p()
        sizes = (ctypes.c_size_t * 1)(groups * group_size), (ctypes.c_size_t * 1)(group_size)
        code = cl.clEnqueueNDRangeKernel(
            self._context.queue, self._handle, 1, None, *sizes, 0, None, ctypes.byref(event)
        )
        self._context.check(code, "clEnqueueNDRangeKernel")
        self._context.check(cl.clWaitForEvents(1, ctypes.byref(event)), "clWaitForEvents")
        times = (ctypes.c_uint64 * 2)()
        for i, key in enumerate((_COMMAND_START, _COMMAND_END)):
            cl.clGetEventProfilingInfo(event, key, 8, ctypes.byref(times, 8 * i), None)
        cl.clReleaseEvent(event)
        return times[1] - times[0]
