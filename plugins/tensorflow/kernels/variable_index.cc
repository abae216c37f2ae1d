#include "plugins/tensorflow/registrar.h"
namespace unihal::tensorflow {
void register_variable_index(Registrar&) {}
}  // namespace unihal::tensorflow
