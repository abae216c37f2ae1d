"""The largest batch that the plan names runs on the stub with the card's memory; one more fails, with the report.

    python largest_batch.py [CARD [MiB]]    # default: rx580-4gb, with 512 MiB for the program, so that it takes seconds

The host has to have the memory that the program really uses: all of a card's, if it is named without MiB of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("UNIHAL_BACKEND", "stub")

import unihal_workshop as workshop
from unihal_workshop.planning.check import measure

SOURCE = f"{Path(__file__).with_name('resnet.py')}:inference"


def main() -> None:
    card = workshop.find_card(sys.argv[1] if len(sys.argv) > 1 else "rx580-4gb")
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 512 if len(sys.argv) == 1 else 0
    reserve = card.memory - (size << 20) if size else 512 << 20
    sys.path.insert(0, str(Path(__file__).parent))
    from resnet import inference

    module, inputs = inference()
    plan = workshop.plan(module, inputs, card, reserve=reserve)
    print(plan)
    assert plan.largest_batch is not None
    for batch in (plan.largest_batch, plan.largest_batch + 1):
        pictures = (inputs[0].new_empty(batch, *inputs[0].shape[1:]),)
        planned = workshop.plan(module, pictures, card, reserve=reserve, find_batch=False)
        measured = measure(SOURCE, card, reserve=reserve, batch=batch)
        print(
            f"\n{batch} pictures {'ran' if measured.fits else 'did not fit'}: {measured.peak_bytes / 2**20:.1f} MiB, "
            f"planned {planned.peak_bytes / 2**20:.1f} MiB, which {'fit' if planned.fits else 'do not fit'}"
        )
        print(measured.report)


if __name__ == "__main__":
    main()
