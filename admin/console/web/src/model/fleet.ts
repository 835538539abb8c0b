// The fleet as the browser knows it, and how messages of the stream change it. Pure but for the
// fleet that is changed in place: ten thousand instances are not copied for one that changes.

import { num } from "../format/number";
import type { Failure, Group, Instance, InstanceEvent, MachineState, ShardInfo } from "./types";

/** What one shard says, with what the console knows of the way to it. */
export interface Shard {
  name: string;
  connected: boolean;
  /** Why it is not connected. */
  error: string;
  /** Since when it is connected, or is not; milliseconds. */
  since: number | undefined;
  /** Address of the leader. */
  leader: string;
  info: ShardInfo;
}

/** A group with its shard and its instances. */
export interface GroupEntry {
  id: string;
  shard: string;
  /** Absent until the shard has told of the group itself. */
  group: Group | undefined;
  instances: Map<string, Instance>;
  /** Grows with every change of the group or one of its instances. */
  version: number;
}

/** Something that happened, with the shard where. */
export interface Happening extends InstanceEvent {
  shard: string;
  /** When this browser or the console's server learnt of it, milliseconds. */
  at: number;
  /** Counts what happened, for keys of lists. */
  serial: number;
}

/** An error with the shard where it happened. */
export interface FailureEntry extends Failure {
  shard: string;
  at: number;
  serial: number;
}

export interface Fleet {
  shards: Map<string, Shard>;
  groups: Map<string, GroupEntry>;
  /** The group entry of each instance, by `shard/id`. */
  homes: Map<string, GroupEntry>;
  machines: Map<string, { shard: string; id: string; machine: MachineState }>;
  /** Newest first. */
  events: Happening[];
  failures: FailureEntry[];
  serial: number;
  /** The instances that a snapshot under way has named, by shard. */
  named: Map<string, Set<string>>;
}

/** A message of the stream after its JSON was parsed. */
export type Message =
  | { kind: "shard"; shard: Shard }
  | { kind: "gone"; shard: string }
  | { kind: "groups"; shard: string; snapshot: boolean; groups: Group[]; deleted: { tenant: string; key: string }[] }
  | { kind: "instances"; shard: string; snapshot: boolean; last: boolean; instances: Instance[]; deleted: string[] }
  | { kind: "machines"; shard: string; snapshot: boolean; machines: { id: string; machine: MachineState }[]; deleted: string[] }
  | { kind: "event"; shard: string; event: InstanceEvent; at: number }
  | { kind: "failure"; shard: string; failure: Failure; at: number }
  | { kind: "recent"; messages: Message[] };

/** What a batch of messages has changed. */
export interface Changes {
  groups: Set<GroupEntry>;
  shards: boolean;
  events: boolean;
  failures: boolean;
  machines: boolean;
  /** Instances whose status is another one than before, by `shard/id`. */
  moved: Set<string>;
}

export const kept = { events: 500, failures: 200 };

export const emptyFleet = (): Fleet => ({
  shards: new Map(),
  groups: new Map(),
  homes: new Map(),
  machines: new Map(),
  events: [],
  failures: [],
  serial: 0,
  named: new Map(),
});

const noChanges = (): Changes => ({
  groups: new Set(),
  shards: false,
  events: false,
  failures: false,
  machines: false,
  moved: new Set(),
});

/** The id of a group over all shards and tenants, as it stands in addresses. */
export const groupId = (shard: string, tenant: string | undefined, key: string): string => `${shard}/${tenant ?? ""}/${key}`;

const instanceKey = (shard: string, id: string) => `${shard}/${id}`;

function entryOf(fleet: Fleet, shard: string, tenant: string | undefined, key: string): GroupEntry {
  const id = groupId(shard, tenant, key);
  let entry = fleet.groups.get(id);
  if (!entry) {
    entry = { id, shard, group: undefined, instances: new Map(), version: 0 };
    fleet.groups.set(id, entry);
  }
  return entry;
}

/** Applies messages in order and says what is different now. */
export function apply(fleet: Fleet, messages: readonly Message[]): Changes {
  const changes = noChanges();
  for (const m of messages) {
    switch (m.kind) {
      case "shard":
        fleet.shards.set(m.shard.name, m.shard);
        changes.shards = true;
        break;
      case "gone":
        fleet.shards.delete(m.shard);
        clearGroups(fleet, m.shard, changes);
        changes.shards = true;
        break;
      case "groups":
        applyGroups(fleet, m, changes);
        break;
      case "instances":
        applyInstances(fleet, m, changes);
        break;
      case "machines":
        applyMachines(fleet, m);
        changes.machines = true;
        break;
      case "recent":
        fleet.events = [];
        fleet.failures = [];
        changes.events = changes.failures = true;
        apply(fleet, m.messages);
        break;
      case "event":
        fleet.events.unshift({ ...m.event, shard: m.shard, at: m.at, serial: ++fleet.serial });
        changes.events = true;
        break;
      case "failure":
        fleet.failures.unshift({ ...m.failure, shard: m.shard, at: m.at, serial: ++fleet.serial });
        changes.failures = true;
        break;
    }
  }
  fleet.events.length = Math.min(fleet.events.length, kept.events);
  fleet.failures.length = Math.min(fleet.failures.length, kept.failures);
  for (const entry of changes.groups) {
    entry.version++;
    if (!entry.group && entry.instances.size === 0) fleet.groups.delete(entry.id);
  }
  return changes;
}

