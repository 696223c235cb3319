// The net as a graph. dagre lays out one column of operators after the other, so that nets of thousands stay quick
// and fit the screen; edges between columns run through the gutters.
"use strict";
(function () {
  var svg = R.svg, el = R.el, ops = R.data.operators;
  var HEIGHT = 40, GUTTER = 56, MANY = 1200, LONG = 6, node = {}, state = null;

  function edgesOf() {
    var writer = {}, found = [], given = Object.keys(R.data.header.inputs || {});
    if (Array.isArray(R.data.header.inputs)) given = R.data.header.inputs.map(function (i) { return i.name; });
    given.forEach(function (name) { writer[name] = "in:" + name; });
    ops.forEach(function (op, at) {
      op.inputs.forEach(function (name) { if (name in writer) found.push({ from: writer[name], to: at, blob: name }); });
      op.outputs.forEach(function (name) { writer[name] = at; });
    });
    return found;
  }

  // Where the columns begin: after about `size` operators, each cut where few edges cross.
  function columns(edges, size) {
    var crossing = new Array(ops.length + 1).fill(0), starts = [0];
    edges.forEach(function (e) { if (typeof e.from === "number") for (var i = e.from + 1; i <= e.to && i - e.from < 400; i++) crossing[i]++; });
    while (ops.length - starts[starts.length - 1] > size * 1.25) {
      var from = starts[starts.length - 1], best = from + size;
      for (var i = from + Math.floor(size * 0.8); i <= from + size * 1.2; i++) if (crossing[i] < crossing[best]) best = i;
      starts.push(best);
    }
    return starts;
  }

  function width(text) { return Math.max(112, Math.min(230, 24 + 7.8 * text.length)); }
  function title(op) { return op.index + " " + op.type; }
  function under(op) { return op.outputs[0] || ""; }
  function cut(text) { return text.length > 27 ? text.slice(0, 12) + "…" + text.slice(-14) : text; }

  function layColumn(members, edges, left) {
    var g = new dagre.graphlib.Graph();
    g.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 26, marginx: 0, marginy: 0, ranker: "longest-path" });
    g.setDefaultEdgeLabel(function () { return {}; });
    members.forEach(function (id) {
      var op = ops[id], text = op ? Math.max(title(op).length + (R.label(op) === "ORIGIN" ? 2 : 0), cut(under(op)).length) : String(id).length;
      g.setNode(String(id), { width: width(" ".repeat(text)), height: op ? HEIGHT : 26 });
    });
    edges.forEach(function (e) { if (g.hasNode(String(e.from)) && g.hasNode(String(e.to))) g.setEdge(String(e.from), String(e.to)); });
    dagre.layout(g);
    var box = g.graph();
    members.forEach(function (id) {
      var n = g.node(String(id));
      node[id] = { x: left + n.x, y: n.y, w: n.width, h: n.height };
    });
    var lines = g.edges().map(function (e) { return { from: e.v, to: e.w, points: g.edge(e).points.map(function (p) { return { x: left + p.x, y: p.y }; }) }; });
    return { width: isFinite(box.width) ? box.width : 120, height: isFinite(box.height) ? box.height : HEIGHT, lines: lines };
  }

  function smooth(points) {
    var d = "M" + points[0].x + " " + points[0].y;
    for (var i = 1; i < points.length - 1; i++) {
      var next = points[i + 1], last = i === points.length - 2;
      d += "Q" + points[i].x + " " + points[i].y + " " + (last ? next.x : (points[i].x + next.x) / 2) + " " + (last ? next.y : (points[i].y + next.y) / 2);
    }
    return points.length < 3 ? d + "L" + points[points.length - 1].x + " " + points[points.length - 1].y : d;
  }

  function rounded(points) {
    var d = "M" + points[0][0] + " " + points[0][1];
    for (var i = 1; i < points.length - 1; i++) {
      var a = points[i - 1], b = points[i], c = points[i + 1];
      var r = Math.min(8, (Math.abs(b[0] - a[0]) + Math.abs(b[1] - a[1])) / 2, (Math.abs(c[0] - b[0]) + Math.abs(c[1] - b[1])) / 2);
      var before = [b[0] - r * Math.sign(b[0] - a[0]), b[1] - r * Math.sign(b[1] - a[1])];
      var after = [b[0] + r * Math.sign(c[0] - b[0]), b[1] + r * Math.sign(c[1] - b[1])];
      d += "L" + before.join(" ") + "Q" + b.join(" ") + " " + after.join(" ");
    }
    return d + "L" + points[points.length - 1].join(" ");
  }

  // Between columns: out at the right, through the gutters (and a lane above for far ones), in at the left.
  function across(e, from, to, gutters, lane) {
    var a = node[e.from], b = node[e.to], left = gutters[from], right = gutters[to - 1];
    var start = [a.x + a.w / 2, a.y], end = [b.x - b.w / 2, b.y];
    if (right === left) return rounded([start, [left, start[1]], [left, end[1]], end]);
    return rounded([start, [left, start[1]], [left, lane], [right, lane], [right, end[1]], end]);
  }

  // In large nets, an edge over many ranks of one column costs the layout most and shows least: it runs beside the
  // column.  Its reader has a nearer writer, which is why it lies so far below.
  function loosen(edges, column) {
    var rank = {}, inside = edges.filter(function (e) { return column[e.from] === column[e.to]; });
    if (ops.length <= MANY) return;
    inside.forEach(function (e) { rank[e.to] = Math.max(rank[e.to] || 0, (rank[e.from] || 0) + 1); });
    inside.forEach(function (e) { e.loose = rank[e.to] - (rank[e.from] || 0) > LONG; });
  }
  function beside(e, gutter) {
    var a = node[e.from], b = node[e.to];
    return rounded([[a.x + a.w / 2, a.y], [gutter, a.y], [gutter, b.y], [b.x + b.w / 2, b.y]]);
  }

  // The whole net in columns of about `size` operators.
  function arrange(edges, size) {
    var starts = columns(edges, size), made = { starts: starts, column: {}, inputs: {}, gutters: [], lines: [], width: 0, height: 0, size: size };
    node = {};
    starts.forEach(function (start, c) { for (var i = start; i < (starts[c + 1] === undefined ? ops.length : starts[c + 1]); i++) made.column[i] = c; });
    edges.forEach(function (e) {
      if (typeof e.from === "string" && !(e.from in made.inputs)) made.column[e.from] = made.inputs[e.from] = made.column[e.to];
    });
    loosen(edges, made.column);
    starts.forEach(function (start, c) {
      var end = starts[c + 1] === undefined ? ops.length : starts[c + 1], members = [];
      Object.keys(made.inputs).forEach(function (id) { if (made.inputs[id] === c) members.push(id); });
      for (var i = start; i < end; i++) members.push(i);
      var box = layColumn(members, edges.filter(function (e) { return !e.loose && made.column[e.from] === c && made.column[e.to] === c; }), made.width);
      made.lines = made.lines.concat(box.lines);
      made.height = Math.max(made.height, box.height);
      made.gutters.push(made.width + box.width + GUTTER / 2);
      made.width += box.width + GUTTER;
    });
    made.width -= GUTTER;
    made.node = node;
    return made;
  }

  // The arrangement that comes nearest to a screen's shape; columns stay short enough for the layout to be quick.
  function best(edges) {
    var shape = 1.7, size = Math.max(14, Math.round(Math.sqrt(ops.length * 1.9))), found = null, off = Infinity;
    for (var round = 0; round < (ops.length > MANY ? 1 : 4); round++) {
      var tried = arrange(edges, size), ratio = tried.width / tried.height / shape;
      if (Math.abs(Math.log(ratio)) < off) { found = tried; off = Math.abs(Math.log(ratio)); }
      var next = Math.round(Math.max(14, Math.min(size * Math.sqrt(ratio), ops.length, 260)));
      if (off < 0.25 || next === size || (ratio < 1 && size === 14)) break;
      size = next;
    }
    node = found.node;
    return found;
  }

  function draw(world) {
    var edges = edgesOf(), made = best(edges), edgeLayer = svg("g", {}), nodeLayer = svg("g", {});
    made.lines.forEach(function (line) { edgeLayer.appendChild(svg("path", { d: smooth(line.points), "class": "edge", "marker-end": "url(#arrow)" })); });
    edges.forEach(function (e) {
      var from = made.column[e.from], to = made.column[e.to];
      if (from < to) edgeLayer.appendChild(svg("path", { d: across(e, from, to, made.gutters, -24), "class": "edge far", "marker-end": "url(#arrow)" }));
      else if (e.loose) edgeLayer.appendChild(svg("path", { d: beside(e, made.gutters[from]), "class": "edge far", "marker-end": "url(#arrow)" }));
    });
    Object.keys(made.inputs).forEach(function (id) { nodeLayer.appendChild(inputNode(id)); });
    ops.forEach(function (op, at) { nodeLayer.appendChild(opNode(op, at)); });
    world.appendChild(edgeLayer);
    world.appendChild(nodeLayer);
    return { width: made.width, height: made.height };
  }

  function inputNode(id) {
    var n = node[id];
    return svg("g", { "class": "given", transform: "translate(" + (n.x - n.w / 2) + " " + (n.y - n.h / 2) + ")" }, [
      svg("rect", { width: n.w, height: n.h, rx: 13 }), svg("text", { x: n.w / 2, y: 17, "text-anchor": "middle" }, cut(id.slice(3)))]);
  }

  function opNode(op, at) {
    var n = node[at], label = R.label(op);
    var g = svg("g", { id: "node-" + op.index, "class": "op l-" + label.replace(" ", "-"), transform: "translate(" + (n.x - n.w / 2) + " " + (n.y - n.h / 2) + ")",
      tabindex: "-1", role: "link", "aria-label": R.opTitle(op) + ", " + label }, [
      svg("rect", { width: n.w, height: n.h, rx: 7 }),
      svg("text", { x: 10, y: 16, "class": "t" }, title(op)),
      svg("text", { x: 10, y: 31, "class": "u" }, cut(under(op))),
      svg("title", {}, R.opTitle(op) + "\n" + label + (op.reason ? ": " + op.reason : ""))]);
    var session = R.data.session;
    if (session && session.position === at) { g.classList.add("next"); g.appendChild(svg("text", { x: -8, y: 25, "text-anchor": "end", "class": "arrow" }, "▶")); }
    if (session && session.breakpoints.some(function (b) { return b.where === String(op.index); })) g.appendChild(svg("circle", { cx: n.w, cy: 0, r: 6, "class": "stop" }));
    if (label === "ORIGIN") g.appendChild(svg("text", { x: n.w - 10, y: 17, "text-anchor": "end", "class": "flag" }, "◆"));
    g.addEventListener("click", function () { if (!state.dragged) select(at, true); });
    g.addEventListener("dblclick", function () { location.hash = "#op/" + op.index; });
    return g;
  }

  // -- moving about ------------------------------------------------------------------------------

  function apply() {
    state.world.setAttribute("transform", "translate(" + state.x + " " + state.y + ") scale(" + state.k + ")");
    distance(state.k);
  }
  // Texts are hidden, and so never laid out, where they would be too small to read; arrows too where all is points.
  function distance(k) {
    state.root.classList.toggle("distant", k < 0.34);
    state.root.classList.toggle("remote", k < 0.12);
  }
  function zoom(factor, cx, cy) {
    var k = Math.max(0.02, Math.min(4, state.k * factor)), box = state.root.getBoundingClientRect();
    cx = cx === undefined ? box.width / 2 : cx; cy = cy === undefined ? box.height / 2 : cy;
    state.x = cx - (cx - state.x) * k / state.k; state.y = cy - (cy - state.y) * k / state.k; state.k = k;
    apply();
  }
  function fit() {
    var box = state.root.getBoundingClientRect(), pad = 34;
    state.k = Math.min((box.width - 2 * pad) / state.width, (box.height - 2 * pad) / (state.height + 30), 1.4);
    state.x = (box.width - state.width * state.k) / 2; state.y = Math.max(pad + 10, (box.height - state.height * state.k) / 2);
    apply();
  }
  function centre(at) {
    var box = state.root.getBoundingClientRect(), n = node[at];
    state.k = Math.max(state.k, 0.8);
    state.x = box.width / 2 - n.x * state.k; state.y = box.height / 2 - n.y * state.k;
    apply();
  }

  function select(at, quiet) {
    var before = state.root.querySelector(".op.selected"), op = ops[at], g = document.getElementById("node-" + op.index);
    if (before) { before.classList.remove("selected"); before.setAttribute("tabindex", "-1"); }
    g.classList.add("selected"); g.setAttribute("tabindex", "0"); g.focus({ preventScroll: true });
    state.at = at;
    if (!quiet) centre(at);
    describe(op);
  }
  function describe(op) {
    state.panel.textContent = "";
    state.panel.appendChild(el("div", { "class": "row" }, [R.badge(R.label(op)), el("strong", {}, R.opTitle(op)), op.node ? el("span", { "class": "quiet" }, "ONNX node " + op.node) : null, R.link(op, "open its page")]));
    if (op.reason) state.panel.appendChild(el("p", {}, op.reason));
  }

  function keys(event) {
    var move = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (event.target.tagName === "INPUT") return;
    if (event.key === "Enter" && state.at >= 0) { location.hash = "#op/" + ops[state.at].index; return; }
    if (event.key === "Home") move = -ops.length;
    if (event.key === "End") move = ops.length;
    if (move !== undefined) { event.preventDefault(); select(Math.max(0, Math.min(ops.length - 1, state.at + move))); return; }
    if (event.key === "+" || event.key === "=") zoom(1.3);
    if (event.key === "-") zoom(1 / 1.3);
    if (event.key === "0") fit();
  }

  function drag(root) {
    var from = null;
    root.addEventListener("pointerdown", function (e) { from = { x: e.clientX - state.x, y: e.clientY - state.y, cx: e.clientX, cy: e.clientY }; state.dragged = false; });
    window.addEventListener("pointermove", function (e) {
      if (!from) return;
      if (Math.abs(e.clientX - from.cx) + Math.abs(e.clientY - from.cy) > 4) state.dragged = true;
      if (state.dragged) { state.x = e.clientX - from.x; state.y = e.clientY - from.y; apply(); }
    });
    window.addEventListener("pointerup", function () { from = null; });
    root.addEventListener("wheel", function (e) {
      e.preventDefault();
      var box = root.getBoundingClientRect();
      zoom(Math.pow(1.0015, -e.deltaY), e.clientX - box.left, e.clientY - box.top);
    }, { passive: false });
  }

  // -- searching and colouring -------------------------------------------------------------------

  R.matches = function (op, text) {
    text = text.toLowerCase();
    return [String(op.index), op.type, op.node || "", R.label(op)].concat(op.outputs, op.inputs).some(function (word) {
      return word.toLowerCase().indexOf(text) >= 0;
    });
  };
  function search(text, step) {
    var found = [];
    ops.forEach(function (op, at) {
      var hit = text && R.matches(op, text), g = document.getElementById("node-" + op.index);
      if (g) g.classList.toggle("hit", Boolean(hit));
      if (g) g.classList.toggle("miss", Boolean(text && !hit));
      if (hit) found.push(at);
    });
    state.found = found;
    if (step && found.length) {
      state.cursor = ((state.cursor === undefined ? -1 : state.cursor) + step + found.length) % found.length;
      var at = found[state.cursor];
      if (document.getElementById("node-" + ops[at].index)) select(at);
      state.box.focus();
    } else state.cursor = undefined;
    state.count.textContent = !text ? "" : found.length + " of " + ops.length + (state.cursor === undefined ? "" : ", at " + (state.cursor + 1));
  }

  function heat(share) { return "hsl(" + (120 - 120 * share) + " 70% var(--heat))"; }
  function colour(by) {
    state.root.classList.toggle("by-label", by === "label");
    var logs = ops.map(function (op) {
      if (by === "label") return null;
      if (by === "seconds") return op.seconds ? Math.log10(op.seconds) : null;
      var error = R.error(op, by, "ratio");
      return !error ? null : error.off ? 3 : error.value > 0 ? Math.log10(error.value) : -6;
    });
    var known = logs.filter(function (v) { return v !== null; }), low = Math.min.apply(null, known), high = Math.max.apply(null, known);
    if (by !== "seconds" && by !== "label") { low = -4; high = 2; }
    var shown = by === "label" ? legend() : gradient(by, known.length ? Math.pow(10, low) : null, Math.pow(10, high));
    state.legend.replaceWith(shown);
    state.legend = shown;
    ops.forEach(function (op, at) {
      var rect = document.querySelector("#node-" + op.index + " rect"), value = logs[at];
      if (rect) rect.style.fill = value === null ? "" : heat(Math.max(0, Math.min(1, (value - low) / (high - low || 1))));
    });
  }

  // -- the view ----------------------------------------------------------------------------------

  function toolbar() {
    var options = [["label", R.data.blame ? "label" : "how it ended"]];
    if (R.data.blame) options.push(["run", "error in the run"], ["alone", "error alone"]);
    options.push(["seconds", "time"]);
    state.box = el("input", { type: "search", id: "graph-search", placeholder: "index, type, blob, node …", autocomplete: "off",
      on: { input: function () { search(state.box.value, 0); }, keydown: function (e) { if (e.key === "Enter") { e.preventDefault(); search(state.box.value, e.shiftKey ? -1 : 1); } } } });
    state.count = el("span", { id: "graph-count", role: "status", "class": "quiet" });
    var by = el("select", { id: "graph-colour", on: { change: function () { colour(by.value); } } }, options.map(function (o) { return el("option", { value: o[0] }, o[1]); }));
    function button(text, label, act) { return el("button", { type: "button", title: label, "aria-label": label, on: { click: act } }, text); }
    return el("div", { "class": "tools" }, [
      el("label", { "for": "graph-search" }, "Search"), state.box, state.count,
      el("label", { "for": "graph-colour" }, "Colour by"), by, state.legend = legend(),
      el("span", { "class": "push" }, [button("−", "Smaller", function () { zoom(1 / 1.3); }), button("+", "Larger", function () { zoom(1.3); }), button("Fit", "Fit the whole net", fit)])]);
  }
  function legend() {
    var seen = {};
    ops.forEach(function (op) { seen[R.label(op)] = (seen[R.label(op)] || 0) + 1; });
    return el("span", { "class": "legend" }, Object.keys(R.meanings).filter(function (l) { return seen[l]; }).map(function (l) {
      var badge = R.badge(l + " ");
      badge.className = "badge b-" + l.replace(" ", "-"); badge.title = R.meanings[l]; badge.textContent = l + " " + seen[l];
      return badge;
    }));
  }

  function gradient(by, low, high) {
    if (low === null) return el("span", { "class": "legend quiet" }, "nothing was measured");
    var ends = by === "seconds" ? [R.seconds(low), R.seconds(high)] : ["≤ " + R.show(low) + " of what is allowed", "≥ " + R.show(high) + " times, or no number"];
    return el("span", { "class": "legend", id: "graph-scale" }, [ends[0], el("span", { "class": "scale", style: "background: linear-gradient(90deg, " + [0, 0.25, 0.5, 0.75, 1].map(heat).join(", ") + ")" }, ""), ends[1], el("span", { "class": "quiet" }, "log scale")]);
  }

  R.graphView = function (main) {
    ops = R.data.operators;
    state = { x: 0, y: 0, k: 1, at: -1 };
    var root = svg("svg", { "class": "graph by-label", tabindex: "0", role: "application", id: "net-graph",
      "aria-label": "The net as a graph of " + ops.length + " operators. Arrow keys go from operator to operator, Enter opens one, plus and minus zoom, 0 fits." });
    root.appendChild(svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", "class": "tip" }))));
    state.root = root;
    state.world = svg("g", {});
    root.appendChild(state.world);
    state.panel = el("div", { "class": "panel", "aria-live": "polite" }, el("p", { "class": "quiet" }, "Drag to move, turn the wheel to zoom, click an operator for its figures, twice for its page."));
    main.appendChild(el("section", { "class": "graph-view" }, [el("h2", { "class": "hidden-but-read" }, "Graph"), toolbar(), root, state.panel]));
    if (ops.length <= MANY) { finish(root); return; }
    var hint = state.panel.firstChild;
    state.panel.replaceChild(el("p", {}, "laying out " + ops.length + " operators …"), hint);
    setTimeout(function () {
      if (state.root !== root || !root.isConnected) return;
      state.panel.replaceChild(hint, state.panel.firstChild);
      finish(root);
    }, 30);
  };

  function finish(root) {
    distance(ops.length > MANY ? 0 : 1);
    var size = draw(state.world);
    state.width = size.width; state.height = size.height;
    fit();
    drag(root);
    root.addEventListener("keydown", keys);
    search(state.box.value, 0);
    var wanted = ops.findIndex(function (op) { return R.label(op) === "ORIGIN" || op.status === "failed" || op.status === "died"; });
    if (R.data.session) wanted = Math.min(R.data.session.position, ops.length - 1);
    if (wanted >= 0) { state.at = wanted; document.getElementById("node-" + ops[wanted].index).classList.add("selected"); describe(ops[wanted]); }
  }

  R.graphPicture = function () {
    var root = svg("svg", { "class": "graph by-label picture" }), world = svg("g", {}), size = draw(world);
    root.appendChild(world);
    root.setAttribute("viewBox", "-20 -40 " + (size.width + 40) + " " + (size.height + 60));
    return root;
  };
})();
