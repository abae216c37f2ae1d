"""The program `workshop`."""