function applyGroups(fleet: Fleet, m: Extract<Message, { kind: "groups" }>, changes: Changes): void {
  // The groups of a snapshot come before its instances: one that broke off in between is over.
  if (m.snapshot) fleet.named.delete(m.shard);
  const named = new Set<GroupEntry>();
  for (const group of m.groups) {
    const entry = entryOf(fleet, m.shard, group.tenant, group.key);
    named.add(entry);
    if (!m.snapshot && entry.group && num(group.revision) < num(entry.group.revision)) continue;
    // Conditions come with lists alone: an event without them does not say that there are none.
    entry.group = group.conditions || m.snapshot ? group : { ...group, ...(entry.group?.conditions && { conditions: entry.group.conditions }) };
    changes.groups.add(entry);
  }
  const gone = m.deleted.map((d) => fleet.groups.get(groupId(m.shard, d.tenant, d.key)));
  if (m.snapshot) for (const entry of fleet.groups.values()) if (entry.shard === m.shard && !named.has(entry)) gone.push(entry);
  for (const entry of gone) {
    if (!entry) continue;
    entry.group = undefined;
    changes.groups.add(entry);
  }
}

function applyInstances(fleet: Fleet, m: Extract<Message, { kind: "instances" }>, changes: Changes): void {
  const named = fleet.named.get(m.shard) ?? new Set<string>();
  for (const instance of m.instances) {
    const key = instanceKey(m.shard, instance.instanceId);
    named.add(key);
    const home = fleet.homes.get(key);
    const known = home?.instances.get(instance.instanceId);
    if (!m.snapshot && known && num(instance.revision) < num(known.revision)) continue;
    const entry = entryOf(fleet, m.shard, instance.tenant, instance.group ?? "");
    if (home && home !== entry) {
      home.instances.delete(instance.instanceId);
      changes.groups.add(home);
    }
    if (known?.status !== instance.status && known) changes.moved.add(key);
    if (!known && !m.snapshot) changes.moved.add(key);
    entry.instances.set(instance.instanceId, instance);
    fleet.homes.set(key, entry);
    changes.groups.add(entry);
  }
  for (const id of m.deleted) forget(fleet, m.shard, id, changes);
  if (!m.snapshot) return;
  if (!m.last) {
    fleet.named.set(m.shard, named);
    return;
  }
  fleet.named.delete(m.shard);
  for (const entry of fleet.groups.values()) {
    if (entry.shard !== m.shard) continue;
    for (const id of entry.instances.keys()) if (!named.has(instanceKey(m.shard, id))) forget(fleet, m.shard, id, changes);
  }
}

function forget(fleet: Fleet, shard: string, id: string, changes: Changes): void {
  const key = instanceKey(shard, id);
  const home = fleet.homes.get(key);
  if (!home) return;
  home.instances.delete(id);
  fleet.homes.delete(key);
  changes.groups.add(home);
}

function clearGroups(fleet: Fleet, shard: string, changes: Changes): void {
  for (const entry of fleet.groups.values()) {
    if (entry.shard !== shard) continue;
    entry.group = undefined;
    for (const id of [...entry.instances.keys()]) forget(fleet, shard, id, changes);
    changes.groups.add(entry);
  }
}

function applyMachines(fleet: Fleet, m: Extract<Message, { kind: "machines" }>): void {
  if (m.snapshot) for (const [key, known] of fleet.machines) if (known.shard === m.shard) fleet.machines.delete(key);
  for (const { id, machine } of m.machines) {
    fleet.machines.set(instanceKey(m.shard, id), { shard: m.shard, id, machine });
  }
  for (const id of m.deleted) fleet.machines.delete(instanceKey(m.shard, id));
}

/** An instance with the group that it belongs to. */
export function findInstance(fleet: Fleet, shard: string, id: string): { entry: GroupEntry; instance: Instance } | undefined {
  const entry = fleet.homes.get(instanceKey(shard, id));
  const instance = entry?.instances.get(id);
  return entry && instance ? { entry, instance } : undefined;
}
