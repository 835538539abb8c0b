// The stream of the server and what the pages see of it. Messages are gathered and applied once a
// frame, however many come.

import { signal } from "@preact/signals";
import { CallError, getSession, session } from "./api";
import { apply, emptyFleet, type Fleet, type Message } from "./model/fleet";
import { named, parse } from "./model/parse";

/** How the stream is: `lost` is tried again by itself, `ended` needs the user. */
export type Link = "connecting" | "live" | "lost" | "ended";

/** The fleet. It is changed in place: read the ticks below to be drawn again. */
export const fleet: Fleet = emptyFleet();

/** Grow with every change of what they are named after. */
export const ticks = {
  fleet: signal(0),
  shards: signal(0),
  events: signal(0),
  failures: signal(0),
  machines: signal(0),
};

/** The state of the stream, and since when it is so. */
export const link = signal<Link>("connecting");
export const linkSince = signal(Date.now());

/** Whether every snapshot has come at least once. */
export const ready = signal(false);

/** The time, once a second. */
export const now = signal(Date.now());

/** Instances whose state changed and when, by `shard/id`, for a moment. */
export const moved = new Map<string, number>();

const silence = 40_000; // more than two pings of the server
const flashes = 1_400;
const unseen = 30_000; // a tab that nobody looks at gives up its connection

let source: EventSource | undefined;
let waiting: Message[] = [];
let scheduled = false;
let heard = 0;
let retry: ReturnType<typeof setTimeout> | undefined;
let failures = 0;

function become(next: Link): void {
  if (link.value === next) return;
  link.value = next;
  linkSince.value = Date.now();
}

function flush(): void {
  if (!scheduled) return;
  scheduled = false;
  const messages = waiting;
  waiting = [];
  const changes = apply(fleet, messages);
  const t = Date.now();
  if (ready.value) for (const key of changes.moved) moved.set(key, t);
  if (changes.groups.size > 0) ticks.fleet.value++;
  if (changes.shards) ticks.shards.value++;
  if (changes.events) ticks.events.value++;
  if (changes.failures) ticks.failures.value++;
  if (changes.machines) ticks.machines.value++;
}

function take(message: Message): void {
  waiting.push(message);
  if (scheduled) return;
  scheduled = true;
  // A page that nobody sees gets no frames; it must not gather messages for ever.
  if (document.hidden) setTimeout(flush, 500);
  else requestAnimationFrame(flush);
}

function open(): void {
  source?.close();
  heard = Date.now();
  source = new EventSource("/api/console/events");
  for (const name of named) {
    source.addEventListener(name, (e: MessageEvent<string>) => {
      heard = Date.now();
      const message = parse(name, e.data, heard);
      if (message) take(message);
    });
  }
  source.addEventListener("ping", () => (heard = Date.now()));
  source.addEventListener("ready", () => {
    heard = Date.now();
    failures = 0;
    flush();
    ready.value = true;
    become("live");
  });
  source.addEventListener("error", () => {
    if (link.value !== "ended") become(ready.value ? "lost" : "connecting");
    // After an answer that is no stream EventSource gives up: the session says why.
    if (source?.readyState === EventSource.CLOSED) again();
  });
}

function again(): void {
  clearTimeout(retry);
  retry = setTimeout(() => void start(), Math.min(500 * 2 ** failures++, 10_000));
}

function close(): void {
  source?.close();
  source = undefined;
  clearTimeout(retry);
}

/** Reads the session and opens the stream; tries again until both are there. */
export async function start(): Promise<void> {
  try {
    session.value = await getSession();
  } catch (e) {
    if (e instanceof CallError && (e.http === 401 || e.http === 403)) {
      close();
      become("ended");
      return;
    }
    become(ready.value ? "lost" : "connecting");
    again();
    return;
  }
  open();
}

/** Begins with everything that goes on while the page is open. */
export function begin(): void {
  void start();
  setInterval(() => {
    now.value = Date.now();
    for (const [key, t] of moved) if (now.value - t > flashes) moved.delete(key);
    if (source && link.value !== "ended" && now.value - heard > silence) {
      become("lost");
      heard = now.value;
      void start();
    }
  }, 1000);
  // A browser has six connections to a server for all its tabs: one that nobody sees gives its back.
  let leave: ReturnType<typeof setTimeout> | undefined;
  const back = () => {
    clearTimeout(leave);
    if (!source && link.value !== "ended") void start();
  };
  document.addEventListener("visibilitychange", () => {
    flush();
    if (document.hidden) leave = setTimeout(close, unseen);
    else back();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (e) => {
    if (e.persisted) back();
  });
}
