"""`serve`: who is let in, what a page gets, and a session that prompt and page step together."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import numpy as np
import pytest

from c2step.capture import Capture
from c2step.errors import CaptureError, UsageError
from c2step.serve.desk import line_of
from c2step.serve.pages import Pages
from c2step.serve.server import Server
from conftest import absent
from report_support import Visit, browser, ceil_blame, once


@pytest.fixture(scope="module")
def kept(models, tmp_path_factory):
    """A blame's folder: MaxPool with ceil_mode, which Caffe2 ignores."""
    return once(tmp_path_factory, "ceil", lambda folder: ceil_blame(folder, models))


@pytest.fixture
def server(kept):
    pages = Pages(kept)
    running = Server(pages.get, pages.post)
    yield running
    running.close()


@pytest.fixture
def page():
    if not shutil.which("chromium"):
        absent("there is no chromium")
    with browser() as running:
        yield Visit(running.new_page(viewport={"width": 1280, "height": 900}))


def ask(server, path, method="GET", body=None, **headers):
    """Status and body of one request; `path` begins behind the token."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def under(server, path):
    return urlsplit(server.url).path + path


# -- who is let in ---------------------------------------------------------------------------------


def test_the_page_and_its_values(server, kept):
    status, body = ask(server, under(server, ""))
    assert status == 200 and b"digits_ceil" in body
    status, body = ask(server, under(server, "api/operator/2"))
    op = json.loads(body.decode())
    assert op["label"] == "ORIGIN" and op["blobs"][0]["pictures"]["maps"]["ours"].startswith("data:image/png")
    status, body = ask(server, under(server, "api/slice?index=0&slot=0&slice=[0,0,0]"))
    wanted = Capture(kept).load("conv1").array[0, 0, 0]
    assert "%.6g" % wanted.max() in json.loads(body.decode())["summary"]


def test_a_wrong_token_is_refused(server):
    for path in ("/", "/wrong/", "/%s" % server.token[:-1], "/wrong/api/data", "//", "/" + server.token.upper() + "/x"):
        assert ask(server, path) == (403, b"no such token")


def test_another_host_and_another_origin_are_refused(server):
    good = under(server, "api/data")
    assert ask(server, good, Host="evil.example:%d" % server.port) == (403, b"another host")
    assert ask(server, good, Host="127.0.0.1") == (403, b"another host")
    assert ask(server, good, Host="localhost:%d" % server.port)[0] == 200
    assert ask(server, good, Origin="http://evil.example") == (403, b"another origin")
    assert ask(server, good, Origin="http://127.0.0.1:%d" % server.port)[0] == 200


def test_it_listens_on_the_loopback_alone(server):
    assert server._http.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    ["files/../capture.json", "files/%2e%2e/%2e%2e/etc/passwd", "files//etc/passwd", "files/golden/capture.json",
     "../../etc/passwd", "files/journal.jsonl", "api/nothing"],
)  # fmt: skip
def test_no_path_but_the_captures_arrays(server, path):
    assert ask(server, under(server, path))[0] == 404


def test_a_file_of_the_capture(server, kept):
    from io import BytesIO

    (stored,) = [blob for blob in Capture(kept).blobs() if blob.name == "pool1"]
    status, body = ask(server, under(server, "files/" + stored.file))
    assert status == 200 and np.array_equal(np.load(BytesIO(body)), Capture(kept).load("pool1").array)


def capture_of(folder, *files):
    """A capture whose journal names these files."""
    folder.mkdir(exist_ok=True)
    out = {"version": 1, "kind": "tensor"}
    rows = [
        {"index": i, "type": "T", "status": "ok", "inputs": [], "outputs": [dict(out, name="b%d" % i, file=file)]}
        for i, file in enumerate(files)
    ]
    (folder / "capture.json").write_text('{"kind": "run", "c2step": "0.1.0"}')
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def test_a_capture_from_elsewhere_leads_nowhere(tmp_path):
    """A link to a file outside, and a pickle; a journal that names another folder is no capture."""
    secret = tmp_path / "secret.npy"
    np.save(str(secret), np.full(3, 7.0))
    folder = tmp_path / "capture"
    path = capture_of(folder, "link.npy", "pickle.npy")
    os.symlink(str(secret), str(folder / "link.npy"))
    np.save(str(folder / "pickle.npy"), np.array([{"a": 1}], dtype=object), allow_pickle=True)
    pages = Pages(path)
    running = Server(pages.get, pages.post)
    try:
        for index, file in enumerate(("link.npy", "pickle.npy")):
            status, body = ask(running, under(running, "api/slice?index=%d&slot=0" % index))
            assert status == 400 and b"no value was kept" in body
            assert ask(running, under(running, "files/" + file))[0] == 400
    finally:
        running.close()
    with pytest.raises(CaptureError):
        Pages(capture_of(tmp_path / "other", "../secret.npy"))


def test_odd_requests(server):
    assert ask(server, under(server, "api/operator/x"))[0] == 400
    assert ask(server, under(server, "api/operator/99"))[0] == 404
    assert ask(server, under(server, "api/slice?index=0&slot=0&slice=[9]"))[0] == 400
    assert ask(server, under(server, "api/slice?index=0&slot=0&slice=__import__"))[0] == 400
    assert ask(server, under(server, "api/do"), "POST", "x" * 70000)[0] == 413
    assert ask(server, under(server, "api/do"), "POST", "[]")[0] == 400
    assert ask(server, under(server, "api/do"), "POST", "{}")[0] == 404


def test_only_listed_verbs_become_command_lines():
    assert line_of({"verb": "step", "count": "3"}) == "step 3"
    assert line_of({"verb": "break", "index": "7"}) == "break 7"
    assert (
        line_of({"verb": "patch", "blob": 'a "b"', "slice": "[0, :2]", "value": "0.5"})
        == 'patch "a \\"b\\""[0, :2] = 0.5'
    )
    for bad in ({"verb": "python"}, {"verb": "save", "blob": "x"}, {"verb": "!ls"}, {}):
        with pytest.raises(UsageError):
            line_of(bad)
    for bad in ({"verb": "step", "count": "1; quit"}, {"verb": "patch", "blob": "x", "value": "open('f')"}):
        with pytest.raises(UsageError):
            line_of(bad)
    with pytest.raises(UsageError):
        line_of({"verb": "patch", "blob": "x", "slice": "[__import__]", "value": "1"})


# -- in a browser ----------------------------------------------------------------------------------


def test_values_and_slices_on_demand(page, server):
    tab = page.page
    tab.goto(server.url)
    tab.click(".origin-link")
    tab.wait_for_selector(".maps img")
    tab.fill("form input[type=text]", "[0, 0]")
    tab.click("form button")
    tab.wait_for_selector("pre.slice:not([hidden])")
    assert "float32 (3, 3)" in tab.inner_text("pre.slice")
    assert (page.complaints, page.elsewhere(server.url)) == ([], [])


def test_the_terminal_has_the_prompt_and_its_completion(models, tmp_path):
    import pexpect

    folder = os.path.join(models, "digits_ceil")
    words = ["-W", "ignore", "-m", "c2step", "serve", folder + "/model.onnx", "--input", folder + "/input.npz"]
    variables = dict(os.environ, TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1", NO_COLOR="1", XDG_STATE_HOME=str(tmp_path))
    child = pexpect.spawn(sys.executable, words, env=variables, encoding="utf-8", timeout=60, dimensions=(50, 200))
    try:
        child.expect("http://.*/")
        child.expect_exact("(c2step)")
        child.send("contin\t")
        child.expect("ue")
        child.send("\x03")  # Ctrl-C clears the line
        child.expect_exact("(c2step)")
        child.send("step 2\r")
        child.expect("o  1  Relu")
        child.expect_exact("(c2step)")
        child.send("\x04")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    finally:
        child.close(force=True)


def test_prompt_and_page_step_one_session(page, models):
    folder = os.path.join(models, "digits_ceil")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "c2step",
        "serve",
        folder + "/model.onnx",
        "--input",
        folder + "/input.npz",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               universal_newlines=True, bufsize=1)  # fmt: skip
    try:
        url = process.stdout.readline().strip()
        tab = page.page
        tab.goto(url)
        tab.click("#session >> text='Step'")
        tab.wait_for_selector("#next >> text=1 Relu")
        assert "conv1@1" in tab.inner_text("#said")
        tab.evaluate("location.hash = '#summary'")
        tab.wait_for_selector("main.view-summary")
        assert "The session stands before 1 Relu" in tab.inner_text("main .card")
        assert "pool-ceil-mode" in tab.inner_text("main .finding >> nth=0")
        tab.evaluate("location.hash = '#op/0'")
        tab.wait_for_selector(".maps img")
        tab.evaluate("location.hash = '#op/5'")
        tab.click("text='Break here'")
        tab.wait_for_selector("#session >> text=● 5")
        tab.click("#session >> text='Continue'")
        tab.wait_for_selector("#next >> text=5 AveragePool")
        tab.click("#session >> text='Back'")
        tab.wait_for_selector("#next >> text=4 Relu")
        process.stdin.write("step\n")  # at the prompt; the page follows
        tab.wait_for_selector("#next >> text=5 AveragePool", timeout=15000)
        assert tab.inner_text("#said").startswith("(c2step) step\no  4")  # what the terminal said last
        tab.evaluate("location.hash = '#op/4'")
        tab.wait_for_selector("text=Patch relu2")
        tab.fill("input[aria-label=value]", "0.25")
        tab.click("form >> text='Patch'")
        tab.wait_for_selector("#said >> text=relu2@")
        tab.click("#session >> text='Step'")
        tab.wait_for_selector("#next >> text=6 Flatten")
        assert "min 0.25 max 0.25" in tab.inner_text("#said")
        tab.evaluate("location.hash = '#graph'")
        tab.wait_for_selector("#node-6.next")
        page.picture("session")
        assert (page.complaints, page.elsewhere(url)) == ([], [])
        process.stdin.write("quit\n")
        assert process.wait(20) == 0
        said = process.stdout.read()
        assert "(page) step 1" in said and "(page) patch" in said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        process.stdin.close()
        process.stdout.close()


# -- other addresses, ends, odd requests -----------------------------------------------------------


@pytest.fixture
def anywhere(kept):
    pages = Pages(kept)
    running = Server(pages.get, pages.post, "0.0.0.0")
    yield running
    running.close()


def knock(server, host, token=None):
    """The status for a request that comes in over the loopback and asks for `host`."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/%s/" % (token or server.token), headers={"Host": "%s:%d" % (host, server.port)})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_server_for_every_address_lets_those_with_the_token_in(anywhere):
    for host in ("127.0.0.1", "localhost", socket.gethostname(), socket.gethostname().upper()):
        assert knock(anywhere, host) == 200, host
        assert knock(anywhere, host, "x" * 32) == 403
    for host in ("0.0.0.0", "elsewhere.example", "10.9.8.7"):
        assert knock(anywhere, host) == 403, host  # no name of this machine: a page elsewhere asks
    assert "0.0.0.0" not in anywhere.url


