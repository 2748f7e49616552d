// What moves a timeline: buttons, keys, the wheel and the pointer.

function button(name, title, press) {
  return element("button", {type: "button", title, "aria-label": title, click: press}, name);
}

function toggle(name, press) {
  const node = element("button", {type: "button", "aria-pressed": "false", click: () => {
    const isOn = node.getAttribute("aria-pressed") !== "true";
    node.setAttribute("aria-pressed", isOn);
    press(isOn);
  }}, name);
  return node;
}

// One of several buttons is pressed at a time; `mark` presses one without choosing it.
function choice(label, names, choose) {
  const mark = (index) => buttons.forEach((other, i) => other.setAttribute("aria-pressed", i === index));
  const buttons = names.map((name, i) =>
    element("button", {type: "button", "aria-pressed": i === 0 ? "true" : "false", click: () => {
      mark(i);
      choose(i);
    }}, name));
  return {node: element("div", {class: "buttons", role: "group", "aria-label": label}, ...buttons), mark};
}

// What keys do; with Shift, arrows pan instead of moving the cursor.
function timelineKeys(timeline) {
  const step = (columns, rows) => (event) => event.shiftKey
    ? timeline.panBy(columns * 0.1, rows * 0.1) : timeline.moveCursor(columns, rows);
  return {
    "+": () => timeline.zoomBy(1.5), "=": () => timeline.zoomBy(1.5), "-": () => timeline.zoomBy(1 / 1.5),
    "]": () => timeline.zoomRowsBy(1.5), "[": () => timeline.zoomRowsBy(1 / 1.5),
    Home: () => timeline.showAll(), Escape: () => timeline.setCursor(null),
    ArrowLeft: step(-1, 0), ArrowRight: step(1, 0), ArrowUp: step(0, -1), ArrowDown: step(0, 1),
  };
}

// The wheel zooms where the timeline has the focus, or with Ctrl; else it scrolls the page.
function onWheel(timeline, canvas, event) {
  if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) {
    return;
  }
  event.preventDefault();
  const factor = 1.0018 ** -(event.deltaY || event.deltaX);
  const {x, y} = timeline.within(event);
  if (event.shiftKey) {
    timeline.zoomRowsBy(factor, y);
  } else {
    timeline.zoomBy(factor, x);
  }
}

function listen(timeline, canvas) {
  const keys = timelineKeys(timeline);
  let dragged = null;
  let pressed = null;
  fill(canvas, {
    keydown: (event) => {
      if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        keys[event.key](event);
        event.preventDefault();
      }
    },
    focus: () => {
      if (!dragged && !timeline.cursor && canvas.matches(":focus-visible")) {
        timeline.moveCursor(0, 0);
      }
    },
    pointerdown: (event) => {
      dragged = pressed = timeline.within(event);
      canvas.setPointerCapture(event.pointerId);
    },
    pointermove: (event) => {
      const at = timeline.within(event);
      if (!dragged) {
        timeline.hover(at);
        return;
      }
      timeline.dragBy(dragged.x - at.x, dragged.y - at.y);
      dragged = at;
    },
    pointerup: (event) => {
      const at = timeline.within(event);
      if (dragged && Math.hypot(at.x - pressed.x, at.y - pressed.y) < 4) {
        timeline.setCursor(timeline.under(at));
      }
      dragged = null;
    },
    pointercancel: () => { dragged = null; },
    pointerleave: () => timeline.hover(null),
  }, []);
  canvas.addEventListener("wheel", (event) => onWheel(timeline, canvas, event), {passive: false});
}
