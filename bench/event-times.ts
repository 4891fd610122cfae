/** The fields of Temporal's history events that times are read from. */
interface Event {
  eventId?: unknown;
  eventTime?: { seconds?: unknown; nanos?: number | null } | null;
  activityTaskScheduledEventAttributes?: object | null;
  activityTaskCompletedEventAttributes?: { scheduledEventId?: unknown } | null;
}

export interface ActivityTimes {
  /** Milliseconds since the epoch, by the server's clock. */
  scheduledAt: number;
  completedAt: number;
}

/** The activities that a history has completed, in the order of their completion. */
export function timesIn(events: Event[]): ActivityTimes[] {
  const scheduled = new Map<string, number>();
  const times: ActivityTimes[] = [];
  for (const event of events) {
    if (event.activityTaskScheduledEventAttributes) {
      scheduled.set(String(event.eventId), millisOf(event));
    }
    const completed = event.activityTaskCompletedEventAttributes;
    const scheduledAt = completed && scheduled.get(String(completed.scheduledEventId));
    if (typeof scheduledAt === 'number') times.push({ scheduledAt, completedAt: millisOf(event) });
  }
  return times;
}

const millisOf = (event: Event): number =>
  Number(event.eventTime?.seconds ?? 0) * 1000 + (event.eventTime?.nanos ?? 0) / 1e6;
