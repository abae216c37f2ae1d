// Runs interpreter_hook.py in the Python that loads TensorFlow.
#pragma once

namespace unihal::tensorflow {

// Once per process, and only where there is an interpreter.
void install_interpreter_hook();

}  // namespace unihal::tensorflow
