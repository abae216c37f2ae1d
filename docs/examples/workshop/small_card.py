"""Does it fit into the card, and does it run there? Plans a pipeline, and runs it on the stub with the card's memory.

    python docs/examples/workshop/small_card.py stable-diffusion --card rx580-8gb
    python docs/examples/workshop/small_card.py stable-diffusion --card rx580-4gb --bits 8 --offload parts
    python docs/examples/workshop/small_card.py text-generation --card rx580-4gb --bits 4

Random weights in the full size of the models: about 2.2 GB of host memory while weights are made, and a minute or two.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

MIB = 1 << 20

INPUTS = {
    "stable-diffusion": {"prompt": "a lighthouse at dusk", "steps": 2, "width": 256, "height": 256},
    "text-generation": {"prompt": "Once upon a time", "new_tokens": 8, "temperature": 0},
    "image-classification": {"images": 8},
}
SOURCES = {
    "stable-diffusion": {"variant": "sd15"},
    "text-generation": {"variant": "decoder-1b"},
    "image-classification": {"variant": "resnet50"},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(INPUTS))
    parser.add_argument("--card", default="rx580-8gb")
    parser.add_argument("--bits", type=int, default=0, choices=(0, 8, 4))
    parser.add_argument("--offload", default="none", choices=("none", "parts", "layers"))
    parser.add_argument("--variant", help="another configuration, such as test")
    parser.add_argument("--inputs", type=json.loads, default={}, help="as JSON, in place of the example's")
    parser.add_argument("--output", type=Path, help="a PNG for the picture")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Gives 0 if the model was planned to fit and ran within the card's memory."""
    wanted = arguments()
    # The card's memory, less what the system keeps of it, is all that the stub gives.
    from unihal_workshop.cards.profiles import find_card

    card = find_card(wanted.card)
    with card.stub_environment() as variables:
        os.environ.update(variables)
        from unihal_workshop import create
        from unihal_workshop.pipelines import ProgressBar, save_image
        from unihal_workshop.planning.planner import plan as make_plan

        source = {"variant": wanted.variant} if wanted.variant else SOURCES[wanted.model]
        inputs = {**INPUTS[wanted.model], **wanted.inputs}
        if wanted.variant == "test" and wanted.model == "image-classification":
            inputs["images"] = 2
        options = {"bits": wanted.bits, "offload": wanted.offload}
        model = create(wanted.model, source, dtype="float16", **options)
        plan = make_plan(model, inputs, card)
        if not wanted.json:
            print(plan)
        with ProgressBar() as bar:
            result = model.run(inputs, seed=1, on_progress=None if wanted.json else bar)
        if wanted.output is not None:
            save_image(result.output, wanted.output)
        import unihal

        report = {
            "model": wanted.model,
            "card": wanted.card,
            **options,
            "planned_peak_mib": plan.peak_bytes / MIB,
            "peak_mib": result.peak_bytes / MIB,
            "available_mib": plan.available_bytes / MIB,
            "weights_mib": model.weight_bytes() / MIB,
            "seconds": result.seconds,
            "fits": plan.fits,
            "details": result.details,
            "fallbacks": len(unihal.fallbacks()),
        }
    if wanted.json:
        print(json.dumps(report))
    else:
        print(
            f"{result.seconds:.1f} s on the stub; peak {report['peak_mib']:,.0f} MiB, planned "
            f"{report['planned_peak_mib']:,.0f}, of {report['available_mib']:,.0f}"
        )
    return 0 if plan.fits and result.finished else 1


if __name__ == "__main__":
    sys.exit(main())
