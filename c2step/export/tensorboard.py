"""`c2step tensorboard`: captures as TensorBoard runs; the only user of tensorboardX.

Scalars have the operator index as their step, so that a curve goes along the net.  Each blob has a
histogram and, where it has feature maps, an image; the graph is the net.
"""

import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ..blob import STRING, Blob
from ..capture import disk_error
from ..errors import UsageError
from ..pictures.histogram import histogram
from ..pictures.maps import choose, finite_range, values_png
from ..report.source import Source

__all__ = ["run_names", "write_run"]

_STATISTICS = ("min", "max", "mean", "std")
_COUNTS = ("zeros", "nan", "inf")


def run_names(sources: List[Source]) -> List[str]:
    """A name for each capture's run: its folder's, made different where two are the same."""
    names: List[str] = []
    for source in sources:
        base = os.path.basename(os.path.normpath(source.path)) or "run"
        name, count = base, 1
        while name in names:
            count += 1
            name = "%s-%d" % (base, count)
        names.append(name)
    return names


def write_run(source: Source, directory: str, unread: Optional[List[str]] = None) -> int:
    """Write one run into `directory` and return how many blobs it shows; `unread` gets each value that cannot be read.

    A run that is there already is replaced: two event files in one folder would double its curves.
    """
    library = _Library()
    try:
        _clear(directory)
        writer = library.writer(directory)
    except OSError as error:
        raise disk_error(error, directory, begun=False) from error
    try:
        writer.add_event(library.graph(source))
        shown = 0
        rows, judged = source.rows(), {row["index"]: row for row in source.blame.get("operators", ())}
        for op in source.operators:
            for tag, value in _figures(rows.get(op["index"], {}), judged.get(op["index"], {})):
                writer.add_summary(library.scalar(tag, value), op["index"])
            if unread is not None:
                unread.extend(_unread(source, op, rows.get(op["index"], {})))
            for summary in _blobs(library, source, op):
                writer.add_summary(summary, op["index"])
                shown += 1
    finally:
        writer.close()
    return shown


def _clear(directory: str) -> None:
    """Take away the event files of an older run here, and nothing else."""
    os.makedirs(directory, exist_ok=True)
    for name in os.listdir(directory):
        if name.startswith("events.out.tfevents."):
            os.remove(os.path.join(directory, name))


def _unread(source: Source, op: Dict[str, Any], row: Dict[str, Any]) -> Iterator[str]:
    """The outputs of an operator whose bytes were kept and cannot be read."""
    for slot, out in enumerate(row.get("outputs", ())):
        if out.get("file") and source.value("run", op["index"], slot) is None:
            yield "%s of operator %d" % (out["name"], op["index"])


def _figures(row: Dict[str, Any], judged: Dict[str, Any]) -> Iterator[Tuple[str, float]]:
    """The points of one operator: time, its first output's figures, its errors."""
    if row.get("seconds") is not None:
        yield "time/milliseconds", row["seconds"] * 1e3
    figures = row["outputs"][0]["summary"] if row.get("outputs") else {}
    for key in _STATISTICS + _COUNTS:
        if figures.get(key) is not None:
            yield "%s/%s" % ("values" if key in _STATISTICS else "counts", key), float(figures[key])
    for side, title in (("run", "error in the run"), ("alone", "error alone")):
        for key, value in _errors((judged.get(side) or {}).get("comparison") or {}):
            yield "%s/%s" % (title, key), value


def _errors(comparison: Dict[str, Any]) -> Iterator[Tuple[str, float]]:
    for key in ("ratio", "rel_l2", "max_abs"):
        if isinstance(comparison.get(key), (int, float)):
            yield key, float(comparison[key])


def _blobs(library: "_Library", source: Source, op: Dict[str, Any]) -> Iterator[Any]:
    """A histogram and an image of each output whose value was kept."""
    for slot, name in enumerate(op["outputs"]):
        held = source.value("run", op["index"], slot)
        array = None if held is None else _numbers(held[1])
        if array is not None:
            tag = "%03d %s/%s" % (op["index"], op["type"], name)
            yield library.blob(tag, array)


def _numbers(blob: Blob) -> Optional[np.ndarray]:
    array = None if blob.kind == STRING else blob.real()
    return array if array is not None and array.size and array.dtype.kind in "fiub" else None


class _Library:
    """tensorboardX's messages, loaded when they are first needed."""

    def __init__(self) -> None:
        try:
            from tensorboardX import FileWriter
            from tensorboardX.proto import attr_value_pb2, event_pb2, graph_pb2, node_def_pb2, summary_pb2, versions_pb2
        except ImportError as error:
            raise UsageError(
                "TensorBoard files need tensorboardX: %s" % error, "pip install 'c2step[tensorboard]'"
            ) from error
        self._graph, self._node, self._attr = graph_pb2, node_def_pb2, attr_value_pb2
        self._event = event_pb2
        self._summary, self._versions = summary_pb2, versions_pb2
        self.writer = FileWriter

    def scalar(self, tag: str, value: float) -> Any:
        """One point of a curve."""
        return self._summary.Summary(value=[self._summary.Summary.Value(tag=tag, simple_value=float(value))])

    def blob(self, tag: str, array: np.ndarray) -> Any:
        """A blob's histogram, and its feature maps as an image."""
        values = []
        counts = histogram(array)
        if counts is not None:
            values.append(self._summary.Summary.Value(tag=tag, histo=self._histogram(array, counts)))
        chosen = choose(array.shape, 16)
        if chosen is not None:
            maps = chosen.take(array)
            values.append(self._summary.Summary.Value(tag=tag + " maps", image=self._image(maps)))
        return self._summary.Summary(value=values)

    def _histogram(self, array: np.ndarray, counts: Any) -> Any:
        flat = np.asarray(array, np.float64).reshape(-1)
        flat = flat[np.isfinite(flat)]
        return self._summary.HistogramProto(
            min=flat.min(), max=flat.max(), num=flat.size, sum=flat.sum(), sum_squares=float(np.dot(flat, flat)),
            bucket_limit=[float(edge) for edge in counts.edges()[1:]], bucket=[float(c) for c in counts.counts[0]],
        )  # fmt: skip

    def _image(self, maps: np.ndarray) -> Any:
        png = values_png(maps, *finite_range(maps))
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        return self._summary.Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=png)

    def graph(self, source: Source) -> Any:
        """The net as an event: a node for each operator and each input."""
        writer: Dict[str, str] = {}
        nodes = []
        for op in source.operators:
            for name in op["inputs"]:
                if name and name not in writer:
                    writer[name] = "inputs/" + _safe(name)
                    nodes.append(self._graph_node(writer[name], "Placeholder", [], name))
            title = "%03d_%s_%s" % (op["index"], _safe(op["type"]), _safe(op["outputs"][0] if op["outputs"] else ""))
            inputs = [writer[name] for name in op["inputs"] if name]
            nodes.append(self._graph_node(title, op["type"], inputs, ", ".join(op["outputs"])))
            writer.update((name, title) for name in op["outputs"])
        graph = self._graph.GraphDef(node=nodes, versions=self._versions.VersionDef(producer=22))
        return self._event.Event(graph_def=graph.SerializeToString())

    def _graph_node(self, name: str, kind: str, inputs: List[str], blobs: str) -> Any:
        attributes = {"blobs": self._attr.AttrValue(s=blobs.encode("utf-8"))}
        return self._node.NodeDef(name=name, op=kind, input=inputs, attr=attributes)


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name) or "_"
