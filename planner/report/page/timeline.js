// The actions of all ranks over the time of a step, on a canvas.

const MARGIN = {left: 46, top: 26, right: 2};
const PANEL_GAP = 24;

class Timeline {
  constructor(view, title) {
    this.kinds = view.kinds;
    this.numRanks = view.num_ranks;
    this.measured = view.schedules.find(({name}) => name === "measured");
    this.schedules = view.schedules.filter((schedule) => schedule !== this.measured);
    if (this.schedules.length === 0) {
      this.schedules = view.schedules;
      this.measured = undefined;
    }
    this.title = title;
    this.cache = new Map();
    this.panels = [];
    this.cursor = null;
    this.hovered = null;
    this.hasPath = false;
    this.legend = this.kindLegend();
    this.canvas = element("canvas", {class: "timeline", tabindex: 0, role: "application",
      "aria-label": title});
    this.told = element("div", {class: "told", role: "status"});
    this.summary = element("p", {class: "note"});
    this.numbersPlace = element("div");
    listen(this, this.canvas);
    new ResizeObserver(() => this.redraw(true)).observe(this.canvas);
    addEventListener("themechange", () => {
      this.colors = undefined;
      this.mustPaint = true;
      this.drawNow();
    });
  }

  kindLegend() {
    const items = this.kinds.map(({name, letter, tint}) => {
      const alike = this.kinds.filter((kind) => kind.tint === tint);
      const shade = alike.length === 1 ? 1 : alike.findIndex((kind) => kind.name === name) % 5;
      return element("li", {},
        element("span", {class: `kind shade-${shade}`, style: `--tint: var(--${tint})`}, letter), name);
    });
    return element("ul", {class: "legend"}, ...items);
  }

  controls() {
    const names = this.schedules.map(({name, end_s: end}) => `${name} · ${shown(end, "s")}`);
    return element("div", {class: "toolbar"},
      names.length > 1 ? choice("Schedule", names, (i) => this.choose(i)).node : null,
      element("div", {class: "buttons", role: "group", "aria-label": "Zoom"},
        button("−", "Zoom out", () => this.zoomBy(1 / 1.5)), button("+", "Zoom in", () => this.zoomBy(1.5)),
        button("All", "Show the whole step", () => this.showAll()),
        button("Taller rows", "Taller rows", () => this.zoomRowsBy(1.5)),
        button("Flatter rows", "Flatter rows", () => this.zoomRowsBy(1 / 1.5))),
      this.schedules.some(({critical_path: path}) => path.ranks.length > 0)
        ? toggle("Critical path", (isOn) => {
          this.hasPath = isOn;
          this.redraw(false);
        }) : null);
  }

  async choose(index) {
    const wanted = [this.schedules[index], ...(this.measured ? [this.measured] : [])];
    this.chosen = index;
    try {
      for (const schedule of wanted) {
        if (!this.cache.has(schedule)) {
          this.cache.set(schedule, await unpacked(schedule));
        }
      }
    } catch (fault) {
      this.summary.textContent = `The actions of ${wanted[0].name} cannot be read: ${fault.message}`;
      return;
    }
    if (this.chosen !== index) {
      return;  // another one was chosen meanwhile
    }
    this.panels = wanted.map((schedule) => this.cache.get(schedule));
    this.end = most(wanted.map(({end_s: end}) => end)) || 1;
    this.setCursor(null);
    this.tellSummary();
    this.showAll();
  }

  tellSummary() {
    [...this.legend.children].forEach((item, kind) => {
      item.hidden = !this.panels.some(({kinds}) => kinds.includes(kind));
    });
    const told = this.panels.map(({schedule: {name, end_s: end, bubble_s: bubble}, starts, ranks}) =>
      `${name}: ${counted(starts.length, "action")} of ${counted(ranks.length, "rank")} in ${shown(end, "s")}, ` +
      `of which the pacing rank waits ${shown(bubble, "s")} (${percent(bubble / (end || 1))})`);
    const summary = `${told.join("; ")}.`;
    this.summary.textContent = summary;
    this.canvas.setAttribute("aria-label", `${this.title}. ${summary}`);
    const rows = () => this.panels.flatMap(({schedule, ranks}) => ranks.map(({actions, busy}, rank) => [
      schedule.name, String(rank), String(actions), quantity(busy, "s"), quantity(this.end - busy, "s"),
      percent(busy / this.end)]));
    this.numbersPlace.replaceChildren(
      numbers(this.title, ["schedule", "rank", "actions", "busy", "idle", "busy share"], rows));
  }

