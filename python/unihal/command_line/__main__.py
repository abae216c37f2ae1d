"""`python -m unihal.command_line` is the program `unihal`."""

from .main import main

main()
