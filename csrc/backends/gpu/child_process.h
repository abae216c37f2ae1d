// Running another program to its end.
#pragma once

#include <string>
#include <vector>

namespace unihal::gpu {

// How a program ended, in words for a person; empty if it exited with 0, or if the process does not learn how its
// children end (SIGCHLD is ignored).
//
// `command` is the program's path and its arguments: no shell. Its input is empty; its output and its errors go to
// `output_file`, in order, which exists already or can be made. A program that runs longer than `most_seconds` is
// killed with what it started.
std::string run_program(const std::vector<std::string>& command, const std::string& output_file, double most_seconds);

}  // namespace unihal::gpu
