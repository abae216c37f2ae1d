#include "plugins/tensorflow/registrar.h"
namespace unihal::tensorflow {
void register_norm(Registrar&) {}
}  // namespace unihal::tensorflow
