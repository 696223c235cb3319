// Charts: the error along the net, histograms, values as lines. Plain SVG, colours from the style sheet.
"use strict";
(function () {
  var svg = R.svg, el = R.el;

  function ticks(low, high) {
    var step = Math.max(1, Math.ceil((high - low) / 8)), found = [];
    for (var at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
    return found;
  }
  function power(n) { return R.show(Math.pow(10, n), 3); }

  function points(metric) {
    var found = [];
    R.data.operators.forEach(function (op) {
      ["run", "alone"].forEach(function (side) {
        var error = R.error(op, side, metric);
        if (error) found.push({ op: op, side: side, error: error });
      });
    });
    return found;
  }

  function scale(found) {
    var logs = [0];
    found.forEach(function (p) {
      if (p.error.value > 0) logs.push(Math.log10(p.error.value));
      if (p.error.limit > 0) logs.push(Math.log10(p.error.limit));
    });
    if (found.some(function (p) { return p.error.limit && p.error.limit !== 1; })) logs.shift();
    return { low: Math.floor(Math.max(-18, Math.min.apply(null, logs))) , high: Math.ceil(Math.max.apply(null, logs) + 0.01) };
  }

  // The error of every operator along the net: dots in the run, diamonds alone, the tolerance as a line.
  R.errorChart = function (metric) {
    var found = points(metric), count = R.data.operators.length, s = scale(found);
    var W = 1100, H = 340, L = 64, T = 34, B = 46, plot = { w: W - L - 16, h: H - T - B };
    function x(index) { return L + (count < 2 ? plot.w / 2 : 10 + (plot.w - 20) * index / (count - 1)); }
    function y(error) {
      if (error.off) return T - 16;
      if (!(error.value > 0)) return H - B + 12;
      return T + plot.h * (s.high - Math.log10(error.value)) / (s.high - s.low);
    }
    var root = svg("svg", { viewBox: "0 0 " + W + " " + H, "class": "chart errors" + (count > 150 ? " many" : ""), role: "application", tabindex: "0",
      "aria-label": "Error of every operator along the net, " + R.metrics[metric].name + ". Left and right arrows go from operator to operator, Enter opens one." });
    ticks(s.low, s.high).forEach(function (n) {
      var at = T + plot.h * (s.high - n) / (s.high - s.low);
      root.appendChild(svg("line", { x1: L, x2: W - 16, y1: at, y2: at, "class": "rule" }));
      root.appendChild(svg("text", { x: L - 8, y: at + 4, "class": "tick end" }, power(n)));
    });
    root.appendChild(svg("text", { x: L - 8, y: T - 12, "class": "tick end" }, "differs"));
    root.appendChild(svg("text", { x: L - 8, y: H - B + 16, "class": "tick end" }, "equal"));
    root.appendChild(svg("line", { x1: L, x2: W - 16, y1: T, y2: T, "class": "rule faint" }));
    var every = Math.max(1, Math.ceil(count / 20));
    R.data.operators.forEach(function (op, i) {
      if (i % every === 0) root.appendChild(svg("text", { x: x(i), y: H - B + 30, "class": "tick middle" }, op.index));
    });
    root.appendChild(svg("text", { x: L + plot.w / 2, y: H - 2, "class": "tick middle" }, "operator index"));
    root.appendChild(limitLine(found, x, y));
    root.appendChild(series(found, "run", x, y));
    var sorted = found.slice().sort(function (a, b) { return weight(a) - weight(b); });
    sorted.forEach(function (p) {
      var mark = point(p, x(p.op.index), y(p.error), metric);
      root.appendChild(mark);
    });
    var cursor = svg("line", { y1: T - 20, y2: H - B + 18, "class": "cursor", visibility: "hidden" });
    root.appendChild(cursor);
    steer(root, cursor, x, metric);
    return root;
  };

  // What matters is drawn last: wrong ones over right ones, the run over the operators alone, ORIGIN over all.
  function weight(p) { return (p.error.bad ? 2 : 0) + (p.side === "run" ? 1 : 0) + (R.label(p.op) === "ORIGIN" ? 4 : 0); }

  function series(found, side, x, y) {
    var d = "", last = null;
    found.forEach(function (p) {
      if (p.side !== side || p.error.off) { if (p.side === side) last = null; return; }
      d += (last === null || p.op.index - last > 1 ? "M" : "L") + x(p.op.index).toFixed(1) + " " + y(p.error).toFixed(1);
      last = p.op.index;
    });
    return svg("path", { d: d || "M0 0", "class": "series " + side });
  }

  function limitLine(found, x, y) {
    var d = "", group = svg("g", {});
    found.forEach(function (p) {
      if (!(p.error.limit > 0) || p.side !== "run") return;
      d += (d ? "L" : "M") + x(p.op.index).toFixed(1) + " " + y({ value: p.error.limit }).toFixed(1);
    });
    if (!d) return group;
    var first = found.filter(function (p) { return p.error.limit > 0; })[0];
    group.appendChild(svg("path", { d: d, "class": "limit" }));
    group.appendChild(svg("text", { x: x(first.op.index) + 4, y: y({ value: first.error.limit }) - 6, "class": "limit-text" }, "tolerance"));
    return group;
  }

  function words(op, side, error, metric) {
    return R.opTitle(op) + "\n" + side + ": " + (error.off ? error.off : error.value > 0 ? R.show(error.value, 3) : "equal") + "\n" + R.label(op);
  }

  function point(p, cx, cy, metric) {
    var small = R.data.operators.length > 150 && R.label(p.op) !== "ORIGIN", r = small ? 3 : 6;
    var shape = p.error.off ? cross(cx, cy) : p.side === "run" ? svg("circle", { cx: cx, cy: cy, r: small ? 2.2 : 4 })
      : svg("path", { d: "M" + cx + " " + (cy - r) + "l" + r + " " + r + "l" + -r + " " + r + "l" + -r + " " + -r + "z" });
    shape.setAttribute("class", "mark " + p.side + (p.error.bad ? " bad" : "") + " l-" + R.label(p.op));
    shape.appendChild(svg("title", {}, words(p.op, p.side, p.error, metric)));
    shape.addEventListener("click", function () { location.hash = "#op/" + p.op.index; });
    return shape;
  }
  function cross(x, y) { return svg("path", { d: "M" + (x - 4) + " " + (y - 4) + "l8 8m0 -8l-8 8" }); }

  function steer(root, cursor, x, metric) {
    var at = -1, ops = R.data.operators;
    root.addEventListener("keydown", function (event) {
      var step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
      if (event.key === "Home") { at = 0; step = 0; }
      if (event.key === "End") { at = ops.length - 1; step = 0; }
      if (event.key === "Enter" && at >= 0) { location.hash = "#op/" + ops[at].index; return; }
      if (step === undefined) return;
      event.preventDefault();
      at = Math.max(0, Math.min(ops.length - 1, at + step));
      cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); cursor.setAttribute("visibility", "visible");
      R.say(["run", "alone"].map(function (side) {
        var error = R.error(ops[at], side, metric);
        return error ? words(ops[at], side, error, metric) : R.opTitle(ops[at]) + " " + side + ": not compared";
      }).join("; "));
    });
  }

  // One or two histograms on common bins, counts on a logarithmic scale.
  R.histogram = function (found, names, title) {
    var W = 360, H = 150, L = 8, B = 22, T = 10, bins = found.counts[0].length;
    var most = Math.max.apply(null, found.counts.map(function (c) { return Math.max.apply(null, c); }).concat(1));
    var root = svg("svg", { viewBox: "0 0 " + W + " " + H, "class": "chart histogram", role: "img",
      "aria-label": title + ": " + names.join(" and ") + " from " + R.show(found.low, 3) + " to " + R.show(found.high, 3) });
    found.counts.forEach(function (counts, side) {
      var d = "M" + L + " " + (H - B), wide = (W - 2 * L) / bins;
      counts.forEach(function (count, i) {
        var top = H - B - (H - B - T) * Math.log1p(count) / Math.log1p(most);
        d += "V" + top.toFixed(1) + "H" + (L + wide * (i + 1)).toFixed(1);
      });
      root.appendChild(svg("path", { d: d + "V" + (H - B) + "z", "class": "h-" + names[side] }));
    });
    root.appendChild(svg("line", { x1: L, x2: W - L, y1: H - B, y2: H - B, "class": "axis" }));
    if (found.low < 0 && found.high > 0) {
      var zero = L + (W - 2 * L) * -found.low / (found.high - found.low);
      root.appendChild(svg("line", { x1: zero, x2: zero, y1: T, y2: H - B, "class": "rule" }));
    }
    root.appendChild(svg("text", { x: L, y: H - 6, "class": "tick" }, R.show(found.low, 4)));
    root.appendChild(svg("text", { x: W - L, y: H - 6, "class": "tick end" }, R.show(found.high, 4)));
    root.appendChild(svg("text", { x: W - L, y: T + 2, "class": "tick end" }, "most " + most));
    var out = found.left_out.map(function (n, i) { return n ? names[i] + ": " + n + " NaN or Inf" : ""; }).filter(Boolean).join(", ");
    var legend = names.length > 1 ? el("span", { "class": "legend" }, names.map(function (name) { return R.key(name, name); })) : null;
    return el("figure", {}, [el("figcaption", {}, [title, legend, el("span", { "class": "quiet" }, " counts on a log scale" + (out ? "; " + out + " left out" : ""))]), root]);
  };

  // The values of a vector, both sides.
  R.lineChart = function (line) {
    var W = 720, H = 180, L = 54, B = 20, T = 10, all = (line.ours || []).concat(line.golden || []).map(R.num).filter(isFinite);
    var low = Math.min.apply(null, all), high = Math.max.apply(null, all), count = Math.max((line.ours || []).length, (line.golden || []).length);
    if (!all.length) return el("p", { "class": "quiet" }, "no finite values");
    if (low === high) { low -= 0.5; high += 0.5; }
    var root = svg("svg", { viewBox: "0 0 " + W + " " + H, "class": "chart values", role: "img", "aria-label": "the values, from " + R.show(low, 4) + " to " + R.show(high, 4) });
    [low, (low + high) / 2, high].forEach(function (v) {
      var y = T + (H - T - B) * (high - v) / (high - low);
      root.appendChild(svg("line", { x1: L, x2: W - 8, y1: y, y2: y, "class": "rule" }));
      root.appendChild(svg("text", { x: L - 6, y: y + 4, "class": "tick end" }, R.show(v, 3)));
    });
    ["golden", "ours"].forEach(function (side) {
      var d = "", gap = true, values = line[side] || [];
      values.forEach(function (value, i) {
        value = R.num(value);
        if (!isFinite(value)) { gap = true; return; }
        var x = (L + (W - L - 8) * (i + 0.5) / count).toFixed(1), y = (T + (H - T - B) * (high - value) / (high - low)).toFixed(1);
        d += (gap ? "M" : "L") + x + " " + y;
        if (gap && (i + 1 === values.length || !isFinite(R.num(values[i + 1])))) root.appendChild(svg("circle", { cx: x, cy: y, r: side === "ours" ? 3 : 5, "class": "dot-" + side }));
        gap = false;
      });
      if (d) root.appendChild(svg("path", { d: d, "class": "line-" + side }));
    });
    var sides = ["ours", "golden"].filter(function (side) { return line[side]; });
    var legend = sides.length > 1 ? el("span", { "class": "legend" }, sides.map(function (side) { return R.key(side, side === "ours" ? "Caffe2" : "reference"); })) : null;
    return el("figure", {}, [el("figcaption", {}, ["values", legend, el("span", { "class": "quiet" }, line.size > count ? " the first " + count + " of " + line.size : " all " + count)]), root]);
  };
})();
