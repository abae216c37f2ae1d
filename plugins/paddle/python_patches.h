// What only Paddle's Python side can be told: see patches.py.
#pragma once

namespace unihal::paddle {

// Runs patches.py in this process's interpreter, once. Without an interpreter (a C++ program) nothing is done.
void apply_python_patches();

// Asks Paddle's logger to be silent until the interpreter runs its next instruction, that is, until Paddle has
// finished loading plugins.
void silence_plugin_loading();

}  // namespace unihal::paddle
