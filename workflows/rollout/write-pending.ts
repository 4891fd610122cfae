import { activitiesFor } from '../activity-options';
import type { RolloutState } from './state';

/** Writes what is pending to the trajectory. */
export async function writePending(state: RolloutState): Promise<void> {
  if (state.pending.length === 0) return;
  const { head } = await activitiesFor('record', 'write trajectory').appendTrajectory({
    head: state.head,
    pending: state.pending,
  });
  state.head = head;
  state.pending = [];
}
