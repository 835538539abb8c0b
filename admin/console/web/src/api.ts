// Calls to the server of the console. Errors carry what the server said, for people.

import { signal } from "@preact/signals";
import type { Demand, Explanation, Plan, Sample, Session, Unmanaged } from "./model/types";

/** A call that the server refused or could not carry out. */
export class CallError extends Error {
  constructor(
    /** Status of HTTP; 0: the server was not reached. */
    readonly http: number,
    /** Code of gRPC by name, such as `FAILED_PRECONDITION`. */
    readonly status: string,
    /** The reason for programs, such as `GROUP_IS_DEMAND`. */
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

/** Who uses the console; undefined until it is known. */
export const session = signal<Session | undefined>(undefined);

const sha = encodeURIComponent;
const at = (shard: string, rest: string) => `/api/v1/shards/${sha(shard)}/${rest}`;

async function call<T>(path: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", ...init });
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new CallError(0, "UNAVAILABLE", "", "The console's server does not answer. Is nstance-admin console still running?");
  }
  const text = await answer.text();
  let body: unknown;
  try {
    body = text === "" ? {} : JSON.parse(text);
  } catch {
    body = undefined;
  }
  if (answer.ok && body !== undefined) return body as T;
  const said = (body ?? {}) as { message?: string; status?: string; reason?: string };
  throw new CallError(answer.status, said.status ?? "", said.reason ?? "", said.message ?? `The server answered ${answer.status} ${answer.statusText}.`);
}

function action<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { "X-Nstance-Token": session.value?.actionToken ?? "" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return call<T>(path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
}

/** Whether the server lets the user do something, by the names of the session. */
export const may = (name: string): boolean => session.value?.actions?.includes(name) ?? false;

export const getSession = (): Promise<Session> => call("/api/console/session");

export const explainGroup = (shard: string, group: string, signal?: AbortSignal): Promise<Explanation> =>
  call(at(shard, `groups/${sha(group)}/explanation`), signal && { signal });

export const explainInstance = (shard: string, id: string, signal?: AbortSignal): Promise<Explanation> =>
  call(at(shard, `instances/${sha(id)}/explanation`), signal && { signal });

export const history = (shard: string, group: string, tenant: string): Promise<{ samples?: Sample[] }> =>
  call(`/api/console/history?shard=${sha(shard)}&group=${sha(group)}&tenant=${sha(tenant)}`);

export const getDemand = (shard: string, signal?: AbortSignal): Promise<Demand> => call(at(shard, "demand"), signal && { signal });

export const unmanaged = (shard: string): Promise<{ vms?: Unmanaged[] }> => call(at(shard, "unmanaged"));

/** What a configuration, the text of a JSONC file, would cause. It changes nothing. */
export const plan = (shard: string, config: string): Promise<Plan> =>
  call(at(shard, "config:plan"), { method: "POST", headers: { "Content-Type": "application/jsonc" }, body: config });

export const scale = (shard: string, group: string, size: number, etag: string | undefined): Promise<unknown> =>
  action("PUT", at(shard, `groups/${sha(group)}`), { config: { size }, ...(etag && { expectedEtag: etag }) });

export const pause = (shard: string, group: string, reason: string, until: string | undefined): Promise<unknown> =>
  action("POST", at(shard, "pauses"), { scope: "group", group, reason, ...(until && { until }) });

export const resume = (shard: string, group: string): Promise<unknown> =>
  action("POST", at(shard, "pauses:clear"), { scope: "group", group });

export const confirm = (shard: string, group: string): Promise<unknown> => action("POST", at(shard, "groups:confirm"), { keys: [group] });

export const replace = (shard: string, id: string): Promise<unknown> => action("DELETE", at(shard, `instances/${sha(id)}?replaceFirst=true`));

export const remove = (shard: string, id: string, decrement: boolean, skipDrain: boolean): Promise<unknown> =>
  action("DELETE", at(shard, `instances/${sha(id)}?decrementSize=${decrement}&skipDrain=${skipDrain}`));

export const drained = (shard: string, id: string): Promise<unknown> => action("POST", at(shard, `instances/${sha(id)}:drained`), {});
