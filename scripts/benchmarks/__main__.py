"""bench [--quick] [--update-readme] [--json FILE] [--compare FILE] [--list] [ROW...]

Measures c2step against Caffe2 itself and against what people use instead, with sides that take turns
in one run, and prints the table.  Exit status 0 where every bar is reached, 1 where one is not.
"""

import argparse
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:1] = [ROOT, os.path.join(ROOT, "scripts")]

from benchmarks import comparing, dumping, growing, limits, memory, opening, starting, stepping  # noqa: E402
from benchmarks.setting import Setting  # noqa: E402
from benchmarks.table import Row, all_hold, markdown, other_verdicts, to_json, within_markers  # noqa: E402

README = os.path.join(ROOT, "README.md")
MEASUREMENTS: Dict[str, Callable[[Setting], List[Row]]] = {
    "stepping": stepping.stepping,
    "step": stepping.step,
    "prompt-step": stepping.prompt_step,
    "continue": stepping.go_on,
    "condition": stepping.condition,
    "dump": dumping.dump,
    "open": opening.opening,
    "blame": comparing.blame,
    "metrics": comparing.metrics,
    "back": stepping.back,
    "start": starting.starting,
    "growth": growing.growth,
    "commands": growing.commands,
    "memory": memory.memory,
    "limits": limits.limits,
}


def main() -> int:
    """Measure what is asked for, and write it where it is asked for."""
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these measurements; --list names them")
    parser.add_argument("--quick", action="store_true", help="a third of the rounds")
    parser.add_argument("--update-readme", action="store_true", help="write the table into the README")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON too")
    parser.add_argument("--compare", metavar="FILE", help="say which verdicts are not those of this JSON")
    parser.add_argument("--list", action="store_true", help="name the measurements and end")
    parser.add_argument("--models", required=True, metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--exporter", default="", help=argparse.SUPPRESS)
    parser.add_argument("--polygraphy", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print(
            "\n".join(
                "%-12s %s" % (name, (measure.__doc__ or "").split("\n")[0]) for name, measure in MEASUREMENTS.items()
            )
        )
        return 0
    unknown = [name for name in options.rows if name not in MEASUREMENTS]
    if unknown:
        parser.error("no measurement %s; there are: %s" % (", ".join(unknown), ", ".join(MEASUREMENTS)))
    if options.update_readme and options.rows:
        parser.error("--update-readme writes the whole table: leave out the ROWs")
    return _report(_measured(options), options)


def _measured(options: argparse.Namespace) -> Dict[str, Any]:
    """Each measurement in a process of its own: what one leaves in memory is no part of the next."""
    os.makedirs(options.models, exist_ok=True)
    rows = [row for name in options.rows or MEASUREMENTS for row in _apart(_measure, name, options)]
    return {"rows": rows, "machine": _apart(_machine, "", options)}


def _apart(work: Callable[[str, Setting], Any], name: str, options: argparse.Namespace) -> Any:
    there, here = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=_work, args=(here, work, name, options))
    process.start()
    here.close()
    try:
        return there.recv()
    except EOFError:  # it has said why
        sys.exit(2)
    finally:
        process.join()


def _work(answer: Any, work: Callable[[str, Setting], Any], name: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="c2step-bench-") as folder:
        setting = Setting(folder, options.models, options.exporter, options.polygraphy, options.quick)
        try:
            answer.send(work(name, setting))
        finally:
            setting.close()


def _measure(name: str, setting: Setting) -> List[Row]:
    start = time.monotonic()
    rows = MEASUREMENTS[name](setting)
    for row in rows:
        words = row.note if row.measured is None else "%.3g (%.3g to %.3g) %s" % (*row.measured, row.unit)
        print("%-11s %s: %s, %s" % (name, row.what, words, row.verdict.strip("*")), file=sys.stderr, flush=True)
    print("%-11s took %.0f s" % (name, time.monotonic() - start), file=sys.stderr, flush=True)
    return rows


def _machine(name: str, setting: Setting) -> Dict[str, Any]:
    said = setting.bare.ask("versions")
    cores = len(os.sched_getaffinity(0))
    return {"torch": said["torch"], "Python": platform.python_version(), "cores": cores, "processor": _processor()}


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _report(found: Dict[str, Any], options: argparse.Namespace) -> int:
    table = markdown(found["rows"], found["machine"])
    print(table, end="")
    if options.compare:
        with open(options.compare) as file:
            others = other_verdicts(found["rows"], file.read())
        print("\n".join(others) or "The verdicts are those of %s." % options.compare)
    if options.json:
        with open(options.json, "w") as file:
            file.write(to_json(found["rows"], found["machine"]))
    if options.update_readme:
        with open(README, encoding="utf-8") as file:
            text = within_markers(file.read(), table)
        with open(README, "w", encoding="utf-8") as file:
            file.write(text)
    return 0 if all_hold(found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
