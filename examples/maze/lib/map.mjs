/**
 * The maze: every door shuts behind whoever goes through it, so a wrong one is for good. `stair` looks like the way out and
 * leads nowhere; `crack` looks like nothing and is the only way. Pure: the controller and the verifier both go by it.
 */
export const rooms = {
  gate: {
    text: 'You stand inside the gate, which is shut. A corridor leads on.',
    doors: { corridor: 'hall' },
  },
  hall: {
    text: 'The hall. A wide stair leads up to daylight. A narrow crack in the wall is dark and damp.',
    doors: { stair: 'gallery', crack: 'cave' },
  },
  gallery: {
    text: 'A bright gallery of windows; the gardens outside are near. An arch leads on.',
    doors: { arch: 'terrace' },
  },
  terrace: {
    text: 'A terrace in the sun, with the outer wall before you. Some steps lead down to it.',
    doors: { steps: 'court' },
  },
  court: { text: 'A court of smooth high walls. No door leads on.', doors: {} },
  cave: {
    text: 'A low cave. Three tunnels lead on.',
    doors: { left: 'shaft', middle: 'spring', right: 'shaft' },
  },
  spring: {
    text: 'Water runs over stones. Three tunnels lead on.',
    doors: { left: 'chimney', middle: 'shaft', right: 'shaft' },
  },
  chimney: {
    text: 'A chimney in the rock. Three ledges lead on.',
    doors: { left: 'shaft', middle: 'shaft', right: 'outside' },
  },
  shaft: { text: 'You slide down a shaft of wet stone. No door leads on.', doors: {} },
  outside: { text: 'You are outside.', doors: {} },
};

/** How much is won by whoever has been there. The rooms beyond the stair win nothing. */
const progress = { cave: 0.4, spring: 0.6, chimney: 0.8, outside: 1 };

/** The rooms of a walk, the first one included. A door that is not there leads nowhere: it is refused, and the walk stays. */
export function roomsOf(walk) {
  const been = ['gate'];
  for (const door of walk) {
    const next = Object.hasOwn(rooms[been.at(-1)].doors, door)
      ? rooms[been.at(-1)].doors[door]
      : null;
    if (next) been.push(next);
  }
  return been;
}

export const rewardOf = (walk) => Math.max(...roomsOf(walk).map((room) => progress[room] ?? 0));

export function describe(room) {
  const { text, doors } = rooms[room];
  const names = Object.keys(doors);
  return names.length === 0 ? text : `${text}\nDoors: ${names.join(', ')}`;
}
