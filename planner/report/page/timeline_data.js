// The actions of a schedule, unpacked.

async function inflated(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Int32Array(await new Response(stream).arrayBuffer());
}

// Reads PackedTimeline::actions. Of each action: its start and end in seconds, the gap before it, its
// kind, microbatch and chunk. The actions of rank r are first[r] .. first[r + 1].
async function unpacked(schedule) {
  const numbers = await inflated(schedule.actions);
  const count = total(schedule.num_actions);
  if (numbers.length !== 5 * count) {
    throw new Error(`expected 5 numbers for each of ${count} actions, found ${numbers.length}`);
  }
  const column = (i) => numbers.subarray(i * count, (i + 1) * count);
  const [gaps, durations] = [column(0), column(1)];
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  const first = [0];
  const ranks = schedule.num_actions.map((actions, rank) => {
    let ticks = 0;
    let busy = 0;
    for (let i = first[rank]; i < first[rank] + actions; ++i) {
      starts[i] = (ticks + gaps[i]) * schedule.tick_s;
      ticks += gaps[i] + durations[i];
      ends[i] = ticks * schedule.tick_s;
      busy += durations[i] * schedule.tick_s;
    }
    first.push(first[rank] + actions);
    return {actions, busy};
  });
  const {ranks: pathRanks, indices} = schedule.critical_path;
  return {
    schedule, starts, ends, gaps, first, ranks,
    kinds: column(2), microbatches: column(3), chunks: column(4),
    hasChunks: column(4).some((chunk) => chunk > 0),
    path: pathRanks.map((rank, i) => ({rank, action: first[rank] + indices[i]})),
  };
}

// The action of a rank at a time: the one that runs, else the one that comes next, else the last.
function actionAt(data, rank, time) {
  const [first, last] = [data.first[rank], data.first[rank + 1]];
  if (first === last) {
    return -1;
  }
  return Math.min(last - 1, firstAbove(data.ends, time, first, last));
}

function rankOf(data, action) {
  return firstAbove(data.first, action) - 1;
}

// What is to be known of an action: its name, and facts about it.
function actionFacts(data, kinds, action) {
  const kind = kinds[data.kinds[action]];
  const gap = data.gaps[action] * data.schedule.tick_s;
  const facts = [["rank", String(rankOf(data, action))]];
  if (data.microbatches[action] >= 0) {
    facts.push(["microbatch", String(data.microbatches[action])]);
  }
  if (data.hasChunks && data.chunks[action] >= 0) {
    facts.push(["chunk", String(data.chunks[action])]);
  }
  facts.push(["starts at", shown(data.starts[action], "s", 6)],
    ["takes", shown(data.ends[action] - data.starts[action], "s")]);
  facts.push(["waits", gap <= 0 ? "not at all" :
    `${shown(gap, "s")}${kind.waits_for ? ` for ${kind.waits_for}` : ""}`]);
  return {name: kind.name, facts};
}
