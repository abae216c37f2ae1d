#include "plugins/tensorflow/registrar.h"
namespace unihal::tensorflow {
void register_optimizer(Registrar&) {}
}  // namespace unihal::tensorflow
