// Small helpers: elements, numbers, names. Everything hangs on one object, R.
"use strict";
var R = { data: JSON.parse(document.getElementById("data").textContent) };

(function () {
  var SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    Object.keys(attributes || {}).forEach(function (key) {
      var value = attributes[key];
      if (value === null || value === undefined || value === false) return;
      if (key === "on") Object.keys(value).forEach(function (name) { node.addEventListener(name, value[name]); });
      else node.setAttribute(key, value === true ? "" : value);
    });
    (Array.isArray(children) ? children : children === undefined ? [] : [children]).forEach(function (child) {
      if (child === null || child === undefined || child === false) return;
      node.appendChild(typeof child === "object" ? child : document.createTextNode(String(child)));
    });
    return node;
  }

  R.el = function (name, attributes, children) { return fill(document.createElement(name), attributes, children); };
  R.svg = function (name, attributes, children) { return fill(document.createElementNS(SVG, name), attributes, children); };

  // A number of our JSON: NaN and Inf come as text or as {float: text}.
  R.num = function (value) {
    if (value && typeof value === "object" && "float" in value) value = value.float;
    if (value === "inf") return Infinity;
    if (value === "-inf") return -Infinity;
    if (value === "nan") return NaN;
    return value === null || value === undefined ? null : Number(value);
  };
  R.show = function (value, digits) {
    var number = typeof value === "boolean" ? value : R.num(value);
    if (number === null) return "–";
    if (typeof number === "boolean") return String(number);
    if (!isFinite(number)) return isNaN(number) ? "NaN" : number > 0 ? "Inf" : "-Inf";
    var rounded = Number(number.toPrecision(digits || 6)), power = Math.floor(Math.log10(Math.abs(rounded)));
    if (rounded !== 0 && (power < -4 || power >= Math.max(6, digits || 6))) return scientific(rounded);
    return String(rounded);
  };
  // As the terminal writes them: 1.67e-06.
  function scientific(number) {
    return number.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  R.shape = function (shape) { return shape && shape.length ? shape.join(" × ") : shape ? "scalar" : "–"; };
  R.seconds = function (value) {
    if (value === null || value === undefined) return "–";
    return value < 1e-3 ? R.show(value * 1e6, 3) + " µs" : value < 1 ? R.show(value * 1e3, 3) + " ms" : R.show(value, 3) + " s";
  };
  R.percent = function (part, whole) { return part && whole ? R.show(100 * part / whole, 3) + "%" : "0"; };

  // A swatch and its word, for legends.
  R.key = function (kind, text) { return R.el("span", { "class": "keyed" }, [R.el("span", { "class": "swatch s-" + kind }, ""), text]); };

  R.say = function (text) { document.getElementById("live").textContent = text; };
  R.blobName = function (blob) { return blob.name + (blob.version > 1 ? "@" + blob.version : ""); };
  R.opTitle = function (op) { return op.index + " " + op.type + (op.outputs.length ? " → " + op.outputs.join(", ") : ""); };
  R.link = function (op, text) { return R.el("a", { href: "#op/" + op.index }, text || R.opTitle(op)); };

  // The label of a blame, or how the operator ended where nothing was compared.
  R.label = function (op) {
    if (op.label) return op.label;
    return { ok: "RAN", failed: "FAILED", died: "DIED" }[op.status] || "NOT RUN";
  };
  R.badge = function (label) { return R.el("span", { "class": "badge b-" + label.replace(" ", "-") }, label); };
  R.meanings = {
    ORIGIN: "wrong even on golden inputs: the error starts here",
    PROPAGATED: "wrong in the run, right on golden inputs",
    RECOVERED: "its inputs were wrong in the run, its outputs are right again",
    OK: "right in both",
    UNCOMPARED: "nothing to compare with; the reason is given",
    RAN: "ran", FAILED: "raised an error", DIED: "ended its process", "NOT RUN": "did not run"
  };

  // One of the three figures that the chart and the graph show, of one side; `limit` is what was allowed.
  R.metrics = {
    ratio: { name: "worst difference, in units of what is allowed", of: function (c) { return R.num(c.ratio); }, limit: function () { return 1; } },
    rel_l2: { name: "relative L2 of the difference", of: function (c) { return R.num(c.rel_l2); }, limit: function (c) { return R.num(c.rtol); } },
    max_abs: {
      name: "largest absolute difference", of: function (c) { return R.num(c.max_abs); },
      limit: function (c) { var b = R.num(c.worst_reference); return R.num(c.atol) + (R.num(c.slack) || 0) + R.num(c.rtol) * Math.abs(b === null || !isFinite(b) ? 0 : b); }
    }
  };
  R.error = function (op, side, metric) {
    var found = op[side];
    if (!found) return null;
    if (found.status === "failed" || found.status === "died") return { off: found.status, bad: true };
    var c = found.comparison;
    if (!c) return null;
    var value = R.metrics[metric].of(c), bad = c.verdict === "FAIL";
    if (value === null || !isFinite(value)) return bad ? { off: c.reason, bad: true } : c.verdict === "PASS" ? { value: 0, bad: false } : null;
    return { value: value, limit: R.metrics[metric].limit(c), bad: bad };
  };
})();
