// Curves over one axis.

function valueAt(curve, x) {
  const after = firstAbove(curve.x, x);
  if (curve.has_steps) {
    return after === 0 ? undefined : after - 1;
  }
  if (after === 0 || after === curve.x.length) {
    return after === 0 ? 0 : after - 1;
  }
  return curve.x[after] - x < x - curve.x[after - 1] ? after : after - 1;
}

function curveTip(view, x) {
  const lines = view.curves.map((curve) => {
    const i = valueAt(curve, x);
    return i === undefined || i < 0 ? "" : [curve.name, shown(curve.y[i], view.y.unit)];
  });
  return [`${view.x.name} ${shown(x, view.x.unit)}`, ...lines];
}

// The value of x that a curve has nearest to a pixel.
function nearestX(view, plot, pixel) {
  const xs = view.curves.flatMap(({x}) => x);
  return xs.reduce((best, x) =>
    Math.abs(plot.x(x) - pixel) < Math.abs(plot.x(best) - pixel) ? x : best, xs[0]);
}

function drawCurves(view, width, label) {
  const height = Math.min(380, Math.max(260, width * 0.5));
  const ys = [...view.curves.flatMap(({y, low = [], high = []}) => [...y, ...low, ...high]),
    ...view.limits.map(({value}) => value)];
  // An axis begins at 0 unless all that matters is far from it, as a loss is.
  const hasZero = !view.y.is_log && (view.limits.length > 0 || least(ys) < 0.5 * most(ys));
  const places = [...new Set(view.curves.flatMap(({x}) => x))];
  const plot = frame(width, height, {
    x: view.x, y: view.y, marks: places.length <= 12 ? places : undefined,
    xs: tight(view.x, view.curves.flatMap(({x}) => x)),
    ys: extent(view.y, ys, {hasZero}),
  });
  const clip = clipOf(plot);
  const line = shape("line", {y1: plot.top, y2: plot.bottom, class: "pointer", visibility: "hidden"});
  const hit = shape("rect", {x: plot.left, y: plot.top, width: plot.right - plot.left,
    height: plot.bottom - plot.top, class: "hit",
    pointermove: (event) => {
      const box = hit.ownerSVGElement.getBoundingClientRect();
      const x = nearestX(view, plot, (event.clientX - box.left) * width / box.width);
      line.setAttribute("x1", plot.x(x));
      line.setAttribute("x2", plot.x(x));
      line.setAttribute("visibility", "visible");
      showTip(event.clientX, event.clientY, curveTip(view, x));
    },
    pointerleave: () => {
      line.setAttribute("visibility", "hidden");
      hideTip();
    }});
  return drawing(width, height, label, shape("defs", {}, clip.node), ...plot.nodes,
    shape("g", {"clip-path": clip.path}, ...view.curves.flatMap((curve, i) => curveShapes(plot, curve, i))),
    ...view.limits.map((limit) => limitLine(plot, limit, view.y.unit, width)),
    ...(view.marks ?? []).map((mark) => markLine(plot, mark, view.x.unit)), line, hit);
}

// Curves begin at one side of the plot and end at the other.
function tight(axis, values) {
  const usable = values.filter((value) => !axis.is_log || value > 0);
  const [low, high] = [least(usable), most(usable)];
  return usable.length > 0 && low < high ? [low, high] : extent(axis, usable);
}

function curvesFinding(view) {
  const told = view.curves.slice(0, 4).map(({name, x, y}) => {
    const highest = y.indexOf(most(y));
    return y.length === 0 ? `${name} is empty`
      : `${name} is highest at ${shown(x[highest], view.x.unit)} with ${shown(y[highest], view.y.unit)}`;
  });
  return `${counted(view.curves.length, "curve")} of ${view.y.name} over ${view.x.name}: ${told.join("; ")}`;
}

function curvesView(view, title) {
  const label = curvesFinding(view);
  const hasBand = view.curves.some(({low}) => low);
  const {x, y} = view;
  return [
    view.curves.length > 1
      ? legend(view.curves.map(({name}, i) => ({name, mark: curveMark(i)}))) : null,
    picture((width) => drawCurves(view, width, label)),
    numbers(title, ["curve", x.name, y.name, ...(hasBand ? ["low", "high"] : [])], () => {
      const rows = view.curves.flatMap((curve) => curve.x.map((at, i) => [
        curve.name, quantity(at, x.unit), quantity(curve.y[i], y.unit),
        ...(hasBand ? [quantity(curve.low?.[i], y.unit), quantity(curve.high?.[i], y.unit)] : [])]));
      return x.unit ? rows : groupedRows(rows, 1);
    })];
}
