"""What the tests of pages need: a net of 500 operators with one wrong one, a blame's folder, and a browser."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from typing import Any, Callable, Iterator, List

import numpy as np

WRONG = 250
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync",
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # fmt: skip


def long_net(path: str, wrong: bool, count: int = 500) -> None:
    """A predict_net with a skip connection every five operators; the wrong one scales by a little more."""
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="long", external_input=["x"])
    at = skip = "x"
    for index in range(count):
        kind = ("Scale", "Relu", "Tanh", "Add", "Copy")[index % 5]
        skip = at if kind == "Scale" else skip
        inputs = [at, skip] if kind == "Add" else [at]
        op = net.op.add(type=kind, input=inputs, output=["v%d" % index], name="op%d" % index)
        if kind == "Scale":
            op.arg.add(name="scale", f=0.51 if wrong and index == WRONG else 0.5)
        at = op.output[0]
    net.external_output.append(at)
    with open(path, "wb") as file:
        file.write(net.SerializeToString())


def c2step(*words: str, status: int = 0) -> str:
    """Run a command line, check how it ends, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "c2step"] + [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=240,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def long_blame(folder: str) -> str:
    """Blame the net with the wrong operator against a run of the right one; returns the kept folder."""
    for name in ("right", "wrong"):
        long_net(os.path.join(folder, name + ".pb"), name == "wrong")
    np.save(os.path.join(folder, "x.npy"), np.random.RandomState(0).randn(1, 4, 8, 8).astype(np.float32))
    given = ["--input", "x=" + os.path.join(folder, "x.npy")]
    c2step("dump", "--predict-net", os.path.join(folder, "right.pb"), *given, "-o", os.path.join(folder, "right"))
    kept = os.path.join(folder, "kept")
    c2step("blame", "--predict-net", os.path.join(folder, "wrong.pb"), *given, "--against",
           os.path.join(folder, "right"), "--keep", kept, "--rtol", "1e-6", status=1)  # fmt: skip
    return kept


def ceil_blame(folder: str, models: str) -> str:
    """Blame MaxPool with ceil_mode, which Caffe2 ignores; returns the kept folder."""
    kept, model = os.path.join(folder, "kept"), os.path.join(models, "digits_ceil")
    c2step("blame", model + "/model.onnx", "--input", model + "/input.npz", "--against", model + "/reference.npz",
           "--keep", kept, status=1)  # fmt: skip
    return kept


def odd_capture(folder: str) -> str:
    """A capture by hand: a long name, maps with NaN and Inf, a scalar, strings, and a file that is cut short."""
    from c2step.blob import STRING, TENSOR, Blob
    from c2step.capture import CaptureWriter, file_name, write_blob

    marked = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    marked[0, 0, 0, :3] = np.nan, np.inf, -np.inf
    values = {
        "n" * 300: marked,
        "all inf": np.full((1, 1, 4, 4), np.inf, np.float32),
        "one": np.asarray(2.5, np.float32),
        "words": np.array([b"a", b"<b>", "\u00e9".encode()], dtype=object),
        "cut": np.ones((1, 2, 4, 4), np.float32),
    }
    path = os.path.join(folder, "odd")
    writer = CaptureWriter(path)
    writer.begin({"kind": "run", "model": "odd.onnx", "sha256": {}})
    for index, (name, array) in enumerate(values.items()):
        blob = Blob(name, STRING if array.dtype == object else TENSOR, array)
        file = file_name(index, "o0", name, blob.kind)
        write_blob(os.path.join(path, file), blob)
        out = {"name": name, "version": 1, "kind": blob.kind, "file": file, "summary": blob.summary().to_json()}
        writer.add({"index": index, "type": "Op%d" % (9 - index), "name": "", "status": "ok", "inputs": [],
                    "outputs": [out], "seconds": 10.0**-index})  # fmt: skip
    writer.close()
    with open(os.path.join(path, file), "rb+") as cut:
        cut.truncate(140)
    return path


def once(factory: Any, name: str, make: Callable[[str], str]) -> str:
    """What `make` makes of a new folder: once for all the processes that run tests at the same time."""
    root = factory.getbasetemp()
    root = root.parent if os.environ.get("PYTEST_XDIST_WORKER") else root
    done = root / (name + ".done")
    with open(str(root / (name + ".lock")), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            (root / name).mkdir()
            done.write_text(make(str(root / name)))
        return str(done.read_text())


class Visit:
    """An open page, and what it said and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: List[str] = []
        self.requests: List[str] = []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def picture(self, name: str) -> None:
        """Keep what is on the screen as one of the README's pictures, if C2STEP_PICTURES names a folder for them."""
        folder = os.environ.get("C2STEP_PICTURES")
        if folder:
            self.page.screenshot(path=os.path.join(folder, name + ".png"))

    def elsewhere(self, *here: str) -> List[str]:
        """The requests that went anywhere but to `here`."""
        return [url for url in self.requests if not url.startswith(here + ("data:", "blob:"))]


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Debian's Chromium without a window, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    assert path, "no chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield running
        finally:
            running.close()
