// The views, what the address says, and printing.
"use strict";
(function () {
  var el = R.el, data = R.data, main = document.getElementById("main");
  var VIEWS = [["summary", "Summary"], ["graph", "Graph"], ["operators", "Operators"], ["about", "About"]];

  function fact(name, value) { return el("div", { "class": "fact" }, [el("span", { "class": "quiet" }, name), el("strong", {}, value)]); }

  function answer() {
    var blame = data.blame;
    if (!blame) return data.session ? standing() : ended();
    var found = data.operators.filter(function (op) { return op.label === "ORIGIN"; });
    if (!found.length) {
      var words = blame.verdict === "PASS" ? "Every operator gives what the reference gives" + (blame.aside ? "; " + blame.aside + " values, inside ONNX nodes or not computed, have no golden value by nature." : ".") : blame.verdict === "FAIL"
        ? "No operator is wrong on golden inputs; the error grows on the way." : "Not everything could be compared.";
      return el("div", { "class": "card v-" + blame.verdict }, el("p", { "class": "big" }, words));
    }
    return el("div", {}, found.map(function (op, i) {
      return el("div", { "class": "card v-FAIL" }, [
        el("div", { "class": "row" }, [R.badge("ORIGIN"), el("a", { href: "#op/" + op.index, "class": "big origin-link" }, R.opTitle(op)), op.node ? el("span", { "class": "quiet" }, "ONNX node " + op.node) : null]),
        el("p", { "class": "reason" }, op.reason),
        op.hints.length ? el("ul", { "class": "hints" }, op.hints.map(function (h) { return el("li", {}, h); })) : null]);
    }));
  }
  function standing() {
    var s = data.session, next = data.operators[s.position], bad = data.operators.filter(function (op) { return op.status === "failed" || op.status === "died"; });
    var words = next ? ["The session stands before ", R.link(next), ", " + s.position + " of " + s.size + " operators."] : ["The session stands at the end of the net, after " + s.size + " operators."];
    return el("div", { "class": "card" }, [el("p", { "class": "big" }, words)].concat(bad.map(function (op) {
      return el("div", {}, [el("div", { "class": "row" }, [R.badge(R.label(op)), R.link(op)]), el("p", { "class": "reason" }, op.error)]);
    })));
  }
  function ended() {
    var end = data.header.ended, bad = data.operators.filter(function (op) { return op.status === "failed" || op.status === "died"; });
    return el("div", { "class": "card" }, bad.length ? bad.map(function (op) {
      return el("div", {}, [el("div", { "class": "row" }, [R.badge(R.label(op)), R.link(op)]), el("p", { "class": "reason" }, op.error)]);
    }) : el("p", { "class": "big" }, "A capture of " + data.operators.length + " operators" + (end ? ", ended by " + end.reason : "") + "; nothing was compared."));
  }

  function counts() {
    var blame = data.blame, ops = data.operators, facts = [fact("operators", ops.length)];
    if (blame) {
      [["compared", "outputs compared"], ["failed", "out of tolerance"], ["skipped", "skipped"], ["missing", "missing"]].forEach(function (k) { facts.push(fact(k[1], blame[k[0]])); });
      if (blame.aside) facts.push(fact("no golden value by nature", blame.aside));
      if (data.reference.source) facts.push(fact("reference", (data.reference.meta || {}).engine || data.reference.source));
    }
    var spent = ops.reduce(function (sum, op) { return sum + (op.seconds || 0); }, 0);
    if (spent) facts.push(fact("time in operators", R.seconds(spent)));
    if (data.header.import) facts.push(fact("import", data.header.import));
    if ((data.header.versions || {}).torch) facts.push(fact("Caffe2 of torch", data.header.versions.torch));
    return el("div", { "class": "facts" }, facts);
  }

  function chart() {
    if (!data.blame) return nothingCompared();
    var holder = el("div", {}), choice = el("select", { id: "metric", on: { change: show } }, Object.keys(R.metrics).map(function (m) { return el("option", { value: m }, R.metrics[m].name); }));
    function show() { holder.textContent = ""; holder.appendChild(R.errorChart(choice.value)); }
    show();
    return el("section", {}, [el("h2", {}, "Error along the net"), el("div", { "class": "row" }, [el("label", { "for": "metric" }, "Show the"), choice,
      el("span", { "class": "legend" }, [el("span", { "class": "dot run" }, ""), "in the run", el("span", { "class": "dot alone" }, ""), "alone, on golden inputs", R.key("bad", "out of tolerance"), el("span", { "class": "keyed" }, [el("span", { "class": "cross", "aria-hidden": "true" }, "×"), "nothing to measure: it failed, or shapes or NaN differ"])])]), holder]);
  }
  function nothingCompared() {
    var rows = data.operators.filter(function (op) { return op.blobs.some(function (b) { return b.ours && (b.ours.nan || b.ours.inf); }); });
    return rows.length ? el("section", {}, [el("h2", {}, "NaN and Inf"), el("ul", {}, rows.slice(0, 40).map(function (op) { return el("li", {}, R.link(op)); }))]) : null;
  }

  function uncompared() {
    var blame = data.blame;
    if (!blame || blame.verdict !== "INCONCLUSIVE" || !blame.reasons.length) return null;
    return el("section", {}, [el("h2", {}, "Not compared"), el("ul", {}, blame.reasons.slice(0, 60).map(function (r) { return el("li", {}, r); }))]);
  }
  function lint() {
    return data.findings.length ? el("section", {}, [el("h2", {}, "Lint"), el("div", {}, data.findings.map(R.findingRow))]) : null;
  }
  function summaryView(into) { [el("h2", { "class": "hidden-but-read" }, "Summary"), answer(), counts(), chart(), uncompared(), lint()].forEach(function (part) { if (part) into.appendChild(part); }); }

  function operatorsView(into) {
    var body = el("tbody", {}), count = el("span", { "class": "quiet", role: "status" });
    var box = el("input", { type: "search", id: "table-search", placeholder: "index, type, blob, node …", on: { input: show } });
    var labels = ["all"].concat(Object.keys(R.meanings).filter(function (l) { return data.operators.some(function (op) { return R.label(op) === l; }); }));
    var pick = el("select", { id: "table-label", on: { change: show } }, labels.map(function (l) { return el("option", {}, l); }));
    function error(op, side) {
      var e = R.error(op, side, "max_abs");
      return el("span", { "class": e && e.bad ? "bad" : null }, e ? (e.off ? "differs" : e.value ? R.show(e.value, 3) : "equal") : "–");
    }
    var sort = { by: 0, down: false };
    function size(op) { var s = op.blobs[0] && op.blobs[0].ours && op.blobs[0].ours.shape; return s ? s.reduce(function (a, b) { return a * b; }, 1) : -1; }
    function measured(side) { return function (op) { var e = R.error(op, side, "max_abs"); return !e ? -1 : e.off ? Infinity : e.value; }; }
    function rank(op) { return Object.keys(R.meanings).indexOf(R.label(op)); }
    function sorted(rows) {
      var key = columns[sort.by][1];
      return rows.sort(function (a, b) {
        var x = key(a), y = key(b), order = x < y ? -1 : x > y ? 1 : a.index - b.index;
        return sort.down ? -order : order;
      });
    }
    function show() {
      body.textContent = "";
      var rows = data.operators.filter(function (op) { return (pick.value === "all" || R.label(op) === pick.value) && (!box.value || R.matches(op, box.value)); });
      sorted(rows).forEach(function (op) {
        body.appendChild(el("tr", {}, [el("td", { "class": "right" }, op.index), el("th", { scope: "row" }, R.link(op, op.type)), el("td", { "class": "names" }, el("code", {}, op.outputs.join(", "))),
          el("td", {}, op.blobs[0] && op.blobs[0].ours ? R.shape(op.blobs[0].ours.shape) : "–"), el("td", {}, R.badge(R.label(op))),
          data.blame ? el("td", { "class": "right" }, error(op, "run")) : null, data.blame ? el("td", { "class": "right" }, error(op, "alone")) : null,
          el("td", { "class": "right" }, R.seconds(op.seconds)), el("td", { "class": "why" }, op.label === "PROPAGATED" && !(op.run || {}).error ? "" : op.reason || op.error || "")]));
      });
      count.textContent = rows.length + " of " + data.operators.length;
    }
    var columns = [["#", function (op) { return op.index; }], ["operator", function (op) { return op.type; }], ["outputs", function (op) { return op.outputs.join(", "); }], ["shape", size], ["label", rank]]
      .concat(data.blame ? [["run max |d|", measured("run")], ["alone max |d|", measured("alone")]] : [], [["time", function (op) { return op.seconds || -1; }], ["reason", function (op) { return op.reason || op.error || ""; }]]);
    var heads = columns.map(function (column, i) {
      return el("th", { scope: "col", "aria-sort": i ? "none" : "ascending" }, el("button", { type: "button", "class": "sort", title: "Sort by " + column[0], on: { click: function () {
        sort = { by: i, down: sort.by === i && !sort.down };
        heads.forEach(function (head, at) { head.setAttribute("aria-sort", at !== i ? "none" : sort.down ? "descending" : "ascending"); });
        show();
      } } }, column[0]));
    });
    into.appendChild(el("section", {}, [el("h2", {}, "Operators"), el("div", { "class": "tools" }, [el("label", { "for": "table-search" }, "Search"), box, el("label", { "for": "table-label" }, "Label"), pick, count]),
      el("div", { "class": "scroll" }, el("table", { "class": "list" }, [el("thead", {}, el("tr", {}, heads)), body]))]));
    show();
  }

  function pairs(title, object) {
    var keys = Object.keys(object || {}).filter(function (k) { return object[k] !== null && object[k] !== ""; });
    return keys.length ? R.table(title, ["", ""], keys.map(function (k) { return [k, typeof object[k] === "object" ? JSON.stringify(object[k]) : String(object[k])]; })) : null;
  }
  function list(title, items) { return items && items.length ? el("section", {}, [el("h3", {}, title), el("ul", {}, items.map(function (i) { return el("li", {}, typeof i === "string" ? i : JSON.stringify(i)); }))]) : null; }
  function inputs() {
    var given = data.header.inputs || {};
    if (Array.isArray(given)) { var byName = {}; given.forEach(function (i) { byName[i.name] = i; }); given = byName; }
    return Object.keys(given).length ? R.table("Inputs", ["name", "dtype", "shape"], Object.keys(given).map(function (n) { return [n, given[n].dtype, R.shape(given[n].shape)]; })) : null;
  }
  function aboutView(into) {
    var h = data.header, r = data.reference;
    [el("h2", {}, "About"), el("div", { "class": "columns" }, [pairs("Model", Object.assign({ file: h.model, import: h.import, outputs: (h.outputs || []).join(", ") }, h.files)), pairs("SHA-256", typeof h.sha256 === "object" ? h.sha256 : { model: h.sha256 }),
      pairs("What ran it", h.versions), r.source ? pairs("Reference", Object.assign({ source: r.source }, (r.meta || {}), { versions: null }, (r.meta || {}).versions)) : null, inputs(), pairs("Preprocessing", typeof h.preprocessing === "string" ? { preprocessing: h.preprocessing } : h.preprocessing)]),
      list("What the importer changed", h.notes), list("Inputs", h.input_notes), list("Reference", r.notes), data.findings.length ? el("section", {}, [el("h3", {}, "Lint"), el("div", {}, data.findings.map(R.findingRow))]) : null,
      el("p", { "class": "quiet" }, "Written by c2step " + data.c2step + ". The graph is laid out by dagre.")].forEach(function (part) { if (part) into.appendChild(part); });
  }

  R.views = { summary: summaryView, graph: function (into) { R.graphView(into); }, operators: operatorsView, about: aboutView };
  R.tabs = VIEWS;

  R.route = function () {
    var words = location.hash.slice(1).split("/"), name = words[0] || "summary";
    if (name === "main" || name === "top") return;
    data = R.data;
    main.textContent = "";
    main.className = "view-" + name;
    if (name === "op") R.operatorView(main, Number(words[1]));
    else (R.views[name] || summaryView)(main);
    Array.prototype.forEach.call(document.querySelectorAll("#nav a"), function (a) { a.setAttribute("aria-current", a.getAttribute("href") === "#" + name ? "page" : "false"); });
    window.scrollTo(0, 0);
  };

  function theme() {
    var root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  // What the keys do: a dialog that the button and ? open, and Escape closes.
  var KEYS = [["Tab, Shift+Tab", "to the next or previous link, field, chart or graph"], ["?", "this list"], ["Escape", "close it"],
    ["← →, Page Up, Page Down", "in a chart or the graph: the operator before or after, 20 at once"], ["↑ ↓", "in the graph: the operator before or after"],
    ["Home, End", "in a chart or the graph: the first or last operator"], ["Enter", "in a chart or the graph: open the operator's page"],
    ["+ − 0", "in the graph: larger, smaller, the whole net"], ["Enter, Shift+Enter", "in the graph's search: the next or previous one found"]];
  function keys() {
    var close = el("button", { type: "button", on: { click: function () { dialog.close(); } } }, "Close");
    var dialog = el("dialog", { id: "key-list", "aria-label": "What the keys do" }, [R.table("Keys", ["key", "what it does"], KEYS), close]);
    document.body.appendChild(dialog);
    function open() { if (!dialog.open) dialog.showModal(); }
    document.getElementById("keys").addEventListener("click", open);
    document.addEventListener("keydown", function (event) {
      if (event.key === "?" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) open();
    });
  }

  function forPrint() {
    var into = document.getElementById("print");
    into.textContent = "";
    summaryView(into);
    into.appendChild(el("h2", {}, "Graph"));
    into.appendChild(R.graphPicture());
    data.operators.filter(function (op) { return op.label === "ORIGIN" || op.status === "failed" || op.status === "died"; }).slice(0, 20).forEach(function (op) { into.appendChild(R.operatorSection(op)); });
    operatorsView(into);
    aboutView(into);
  }

  R.start = function () {
    document.getElementById("model").textContent = data.name;
    if (data.blame) document.getElementById("verdict").appendChild(el("span", { "class": "badge v-" + data.blame.verdict }, data.blame.verdict));
    var nav = document.getElementById("nav");
    R.tabs.forEach(function (view) { nav.appendChild(el("a", { href: "#" + view[0] }, view[1])); });
    keys();
    document.getElementById("theme").addEventListener("click", theme);
    window.addEventListener("hashchange", function () { R.route(); main.focus({ preventScroll: true }); });
    window.addEventListener("beforeprint", forPrint);
    window.addEventListener("afterprint", function () { document.getElementById("print").textContent = ""; });
    R.route();
  };
  document.addEventListener("DOMContentLoaded", function () { R.start(); });
})();
