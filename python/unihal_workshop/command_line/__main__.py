"""`python -m unihal_workshop.command_line`."""

from .main import main

main()
