// Points over two axes, one of which can be pinned beside the reference.

const MARKS = [
  "M-4.2,0a4.2,4.2 0 1 0 8.4,0a4.2,4.2 0 1 0 -8.4,0Z",
  "M-3.8,-3.8h7.6v7.6h-7.6Z", "M0,-5.4L5.4,0L0,5.4L-5.4,0Z",
  "M0,-5L4.8,3.6H-4.8Z", "M0,5L4.8,-3.6H-4.8Z", "M-5,-1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5Z",
  "M-5,-2.2h10v4.4h-10Z", "M-2.2,-5h4.4v10h-4.4Z",
];

// Of the ninth and later groups the shape differs from that of the first of the same colour.
function markOf(group) {
  return MARKS[(group + Math.floor(group / 8)) % 8];
}

// Lines that points are seen against have no colour of a group.
const LINE_COLOR = "var(--muted)";

function pointMark(index) {
  return shape("path", {
    d: markOf(index), transform: "translate(11,7)", class: "point", style: `fill: ${seriesColor(index)}`,
  });
}

function pointTip(view, group, point) {
  return [point.name, [view.x.name, shown(point.x, view.x.unit)], [view.y.name, shown(point.y, view.y.unit)],
    view.groups.length > 1 ? group : "", point.note];
}

function pinnedHead(point, unpin) {
  return element("div", {class: "pinned-head"},
    element("h3", {}, point.name),
    element("button", {type: "button", click: unpin}, "Unpin"));
}

// What a pinned point has more and less of than the reference, largest first.
function pinned(view, point, unpin) {
  const {reference, parts, part_unit: unit} = view;
  const differences = parts
    .map((name, i) => ({name, here: point.parts[i], there: reference.parts[i],
      more: point.parts[i] - reference.parts[i]}))
    .sort((a, b) => Math.abs(b.more) - Math.abs(a.more));
  const signed = (value) => ({value, text: withSign(shown(value, unit), value)});
  const rounding = 1e-9 * total(reference.parts);
  const row = ({name, here, there, more}) =>
    [name, quantity(there, unit), quantity(here, unit), signed(Math.abs(more) < rounding ? 0 : more)];
  const sums = {name: "together", here: total(point.parts), there: total(reference.parts)};
  const title = `${point.name} beside ${reference.name}`;
  return element("div", {class: "pinned", role: "group", "aria-label": title},
    pinnedHead(point, unpin),
    point.note ? element("p", {}, point.note) : null,
    table(title, ["part", reference.note ?? "reference", "this one", "difference"],
      [...differences.map(row), row({...sums, more: sums.here - sums.there})]));
}

// A pinned point of which the total alone is known.
function pinnedWhole(view, point, unpin) {
  return element("div", {class: "pinned", role: "group", "aria-label": point.name},
    pinnedHead(point, unpin),
    element("p", {}, `${point.note}. Where its time goes was not costed, which would have taken long.`));
}

// The points in the order in which arrows go through them.
function orderedPoints(view) {
  return view.groups
    .flatMap(({name, points}, group) => points.map((point) => ({point, group, groupName: name})))
    .filter(({point}) => (!view.x.is_log || point.x > 0) && (!view.y.is_log || point.y > 0))
    .sort((a, b) => a.point.x - b.point.x);
}

class Scatter {
  constructor(view, label) {
    this.view = view;
    this.label = label;
    this.points = orderedPoints(view);
    this.canPin = view.reference?.parts !== undefined;
    this.current = 0;
    this.pinnedIndex = -1;
    this.panel = element("div", {class: "pin-panel", "aria-live": "polite"});
    this.tellHint();
  }

  tellHint() {
    this.panel.replaceChildren(...(this.canPin
      ? [element("p", {class: "note"},
        `Choose a point, by a click or by arrows and Enter, to set it beside ${this.view.reference.name}.`)]
      : []));
  }

  pin(index) {
    const {point} = this.points[index];
    if (!this.canPin) {
      return;
    }
    this.pinnedIndex = index;
    const show = point.parts ? pinned : pinnedWhole;
    this.panel.replaceChildren(show(this.view, point, () => this.unpin()));
    hideTip();  // it would lie over the panel
    this.markPinned();
  }

  unpin() {
    this.pinnedIndex = -1;
    this.tellHint();
    this.markPinned();
    this.nodes[this.current]?.focus();
  }

  markPinned() {
    this.nodes.forEach((node, i) => {
      node.classList.toggle("is-pinned", i === this.pinnedIndex);
      if (node.hasAttribute("aria-pressed")) {
        node.setAttribute("aria-pressed", i === this.pinnedIndex);
      }
    });
  }

  showAlone(group) {
    this.nodes.forEach((node, i) =>
      node.classList.toggle("is-faint", group >= 0 && this.points[i].group !== group));
  }

  focusOn(index) {
    this.nodes[this.current].setAttribute("tabindex", -1);
    this.current = index;
    this.nodes[index].setAttribute("tabindex", 0);
    this.nodes[index].focus();
  }

