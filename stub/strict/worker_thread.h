// How threads of the strict mode start.
#pragma once

#include <functional>
#include <thread>

namespace unihal::stub::strict {

// A thread that takes no asynchronous signals (those are for the program's own threads) and has a stack for the
// handlers of synchronous ones. Throws std::system_error or std::bad_alloc.
std::thread start_worker(std::function<void()> body);

}  // namespace unihal::stub::strict
