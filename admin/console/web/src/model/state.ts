// How the states of instances are shown: each has a word, a colour and a shape of its own, so that
// nobody has to tell colours apart.

/** The shapes of tiles and marks. */
export type Shape = "full" | "ring" | "half" | "alert" | "down" | "cross" | "off" | "dash";

/** A state as it is shown. */
export interface Look {
  /** The state of the API. */
  status: string;
  /** The word that people read. */
  label: string;
  shape: Shape;
  /** Name of the colour: the custom property `--state-{tone}`. */
  tone: "run" | "start" | "bad" | "leave" | "gone" | "off";
  /** What it means, for the legend. */
  meaning: string;
}

/** All states in the order in which people ask about them: what is wrong first. */
export const looks: readonly Look[] = [
  { status: "unhealthy", label: "unhealthy", shape: "alert", tone: "bad", meaning: "it does not report, or the provider says that it failed" },
  { status: "draining", label: "draining", shape: "down", tone: "leave", meaning: "its end is decided; its work moves away" },
  { status: "terminating", label: "terminating", shape: "cross", tone: "gone", meaning: "the provider was asked to delete it" },
  { status: "pending", label: "pending", shape: "ring", tone: "start", meaning: "it is recorded, and the provider has not created it yet" },
  { status: "provisioning", label: "provisioning", shape: "half", tone: "start", meaning: "it exists, and its agent has not reported yet" },
  { status: "running", label: "running", shape: "full", tone: "run", meaning: "its agent reports" },
  { status: "powered-off", label: "powered off", shape: "off", tone: "off", meaning: "it was switched off on purpose" },
  { status: "unknown", label: "unknown", shape: "dash", tone: "off", meaning: "the leader has not heard of it since its term began" },
  { status: "terminated", label: "terminated", shape: "cross", tone: "gone", meaning: "it is gone" },
];

const byStatus = new Map(looks.map((look, order) => [look.status, { look, order }]));
const unknown = byStatus.get("unknown") as { look: Look; order: number };

/** How a status is shown; one that this console does not know is shown as unknown. */
export const lookOf = (status: string | undefined): Look => (byStatus.get(status ?? "") ?? unknown).look;

/** Where a status stands in the order of looks. */
export const orderOf = (status: string | undefined): number => (byStatus.get(status ?? "") ?? unknown).order;

const reasons: Record<string, string> = {
  unhealthy: "it was unhealthy",
  "spot-termination": "the provider takes the spot machine back",
  expired: "it reached its age limit",
  "forced-expiry": "it reached its last age limit",
  "config-drift": "its configuration has changed",
  "scale-down": "the group was made smaller",
  "group-deleted": "its group was deleted",
  requested: "somebody asked for it",
  preempted: "a need of higher priority takes its place",
  "not-found": "the provider does not have it any more",
  "registration-timeout": "its agent did not register in time",
  abandoned: "its create was given up",
  "tenant-sleep": "its tenant sleeps",
};

/** Why an instance leaves, as half a sentence. */
export const why = (reason: string | undefined): string => (reason ? (reasons[reason] ?? reason) : "no reason was given");
