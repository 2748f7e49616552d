// Paints lanes of actions into pixels. What is narrower than a pixel mixes its colour into it, so a
// pixel is as dark as its rank is busy, and each action costs the same at every zoom.

// Red, green and blue of a CSS colour, as a canvas shows it.
function rgbOf(color) {
  const context = element("canvas", {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

function isLight([red, green, blue]) {
  const linear = (part) => part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) > 0.18;
}

// One row of pixels, into which actions mix their colours.
class Lane {
  constructor(width) {
    this.width = width;
    this.mixed = new Float32Array(4 * width);
    this.line = new Uint32Array(width);
  }

  add(pixel, part, color) {
    const {mixed} = this;
    const at = 4 * pixel;
    mixed[at] += part * color[0];
    mixed[at + 1] += part * color[1];
    mixed[at + 2] += part * color[2];
    mixed[at + 3] += part;
  }

  // Mixes in a colour from one place to another; both may lie between pixels.
  fill(from, to, color) {
    const begin = Math.max(0, from);
    const end = Math.min(this.width, to);
    if (end <= begin) {
      return;
    }
    const first = Math.floor(begin);
    const last = Math.min(this.width - 1, Math.floor(end));
    if (first === last) {
      this.add(first, end - begin, color);
      return;
    }
    this.add(first, first + 1 - begin, color);
    for (let pixel = first + 1; pixel < last; ++pixel) {
      this.add(pixel, 1, color);
    }
    this.add(last, end - last, color);
  }

  // The row over the colour of idle ranks, as a canvas holds pixels; the lane is empty again.
  finished([red, green, blue]) {
    const {mixed, line, width} = this;
    for (let pixel = 0, at = 0; pixel < width; ++pixel, at += 4) {
      const free = Math.max(0, 1 - mixed[at + 3]);
      const share = 1 / Math.max(1, mixed[at + 3]);
      line[pixel] = 0xff000000 | (mixed[at + 2] * share + free * blue) << 16 |
        (mixed[at + 1] * share + free * green) << 8 | (mixed[at] * share + free * red);
    }
    mixed.fill(0);
    return line;
  }
}

// Calls `use(action)` for the actions of a rank that can be seen between two times.
function eachVisible(data, rank, from, to, use) {
  const [first, last] = [data.first[rank], data.first[rank + 1]];
  for (let i = firstAbove(data.ends, from, first, last); i < last && data.starts[i] < to; ++i) {
    use(i);
  }
}

// Where the rows of ranks and the times of a view lie, in pixels.
function geometry(view, {left, width, top, height}) {
  const rowHeight = height / view.rows;
  return {
    rowHeight, left, width, top, height,
    x: (time) => left + (time - view.from) / (view.to - view.from) * width,
    y: (rank) => top + (rank - view.top) * rowHeight,
    time: (x) => view.from + (x - left) / width * (view.to - view.from),
    rank: (y) => Math.floor(view.top + (y - top) / rowHeight),
  };
}

// Paints the lanes of a view into an image of `width` * `height` device pixels.
function paintLanes(data, view, {width, height, colors, lane, page}) {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  pixels.fill(0xff000000 | page[2] << 16 | page[1] << 8 | page[0]);
  const row = new Lane(width);
  const scaleX = width / (view.to - view.from);
  const rowHeight = height / view.rows;
  const lastRank = Math.min(data.ranks.length - 1, Math.floor(view.top + view.rows));
  for (let rank = Math.max(0, Math.floor(view.top)); rank <= lastRank; ++rank) {
    eachVisible(data, rank, view.from, view.to, (i) => {
      const from = (data.starts[i] - view.from) * scaleX;
      const to = (data.ends[i] - view.from) * scaleX;
      row.fill(from, to - from > 4 ? to - 1 : to, colors[data.kinds[i]]);
    });
    const line = row.finished(lane);
    const top = Math.max(0, Math.round((rank - view.top) * rowHeight));
    const bottom = Math.min(height, Math.round((rank + 1 - view.top) * rowHeight) - (rowHeight > 4 ? 1 : 0));
    for (let y = top; y < Math.max(bottom, Math.min(top + 1, height)); ++y) {
      pixels.set(line, y * width);
    }
  }
  return image;
}

// Letters and microbatches on actions that have room for them.
function paintNames(context, data, view, {place, kinds, colors}) {
  if (place.rowHeight < 12) {
    return;
  }
  const size = Math.min(11, place.rowHeight - 3);
  context.font = `${size}px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const inks = colors.map((color) => isLight(color) ? "#000" : "#fff");
  const lastRank = Math.min(data.ranks.length - 1, Math.floor(view.top + view.rows));
  for (let rank = Math.max(0, Math.floor(view.top)); rank <= lastRank; ++rank) {
    const y = place.y(rank) + place.rowHeight / 2;
    eachVisible(data, rank, view.from, view.to, (i) => {
      const from = Math.max(place.left, place.x(data.starts[i]));
      const to = Math.min(place.left + place.width, place.x(data.ends[i]));
      const kind = data.kinds[i];
      const name = data.microbatches[i] >= 0 ? kinds[kind].letter + data.microbatches[i] : kinds[kind].letter;
      if (to - from > name.length * size * 0.6 + 3) {
        context.fillStyle = inks[kind];
        context.fillText(name, (from + to) / 2, y);
      }
    });
  }
}

// Outlines the critical path: its actions, and the lines from each to the next.
function paintPath(context, data, place, color) {
  context.strokeStyle = color;
  context.fillStyle = color;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const {rank, action} of data.path) {
    const [from, to] = [place.x(data.starts[action]), place.x(data.ends[action])];
    const [top, height] = [place.y(rank), Math.max(1, place.rowHeight - 1)];
    context.lineTo(from, top + height / 2);
    if (to - from >= 4) {
      context.rect(from + 0.75, top + 0.75, Math.max(1, to - from - 1.5), Math.max(1, height - 1.5));
      context.moveTo(to, top + height / 2);
    } else {
      context.lineTo(to, top + height / 2);
    }
  }
  context.stroke();
}
