// For tests that fork: LeakSanitizer, which has no threads of its own after a fork, must not look for leaks in the
// child. It would wait for locks of the allocator that the parent's threads held.
#pragma once

// Set by a child before it exits.
inline bool is_forked_child = false;

// LeakSanitizer asks this at exit, by name.
extern "C" __attribute__((visibility("default"), used)) inline int __lsan_is_turned_off() { return is_forked_child; }
