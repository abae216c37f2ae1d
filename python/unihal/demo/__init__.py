"""The demonstration: one small network, trained in two frameworks, on a device and on the CPU."""
