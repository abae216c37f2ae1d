"""The conformance suite: what a backend must do to serve, checked against NumPy in float64.

``unihal conformance`` runs it on any backend, by name or by the path of its library. The parts:

* case.py: what a case is; values.py, layout.py, sweep.py: the words in which cases are written
* tolerance.py: how far a result may lie from the reference, and why
* elementwise.py, movement.py, ...: the cases of each family of op kinds; reference/: what they should give
* semantics.py: streams, events, copies, memory and errors
* suite.py: all families; session.py and execute.py: one case on a device; worker.py: all cases in a child process
* report.py, junit.py: what came out
"""
