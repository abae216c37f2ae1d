/* What reduce.cl combines elements by: the macro STEP, for the host and for kernels. */
#define UHAL_STEP_SUM 0
#define UHAL_STEP_PRODUCT 1
#define UHAL_STEP_MAXIMUM 2
#define UHAL_STEP_MINIMUM 3
#define UHAL_STEP_ALL 4
#define UHAL_STEP_ANY 5
#define UHAL_STEP_SUM_OF_SQUARES 6
#define UHAL_STEP_SUM_OF_ABSOLUTES 7
#define UHAL_STEP_LOG_SUM_EXP 8
#define UHAL_STEP_FIRST_MAXIMUM 9 /* of arg_reduce */
#define UHAL_STEP_FIRST_MINIMUM 10

/* What becomes of the combined value, at launch. */
#define UHAL_FINISH_NOTHING 0
#define UHAL_FINISH_MEAN 1
#define UHAL_FINISH_SQUARE_ROOT 2
