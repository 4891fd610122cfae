import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, rooms, roomsOf } from './map.mjs';

/** One walk through the maze. All there is of it is the list of doors, in `maze/walk`: a fork of the files is a fork of the walk. */
export function openWorld(root) {
  const file = join(root, 'maze', 'walk');
  if (!existsSync(file)) {
    mkdirSync(join(root, 'maze'), { recursive: true });
    writeFileSync(file, '');
  }
  const room = () => roomsOf(readFileSync(file, 'utf8').split('\n').filter(Boolean)).at(-1);
  return {
    look: () => describe(room()),
    go(door) {
      const here = room();
      if (!Object.hasOwn(rooms[here].doors, door)) throw new Error(`there is no door ${door} here`);
      appendFileSync(file, `${door}\n`);
      return `The door shuts behind you.\n${describe(room())}`;
    },
  };
}
