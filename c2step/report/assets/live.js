// A served page: operators with their values on demand, slices of any blob, and a session to step.
"use strict";
(function () {
  var el = R.el, base = location.pathname.replace(/[^/]*$/, "");

  function ask(path, body) {
    return fetch(base + path, body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {}).then(function (answer) {
      return answer.json().then(function (found) {
        if (!answer.ok) throw new Error(found.error + (found.hint ? " - " + found.hint : ""));
        return found;
      });
    });
  }

  // Operators come without their values; they are asked for when one is opened.
  var view = R.operatorView;
  R.operatorView = function (main, index) {
    var before = R.data, waiting = el("p", { "class": "quiet" }, "reading its values …");
    main.appendChild(waiting);
    ask("api/operator/" + index).then(function (op) {
      if (R.data !== before || location.hash !== "#op/" + index) return;
      var at = R.data.operators.findIndex(function (o) { return o.index === index; });
      R.data.operators[at] = op;
      main.textContent = "";
      view(main, index);
      if (R.data.session) main.insertBefore(actions(op), main.firstChild);
    }, function (error) { waiting.textContent = error.message; });
  };

  R.slices = function (blob, op) {
    var slot = op.blobs.indexOf(blob), field = el("input", { type: "text", placeholder: "[0, :5]", "aria-label": "slice of " + blob.name }), shown = el("pre", { "class": "slice", tabindex: "0", hidden: true });
    var side = el("select", { "aria-label": "side" }, ["run", "golden", "alone"].filter(function (s) { return s === "run" || R.data.blame; }).map(function (s) { return el("option", {}, s); }));
    function show(event) {
      event.preventDefault();
      ask("api/slice?index=" + op.index + "&slot=" + slot + "&side=" + side.value + "&slice=" + encodeURIComponent(field.value)).then(function (found) {
        shown.hidden = false; shown.textContent = found.summary + "\n" + found.values;
      }, function (error) { shown.hidden = false; shown.textContent = error.message; });
    }
    return el("form", { "class": "tools", on: { submit: show } }, [el("strong", {}, "Values"), field, side, el("button", {}, "Show"), shown]);
  };

  // -- a session -----------------------------------------------------------------------------------

  function refresh(data) {
    R.data = data;
    bar();
    R.route();
    if (data.session) tell(data.session.said);
  }
  function act(body) {
    return ask("api/do", body).then(function (found) { refresh(found.data); }, function (error) { tell("error: " + error.message); });
  }
  function tell(text) {
    var log = document.getElementById("said");
    log.textContent = text;
    R.say(text);
  }
  function button(text, body, title) { return el("button", { type: "button", title: title || text, on: { click: function () { act(body); } } }, text); }

  function bar() {
    var s = R.data.session, old = document.getElementById("session");
    if (!s) return;
    var next = R.data.operators[s.position];
    var said = document.getElementById("said") || el("pre", { id: "said", tabindex: "0", "aria-label": "what the last action said" });
    var made = el("section", { id: "session", "aria-label": "Session" }, [el("div", { "class": "row" }, [
      el("span", { "class": "badge" }, s.position + " of " + s.size), el("strong", { id: "next" }, next ? ["next: ", R.link(next)] : "end of the net"),
      button("Step", { verb: "step" }), button("Step 10", { verb: "step", count: 10 }), button("Continue", { verb: "continue" }), button("Back", { verb: "back" }), button("Restart", { verb: "restart" }),
      el("button", { type: "button", on: { click: function () { ask("api/interrupt", { verb: "interrupt" }); } } }, "Stop"),
      s.breakpoints.map ? el("span", { "class": "legend" }, s.breakpoints.map(function (b) { return el("button", { type: "button", title: b.text + "; click to delete", on: { click: function () { act({ verb: "delete", number: b.number }); } } }, "● " + b.where + " ×"); })) : null]), said]);
    if (old) old.replaceWith(made); else document.getElementById("top").after(made);
    document.documentElement.style.setProperty("--bar", made.offsetHeight + "px");
  }

  function actions(op) {
    var value = el("input", { type: "number", step: "any", "aria-label": "value", placeholder: "value" }), part = el("input", { type: "text", placeholder: "[slice], or all", "aria-label": "part to patch" });
    return el("div", { "class": "tools" }, [button("Break here", { verb: "break", index: op.index }), button("Run to here", { verb: "until", index: op.index }),
      op.outputs.length ? el("form", { "class": "row", on: { submit: function (e) { e.preventDefault(); act({ verb: "patch", blob: op.outputs[0], slice: part.value, value: value.value }); } } }, ["Patch " + op.outputs[0], part, "=", value, el("button", {}, "Patch")]) : null]);
  }

  var last = R.data.session && JSON.stringify(R.data.session);
  function watch() {
    ask("api/data").then(function (data) {
      var now = JSON.stringify(data.session);
      if (now !== last && now !== JSON.stringify(R.data.session)) refresh(data);
      last = now;
    }, function () { tell("the session has ended"); });
  }
  document.addEventListener("DOMContentLoaded", function () {
    bar();
    if (R.data.session) setInterval(watch, 2000);
  });
})();
