#include "plugins/paddle/graph_place.h"

#include <memory>

#include "plugins/paddle/current_device.h"
#include "plugins/paddle/in_place.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"

namespace unihal::paddle {
namespace {

constexpr const char* kLowerSymbol = "_ZN6paddle7dialect21PdOpLowerToKernelPassEPN3pir7ProgramEN3phi5PlaceE";
constexpr const char* kPlaceSymbol = "_ZN3phi15TransToPhiPlaceERKN6paddle12experimental7BackendEb";
constexpr const char* kKeyAttributeSymbol =
    "_ZN3pir16AttributeManager3getIN6paddle7dialect15KernelAttributeEJRN3phi9KernelKeyEEEENSt9enable_ifIXntsrSt7is_"
    "sameINT_7StorageENS_16AttributeStorageEE5valueESA_E4typeEPNS_9IrContextENS_6TypeIdEDpOT0_";

// std::unique_ptr<pir::Program>, which only passes through here.
struct NoDelete {
  void operator()(void*) const {}
};
using Program = std::unique_ptr<char, NoDelete>;

using Lower = Program (*)(void* program, Place place);
using ToPlace = Place (*)(const uint8_t& backend, bool with_ordinal);
// pir::TypeId and the attribute that is returned are pointers in a class.
using KeyAttribute = void* (*)(void* context, void* type, KernelKey& key);
Lower original_lower = nullptr;
ToPlace original_to_place = nullptr;
KeyAttribute original_key_attribute = nullptr;

// The place that this thread lowers a graph for.
thread_local const Place* lowering_for = nullptr;

Program lower(void* program, Place place) {
  struct Restore {
    const Place* previous = lowering_for;
    ~Restore() { lowering_for = previous; }
  } restore;
  lowering_for = place.kind == kCustomPlace ? &place : nullptr;
  const LoweringWatch watch;
  Program lowered = original_lower(program, place);
  watch.refuse_in_place_ops(lowered.get());
  return lowered;
}

Place to_place(const uint8_t& backend, bool with_ordinal) {
  Place place;
  if (with_ordinal && find_current_place(backend, &place)) return place;
  place = original_to_place(backend, with_ordinal);
  if (backend == kCustomBackend && lowering_for != nullptr) place.device_type_id = lowering_for->device_type_id;
  return place;
}

void* key_attribute(void* context, void* type, KernelKey& key) {
  KernelKey corrected = key;
  if (key.backend == kCustomBackend && lowering_for != nullptr) corrected.backend = backend_of(*lowering_for);
  return original_key_attribute(context, type, corrected);
}

const char* redirect_places() {
  const char* missing[] = {redirect_paddle_function(kLowerSymbol, lower, &original_lower),
                           redirect_paddle_function(kPlaceSymbol, to_place, &original_to_place),
                           redirect_paddle_function(kKeyAttributeSymbol, key_attribute, &original_key_attribute)};
  return first_missing(missing);
}

}  // namespace

const char* correct_graph_places() {
  static const char* missing = redirect_places();
  return missing;
}

}  // namespace unihal::paddle