def test_what_is_wanted_is_said(server):
    for path in ("api/slice", "api/slice?index=0", "api/slice?index=x&slot=0"):
        status, body = ask(server, under(server, path))
        assert status == 400 and "is wanted" in json.loads(body.decode())["error"]
    status, body = ask(server, under(server, ""), "HEAD")
    assert (status, body) == (200, b"")
    status, _ = ask(server, under(server, "api/do"), "POST")
    assert status == 400  # no JSON, and not too large


@pytest.mark.parametrize(
    "values, words",
    [
        ({"verb": "patch", "blob": "x", "value": ""}, "no value is given"),
        ({"verb": "patch", "blob": "x", "value": "much"}, "'much' is no number"),
        ({"verb": "step", "count": "few"}, "'few' is no count"),
        ({"verb": "until", "index": ""}, "'' is no index"),
    ],
)
def test_what_the_page_sends_wrongly_is_said(values, words):
    with pytest.raises(UsageError, match=words):
        line_of(values)


@pytest.mark.parametrize("end", ["\x04", "quit\r", "\x03"])
def test_a_served_capture_ends(kept, end):
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(sys.executable, ["-m", "c2step", "serve", kept], timeout=60)
    child.expect("Ctrl-D or quit ends it")
    child.send(end)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == (130 if end == "\x03" else 0)