  showAll() {
    this.view = {from: 0, to: this.end, top: 0, rows: this.numRanks};
    this.redraw(true);
  }

  // Keeps the view inside the step, and at least a millionth of it and four rows in sight.
  setView({from, to, top, rows}) {
    const span = Math.min(this.end, Math.max(this.end * 1e-6, to - from));
    const shownRows = Math.min(this.numRanks, Math.max(Math.min(4, this.numRanks), rows));
    const begin = Math.min(Math.max(0, from), this.end - span);
    const first = Math.min(Math.max(0, top), this.numRanks - shownRows);
    const isMoved = begin !== this.view.from || begin + span !== this.view.to || first !== this.view.top ||
      shownRows !== this.view.rows;
    this.view = {from: begin, to: begin + span, top: first, rows: shownRows};
    this.redraw(isMoved);
  }

  zoomBy(factor, x = null) {
    const {from, to} = this.view;
    const place = this.places?.[0];
    const time = this.cursor ? this.cursorTime() : (from + to) / 2;
    const kept = x !== null ? place.time(x) : Math.min(to, Math.max(from, time));
    this.setView({...this.view, from: kept - (kept - from) / factor, to: kept + (to - kept) / factor});
  }

  zoomRowsBy(factor, y = null) {
    const {top, rows} = this.view;
    const place = this.places[0];
    const kept = y !== null ? top + (y - place.top) / place.rowHeight : top + rows / 2;
    this.setView({...this.view, top: kept - (kept - top) / factor, rows: rows / factor});
  }

  panBy(columns, rows) {
    const {from, to, top, rows: shownRows} = this.view;
    const shift = columns * (to - from);
    this.setView({from: from + shift, to: to + shift, top: top + rows * shownRows, rows: shownRows});
  }

  dragBy(x, y) {
    const place = this.places[0];
    this.panBy(x / place.width, y / place.height);
  }

  within(event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }

  // The action at a place of the canvas, if there is one.
  under(at) {
    const isAt = ({top, height}) => at && at.y >= top && at.y < top + height;
    const panel = this.places?.findIndex(isAt) ?? -1;
    const place = this.places?.[panel];
    const rank = place && at.x >= place.left ? place.rank(at.y) : -1;
    const action = rank >= 0 && rank < this.panels[panel].ranks.length
      ? actionAt(this.panels[panel], rank, place.time(at.x)) : -1;
    return action >= 0 ? {panel, action} : null;
  }

  hover(at) {
    this.hovered = this.under(at);
    this.tell();
    this.redraw(false);
  }

  cursorTime() {
    const {starts, ends} = this.panels[this.cursor.panel];
    return (starts[this.cursor.action] + ends[this.cursor.action]) / 2;
  }

  // Moves to the next action of the rank, or to what the next rank does at that time.
  moveCursor(columns, rows) {
    if (this.panels.length === 0) {
      return;
    }
    if (!this.cursor) {
      const first = actionAt(this.panels[0], Math.ceil(this.view.top), this.view.from);
      this.setCursor(first >= 0 ? {panel: 0, action: first} : null);
      return;
    }
    let {panel, action} = this.cursor;
    const rank = rankOf(this.panels[panel], action);
    if (rows === 0) {
      const {first} = this.panels[panel];
      action = Math.min(first[rank + 1] - 1, Math.max(first[rank], action + columns));
    } else {
      let next = rank + rows;
      if (next < 0 || next >= this.panels[panel].ranks.length) {
        panel = Math.min(this.panels.length - 1, Math.max(0, panel + rows));
        next = panel === this.cursor.panel ? rank : rows > 0 ? 0 : this.panels[panel].ranks.length - 1;
      }
      action = actionAt(this.panels[panel], next, this.cursorTime());
    }
    if (action >= 0) {
      this.setCursor({panel, action});
      this.follow();
    }
  }

