/* Operands of floating dtypes known at launch only: uhal_load and uhal_store with less to compile, for sources whose
 * ops take no other dtypes. */

UHAL_INLINE T uhal_load_floating(int32 dtype, UHAL_GLOBAL const char* p, INDEX i) {
  if (dtype == 10) return uhal_load_float16((UHAL_GLOBAL const uhal_storage_float16*)p, i);
  if (dtype == 11) return uhal_load_bfloat16((UHAL_GLOBAL const uhal_storage_bfloat16*)p, i);
#if UHAL_HAS_FLOAT64
  if (dtype == 13) return uhal_load_float64((UHAL_GLOBAL const uhal_storage_float64*)p, i);
#endif
  return ((UHAL_GLOBAL const float*)p)[i];
}

UHAL_INLINE void uhal_store_floating(int32 dtype, UHAL_GLOBAL char* p, INDEX i, T value) {
  if (dtype == 10) {
    uhal_store_float16((UHAL_GLOBAL uhal_storage_float16*)p, i, value);
  } else if (dtype == 11) {
    uhal_store_bfloat16((UHAL_GLOBAL uhal_storage_bfloat16*)p, i, value);
#if UHAL_HAS_FLOAT64
  } else if (dtype == 13) {
    uhal_store_float64((UHAL_GLOBAL uhal_storage_float64*)p, i, value);
#endif
  } else {
    ((UHAL_GLOBAL float*)p)[i] = (float)value;
  }
}
