#include "plugins/tensorflow/registrar.h"
namespace unihal::tensorflow {
void register_stateful_random(Registrar&) {}
}  // namespace unihal::tensorflow
