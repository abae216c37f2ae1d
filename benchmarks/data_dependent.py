"""Compaction, search and segments: against a plain copy on the same device, and against NumPy where the host computes.

    python benchmarks/data_dependent.py [--device corex:0] [--only argmax]

Bytes are those that the result needs, each operand once and gathered rows once for each time that they are looked up.
On a device of its own memory a ratio is the copy's bytes per second over ours: at most 2 is wanted of what is bound by
memory. On the stub it is our time over NumPy's (that of PyTorch's or SciPy's CPU is not measured): at most 1.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import measure
import numpy as np
import unihal
from unihal import Buffer, ops

Call = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """One line of the table."""

    name: str
    ours: Call
    peer: Call | None
    bytes: int
    #: Bound by memory: compared with a copy.
    streams: bool = True


class Bench:
    """Operands on a device, large where it has memory of its own."""

    def __init__(self, name: str | None) -> None:
        found = unihal.devices()
        if name is None and not found:
            raise SystemExit("there is no device; `unihal doctor` says what was looked for")
        self.device = unihal.device(name) if name is not None else found[0]
        self.on_host = self.device.properties.unified_memory != 0
        self.scale = 1 if self.on_host else 8
        self.generator = np.random.default_rng(0)

    def sums_of(self, x: Buffer, ids: Any, segments: int, form: Any) -> Call:
        """Sums of segments, into a buffer that is there."""
        device_ids, out = self.put(ids), Buffer((segments, *x.shape[1:]), x.dtype, self.device)
        return lambda: ops.segment_reduce(x, device_ids, segments, form=form, out=out)

    def put(self, array: Any) -> Buffer:
        """An array on the device."""
        return Buffer.from_numpy(array, self.device)

    def works(self) -> Iterator[Work]:
        """All lines."""
        yield from self._masks()
        yield from self._segments()
        yield from self._counts()
        if self.on_host:
            yield from self._orders()

    def _orders(self) -> Iterator[Work]:
        """What sorts, looks along an axis, or combines sorted rows."""
        x = self.generator.standard_normal((1000, 1000), dtype=np.float32)
        at = self.generator.integers(0, 1000, x.shape)
        mask = x > 0
        keys, fewer = self.generator.integers(0, 1 << 16, 1 << 20), self.generator.integers(0, 1 << 16, 1000)
        device_x, device_at, device_mask = self.put(x), self.put(at), self.put(mask)
        device_keys, device_fewer = self.put(keys), self.put(fewer)
        for dtype in ("float32", "float64", "int64"):
            row = (self.generator.standard_normal(1 << 20) * 1e6).astype(dtype)
            device_row = self.put(row)
            yield Work(
                f"sort of 1 Mi {dtype}, with indices",
                lambda r=device_row: ops.sort(r),
                lambda r=row: np.argsort(r, kind="stable"),
                0,
            )
        for name, ours, peer in (
            ("sort of 1000 rows of 1000", lambda: ops.sort(device_x), lambda: np.argsort(x, kind="stable")),
            (
                "largest 10 of 1000 rows of 1000",
                lambda: ops.top_k(device_x, 10),
                lambda: np.argpartition(x, -10)[:, -10:],
            ),
            ("argmax of 1000 rows of 1000", lambda: ops.argmax(device_x, axis=-1), lambda: np.argmax(x, axis=-1)),
            ("cumulative sum of 1000 rows of 1000", lambda: ops.scan(device_x, 1), lambda: np.cumsum(x, axis=1)),
            (
                "cumulative maximum of 1000 rows of 1000",
                lambda: ops.scan(device_x, 1, "maximum"),
                lambda: np.maximum.accumulate(x, axis=1),
            ),
            (
                "take along an axis, 1000 rows of 1000",
                lambda: ops.gather_elements(device_x, device_at, axis=1),
                lambda: np.take_along_axis(x, at, 1),
            ),
            ("masked_select of 1000x1000", lambda: ops.masked_select(device_x, device_mask), lambda: x[mask]),
            (
                "set_difference of 1 Mi and 1000",
                lambda: ops.set_difference(device_keys, device_fewer),
                lambda: np.setdiff1d(keys, fewer),
            ),
        ):
            yield Work(name, ours, peer, 0)

    def _masks(self) -> Iterator[Work]:
        count = self.scale << 24
        x = self.generator.standard_normal(count, dtype=np.float32)
        device_x = self.put(x)
        for name, part in (("half", 0.5), ("one in a hundred", 0.01)):
            mask = self.generator.random(count) < part
            device_mask = self.put(mask)
            found = int(mask.sum())
            total, indices = Buffer((), "int64", self.device), Buffer((found,), "int64", self.device)
            yield Work(
                f"nonzero of {count >> 20} Mi, {name}",
                lambda m=device_mask, t=total, i=indices: ops.launch.launch("nonzero", [m], [t, i]),
                lambda m=mask: np.flatnonzero(m),
                count + 8 * found,
            )
            # Elements that are left out count for nothing, though the lines of memory that they lie in are read.
            values = Buffer((found,), "float32", self.device)
            yield Work(
                f"compact of {count >> 20} Mi, {name}",
                lambda m=device_mask, y=values: ops.launch.launch("compact", [device_x, m], [y]),
                lambda m=mask: x[m],
                count + 8 * found,
            )

    def _segments(self) -> Iterator[Work]:
        rows, window, segments = self.scale << 17, 64, self.scale << 13
        x = self.generator.standard_normal((rows, window), dtype=np.float32)
        ids = self.generator.integers(0, segments, rows).astype(np.int32)
        device_x = self.put(x)
        moved = 4 * window * (rows + segments) + 4 * rows
        for name, given, form in (
            ("unsorted ids", ids, "unsorted"),
            ("sorted ids", np.sort(ids), "sorted"),
            ("one segment", np.zeros_like(ids), "sorted"),
        ):

            def sums(given: Any = given) -> Any:
                result = np.zeros((segments, window), np.float32)
                if np.any(given[1:] < given[:-1]):
                    np.add.at(result, given, x)
                else:
                    starts = np.flatnonzero(np.diff(given, prepend=-1))
                    result[given[starts]] = np.add.reduceat(x, starts, axis=0)
                return result

            yield Work(
                f"segment sums of {rows >> 10} Ki rows of 64, {name}",
                self.sums_of(device_x, given, segments, form),
                sums,
                moved,
            )
        columns, weights = ids % (rows // 8), self.generator.standard_normal(rows, dtype=np.float32)
        offsets = np.linspace(0, rows, segments + 1).astype(np.int32)
        out = Buffer((segments, window), "float32", self.device)
        arguments = [self.put(each) for each in (offsets, columns, weights)]

        matrix: Any = None
        if importlib.util.find_spec("scipy") is not None:
            import scipy.sparse

            matrix = scipy.sparse.csr_matrix((weights, columns, offsets), (segments, rows))

        def product() -> Any:
            if matrix is not None:  # SciPy's
                return matrix @ x
            return np.add.reduceat(x[columns] * weights[:, None], offsets[:-1], axis=0)

        yield Work(
            f"sparse product (CSR), {rows >> 10} Ki elements, 64 columns",
            lambda: ops.segment_reduce(
                device_x, arguments[0], segments, form="offsets", indices=arguments[1], weights=arguments[2], out=out
            ),
            product,
            moved + 4 * rows,
        )

    def _counts(self) -> Iterator[Work]:
        count = self.scale << 22
        for bins in (256, 1 << 17):
            ids = self.generator.integers(0, bins, count)
            device_ids = self.put(ids)
            yield Work(
                f"bin_count of {count >> 20} Mi into {bins}",
                lambda i=device_ids, b=bins: ops.bin_count(i, length=b),
                lambda i=ids, b=bins: np.bincount(i, minlength=b),
                8 * count,
                streams=bins == 256,
            )
        weights = self.generator.standard_normal(count, dtype=np.float32)
        small = self.generator.integers(0, 256, count)
        device_small, device_weights = self.put(small), self.put(weights)
        yield Work(
            f"bin_count of {count >> 20} Mi into 256, weights",
            lambda: ops.bin_count(device_small, device_weights, 256),
            lambda: np.bincount(small, weights, 256),
            12 * count,
            streams=False,
        )
        few = self.generator.integers(0, 1 << 16, count >> 2)
        device_few = self.put(few)
        yield Work(
            f"unique of {count >> 22} Mi of 64 Ki",
            lambda: ops.unique(device_few),
            lambda: np.unique(few, return_inverse=True, return_counts=True),
            24 * (count >> 2),
            streams=False,
        )
        table = np.sort(self.generator.standard_normal(4096, dtype=np.float32))
        values = self.generator.standard_normal(count, dtype=np.float32)
        device_table, device_values = self.put(table), self.put(values)
        yield Work(
            f"search_sorted of {count >> 20} Mi in 4096",
            lambda: ops.search_sorted(device_table, device_values),
            lambda: np.searchsorted(table, values),
            12 * count,
            streams=False,
        )

    def waited(self, call: Call, repeats: int = 1) -> Call:
        """The call with its work done."""

        def run() -> None:
            for _ in range(repeats):
                call()
            self.device.synchronize()

        return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="such as corex:0; without it the first one")
    parser.add_argument("--only", default="", help="only work whose name contains this")
    arguments = parser.parse_args()
    bench = Bench(arguments.device)
    # The copy reads and writes as much as the largest work moves.
    source = ops.random((bench.scale << 23,), "float32", bench.device, key=1)
    target = Buffer(source.shape, "float32", bench.device)
    # What one call costs besides its work is shared by several on a device that runs beside the host.
    repeats = 1 if bench.on_host else 100
    for work in bench.works():
        if arguments.only not in work.name:
            continue
        calls = {"device": bench.waited(work.ours, repeats)}
        if bench.on_host and work.peer is not None:
            calls["peer"] = work.peer
        else:
            calls["peer"] = bench.waited(lambda: ops.copy(source, out=target), repeats)
        times = measure.alternate(calls, rounds=4)
        row: dict[str, Any] = {"benchmark": f"data: {work.name}"}
        if bench.on_host:
            row |= {"unit": "ms", "device": times["device"] * 1e3, "peer": times["peer"] * 1e3, "peer_name": "NumPy"}
            row |= {"ratio": times["device"] / times["peer"], "target": 1.0}
        else:
            ours = work.bytes * repeats / times["device"] / 1e9
            copied = 2 * source.nbytes * repeats / times["peer"] / 1e9
            row |= {"unit": "GB/s", "device": ours, "peer": copied, "peer_name": "a copy", "ratio": copied / ours}
            row |= {"target": 2.0} if work.streams else {}
        measure.report([row])


if __name__ == "__main__":
    main()
