"""ModelInspector: what a model takes and gives, what it is made of, what it costs, and where each node runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..providers import Choice, ProviderManager, SessionSettings, make_session, unihal_refusals
from ..tensors import TensorSpec, flexible_batch, make_spec
from .cost import count_operations
from .files import CheckedModel, graphs, open_model


@dataclass(frozen=True)
class Metadata:
    """What extract_metadata tells; sizes in bytes, `operations` with every free axis at 1."""

    path: str
    producer: str
    description: str
    ir_version: int
    opsets: dict[str, int]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    ops: dict[str, int]
    nodes: int
    parameters: int
    weight_bytes: int
    operations: int
    nodes_without_shapes: int
    properties: dict[str, str]
    joins_batches: bool

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        specs = {key: [spec.as_dict() for spec in getattr(self, key)] for key in ("inputs", "outputs")}
        return {**asdict(self), **specs}


@dataclass(frozen=True)
class Placement:
    """Which provider takes how many nodes of an op, and why not the one that was asked for."""

    op: str
    provider: str
    nodes: int
    reason: str = ""


@dataclass(frozen=True)
class Inspection:
    """What inspect tells."""

    metadata: Metadata
    provider: str
    warnings: tuple[str, ...]
    placement: list[Placement]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.metadata.as_dict(),
            "provider": self.provider,
            "warnings": list(self.warnings),
            "placement": [asdict(row) for row in self.placement],
        }


class ModelInspector:
    """Looks into ONNX files. `manager` chooses the provider that nodes are placed on."""

    def __init__(self, manager: ProviderManager | None = None) -> None:
        self._manager = manager or ProviderManager()

    def extract_metadata(self, path: str | Path) -> Metadata:
        """What the file says, checked; ONNX Runtime opens it too, so what is returned can run. ModelError if not."""
        checked = open_model(Path(path))
        return self._metadata(checked, _session(checked, self._manager.get_best_provider("cpu")))

    def inspect(self, path: str | Path, provider: str = "auto") -> Inspection:
        """The metadata, and where each node runs if `provider` is asked for."""
        checked = open_model(Path(path))
        choice = self._manager.get_best_provider(provider)
        session = _session(checked, choice)
        metadata, assigned = self._metadata(checked, session), _assigned(session)
        del session  # at its end, at the latest, unihal's provider has counted what it left to the CPU
        return Inspection(metadata, choice.name, choice.warnings, _placement(assigned, choice, checked))

    def _metadata(self, checked: CheckedModel, session: Any) -> Metadata:
        proto = checked.proto
        ops = Counter(
            f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            for graph in graphs(proto)
            for node in graph.node
        )
        inputs = [make_spec(each.name, each.type, each.shape) for each in session.get_inputs()]
        outputs = [make_spec(each.name, each.type, each.shape) for each in session.get_outputs()]
        operations, unknown = count_operations(proto)
        return Metadata(
            path=str(checked.path),
            producer=f"{proto.producer_name} {proto.producer_version}".strip(),
            description=proto.doc_string,
            ir_version=proto.ir_version,
            opsets={each.domain or "ai.onnx": each.version for each in proto.opset_import},
            inputs=inputs,
            outputs=outputs,
            ops=dict(sorted(ops.items(), key=lambda item: (-item[1], item[0]))),
            nodes=sum(ops.values()),
            parameters=checked.parameters,
            weight_bytes=checked.weight_bytes,
            operations=operations,
            nodes_without_shapes=unknown,
            properties={each.key: each.value for each in proto.metadata_props},
            joins_batches=flexible_batch(inputs, outputs),
        )


def _session(checked: CheckedModel, choice: Choice) -> Any:
    # Not optimized: nodes keep their ops, and the file's mistakes are told by the file's names.
    config = {"session.record_ep_graph_assignment_info": "1"}
    return make_session(checked.path, choice, SessionSettings(optimize=False, config=config))


def _assigned(session: Any) -> Counter[tuple[str, str]]:
    """How many nodes of an op run on a provider."""
    try:
        assigned = session.get_provider_graph_assignment_info()
    except Exception as error:  # an older ONNX Runtime, or a provider that does not tell
        raise ModelError(f"ONNX Runtime does not tell where nodes run: {error}") from None
    counts: Counter[tuple[str, str]] = Counter()
    for subgraph in assigned:
        for node in subgraph.get_nodes():
            counts[(node.op_type, subgraph.ep_name)] += 1
    return counts


def _placement(counts: Counter[tuple[str, str]], choice: Choice, checked: CheckedModel) -> list[Placement]:
    reasons = unihal_refusals() if choice.name == "unihal" else {}
    rows = []
    for (op, provider), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        reason = ""
        if provider != choice.provider.runtime_name:
            # unihal's provider counts what it refuses; what it leaves besides computes shapes.
            reason = reasons.get(op) or (
                "computes with shapes, which stay on the CPU"
                if choice.name == "unihal"
                else f"{choice.provider.title} has no kernel for this op in this dtype and opset, or left it to the CPU"
            )
        rows.append(Placement(op, provider, count, reason))
    placed = sum(counts.values())
    total = sum(1 for node in checked.proto.graph.node if node.op_type != "Constant")
    if placed < total:
        rows.append(Placement("(folded)", "none", total - placed, "computed once, when the model is loaded"))
    return rows
