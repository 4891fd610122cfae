export const rooms: Record<string, { text: string; doors: Record<string, string> }>;
/** The rooms of a walk through these doors, the first one included. */
export function roomsOf(walk: string[]): string[];
export function rewardOf(walk: string[]): number;
export function describe(room: string): string;
