"""What a misspelt name was meant to be: GPUX's rule, which needs nothing beyond the standard library."""

from gpux.naming import nearest as nearest