  pressed(event, index) {
    const moves = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1};
    const last = this.points.length - 1;
    if (event.key in moves) {
      this.focusOn(Math.min(last, Math.max(0, index + moves[event.key])));
    } else if (event.key === "Home" || event.key === "End") {
      this.focusOn(event.key === "Home" ? 0 : last);
    } else if (event.key === "Enter" || event.key === " ") {
      this.pin(index);
    } else if (event.key === "Escape") {
      this.unpin();
    } else {
      return;
    }
    event.preventDefault();
  }

  pointNode({point, group, groupName}, index) {
    const {canPin} = this;
    const told = `${point.name}: ${shown(point.x, this.view.x.unit)}, ${shown(point.y, this.view.y.unit)}`;
    const node = shape("path", {
      d: markOf(group), class: "point", style: `fill: ${seriesColor(group)}`,
      transform: `translate(${this.places[index].x.toFixed(1)},${this.places[index].y.toFixed(1)})`,
      tabindex: index === this.current ? 0 : -1, role: canPin ? "button" : "img", "aria-label": told,
      "aria-pressed": canPin ? index === this.pinnedIndex ? "true" : "false" : undefined,
      keydown: (event) => this.pressed(event, index),
      focus: () => {
        const box = node.getBoundingClientRect();
        showTip(box.right, box.bottom, pointTip(this.view, groupName, point));
      },
      blur: hideTip,
    });
    return node;
  }

  // The point that is nearest to the pointer, if it is near.
  nearest(svg, event, width) {
    const box = svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((at) => at * width / box.width);
    const distances = this.places.map((place) => Math.hypot(place.x - x, place.y - y));
    return distances.indexOf(Math.min(22, least(distances)));
  }

  listen(svg, width) {
    const near = (index) => {
      svg.classList.toggle("is-near", index >= 0);
      this.nodes.forEach((node, i) => node.classList.toggle("is-near", i === index));
    };
    fill(svg, {
      pointermove: (event) => {
        const index = this.nearest(svg, event, width);
        near(index);
        if (index >= 0) {
          const {point, groupName} = this.points[index];
          showTip(event.clientX, event.clientY, pointTip(this.view, groupName, point));
        } else {
          hideTip();
        }
      },
      pointerleave: () => {
        near(-1);
        hideTip();
      },
      click: (event) => {
        const index = this.nearest(svg, event, width);
        if (index >= 0) {
          this.focusOn(index);
          this.pin(index);
        }
      },
    }, []);
  }

  draw(width) {
    const {view} = this;
    const height = Math.min(460, Math.max(300, width * 0.55));
    const all = [...this.points.map(({point}) => point), ...(view.reference ? [view.reference] : [])];
    const plot = frame(width, height, {
      x: view.x, y: view.y,
      xs: extent(view.x, [...all.map(({x}) => x), ...view.curves.flatMap(({x}) => x)]),
      ys: extent(view.y, [...all.map(({y}) => y), ...view.curves.flatMap(({y}) => y)]),
    });
    const clip = clipOf(plot);
    const curves = view.curves.flatMap((curve, i) => curveShapes(plot, curve, i, LINE_COLOR));
    this.places = this.points.map(({point}) => ({x: plot.x(point.x), y: plot.y(point.y)}));
    this.nodes = this.points.map((point, i) => this.pointNode(point, i));
    this.markPinned();
    const best = view.reference ? shape("circle", {
      cx: plot.x(view.reference.x), cy: plot.y(view.reference.y), r: 9, class: "reference",
    }) : null;
    const lines = shape("g", {"clip-path": clip.path}, ...curves);
    const hasMany = this.points.length > 200;  // they would hide the lines
    const svg = drawing(width, height, this.label, shape("defs", {}, clip.node), ...plot.nodes,
      hasMany ? null : lines, best, ...this.nodes, hasMany ? lines : null);
    svg.setAttribute("role", "group");
    svg.classList.toggle("has-many", hasMany);
    this.listen(svg, width);
    return svg;
  }
}

function scatterFinding(view, points) {
  const best = view.reference ?? points[0]?.point;
  return `${counted(points.length, "point")} of ${view.y.name} over ${view.x.name}` + (best
    ? `; ${best.name} is at ${shown(best.x, view.x.unit)} and ${shown(best.y, view.y.unit)}` : "");
}

function scatterView(view, title) {
  const scatter = new Scatter(view, scatterFinding(view, orderedPoints(view)));
  const {x, y} = view;
  return [
    legend([
      ...view.groups.map(({name}, i) =>
        ({name, mark: pointMark(i), alone: (isOn) => scatter.showAlone(isOn ? i : -1)})),
      ...view.curves.map(({name}, i) => ({name, mark: curveMark(i, LINE_COLOR)})),
      ...(view.reference ? [{name: view.reference.name,
        mark: shape("circle", {cx: 11, cy: 7, r: 5.5, class: "reference"})}] : []),
    ]),
    picture((width) => scatter.draw(width)),
    scatter.panel,
    numbers(title, ["point", x.name, y.name, "group", "note"], () =>
      view.groups.flatMap(({name, points}) => points.map((point) =>
        [point.name, quantity(point.x, x.unit), quantity(point.y, y.unit), name, point.note ?? ""])))];
}
