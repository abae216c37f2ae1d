// Where a call came from, for a person.
#pragma once

#include <string>

namespace unihal::core {

// The calling thread's site, innermost line first.
//
// With Python on the stack: up to three lines of it, the innermost and then the user's own (those outside of installed
// packages), "layers.py:210 in forward < ... < train.py:12 in step < train.py:40 in main". Lines of the package unihal
// itself are left out. Otherwise the native callers outside of the core, "libunihal_tensorflow.so: compute +0x12".
//
// Never empty, never throws. Needs no GIL, takes none, and runs no Python code. Tens of microseconds: for use when a
// check is in force.
std::string call_site() noexcept;

// The two kinds of sites; empty where there is none.
std::string python_call_site();
std::string native_call_site();

}  // namespace unihal::core