  // Pans so that the cursor is in sight.
  follow() {
    const {from, to, top, rows} = this.view;
    const time = this.cursorTime();
    const rank = rankOf(this.panels[this.cursor.panel], this.cursor.action);
    const shift = time < from || time > to ? time - (from + to) / 2 : 0;
    const first = rank < top ? rank : rank + 1 > top + rows ? rank + 1 - rows : top;
    if (shift !== 0 || first !== top) {
      this.setView({from: from + shift, to: to + shift, top: first, rows});
    }
  }

  setCursor(cursor) {
    this.cursor = cursor;
    this.tell();
    this.redraw(false);
  }

  tell() {
    const shownAction = this.hovered ?? this.cursor;
    if (!shownAction) {
      this.told.replaceChildren(element("span", {class: "muted"},
        "Point at an action, or move the cursor to it, to see what it is and what it waits for."));
      return;
    }
    const data = this.panels[shownAction.panel];
    const {name, facts} = actionFacts(data, this.kinds, shownAction.action);
    this.told.replaceChildren(
      element("strong", {}, this.panels.length > 1 ? `${name}, ${data.schedule.name}` : name),
      ...facts.map(([what, fact]) =>
        element("span", {}, element("span", {class: "muted"}, `${what} `), fact)));
  }

  redraw(isMoved) {
    this.mustPaint ||= isMoved;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.drawNow();
    });
  }

  drawNow() {
    if (this.panels.length > 0 && this.canvas.clientWidth > 0) {
      this.draw();
    }
  }

  layOut(width) {
    const perPanel = this.panels.length > 1 ? 320 : 520;
    const height = Math.round(Math.min(perPanel, Math.max(96, this.numRanks * 18)));
    this.places = this.panels.map((_, i) => geometry(this.view, {
      left: MARGIN.left, width: width - MARGIN.left - MARGIN.right,
      top: MARGIN.top + (this.panels.length > 1 ? PANEL_GAP : 0) + i * (height + PANEL_GAP), height,
    }));
    const last = this.places.at(-1);
    return last.top + last.height + 2;
  }

  // Colours of the theme as numbers, and as text where text is painted.
  readColors() {
    const probe = element("span");
    this.told.append(probe);
    const read = (name) => {
      probe.style.color = `var(--${name})`;
      return rgbOf(getComputedStyle(probe).color);
    };
    const [ink, muted, surface, lane] = ["ink", "muted", "surface", "lane"].map(read);
    probe.remove();
    const marks = [...this.legend.querySelectorAll(".kind")];
    return {
      ink: `rgb(${ink})`, muted: `rgb(${muted})`, halo: `rgb(${surface})`, surface, lane,
      kinds: marks.map((mark) => rgbOf(getComputedStyle(mark).backgroundColor)),
    };
  }

  paint(width, height, ratio) {
    this.colors ??= this.readColors();
    const picture = this.picture ??= element("canvas");
    picture.width = width * ratio;
    picture.height = height * ratio;
    const context = picture.getContext("2d");
    this.panels.forEach((data, i) => {
      const place = this.places[i];
      context.setTransform(1, 0, 0, 1, 0, 0);
      const image = paintLanes(data, this.view, {
        width: Math.round(place.width * ratio), height: Math.round(place.height * ratio),
        colors: this.colors.kinds, lane: this.colors.lane, page: this.colors.surface,
      });
      context.putImageData(image, Math.round(place.left * ratio), Math.round(place.top * ratio));
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.inLanes(context, place, () =>
        paintNames(context, data, this.view, {place, kinds: this.kinds, colors: this.colors.kinds}));
      this.paintRanks(context, place, data.schedule.name);
    });
    this.paintTimes(context);
  }

  inLanes(context, {left, top, width, height}, paint) {
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    paint();
    context.restore();
  }

  paintRanks(context, place, name) {
    context.font = `11px ${FONT}`;
    context.fillStyle = this.colors.muted;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const {ticks} = linearTicks(this.view.top, this.view.top + this.view.rows, place.height / 30);
    for (const rank of ticks.filter(Number.isInteger)) {
      const y = place.y(rank) + place.rowHeight / 2;
      if (rank < this.numRanks && y > place.top && y < place.top + place.height) {
        context.fillText(String(rank), place.left - 8, y);
      }
    }
    if (this.panels.length > 1) {
      context.textAlign = "left";
      context.fillStyle = this.colors.ink;
      context.font = `600 12px ${FONT}`;
      context.fillText(["measured", "predicted"].includes(name) ? name : `${name}, predicted`, place.left, place.top - 11);
    }
  }

  paintTimes(context) {
    const [first] = this.places;
    const {from, to} = this.view;
    const {factor, unit} = unitFor(Math.max(to - from, to * 1e-3), "s");
    const {ticks, text} = linearTicks(from / factor, to / factor, Math.max(4, first.width / 100));
    context.font = `11px ${FONT}`;
    context.fillStyle = this.colors.muted;
    context.textBaseline = "alphabetic";
    context.textAlign = "right";
    context.fillText("rank", first.left - 8, 15);
    context.textAlign = "center";
    for (const tick of ticks) {
      const x = first.x(tick * factor);
      const label = `${text(tick)} ${unit}`;
      const half = context.measureText(label).width / 2;
      context.fillRect(x, MARGIN.top - 5, 1, 5);
      context.fillText(label, Math.min(Math.max(x, first.left + half), first.left + first.width - half), 15);
    }
  }

  draw() {
    const width = this.canvas.clientWidth;
    const ratio = devicePixelRatio || 1;
    const height = this.layOut(width);
    if (this.mustPaint || this.painted !== width) {
      this.paint(width, height, ratio);
      this.mustPaint = false;
      this.painted = width;
    }
    if (this.canvas.width !== this.picture.width || this.canvas.height !== this.picture.height) {
      this.canvas.width = this.picture.width;
      this.canvas.height = this.picture.height;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.picture, 0, 0);
    this.canvas.dataset.drawn = this.panels.map(({schedule}) => schedule.name).join();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.panels.forEach((data, i) => this.inLanes(context, this.places[i], () => {
      if (this.hasPath) {
        paintPath(context, data, this.places[i], this.colors.ink);
      }
      for (const marked of [this.cursor, this.hovered]) {
        if (marked?.panel === i) {
          this.outline(context, data, this.places[i], marked.action);
        }
      }
    }));
  }

  outline(context, data, place, action) {
    const [from, to] = [place.x(data.starts[action]), place.x(data.ends[action])];
    const top = place.y(rankOf(data, action));
    const box = [from - 1.5, top - 1.5, Math.max(2, to - from) + 3, place.rowHeight + 2];
    context.lineWidth = 4;
    context.strokeStyle = this.colors.halo;
    context.strokeRect(...box);
    context.lineWidth = 2;
    context.strokeStyle = this.colors.ink;
    context.strokeRect(...box);
  }
}

const TIMELINE_KEYS = "Once the picture is clicked or reached by Tab, the wheel or + and − zoom. With " +
  "Shift, or by ] and [, rows become taller and flatter. Dragging, or Shift with arrows, pans. Arrows " +
  "move a cursor over actions. Home shows all.";

let timelines = 0;

function timelineView(view, title) {
  if (typeof DecompressionStream === "undefined") {
    return [element("p", {class: "warning"}, "This browser cannot unpack the timeline: it has no " +
      "DecompressionStream, as Chrome 80, Firefox 113, Safari 16.4 and newer ones do.")];
  }
  if (view.schedules.length === 0) {
    return [element("p", {}, "There is no schedule to show.")];
  }
  const timeline = new Timeline(view, title);
  const id = `keys-${++timelines}`;
  const keys = element("details", {class: "keys"}, element("summary", {}, "Keys and mouse"),
    element("p", {class: "note", id}, TIMELINE_KEYS));
  timeline.canvas.setAttribute("aria-describedby", id);
  const box = element("div", {class: "timeline-box"}, timeline.controls(), timeline.summary, timeline.legend,
    timeline.canvas, timeline.told, keys, timeline.numbersPlace);
  timeline.choose(0);
  return [box];
}
