/* The numbers of the functions in elementwise.def, as enumerators uhal_map_<name>. */
#ifndef UNIHAL_TABLES_ELEMENTWISE_H_
#define UNIHAL_TABLES_ELEMENTWISE_H_

enum uhal_map_function_number {
#define UHAL_MAP1(name, domain, flops, expression) uhal_map_##name,
#define UHAL_MAP2(name, domain, flops, expression) uhal_map_##name,
#define UHAL_MAP3(name, domain, flops, expression) uhal_map_##name,
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) uhal_map_##name,
#include "elementwise.def"
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#undef UHAL_UPDATE
  uhal_map_function_limit
};

#endif /* UNIHAL_TABLES_ELEMENTWISE_H_ */
