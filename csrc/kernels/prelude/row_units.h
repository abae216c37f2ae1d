/* A row's elements among the members of its team, for sources that include this after rows.h (csrc/kernels/rows.h).
 *
 * Macros: HELD: how many elements a work-item holds in registers, so that each row is read from memory once, or 0 for
 * rows that are too long for their team; UNIT: each row lies dense, in aligned units of so many elements (4 or 8),
 * which are read and written at once; or 1, for any strides.
 *
 *   FOR_OWN(i, k) ...                                    for each element i of the row that this work-item has, held as
 *                                                        number k; of rows in units k only, and also those beyond the
 *                                                        end
 *   READ_ROW(X_LOAD, x, along, held, rest)               held[0 to HELD-1] = the row's elements at x, `rest` beyond
 *                                                        its end
 *   WRITE_ROW(Y_STORE, y, along, result)                 the row at y = result(i, k)
 *
 * where `team` and `length` are in scope, of rows that are held. A row that is neither held nor in units is read a few
 * elements at a time, so that several loads are under way:
 *
 *   FOR_OWN_FEW(i)                                       for the first of each FEW elements of this work-item's
 *     READ_FEW(X_LOAD, x, along, i, few, rest)           few[0 to FEW-1] = those from i on, `rest` beyond the end
 *     WRITE_FEW(Y_STORE, y, along, i, result)            y's = result(element, u), u from 0 to FEW-1 */
#define FEW 8
#define FEW_AT(i, u) ((i) + (INDEX)(u) * team.lanes)
#define IS_FEW(i, u) ((INDEX)(u) * team.lanes < length - (i))
#define FOR_OWN_FEW(i) for (INDEX i = team.lane; i < length; i += FEW * team.lanes)
#define READ_FEW(load, x, along, i, few, rest) \
  UHAL_UNROLL for (int32 u = 0; u < FEW; ++u) few[u] = IS_FEW(i, u) ? load(x, FEW_AT(i, u) * along) : (T)rest;
#define WRITE_FEW(store, y, along, i, result)                                  \
  UHAL_UNROLL for (int32 u = 0; u < FEW; ++u) {                                \
    if (IS_FEW(i, u)) store(y, FEW_AT(i, u) * along, result(FEW_AT(i, u), u)); \
  }
#if UNIT > 1
/* A work-item's units are a team's apart. */
#define FOR_OWN(i, k) UHAL_UNROLL for (INDEX k = 0; k < HELD; ++k)
#define FOR_OWN_UNITS(i, k) \
  UHAL_UNROLL for (INDEX k = 0, i = UNIT * team.lane; k < HELD; k += UNIT, i += UNIT * team.lanes)
#define READ_ROW(load, x, along, held, rest)                           \
  FOR_OWN_UNITS(i, k) {                                                \
    if (i < length) {                                                  \
      UHAL_WIDE(load, UNIT)(x, i, held + k);                           \
    } else {                                                           \
      UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) held[k + u] = rest; \
    }                                                                  \
  }
#define WRITE_ROW(store, y, along, result)                                         \
  FOR_OWN_UNITS(i, k) {                                                            \
    if (i < length) {                                                              \
      T unit[UNIT];                                                                \
      UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) unit[u] = result(i + u, k + u); \
      UHAL_WIDE(store, UNIT)(y, i, unit);                                          \
    }                                                                              \
  }
#else
#define FOR_OWN(i, k) UHAL_UNROLL for (INDEX k = 0, i = team.lane; k < HELD; ++k, i += team.lanes)
#define READ_ROW(load, x, along, held, rest) \
  FOR_OWN(i, k) { held[k] = i < length ? load(x, i * along) : (T)rest; }
#define WRITE_ROW(store, y, along, result)             \
  FOR_OWN(i, k) {                                      \
    if (i < length) store(y, i * along, result(i, k)); \
  }
#endif
