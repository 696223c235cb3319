// The page of one operator: why it has its label, its outputs on both sides, its definition.
"use strict";
(function () {
  var el = R.el;

  R.table = function (caption, head, rows, right) {
    return el("div", { "class": "scroll" }, el("table", {}, [
      caption ? el("caption", {}, caption) : null,
      head.some(Boolean) ? el("thead", {}, el("tr", {}, head.map(function (h, i) { return el("th", { scope: "col", "class": right && right.indexOf(i) >= 0 ? "right" : null }, h); }))) : null,
      el("tbody", {}, rows.map(function (row) {
        return el("tr", {}, row.map(function (cell, i) {
          return el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, "class": right && right.indexOf(i) >= 0 ? "right" : null }, cell);
        }));
      }))]));
  };

  function comparisons(op) {
    var sides = ["run", "alone"].filter(function (s) { return op[s]; });
    if (!sides.length) return null;
    var rows = [["status", function (s) { return s.status; }], ["verdict", function (s) { return s.comparison ? s.comparison.verdict : "–"; }]];
    [["max_abs", "max |d|"], ["max_rel", "max relative"], ["rel_l2", "relative L2"], ["cosine", "cosine"], ["mean", "mean d"], ["ulp", "ULP"], ["ratio", "worst / allowed"]].forEach(function (m) {
      rows.push([m[1], function (s) { return s.comparison ? (s.comparison.equal ? (m[0] === "cosine" ? "1" : "0") : R.show(s.comparison[m[0]])) : "–"; }]);
    });
    rows.push(["elements out of tolerance", function (s) { var c = s.comparison; return c ? (c.bad || 0) + " of " + (c.compared || 0) : "–"; }]);
    rows.push(["worst at", function (s) { var c = s.comparison; return c && c.worst && !c.equal ? "[" + c.worst.join(", ") + "]: " + R.show(c.worst_actual) + " against " + R.show(c.worst_reference) : "–"; }]);
    rows.push(["NaN, Inf (reference)", function (s) { var c = s.comparison; return c ? c.nan + ", " + c.inf + " (" + c.reference_nan + ", " + c.reference_inf + ")" : "–"; }]);
    rows.push(["allowed", function (s) { var c = s.comparison; return c ? "rtol " + R.show(c.rtol) + ", atol " + R.show(c.atol) + (c.slack ? ", slack " + R.show(c.slack, 3) : "") : "–"; }]);
    return R.table("Against the reference", [""].concat(sides.map(function (s) { return s === "run" ? "in the run" : "alone, on golden inputs"; })),
      rows.map(function (row) { return [row[0]].concat(sides.map(function (s) { return row[1](op[s]); })); }).filter(told));
  }
  function told(row) { return row.slice(1).some(function (cell) { return cell !== "–" && cell !== "0 of 0" && cell !== "0, 0 (0, 0)"; }); }

  function figures(blob) {
    var head = [""], sides = [];
    if (blob.ours) { head.push(blob.side === "alone" ? "Caffe2, alone" : "Caffe2"); sides.push(blob.ours); }
    if (blob.golden) { head.push("reference"); sides.push(blob.golden); }
    if (!sides.length) return el("p", { "class": "quiet" }, "no value was kept");
    var rows = [["dtype", function (s) { return s.dtype || s.kind; }], ["shape", function (s) { return R.shape(s.shape); }]];
    var numbers = sides.some(function (s) { return s.kind !== "string" && s.dtype !== "string"; });
    if (numbers) ["min", "max", "mean", "std"].forEach(function (k) { rows.push([k, function (s) { return R.show(s[k]); }]); });
    if (numbers) rows.push(["zeros", function (s) { var n = (s.shape || []).reduce(function (a, b) { return a * b; }, 1); return s.zeros + (s.zeros ? " (" + R.percent(s.zeros, n) + ")" : ""); }]);
    if (numbers) rows.push(["NaN", function (s) { return s.nan; }], ["Inf", function (s) { return s.inf; }]);
    if (sides.some(function (s) { return s.scale; })) rows.push(["scale, zero point", function (s) { return R.show(s.scale) + ", " + R.show(s.zero_point); }]);
    return R.table("Figures", head, rows.map(function (row) { return [row[0]].concat(sides.map(function (s) { return row[1](s); })); }), [1, 2]);
  }

  function pictures(blob) {
    var p = blob.pictures;
    if (!p) return null;
    var names = { ours: blob.side === "alone" ? "Caffe2, alone" : "Caffe2", golden: "reference", difference: "difference" };
    var shown = ["ours", "golden", "difference"].filter(function (k) { return p.maps[k]; }).map(function (key) {
      var ends = key === "difference" ? (p.limit === null ? null : [-p.limit, p.limit]) : p.range, from = ends && ends[0], to = ends && ends[1];
      var colours = ends ? "colours from " + R.show(from, 3) + " to " + R.show(to, 3) : "no finite value";
      return el("figure", { "class": "map" }, [el("figcaption", {}, names[key]),
        el("img", { src: p.maps[key], alt: names[key] + ": " + p.labels.length + " of " + p.total + " maps of " + p.size.join(" by ") + ", " + colours }),
        ends ? el("div", { "class": "key " + (key === "difference" ? "apart" : "along") }, [el("span", {}, R.show(from, 3)), el("span", {}, R.show(to, 3))]) : el("div", { "class": "quiet" }, colours)]);
    });
    var named = p.labels.filter(Boolean);
    return el("div", {}, [el("h4", {}, "Feature maps"), el("p", { "class": "quiet" }, [(named.length ? blob.name + named[0] + (named.length > 1 ? " to " + named[named.length - 1] : "") + ", " : "") + p.labels.length + " of " + p.total + " maps of " + p.size.join(" × ")].concat((p.marks || []).map(function (mark) { return R.key(mark.replace(/[+-]/, function (s) { return s === "+" ? "plus-" : "minus-"; }), mark); }))),
      el("div", { "class": "maps" }, shown)]);
  }

  function worst(blob) {
    if (!blob.worst || !blob.worst.length) return null;
    return R.table("Worst positions", ["index", "Caffe2", "reference", "difference"], blob.worst.map(function (w) {
      return ["[" + w[0].join(", ") + "]", R.show(w[1]), R.show(w[2]), R.show(w[3], 4)];
    }), [1, 2, 3]);
  }

  function strings(found) {
    return el("div", {}, ["ours", "golden"].filter(function (side) { return found[side]; }).map(function (side) {
      return el("figure", {}, [el("figcaption", {}, [side === "ours" ? "Caffe2" : "reference", el("span", { "class": "quiet" }, found[side].length < found.size ? " the first " + found[side].length + " of " + found.size : "")]),
        el("pre", { tabindex: "0" }, found[side].map(function (text) { return JSON.stringify(text); }).join("\n"))]);
    }));
  }

  R.blobSection = function (blob, op) {
    var parts = [el("h3", {}, ["Blob ", el("code", {}, R.blobName(blob))])];
    if (!blob.ours && blob.kind !== "tensor" && !blob.golden) parts.push(el("p", { "class": "note" }, "It is " + blob.kind + ": no value."));
    var histograms = [];
    if (blob.histogram) histograms.push(R.histogram(blob.histogram, blob.sides === 2 ? ["Caffe2", "reference"] : [blob.ours ? "Caffe2" : "reference"], "Values"));
    if (blob.difference) histograms.push(R.histogram(blob.difference, ["difference"], "Difference"));
    parts.push(el("div", { "class": "columns" }, [figures(blob), histograms.length ? el("div", {}, histograms) : null, worst(blob)]));
    parts.push(pictures(blob));
    (blob.remarks || []).forEach(function (text) { parts.push(el("p", { "class": "note" }, text)); });
    if (blob.strings) parts.push(strings(blob.strings));
    if (blob.line) parts.push(R.lineChart(blob.line));
    if (blob.left_out) parts.push(el("p", { "class": "quiet" }, "Its pictures were left out to keep this file small; c2step report --size gives it more room."));
    if (R.slices) parts.push(R.slices(blob, op));
    return el("section", { "class": "blob" }, parts);
  };

  R.findingRow = function (f) {
    return el("div", { "class": "finding e-" + f.effect }, [el("div", { "class": "row" }, [el("span", { "class": "badge b-" + f.effect }, f.effect), el("code", {}, f.code), el("strong", {}, f.op_type + " " + f.node)]),
      el("p", {}, f.message), f.repair ? el("p", { "class": "quiet" }, ["--import repaired: ", f.repair]) : null]);
  };

  function neighbours(op) {
    var before = [], after = [];
    R.data.operators.forEach(function (other) {
      if (other.index < op.index && other.outputs.some(function (n) { return op.inputs.indexOf(n) >= 0; })) {
        before = before.filter(function (b) { return !b.outputs.every(function (n) { return other.outputs.indexOf(n) >= 0; }); });
        before.push(other);
      }
      if (other.index > op.index && other.inputs.some(function (n) { return op.outputs.indexOf(n) >= 0; })) after.push(other);
    });
    function list(found, word) { return found.length ? el("span", {}, [word + " "].concat(found.slice(0, 8).reduce(function (a, o, i) { return a.concat(i ? ", " : "", R.link(o)); }, []))) : null; }
    return el("p", { "class": "neighbours" }, [list(before, "Reads from"), list(after, "Read by")]);
  }

  R.operatorSection = function (op, heading) {
    var label = R.label(op);
    var parts = [el(heading || "h2", { "class": "op-title" }, [R.badge(label), " ", R.opTitle(op)]),
      el("p", { "class": "quiet" }, [R.meanings[label] || "", op.node ? " · ONNX node " + op.node : "", op.seconds ? " · " + R.seconds(op.seconds) : ""])];
    if (op.reason) parts.push(el("p", { "class": "reason" }, op.reason));
    if (op.error && op.error !== op.reason) parts.push(el("p", { "class": "reason" }, op.error));
    if (op.hints && op.hints.length) parts.push(el("ul", { "class": "hints" }, op.hints.map(function (h) { return el("li", {}, h); })));
    parts.push(neighbours(op), comparisons(op));
    op.blobs.forEach(function (blob) { parts.push(R.blobSection(blob, op)); });
    if (!op.blobs.length && !op.run) parts.push(el("p", { "class": "quiet" }, "It did not run, so it has no outputs."));
    if (op.findings.length) parts.push(el("h3", {}, "Lint"), el("div", {}, op.findings.map(function (i) { return R.findingRow(R.data.findings[i]); })));
    var texts = op.definition.split("\nfrom ONNX node ");
    parts.push(el("h3", {}, "Definition"), el("pre", { tabindex: "0" }, texts[0]));
    if (texts[1]) parts.push(el("h3", {}, "ONNX node " + texts[1].split(":\n")[0]), el("pre", { tabindex: "0" }, texts[1].split(":\n").slice(1).join(":\n")));
    return el("article", { "class": "operator", id: "op-" + op.index }, parts);
  };

  R.operatorView = function (main, index) {
    var ops = R.data.operators, at = ops.findIndex(function (op) { return op.index === index; });
    if (at < 0) { main.appendChild(el("p", { "class": "note" }, "There is no operator " + index + ".")); return; }
    function go(to, text) { return to ? el("a", { href: "#op/" + to.index, "class": "step", title: R.opTitle(to) }, text) : el("span", { "class": "step off" }, text); }
    var wrong = ops.filter(function (op, i) { return i > at && (op.label === "ORIGIN" || op.label === "PROPAGATED"); })[0];
    main.appendChild(el("div", { "class": "row steps" }, [go(ops[at - 1], "← previous"), go(ops[at + 1], "next →"), wrong ? go(wrong, "next wrong →") : null]));
    main.appendChild(R.operatorSection(ops[at]));
  };
})();
