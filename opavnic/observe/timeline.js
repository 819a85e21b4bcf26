/* <opavnic-timeline>: states, events and rates on one time axis, with zoom and a cursor. No library, no other host.
 *
 * Its data is JSON in a script element within it, or comes with extend():
 *   marks  [time, group, name, state, wrong, text], oldest first; without a state: something that only happened
 *   rates  {name: {unit, gap, points: [[time, value], ...]}}, oldest first; of points further apart than gap, if it is
 *          not 0, nothing is known of the time between them
 * A drawing of the class "replayed" on the same page shows what was so at the cursor: cables have data-link, nodes data-node.
 *   now    the end of what is known; clock: "utc" (times are seconds since 1970) or "ms"; reset: forget what was there
 */
"use strict";
(() => {
  const KEPT = 10000, POINTS = 10000, LEFT = 230, RIGHT = 16, ROW = 22, RATE = 54, AXIS = 26, MOST = 12, FOUND = 60, PLAY_S = 20;
  const ROUND = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const ORDER = ["fault", "link", "port", "VNIC", "EM"];
  const TITLES = {fault: "Faults", link: "Links", port: "HFI ports", VNIC: "VNICs", EM: "Ethernet Manager"};
  const STYLE = `
    :host { display: block; color: var(--ink); font: inherit; }
    .tools { display: flex; flex-wrap: wrap; gap: .4rem .6rem; align-items: center; margin-bottom: .4rem; }
    button, input { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--dim);
      border-radius: 4px; padding: .25rem .6rem; min-height: 2rem; }
    .drawing { border: 1px solid var(--rule); border-radius: 4px; cursor: crosshair; touch-action: pan-y; position: relative; }
    .drawing:focus-visible, button:focus-visible, input:focus-visible { outline: 3px solid var(--link); }
    svg { display: block; width: 100%; } text { fill: var(--ink); font-size: .82rem; }
    .group { font-weight: bold; } .dim { fill: var(--dim); } .grid { stroke: var(--rule); }
    .ok { stroke: var(--good); stroke-width: 3; fill: none; } .bad { stroke: var(--bad); stroke-width: 16; fill: none; }
    .fault { stroke: var(--fault); stroke-width: 16; fill: none; } .in { fill: var(--paper); font-size: .75rem; } .rate { stroke: var(--rate); fill: var(--rate); fill-opacity: .25; } .end { fill: var(--rate); }
    .tick { stroke: var(--link); stroke-width: 2; } .wrongtick { stroke: var(--bad); stroke-width: 3; }
    .cursor { position: absolute; top: 0; bottom: 0; width: 0; border-left: 2px solid var(--ink); pointer-events: none; }
    .said { margin: .5rem 0; } .said strong { font-size: 1.05rem; } ul { margin: .2rem 0; padding-left: 1.2rem; }
    li { overflow-wrap: anywhere; } li.wrong::marker { content: "✕ "; } li.wrong { color: var(--bad); }
    li.fault { color: var(--fault); } li.fault::marker { content: "⚠ "; }`;
  const make = (name, attributes = {}, text = "") => {
    const svg = ["svg", "g", "path", "line", "circle", "text", "title"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  };
  /** The index of the last element whose time is not after `time`; -1: none. */
  const upTo = (list, time, of = (item) => item[0]) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (of(list[middle]) <= time) low = middle + 1; else high = middle;
    }
    return low - 1;
  };
  const amount = (value, unit) => {
    const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    const found = prefixes.find(([factor]) => value >= factor);
    return (found ? `${(value / found[0]).toPrecision(3)} ${found[1]}` : `${+value.toPrecision(3)} `) + unit;
  };

  class Timeline extends HTMLElement {
    connectedCallback() {
      if (this.shadowRoot) return;
      const root = this.attachShadow({mode: "open"});
      root.append(make("style", {}, STYLE));
      this.marks = [];
      this.rates = {};
      this.objects = new Map();
      this.clock = "utc";
      const tools = make("div", {class: "tools", role: "group", "aria-label": "Timeline"});
      const button = (text, title, act) => {
        const made = make("button", {type: "button", title}, text);
        made.addEventListener("click", act);
        tools.append(made);
        return made;
      };
      this.player = button("Play", `from the cursor to the end; all of it in ${PLAY_S} s`, () => this.play());
      button("Zoom in", "key +", () => this.zoom(0.5));
      button("Zoom out", "key -", () => this.zoom(2));
      button("All", "key 0", () => this.all());
      button("Previous change", "key Page Up", () => this.step(-1));
      button("Next change", "key Page Down", () => this.step(1));
      const label = make("label", {}, "Only with ");
      this.only = make("input", {type: "search", placeholder: "h1, link-down"});
      this.only.addEventListener("input", () => this.draw());
      label.append(this.only);
      tools.append(label);
      this.drawing = make("div", {class: "drawing", tabindex: 0, role: "slider", "aria-valuenow": 0, "aria-label":
        "Moment on the time axis: arrow keys move, plus and minus zoom, Page Up and Page Down go to changes"});
      this.line = make("div", {class: "cursor"});
      this.said = make("div", {class: "said"});
      root.append(tools, this.drawing, this.said);
      this.drawing.addEventListener("keydown", (event) => this.key(event));
      const point = (event) => this.moveTo(this.timeAt(event.clientX));
      this.drawing.addEventListener("pointerdown", (event) => {
        this.drawing.setPointerCapture(event.pointerId);
        point(event);
      });
      this.drawing.addEventListener("pointermove", (event) => { if (event.buttons & 1) point(event); });
      this.drawing.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event.clientX));
      }, {passive: false});
      new ResizeObserver(() => this.draw()).observe(this.drawing);
      const inline = this.querySelector("script");
      if (inline) this.extend(JSON.parse(inline.textContent));
    }

    extend(data) {
      const following = !this.marks.length && !this.known || data.reset || this.cursor === undefined || this.cursor >= this.known;
      if (data.reset) { this.marks = []; this.rates = {}; this.view = undefined; }
      this.clock = data.clock || this.clock;
      if (data.marks?.length) {
        this.marks = this.marks.concat(data.marks).sort((a, b) => a[0] - b[0]).slice(-KEPT);
        this.index();
      } else if (data.reset) this.index();
      for (const [name, {unit, gap, points}] of Object.entries(data.rates || {})) {
        const kept = this.rates[name] ||= {unit, gap, points: []};
        kept.points = kept.points.concat(points).slice(-POINTS);
      }
      this.known = data.now;
      this.first = Math.min(this.known, ...[this.marks[0], ...Object.values(this.rates).map((rate) => rate.points[0])]
        .filter(Boolean).map((first) => first[0]));
      const span = Math.max(this.known - this.first, this.clock === "utc" ? 10 : 1e-6);
      if (!this.view) this.view = [this.first - span / 50, this.known + span / 10];
      else if (following && this.known > this.view[1]) {  // in steps, so that nothing moves all the time
        const wide = this.view[1] - this.view[0];
        this.view = this.whole ? [this.first - span / 50, this.known + span / 10] : [this.known - wide * 0.8, this.known + wide * 0.2];
      }
      if (this.whole === undefined) this.whole = true;
      if (following) this.cursor = this.known;
      this.draw();
    }

    /** Sort the marks by what they are of. */
    index() {
      this.objects = new Map();
      for (const mark of this.marks) {
        const [, group, name, state, wrong] = mark, key = group + "\0" + name;
        let of = this.objects.get(key);
        if (!of) this.objects.set(key, of = {group, name, marks: [], wrong: false});
        of.marks.push(mark);
        of.wrong ||= !!(wrong || !state || group === "fault");
      }
    }

    /** The rows to be drawn: what was wrong at some time, the last that changed first; or what has the wanted text. */
    rows() {
      const wanted = this.only.value.trim().toLowerCase(), found = [];
      let hidden = 0;
      for (const group of ORDER) {
        const all = [...this.objects.values()].filter((of) => of.group === group && (wanted
          ? `${of.name} ${of.marks[0][5]} ${of.marks.at(-1)[5]}`.toLowerCase().includes(wanted) : of.wrong));
        all.sort((a, b) => b.marks.at(-1)[0] - a.marks.at(-1)[0]);
        const shown = all.slice(0, wanted ? FOUND : MOST);
        hidden += all.length - shown.length;
        shown.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
        if (shown.length) found.push({head: TITLES[group]}, ...shown);
      }
      return {found, hidden};
    }

    draw() {
      if (this.known === undefined || this.queued) return;
      this.queued = requestAnimationFrame(() => { this.queued = 0; this.redraw(); });
    }

    redraw() {
      const width = this.drawing.clientWidth;
      if (!width) return;
      const em = parseFloat(getComputedStyle(this).fontSize) / 16;
      this.left = Math.min(LEFT * em, width * 0.36);
      const row = ROW * em, right = width - RIGHT, [begin, end] = this.view;
      const x = (time) => this.left + (time - begin) / (end - begin) * (right - this.left);
      const inside = (time) => Math.max(this.left, Math.min(right, x(time)));
      const svg = make("svg", {"aria-hidden": "true"}), put = (...made) => svg.append(made[0]);
      let y = 0;
      const named = (text, kind = "") => {
        const most = Math.floor((this.left - 8) / (7.4 * em));
        const shown = text.length > most ? text.slice(0, most - 1) + "…" : text;
        const made = make("text", {x: 8, y: y + row * 0.7, class: kind}, shown);
        if (shown !== text) made.append(make("title", {}, text));
        put(made);
      };
      const until = inside(this.known);
      for (const [name, {unit, gap, points}] of Object.entries(this.rates)) {
        const high = RATE * em, from = Math.max(0, upTo(points, begin)), to = upTo(points, end) + 1;
        const seen = points.slice(from, to + 1), most = seen.reduce((top, [, value]) => Math.max(top, value), 0);
        named(name, "group");
        y += row;
        named(`up to ${amount(most, unit)}`, "dim");
        y -= row;
        const pieces = [];  // of columns of pixels, each between two gaps
        let last;
        for (const [time, value] of seen) {
          if (!pieces.length || gap && time - last > gap) pieces.push(new Map());
          const columns = pieces.at(-1), at = Math.round(inside(time));
          columns.set(at, Math.max(columns.get(at) ?? 0, value));
          last = time;
        }
        const bottom = y + high - 4, level = (value) => (most ? bottom - value / most * (high - 12) : bottom).toFixed(1);
        for (const columns of pieces) {
          const line = [...columns].map(([at, value]) => `${at} ${level(value)}`), ends = [...columns].filter((_, index) => !index || index === columns.size - 1);
          put(make("path", {class: "rate", d: `M${ends[0][0]} ${bottom}L${line.join("L")}L${ends.at(-1)[0]} ${bottom}Z`}));
          for (const [at, value] of ends) put(make("circle", {class: "end", cx: at, cy: level(value), r: 3}));
        }
        y += high;
      }
      const {found, hidden} = this.rows();
      for (const of of found) {
        if (of.head) { named(of.head, "group"); y += row; continue; }
        named(of.group === "fault" ? `${of.name} ${of.marks[0][5]}` : of.name);
        const middle = y + row / 2, paths = {ok: "", bad: "", fault: "", tick: "", wrongtick: ""};
        const signs = [];
        let before = {};
        const [since, , , said, worse] = of.marks[0];
        if (said && worse && (of.group === "link" || of.group === "port"))  // nothing is said of one that stays as it began
          paths.ok += `M${inside(this.first)} ${middle}H${inside(since)}`;
        of.marks.forEach((mark, index) => {
          const [time, group, , state, wrong] = mark, next = of.marks[index + 1]?.[0] ?? this.known;
          const kind = state ? group === "fault" ? state === "active" && "fault" : wrong ? "bad" : "ok" : wrong ? "wrongtick" : "tick";
          const [a, b] = [Math.round(inside(time)), Math.round(inside(next))];
          if (!kind || next < begin && state || time > end || !state && time < begin) return;
          if (before.kind === kind && before.b >= b) return;  // the same pixels
          const sign = kind === "bad" ? `✕ ${state}` : kind === "fault" ? "⚠ active" : "";
          if (sign && b - a > sign.length * 8 * em) signs.push(make("text", {class: "in", x: a + 5, y: middle + 4 * em}, sign));
          before = {kind, b};
          paths[kind] += state ? `M${a} ${middle}H${Math.max(b, a + 2)}` : `M${a} ${y + 4}V${y + row - 4}`;
        });
        for (const [kind, d] of Object.entries(paths)) if (d) put(make("path", {class: kind, d}));
        svg.append(...signs);
        y += row;
      }
      if (!found.length) { named(this.only.value ? "nothing has this text" : "nothing went wrong so far", "dim"); y += row; }
      if (hidden) { named(`and ${hidden} more: narrow with “Only with”`, "dim"); y += row; }
      put(make("line", {class: "grid", x1: this.left, x2: right, y1: y, y2: y}));
      const step = this.stepFor((end - begin) / Math.max(1, Math.floor((right - this.left) / (100 * em))));
      for (let number = Math.ceil(begin / step); number * step <= end; number++) {
        const at = x(number * step);
        svg.prepend(make("line", {class: "grid", x1: at, x2: at, y1: 0, y2: y}));
        if (at < this.left + 30 * em || at > right - 30 * em) continue;  // no room for its text
        put(make("text", {class: "dim", x: at, y: y + AXIS * em * 0.7, "text-anchor": "middle"}, this.timeText(number * step, step)));
      }
      put(make("line", {class: "grid", x1: until, x2: until, y1: 0, y2: y, "stroke-dasharray": "4 3"}));
      svg.setAttribute("height", y + AXIS * em);
      this.drawing.replaceChildren(svg, this.line);
      this.x = x;
      this.tell();
    }

    /** A round number of seconds, not below `least`. */
    stepFor(least) {
      if (this.clock === "utc" && least > 0.5) return ROUND.find((step) => step >= least) ?? Math.ceil(least / 86400) * 86400;
      const power = 10 ** Math.floor(Math.log10(least));
      return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= least * 0.999);
    }

    /** A moment in words; with `step`, as exactly as ticks that far apart need. */
    timeText(time, step = 0) {
      if (this.clock !== "utc") return `${(time * 1e3).toFixed(step ? Math.max(0, Math.ceil(-Math.log10(step * 1e3) - 1e-9)) : 3)} ms`;
      const text = new Date(time * 1e3).toISOString();
      return step >= 86400 ? text.slice(0, 10) : step >= 21600 ? text.slice(5, 16).replace("T", " ") : text.slice(11, step >= 1 ? 19 : 23);
    }

    timeAt(clientX) {
      const box = this.drawing.getBoundingClientRect(), right = box.width - RIGHT;
      const share = (clientX - box.left - this.left) / (right - this.left);
      return this.view[0] + Math.max(0, Math.min(1, share)) * (this.view[1] - this.view[0]);
    }

    moveTo(time) {
      this.cursor = Math.max(this.first, Math.min(this.known, time));
      const [begin, end] = this.view, wide = end - begin;
      if (this.cursor < begin || this.cursor > end) {
        this.view = [this.cursor - wide / 2, this.cursor + wide / 2];
        this.whole = false;
        this.draw();
      } else this.tell();
    }

    zoom(factor, about = this.cursor) {
      const [begin, end] = this.view, least = this.clock === "utc" ? 0.01 : 1e-8;
      const wide = Math.max(least, (end - begin) * factor), most = (this.known - this.first) * 1.2 + least;
      if (wide >= most) return this.all();
      const share = (about - begin) / (end - begin);
      this.view = [about - wide * share, about + wide * (1 - share)];
      this.whole = false;
      this.draw();
    }

    all() {
      const span = Math.max(this.known - this.first, this.clock === "utc" ? 10 : 1e-6);
      this.view = [this.first - span / 50, this.known + span / 10];
      this.whole = true;
      this.draw();
    }

    /** Move the cursor by itself to the end, or stop that. */
    play() {
      const stop = () => { cancelAnimationFrame(this.playing); this.playing = 0; this.player.textContent = "Play"; };
      if (this.playing) return stop();
      const begin = performance.now(), from = this.cursor >= this.known ? this.first : this.cursor;
      const speed = (this.known - this.first) / PLAY_S / 1e3;
      const step = (now) => {
        this.moveTo(from + (now - begin) * speed);
        if (this.cursor >= this.known) return stop();
        this.playing = requestAnimationFrame(step);
      };
      this.player.textContent = "Pause";
      this.playing = requestAnimationFrame(step);
    }

    /** Show in the drawing of the fabric what was wrong, and what had a fault set. */
    show(wrong, faults) {
      const same = (name) => name.split("--").sort().join("--");  // either end may stand first
      const bare = (name) => name.split(/--|->/).map((end) => end.replace(/:\d+$/, "")).sort().join("--");
      const down = new Set(), faulty = new Set();
      for (const [, group, name] of wrong) down.add(group === "link" ? same(name) : bare(name.split(" ")[0]));
      for (const [, , , , , text] of faults) faulty.add(bare(/ on (\S+)/.exec(text)?.[1] ?? ""));
      for (const drawn of document.querySelectorAll(".replayed")) {
        drawn.classList.add("live");
        for (const each of drawn.querySelectorAll("[data-link], [data-node]")) {
          const {link, node} = each.dataset;
          each.classList.toggle("is-down", down.has(same(link ?? node)));
          each.classList.toggle("is-faulty", faulty.has(bare(link ?? node)));
        }
      }
    }

    /** Go to the next change, or with -1 to the one before. */
    step(way) {
      let at = upTo(this.marks, this.cursor);
      if (way < 0) while (at >= 0 && this.marks[at][0] >= this.cursor) at--;
      else at++;
      this.moveTo(this.marks[at]?.[0] ?? (way < 0 ? this.first : this.known));
    }

    key(event) {
      const step = (this.view[1] - this.view[0]) / (event.shiftKey ? 10 : 100);
      const act = {
        ArrowLeft: () => this.moveTo(this.cursor - step), ArrowRight: () => this.moveTo(this.cursor + step),
        PageUp: () => this.step(-1), PageDown: () => this.step(1), Home: () => this.moveTo(this.first),
        End: () => this.moveTo(this.known), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        "0": () => this.all(),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    }

    /** Say in words what was so at the cursor. */
    tell() {
      const time = this.cursor, at = this.x(time), list = make("ul"), wrong = [], faults = [];
      this.line.style.left = `${at}px`;
      this.line.hidden = time < this.view[0] || time > this.view[1];
      for (const of of this.objects.values()) {
        const mark = of.marks[upTo(of.marks, time)];
        if (!mark || !mark[3]) continue;
        if (of.group === "fault") { if (mark[3] === "active") faults.push(mark); } else if (mark[4]) wrong.push(mark);
      }
      this.show(wrong, faults);
      const say = (text, kind = "") => list.append(make("li", {class: kind}, text));
      const some = (marks, kind, text) => {
        for (const mark of marks.slice(0, MOST)) say(text(mark), kind);
        if (marks.length > MOST) say(`and ${marks.length - MOST} more`, kind);
      };
      some(faults, "fault", ([since, , name, , , text]) => `fault ${name} ${text}, since ${this.timeText(since)}`);
      some(wrong, "wrong", ([since, group, name, state, , text]) =>
        `${group === "EM" ? "" : group + " "}${name}: ${state}${text ? ` (${text})` : ""}, since ${this.timeText(since)}`);
      if (!wrong.length) say("nothing is known to be wrong");
      for (const [name, {unit, gap, points}] of Object.entries(this.rates)) {
        const point = points[upTo(points, time)], known = point && !(gap && time - point[0] > gap);
        say(`${name}: ${known ? amount(point[1], unit) : "not known"}`);
      }
      const last = this.marks[upTo(this.marks, time)], next = this.marks[upTo(this.marks, time) + 1];
      const text = (mark) => `${this.timeText(mark[0])} ${mark[1]} ${mark[2]} ${mark[3]} ${mark[5]}`.trim();
      if (last) say(`last change: ${text(last)}`);
      if (next) say(`next change: ${text(next)}`);
      const now = time >= this.known ? ", now" : "", head = `${this.timeText(time)}${this.clock === "utc" ? " UTC" : ""}${now}`;
      this.said.replaceChildren(make("strong", {}, head), list);
      const set = (name, value) => this.drawing.setAttribute(name, value);
      set("aria-valuemin", Math.round((this.first - this.first) * 1e3));
      set("aria-valuemax", Math.round((this.known - this.first) * 1e3));
      set("aria-valuenow", Math.round((time - this.first) * 1e3));
      set("aria-valuetext", `${head}; ${faults.length} faults active, ${wrong.length} wrong` + (last ? `; last change ${text(last)}` : ""));
    }
  }
  customElements.define("opavnic-timeline", Timeline);
})();
