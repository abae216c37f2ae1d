"""The conformance suite: what a backend must do to serve, checked against NumPy in float64 (docs/conformance.md).

The parts:

* case.py: what a case is; values.py, layout.py, sweep.py: the words in which cases are written
* tolerance.py: how far a result may lie from the reference, and why; number_format.py: dtypes on the host
* elementwise.py, movement.py, indexing.py, ...: the cases of each family of op kinds; reference/: what they should give
* queues.py, transfers.py, allocations.py, failures.py: streams and events, copies, memory, errors; abi.py: their calls
* suite.py: all families; session.py, memory.py, execute.py: one case on a device
* children.py, worker.py: all cases, in child processes; report.py, formats.py: what came out; command.py: the command
"""
