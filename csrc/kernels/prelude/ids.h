/* Ids and indices that are int32 or int64, for sources that include it. */
UHAL_INLINE int64 read_id(UHAL_GLOBAL const char* ids, int32 of_int64, INDEX at) {
  return of_int64 ? ((UHAL_GLOBAL const int64*)ids)[at] : ((UHAL_GLOBAL const int32*)ids)[at];
}
