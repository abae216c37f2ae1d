"""`python -m gpux.command_line`."""

from .main import main

main()
