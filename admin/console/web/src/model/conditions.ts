// Conditions that say what goes on, beside those that say what holds a group back.

const asWanted = new Set(["at-size"]);
const atWork = new Set(["scaling", "replacing", "rotating", "deleting", "joining", "draining", "terminating"]);

/** How urgent a condition is: `run` nothing is to be done, `start` the server does it, `leave` it needs a look. */
export function toneOf(type: string): "run" | "start" | "leave" {
  if (asWanted.has(type)) return "run";
  return atWork.has(type) ? "start" : "leave";
}
