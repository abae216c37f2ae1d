"""What ops should give, in NumPy and float64 (integers in 64 bits), written from the definitions in op.h.

Nothing here knows a backend. Functions take arrays in the logical order of axes, and attributes by the names of the
struct's fields, with the defaults that op.h gives; lengths that only the output's shape tells are arguments. They are
written to be read, not to be fast.
"""
