// What happened, in sentences.

import type { Happening } from "./fleet";
import { lookOf, why, type Look } from "./state";

const shown: Record<string, string> = {
  created: "pending",
  registered: "provisioning",
  running: "running",
  pending_deletion: "draining",
  deleting: "terminating",
  deleted: "terminated",
};

/** The look of the state that an event is about; undefined for events that are about none. */
export const eventLook = (e: Happening): Look | undefined => (e.status && shown[e.status] ? lookOf(shown[e.status]) : undefined);

/** What an event says of its instance, as the rest of a sentence. */
export function tell(e: Happening): string {
  switch (e.status) {
    case "created":
      return "is being created";
    case "registered":
      return "has registered";
    case "running":
      return "is running";
    case "pending_deletion":
      return `leaves: ${why(e.reason)}`;
    case "deleting":
      return `is being deleted: ${why(e.reason)}`;
    case "deleted":
      return "is gone";
    case "binding":
      return "has changed its cluster or node";
    case "hold":
      return "was put on hold, or its hold has ended";
    default:
      return e.status ?? "has changed";
  }
}

/** Events that say more than that something has changed. */
export const worthTelling = (e: Happening): boolean => eventLook(e) !== undefined;

/** The end of an id, which tells instances of one group apart. */
export const short = (id: string): string => (id.length > 14 ? `${id.slice(0, id.indexOf("-") + 1 || 3)}…${id.slice(-6)}` : id);
