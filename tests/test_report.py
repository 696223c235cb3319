"""The report: its data against the captures, and the page itself in a browser."""

import json
import os
import re
import shutil
import struct
import zlib

import numpy as np
import pytest

from c2step.blob import STRING, TENSOR, Blob
from c2step.capture import Capture
from c2step.errors import UsageError
from c2step.pictures import histogram, maps, palettes, png
from c2step.render import as_json
from c2step.report import open_source, page, write_report
from c2step.report.blobs import Detail, drawn
from c2step.report.page import data_of
from conftest import absent
from report_support import WRONG, Visit, browser, c2step, ceil_blame, long_blame, odd_capture, once


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A blame's folder: 500 operators, number 250 wrong."""
    return once(tmp_path_factory, "long", long_blame)


@pytest.fixture(scope="module")
def ceil(models, tmp_path_factory):
    """A blame's folder: MaxPool with ceil_mode, which Caffe2 ignores."""
    return once(tmp_path_factory, "ceil", lambda folder: ceil_blame(folder, models))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A capture with a long name, NaN and Inf, a scalar, strings and a broken file."""
    return once(tmp_path_factory, "odd", odd_capture)


@pytest.fixture(scope="module")
def chromium():
    if not shutil.which("chromium"):
        absent("there is no chromium")
    pytest.importorskip("playwright")
    with browser() as running:
        yield running


@pytest.fixture
def visit(chromium):
    tab = chromium.new_page(viewport={"width": 1280, "height": 860})
    yield Visit(tab)
    tab.close()


# -- pictures --------------------------------------------------------------------------------------


def test_png_holds_the_indices():
    indices = np.arange(6, dtype=np.uint8).reshape(2, 3)
    data = png.encode(indices, palettes.SEQUENTIAL)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    assert zlib.decompress(data[at + 4 : at + 4 + size]) == b"\0\0\1\2\0\3\4\5"


def test_pillow_reads_the_colours():
    from io import BytesIO

    from PIL import Image

    value = np.array([[[0.0, 1.0], [np.nan, np.inf]]])
    picture = Image.open(BytesIO(maps.values_png(value, 0.0, 1.0))).convert("RGB")
    side = picture.size[0] // 2
    seen = [picture.getpixel((x * side, y * side)) for y in (0, 1) for x in (0, 1)]
    marks = (0, palettes.COLOURS - 1, palettes.NAN, palettes.PLUS_INF)
    assert seen == [palettes.SEQUENTIAL[index] for index in marks]


def test_one_wrong_element_survives_making_a_map_smaller():
    difference = np.zeros((1, 500, 300))
    difference[0, 123, 45] = -3.0
    small = maps.shrink(difference, 32, furthest=True)
    assert max(small.shape[1:]) <= 32 and small.min() == -3.0


@pytest.mark.parametrize("name, why", [("m.onnx", "it is a model, and"), ("m.npz", "it is no text"), ("m", "line 1")])
def test_what_is_no_answer_of_a_blame_is_told(tmp_path, name, why):
    (tmp_path / name).write_bytes(b"{" if name == "m" else b"\x08\xff\xfe")
    with pytest.raises(UsageError, match="cannot read .*: .*%s" % why) as raised:
        open_source(str(tmp_path / name))
    assert "capture's folder, or what c2step blame --json" in raised.value.hint


def test_a_smaller_map_holds_means():
    array = np.arange(64.0).reshape(1, 8, 8)
    assert np.array_equal(maps.shrink(array, 4)[0], array[0].reshape(4, 2, 4, 2).mean((1, 3)))


def test_the_map_of_the_worst_element_is_shown():
    chosen = maps.choose((2, 100, 5, 5), 9, worst=(1, 77, 0, 0))
    assert chosen.indices[:2] == [(1, 0), (1, 1)] and chosen.indices[-1] == (1, 77)


def test_histogram_counts_as_numpy_does_and_names_what_it_left_out():
    one, other = np.random.RandomState(0).randn(1000), np.array([np.nan, np.inf, 5.0])
    found = histogram.histogram(one, other, bins=10)
    assert found.counts[0] == list(np.histogram(one, bins=found.edges())[0])
    assert found.left_out == [0, 2] and sum(found.counts[1]) == 1


# -- the data --------------------------------------------------------------------------------------


def test_golden_values_are_kept_under_the_blobs_names(ceil, models):
    golden, given = Capture(os.path.join(ceil, "golden")), np.load(os.path.join(models, "digits_ceil/reference.npz"))
    for name in ("conv1", "pool1", "prob"):
        assert np.array_equal(golden.load(name).array, given[name])


def test_data_of_a_blame(ceil):
    data = data_of(open_source(ceil))
    assert data["blame"]["verdict"] == "FAIL"
    (origin,) = [op for op in data["operators"] if op["label"] == "ORIGIN"]
    blob = origin["blobs"][0]
    assert [tuple(blob[side]["shape"]) for side in ("ours", "golden")] == [(4, 8, 3, 3), (4, 8, 4, 4)]
    assert "ceil_mode" in origin["definition"]
    assert [data["findings"][i]["code"] for i in origin["findings"]][:1] == ["pool-ceil-mode"]
    assert data["header"]["versions"]["torch"] and data["header"]["notes"]


def test_worst_positions_are_the_largest_differences(ceil):
    data = data_of(open_source(ceil))
    blob = data["operators"][-1]["blobs"][0]
    ours, golden = Capture(ceil).load("prob").array, Capture(os.path.join(ceil, "golden")).load("prob").array
    difference = ours.astype(np.float64) - golden
    largest = sorted(np.abs(difference).reshape(-1))[::-1][: len(blob["worst"])]
    assert [abs(row[3]) for row in blob["worst"]] == largest
    index, mine, theirs, apart = blob["worst"][0]
    assert (mine, theirs, apart) == (ours[tuple(index)], golden[tuple(index)], difference[tuple(index)])


@pytest.mark.parametrize(
    "mine, theirs",
    [
        (np.float32(1), np.float32(2)),
        (np.array([np.inf, np.nan, 1.0]), np.array([np.inf, np.nan, 3.0])),
        (np.array([[True, False], [False, True]]), np.array([[True, True], [False, True]])),
        (np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32)),
        (np.full((3, 4), np.nan, np.float32), np.zeros((3, 4), np.float32)),
        (np.arange(600, dtype=np.int64), np.arange(600, dtype=np.int64)),
        (np.array([b"a"], dtype=object), np.array([b"a"], dtype=object)),
    ],
    ids=["scalar", "inf", "bool", "empty", "nan", "int64", "strings"],
)
def test_every_kind_of_value_is_drawn(mine, theirs):
    kind = STRING if np.asarray(mine).dtype.kind == "O" else TENSOR
    found = drawn(
        Blob("a", kind, np.asarray(mine)), Blob("b", kind, np.asarray(theirs)), None, Detail(1 << 20, 1), True
    )
    json.dumps(json.loads(as_json(found)))
    if np.asarray(mine).size and kind == TENSOR:
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(np.subtract(mine, theirs, dtype=np.float64)))
        assert (max((abs(row[3]) for row in found["worst"]), default=0) == apart.max()) or np.isnan(mine).any()


def test_the_json_alone_gives_graph_and_errors(ceil, tmp_path):
    shutil.copy(os.path.join(ceil, "blame.json"), str(tmp_path))
    found = json.loads((tmp_path / "blame.json").read_text())
    found["about"]["kept"] = None
    (tmp_path / "blame.json").write_text(json.dumps(found))
    data = data_of(open_source(str(tmp_path / "blame.json")))
    assert [op["label"] for op in data["operators"]] == [op["label"] for op in found["operators"]]
    assert data["operators"][1]["inputs"] == ["conv1"] and not data["values"]


def test_room_for_pictures_is_kept_to(kept, tmp_path):
    source = open_source(kept)
    full, small = (write_report(source, str(tmp_path / "r.html"), budget) for budget in (16 << 20, 200000))
    assert small < full - 1000000
    operators = data_of(source, 200000)["operators"]
    assert operators[WRONG]["blobs"][0]["pictures"] and operators[-1]["blobs"][0]["left_out"]


def test_names_cannot_end_the_script(ceil):
    data = data_of(open_source(ceil))
    data["operators"][0]["outputs"] = ["</script><script>alert(1)</script>"]
    assert "<script>alert" not in page(data)


def test_no_address_outside_the_file(ceil):
    addresses = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(https?:[^"')\s]+)""", page(data_of(open_source(ceil))))
    assert addresses == []


