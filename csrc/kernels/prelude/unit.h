/* UNIT: what is moved without a look inside, UHAL_SIZE bytes (1, 2, 4, 8 or 16). */
#if UHAL_SIZE == 1
#define UNIT uint8
#elif UHAL_SIZE == 2
#define UNIT uint16
#elif UHAL_SIZE == 4
#define UNIT uint32
#elif UHAL_SIZE == 8
#define UNIT uint64
#else
#define UNIT uhal_four_uint32
#endif
