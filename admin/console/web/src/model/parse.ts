// From the text of the stream to messages. What is malformed or unknown is left out: one bad
// message must not end the picture.

import { instant } from "../format/time";
import type { Message } from "./fleet";
import type { Failure, Group, Instance, InstanceEvent, MachineEvent, ShardInfo } from "./types";

/** The names of the events of the stream that carry messages. */
export const named = ["shard", "groups", "instances", "machines", "event", "failure", "recent"] as const;

interface Raw {
  shard?: string;
  connected?: boolean;
  error?: string;
  since?: string;
  leader?: string;
  info?: ShardInfo;
  snapshot?: boolean;
  last?: boolean;
  groups?: Group[];
  instances?: Instance[];
  machines?: MachineEvent[];
  deleted?: unknown[];
  time?: string;
  event?: InstanceEvent & Failure;
  events?: Raw[];
  failures?: Raw[];
}

function deletedGroup(value: unknown): { tenant: string; key: string } | undefined {
  const v = value as { tenant?: string; key?: string } | null;
  return v && typeof v.key === "string" ? { tenant: v.tenant ?? "", key: v.key } : undefined;
}

const ids = (all: unknown[] | undefined): string[] => (all ?? []).filter((id): id is string => typeof id === "string");

function fromRaw(name: string, raw: Raw, now: number): Message | undefined {
  const shard = raw.shard ?? "";
  const snapshot = raw.snapshot ?? false;
  switch (name) {
    case "shard":
      return {
        kind: "shard",
        shard: {
          name: shard,
          connected: raw.connected ?? false,
          error: raw.error ?? "",
          since: instant(raw.since),
          leader: raw.leader ?? "",
          info: raw.info ?? {},
        },
      };
    case "groups":
      return {
        kind: "groups",
        shard,
        snapshot,
        groups: (raw.groups ?? []).filter((g) => typeof g?.key === "string"),
        deleted: (raw.deleted ?? []).map(deletedGroup).filter((d) => d !== undefined),
      };
    case "instances":
      return {
        kind: "instances",
        shard,
        snapshot,
        last: raw.last ?? false,
        instances: (raw.instances ?? []).filter((i) => typeof i?.instanceId === "string"),
        deleted: ids(raw.deleted),
      };
    case "machines":
      return {
        kind: "machines",
        shard,
        snapshot,
        machines: (raw.machines ?? []).flatMap((m) => (m?.machine && typeof m.instanceId === "string" ? [{ id: m.instanceId, machine: m.machine }] : [])),
        deleted: [...ids(raw.deleted), ...(raw.machines ?? []).flatMap((m) => (m?.type === "removed" ? [m.instanceId] : []))],
      };
    case "event":
      return raw.event && { kind: "event", shard, event: raw.event, at: instant(raw.time) ?? now };
    case "failure":
      return raw.event && { kind: "failure", shard, failure: raw.event, at: instant(raw.event.timestamp) ?? now };
    case "recent": {
      const events = (raw.events ?? []).map((e) => fromRaw("event", e, now));
      const failures = (raw.failures ?? []).map((f) => fromRaw("failure", f, now));
      return { kind: "recent", messages: [...events, ...failures].filter((m) => m !== undefined) };
    }
    default:
      return undefined;
  }
}

/** The message in the data of an event of the stream; undefined if there is none in it. */
export function parse(name: string, data: string, now: number): Message | undefined {
  try {
    const raw: unknown = JSON.parse(data);
    return typeof raw === "object" && raw !== null ? fromRaw(name, raw as Raw, now) : undefined;
  } catch {
    return undefined;
  }
}