def test_a_file_that_is_no_blame(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    c2step("report", str(tmp_path / "x.json"), "-o", str(tmp_path / "x.html"), status=2)


# -- the page --------------------------------------------------------------------------------------


def opened(visit, folder):
    path = folder + ".html"
    if not os.path.exists(path):
        write_report(open_source(folder), "%s.%d" % (path, os.getpid()))
        os.replace("%s.%d" % (path, os.getpid()), path)
    visit.page.goto("file://" + path)
    return visit.page


def test_the_graph_of_500_operators_is_drawn_and_searched(visit, kept):
    tab = opened(visit, kept)
    tab.click("nav >> text=Graph")
    assert tab.locator("#net-graph g.op").count() == 500
    boxes = tab.evaluate(
        "[...document.querySelectorAll('#net-graph .op rect')].map(r => r.getBoundingClientRect()).map(r => [r.x, r.y])"
    )
    assert len({tuple(box) for box in boxes}) == 500  # none lies on another
    view = tab.locator("#net-graph").bounding_box()
    assert all(view["x"] <= x and view["y"] <= y <= view["y"] + view["height"] for x, y in boxes)
    visit.picture("graph")
    tab.fill("#graph-search", "v%d" % WRONG)
    assert tab.locator("#graph-count").inner_text() == "2 of 500"  # the operator, and the one that reads its blob
    tab.press("#graph-search", "Enter")
    assert tab.locator("#net-graph .op.selected").get_attribute("id") == "node-%d" % WRONG
    tab.fill("#graph-search", "")
    tab.locator("#node-%d" % WRONG).focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == "#op/%d" % (WRONG + 1)
    assert (visit.complaints, visit.elsewhere("file:")) == ([], [])


def test_long_edges_of_a_large_net_cost_the_layout_little(visit, kept):
    """1,500 operators; a third of them read what was written 7 and 50 operators before too."""
    tab = opened(visit, kept)
    tab.evaluate("""() => {
        const all = R.data.operators, first = all.length;
        for (let i = first; i < 1500; i++)
            all.push(Object.assign({}, all[1], {index: i, inputs: ["v" + (i - 1)], outputs: ["v" + i]}));
        for (let i = 60; i < 1500; i += 3) all[i].inputs.push("v" + (i - 7), "v" + (i - 50));
        window.nodes = 0;
        const graph = dagre.graphlib.Graph.prototype, add = graph.setNode;
        graph.setNode = function (id, label) {
            if (label && label.dummy) window.nodes++;
            return add.apply(this, arguments);
        };
    }""")
    tab.click("nav >> text=Graph")
    tab.wait_for_selector("#net-graph g.op.selected")
    assert tab.locator("#net-graph g.op").count() == 1500
    wanted = "[...new Set(R.data.operators.flatMap(o => o.inputs.map(i => i + ' ' + o.index)))].length"
    assert tab.locator("#net-graph .edge").count() == tab.evaluate(wanted)
    assert tab.evaluate("nodes") < 10 * 1500
    assert tab.evaluate("getComputedStyle(document.querySelector('#net-graph .op text')).display") == "none"
    tab.fill("#graph-search", "v1499")
    assert tab.locator("#graph-count").inner_text() == "1 of 1500"
    assert visit.complaints == []


def test_the_origin_is_found_by_clicking_from_the_summary(visit, kept):
    tab = opened(visit, kept)
    assert tab.locator("#verdict").inner_text() == "FAIL"
    assert tab.locator("svg.errors .mark").count() >= 1000
    visit.picture("summary")
    tab.click(".origin-link")
    assert tab.locator("article.operator h2").inner_text().split() == [
        "ORIGIN",
        str(WRONG),
        "Scale",
        "→",
        "v%d" % WRONG,
    ]
    assert "f: 0.5099" in tab.locator("article.operator pre").inner_text()
    shown = tab.locator(".maps img").evaluate_all("all => all.map(i => [i.naturalWidth > 0, i.alt.split(':')[0]])")
    assert shown == [[True, "Caffe2, alone"], [True, "reference"], [True, "difference"]]
    tab.locator(".blob").first.scroll_into_view_if_needed()
    visit.picture("operator")
    assert (visit.complaints, visit.elsewhere("file:")) == ([], [])


def test_every_view_in_dark_and_light_without_a_complaint(visit, ceil):
    tab = opened(visit, ceil)
    for scheme in ("dark", "light"):
        tab.emulate_media(color_scheme=scheme)
        for view in ("summary", "graph", "operators", "about", "op/2", "op/8"):
            tab.evaluate("view => { location.hash = '#' + view; }", view)
            tab.wait_for_selector("main.view-%s" % view.split("/")[0])
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(background)
    tab.click("#theme")
    assert tab.evaluate(background) != light
    tab.evaluate("location.hash = '#operators'")
    tab.fill("#table-search", "conv2")
    assert tab.locator("table.list tbody tr").count() == 2
    assert (visit.complaints, visit.elsewhere("file:")) == ([], [])


def test_it_can_be_used_without_a_mouse_and_read_aloud(visit, ceil):
    tab = opened(visit, ceil)
    unnamed = """[...document.querySelectorAll('a,button,input,select,img,svg[role]')].filter(e =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.alt || e.title || (e.labels && e.labels.length)))"""
    for view in ("summary", "graph", "operators", "about", "op/2"):
        tab.evaluate("view => { location.hash = '#' + view; }", view)
        tab.wait_for_selector("main.view-%s" % view.split("/")[0])
        assert tab.evaluate(unnamed + ".map(e => e.outerHTML.slice(0, 80))") == []
        assert tab.evaluate("document.querySelectorAll('main th:not([scope])').length") == 0
    tab.evaluate("location.hash = '#summary'")
    tab.focus("svg.errors")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    assert "2 MaxPool" in tab.locator("#live").inner_text()
    tab.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == "#op/2"


def go(tab, view):
    tab.evaluate("view => { location.hash = '#' + view; }", view)
    tab.wait_for_selector("main.view-%s" % view.split("/")[0])


@pytest.mark.parametrize("width", [400, 1400])
def test_long_names_break_and_short_ones_do_not(visit, odd, width):
    tab = opened(visit, odd)
    tab.set_viewport_size({"width": width, "height": 900})
    for view in ("summary", "graph", "operators", "about", "op/0", "op/3"):
        go(tab, view)
        assert tab.evaluate("document.documentElement.scrollWidth") == width, view
    go(tab, "operators")
    heights = tab.locator("table.list tbody tr").evaluate_all("rows => rows.map(r => r.offsetHeight)")
    assert max(heights[1:]) < 40 and heights[0] > 80  # one line each; "all inf" stays whole


def test_the_table_sorts_by_each_column(visit, odd):
    tab = opened(visit, odd)
    go(tab, "operators")

    def order(column):
        tab.click("table.list thead >> text=%s" % column)
        return [int(t) for t in tab.locator("table.list tbody td:first-child").all_inner_texts()]

    assert order("time") == [4, 3, 2, 1, 0] and order("time") == [0, 1, 2, 3, 4]
    assert tab.locator("th[aria-sort=descending]").inner_text().startswith("time")
    assert order("operator") == [4, 3, 2, 1, 0] and order("shape") == [2, 3, 1, 0, 4]


def test_marks_strings_scalars_and_broken_files_are_shown_as_they_are(visit, odd):
    tab = opened(visit, odd)
    go(tab, "op/0")
    assert tab.locator(".blob .keyed").all_inner_texts() == ["NaN", "+Inf", "-Inf"]
    go(tab, "op/1")
    assert tab.locator(".blob .keyed").all_inner_texts() == ["+Inf"]
    assert tab.inner_text(".map").endswith("no finite value") and tab.locator(".map .key").count() == 0
    go(tab, "op/2")
    assert tab.locator("svg.values circle").count() == 1
    go(tab, "op/3")
    assert tab.inner_text(".blob figure pre").split("\n") == ['"a"', '"<b>"', '"\u00e9"']
    assert "zeros" not in tab.inner_text(".blob table")
    go(tab, "op/4")
    assert "cannot be read" in tab.inner_text(".blob .note")
    assert visit.complaints == []


def test_colours_and_shapes_have_a_legend(visit, ceil):
    tab = opened(visit, ceil)
    assert "out of tolerance" in tab.inner_text("main section .legend >> nth=0")
    go(tab, "graph")
    tab.select_option("#graph-colour", "seconds")
    assert "s" in tab.inner_text("#graph-scale") and tab.locator(".tools .badge").count() == 0
    tab.select_option("#graph-colour", "run")
    assert "of what is allowed" in tab.inner_text("#graph-scale")
    tab.select_option("#graph-colour", "label")
    assert tab.locator(".tools .badge").count() == 3
    go(tab, "op/2")
    assert "the shapes (4, 8, 3, 3) and (4, 8, 4, 4) differ" in tab.inner_text(".blob .note")
    assert tab.locator("figure:has(svg.histogram) .keyed").all_inner_texts() == ["Caffe2", "reference"]
    boxes = tab.locator("article > pre").all_inner_texts()
    assert len(boxes) == 2 and "ONNX" not in boxes[0] and "%pool1 = MaxPool" in boxes[1]
    go(tab, "op/8")
    assert tab.locator("figure:has(svg.values) .keyed, figure:has(svg.histogram) .keyed").count() >= 2
    go(tab, "about")
    assert tab.locator("thead th").evaluate_all("all => all.filter(h => !h.textContent).length") == 0


def test_numbers_are_written_as_in_the_terminal(visit, ceil):
    tab = opened(visit, ceil)
    for value in (1.67e-6, 9.5367e-7, 1e-4, 0.25, 123456.0, 1234567.0, -3e-9, 1e30):
        assert tab.evaluate("value => R.show(value)", value) == "%.6g" % value


def test_the_keys_are_listed(visit, ceil):
    tab = opened(visit, ceil)
    tab.keyboard.press("?")
    assert "Home, End" in tab.inner_text("#key-list")
    tab.keyboard.press("Escape")
    assert not tab.is_visible("#key-list")
    go(tab, "operators")
    tab.locator("#table-search").type("?")  # a character like any other
    assert not tab.is_visible("#key-list")
    tab.click("#keys")
    tab.click("#key-list button")
    assert not tab.is_visible("#key-list") and visit.complaints == []


def test_it_prints_the_answer_the_graph_and_the_table(visit, ceil):
    tab = opened(visit, ceil)
    pdf = tab.pdf()
    assert pdf.startswith(b"%PDF") and len(pdf) > 20000
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    printed = tab.locator("#print").text_content()
    assert "2 MaxPool → pool1" in printed and "SHA-256" in printed
    assert tab.locator("#print svg.graph g.op").count() == 9
    assert visit.complaints == []
