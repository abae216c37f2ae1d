/* Ops along one axis, for sources that include this after group.h (csrc/kernels/rows.h): a row for each position of the
 * other axes, a team of work-items for each row.
 *
 *   UHAL_ROWS(rows_of_two, 2)            the type of a kernel argument `rows`, for two operands
 *   INDEX offsets[2];
 *   UHAL_FIND_ROW(rows, 2, team, offsets);
 *   for (INDEX i = team.lane; i < length; i += team.lanes) ... element i of operand k at offsets[k] + i * rows.along[k]
 *
 * declares `row`, the row's number, and `length`, its elements: 0 for a team that has no row. The grid covers all rows.
 * Barriers are best in no loop and under no condition, even a uniform one: compilers for CPUs take seconds over that.
 */
#define UHAL_ROWS(type, operands)       \
  typedef struct {                      \
    INDEX rank;                         \
    INDEX shape[UHAL_RANK];             \
    INDEX strides[operands][UHAL_RANK]; \
    INDEX along[operands];              \
    INDEX count;                        \
    INDEX length;                       \
  } type;

#define UHAL_FIND_ROW(rows, operands, team, offsets)                                                   \
  const INDEX row = UHAL_GROUP_ID(0) * (team).teams + (team).index;                                    \
  const INDEX length = row < (rows).count ? (rows).length : 0;                                         \
  for (int32 uhal_operand = 0; uhal_operand < (operands); ++uhal_operand) (offsets)[uhal_operand] = 0; \
  if (row < (rows).count) UHAL_ADD_OFFSETS(rows, operands, row, offsets)
