"""Run cases in parallel processes, keep the results, and write the table."""

import hashlib
import json
import os
import select
import signal
import sys
from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from .cases import DISPUTED, Case

__all__ = ["COLUMNS", "Result", "classify", "results_of", "table"]

COLUMNS = ("pass", "refused", "wrong but linted", "wrong and not linted", "failed, not linted", "died", "disputed")


class Result(NamedTuple):
    """What became of a case in one mode."""

    case: str
    mode: str
    outcome: str  # pass, wrong, refused, error, died, lint
    stage: str
    detail: Any


def _run_all(jobs: List[Tuple[Case, str]], parallel: int) -> Iterator[Result]:
    from .child import run_case

    running: Dict[int, Any] = {}
    waiting = list(jobs)
    while waiting or running:
        while waiting and len(running) < parallel:
            case, mode = waiting.pop(0)
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(reading)
                run_case(case, mode, writing)
            os.close(writing)
            running[reading] = (pid, case, mode, [])
        for pipe in select.select(list(running), [], [], 10)[0]:
            data = os.read(pipe, 1 << 16)
            if data:
                running[pipe][3].append(data)
                continue
            pid, case, mode, parts = running.pop(pipe)
            os.close(pipe)
            yield _result(case, mode, b"".join(parts), os.waitpid(pid, 0)[1])


def _result(case: Case, mode: str, data: bytes, status: int) -> Result:
    rows = [json.loads(line) for line in data.decode().splitlines()]
    stage = next((row["stage"] for row in reversed(rows) if "stage" in row), "")
    for row in rows:
        if "outcome" in row:
            return Result(case.name, mode, row["outcome"], stage, row["detail"])
    name = signal.Signals(status & 127).name if status & 127 else "exit status %d" % (status >> 8)
    return Result(case.name, mode, "died", stage, "%s in %s" % (name, stage or "start"))


def results_of(cases: List[Case], modes: List[str], cache: str, parallel: int = 2) -> Dict[Tuple[str, str], Result]:
    """The results of every case in every mode, from the cache where the importer has not changed since."""
    key = _key()
    kept = _kept(cache, key)
    done = {(r.case, r.mode): r for r in (Result(*row) for row in kept)}
    jobs = [(case, mode) for mode in ["lint"] + modes for case in cases if (case.name, mode) not in done]
    for count, result in enumerate(_run_all(jobs, parallel), 1):
        done[result.case, result.mode] = result
        if count % 100 == 0 or count == len(jobs):
            print("%d of %d" % (count, len(jobs)), file=sys.stderr, flush=True)
            _keep(cache, key, done)
    return done


def _key() -> str:
    """A digest of everything that a result depends on, stock's aside."""
    import caffe2
    import numpy
    import onnx

    import c2step.importer

    digest = hashlib.sha256(("%s %s %s" % (onnx.__version__, numpy.__version__, caffe2.__file__)).encode())
    root = os.path.dirname(c2step.importer.__file__)
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(n for n in names if n.endswith(".py")):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def _kept(cache: str, key: str) -> List[List[Any]]:
    if not os.path.exists(cache):
        return []
    with open(cache) as file:
        data = json.load(file)
    return [row for row in data["results"] if data["key"] == key or row[1] == "stock"]


def _keep(cache: str, key: str, done: Dict[Tuple[str, str], Result]) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(cache)), exist_ok=True)
    with open(cache + ".new", "w") as file:
        json.dump({"key": key, "results": list(done.values())}, file)
    os.replace(cache + ".new", cache)


def classify(result: Result, lint: Result) -> Tuple[str, List[str]]:
    """The column of a result, and the codes that lint gave for it."""
    findings = lint.detail if lint.outcome == "lint" else []
    codes = sorted({f[0] for f in findings if f[3] != "note"})
    if result.outcome == "pass":
        return "pass", codes
    if result.mode == "repaired":  # what a repair claims to have mended is not excused by its finding
        open_ones = {f[0] for f in findings if f[3] != "note" and not f[4]}
        linted = bool(open_ones)
    else:
        linted = bool(codes)
    if result.outcome == "died":
        return "died", codes
    if result.outcome == "wrong":
        if result.case.split("/")[1] in DISPUTED:
            return "disputed", codes
        return ("wrong but linted" if linted else "wrong and not linted"), codes
    if result.outcome == "refused":
        return "refused", codes
    return ("refused" if linted else "failed, not linted"), codes


def _remark(case: Case, mode: str, column: str, detail: str, codes: List[str]) -> str:
    why = DISPUTED[case.name.split("/")[1]] if column == "disputed" else detail
    return "- %s, %s: %s (%s%s)" % (mode, case.name, column, why, "; " + ", ".join(codes) if codes else "")


def table(cases: List[Case], modes: List[str], results: Dict[Tuple[str, str], Result]) -> str:
    """One row for each mode and kind of case, then every case that is not a plain pass or refusal."""
    rows = ["| mode | cases | %s |" % " | ".join(COLUMNS), "|" + "---|" * (len(COLUMNS) + 2)]
    remarks = []
    for mode in modes:
        for kind in sorted({case.kind for case in cases}):
            count: Counter = Counter()
            own = [case for case in cases if case.kind == kind]
            for case in own:
                result = results[case.name, mode]
                column, codes = classify(result, results[case.name, "lint"])
                count[column] += 1
                if column not in ("pass", "refused") or (kind == "export" and column != "pass"):
                    remarks.append(_remark(case, mode, column, str(result.detail)[:150], codes))
            rows.append("| %s, %s | %d | %s |" % (mode, kind, len(own), " | ".join(str(count[c]) for c in COLUMNS)))
    return "\n".join(rows + [""] + remarks) + "\n"
