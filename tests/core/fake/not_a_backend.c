/* A library without the symbol of a backend. */
int unihal_unrelated_function(void);
int unihal_unrelated_function(void) { return 1; }
