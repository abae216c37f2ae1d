#!/usr/bin/env bash
# Runs a command, and again, twice at most, if a segmentation fault ended it: again.sh COMMAND...
#
# Paddle's to_static asks for the names of values whose ops its own passes have erased (get_value_name in
# dy2static/pir_partial_program.py, pir::Value::type in gdb's trace, of 3.0.0), before anything of it is run. What lies
# there then ends one in some processes. What fails in any other way, or each time, fails.
for _ in 1 2 3; do
  "$@"
  code=$?
  [[ $code == 139 ]] || break
  echo "== ended by a segmentation fault" >&2
done
exit $code
