// The messages of the API in their JSON mapping, as far as the console reads them. Absent fields
// are zero; 64-bit numbers may come as text.

export type Stamp = string;
export type Int64 = number | string;

export interface Condition {
  type: string;
  message?: string;
  since?: Stamp;
  until?: Stamp;
  instanceId?: string;
}

export interface Pause {
  scope: string;
  group?: string;
  reason?: string;
  since?: Stamp;
  until?: Stamp;
}

export interface Group {
  key: string;
  tenant?: string;
  template?: string;
  size?: number;
  instanceType?: string;
  instanceTypes?: string[];
  subnetPool?: string;
  vars?: Record<string, string>;
  isStatic?: boolean;
  etag?: string;
  actualSize?: number;
  pending?: number;
  unhealthy?: number;
  draining?: number;
  kind?: string;
  arch?: string;
  zone?: string;
  region?: string;
  provider?: string;
  deleting?: boolean;
  suspended?: boolean;
  drainTimeout?: string;
  capacity?: Record<string, string>;
  interruptible?: boolean;
  revision?: Int64;
  loadBalancers?: string[];
  manager?: string;
  pause?: Pause;
  conditions?: Condition[];
  rebuilt?: boolean;
  mode?: string;
  demandUsage?: {
    machines?: number;
    idle?: number;
    vcpu?: Int64;
    memoryGib?: Int64;
    hourlyMicroUsd?: Int64;
    full?: boolean;
    shortfalls?: number;
  };
}

export interface Instance {
  instanceId: string;
  tenant?: string;
  status?: string;
  createdAt?: Stamp;
  lastSeen?: Stamp;
  providerInstanceId?: string;
  providerUri?: string;
  group?: string;
  onDemand?: boolean;
  instanceType?: string;
  addresses?: string[];
  hostname?: string;
  registeredAt?: Stamp;
  condemned?: { reason?: string; deleteAt?: Stamp };
  revision?: Int64;
  template?: string;
  agentVersion?: string;
  cpuUsage?: number;
  memoryUsage?: number;
  machine?: { arch?: string; binding?: string };
  hold?: { reason?: string; until?: Stamp; since?: Stamp };
  /** The steps of its life so far, in order; in answers about one instance alone. */
  life?: { state?: string; at?: Stamp }[];
  /** The files and certificates on it; in answers about one instance alone. */
  files?: { name?: string; kind?: string; current?: boolean; expiresAt?: Stamp }[];
}

export interface InstanceEvent {
  instanceId?: string;
  tenant?: string;
  group?: string;
  status?: string;
  reason?: string;
  unhealthyAt?: Stamp;
  deleteAt?: Stamp;
  revision?: Int64;
}

export interface Failure {
  group?: string;
  instanceId?: string;
  class?: string;
  shard?: string;
  error?: string;
  timestamp?: Stamp;
}

export interface Decision {
  time?: Stamp;
  action?: string;
  instanceId?: string;
  reason?: string;
  heldBy?: string;
  notBefore?: Stamp;
}

export interface Explanation {
  group?: Group;
  instance?: Instance;
  conditions?: Condition[];
  decisions?: Decision[];
  next?: Decision[];
}

export interface GroupPlan {
  tenant?: string;
  key?: string;
  change?: string;
  creates?: number;
  pushes?: number;
  rotations?: number;
  deletes?: number;
  causes?: string[];
}

export interface Plan {
  groups?: GroupPlan[];
  warnings?: string[];
}

export interface Need {
  id?: string;
  requirements?: string[];
  priority?: number;
  amounts?: Record<string, Int64>;
  minUnit?: Record<string, Int64>;
  missing?: Record<string, Int64>;
  missingSince?: Stamp;
  reason?: string;
  group?: string;
}

export interface DemandMachine {
  instanceId?: string;
  state?: string;
  group?: string;
  instanceType?: string;
  capacityType?: string;
  hourlyMicroUsd?: Int64;
  needs?: number;
  surplusSince?: Stamp;
  fixed?: boolean;
  leaving?: boolean;
}

export interface DemandDecision {
  action?: string;
  instanceId?: string;
  offer?: string;
  reason?: string;
  disposition?: string;
  replacements?: string[];
}

export interface Demand {
  connected?: boolean;
  needs?: Need[];
  machines?: DemandMachine[];
  planned?: DemandDecision[];
}

export interface Operation {
  id?: string;
  name?: string;
  state?: string;
  reason?: string;
  message?: string;
  startedAt?: Stamp;
  finishedAt?: Stamp;
}

export interface Version {
  name?: string;
  version?: number;
  hash?: string;
}

export interface MachineState {
  connected?: boolean;
  reportedAt?: Stamp;
  agentVersion?: string;
  assignment?: {
    machineName?: string;
    epoch?: Int64;
    mode?: string;
    configuration?: Version;
    at?: Stamp;
    confirmedAt?: Stamp;
    credentialMissing?: boolean;
  };
  status?: MachineStatus;
}

export interface MachineStatus {
  epoch?: Int64;
  stage?: string;
  slots?: { name?: string; state?: string; configuration?: Version; bootId?: string; sizeBytes?: Int64 }[];
  activeSlot?: string;
  kubeletActive?: boolean;
  attempts?: number;
  lastError?: string;
  credentialNeeded?: boolean;
  preflight?: { id?: string; result?: string; message?: string }[];
  failure?: { stage?: string; reason?: string; message?: string; outcome?: string; at?: Stamp };
  problems?: { reason?: string; message?: string }[];
  host?: { kernel?: string; os?: string; arch?: string; cpus?: number; memoryBytes?: Int64; virtualization?: string };
  stageStartedAt?: Stamp;
  progress?: { what?: string; doneBytes?: Int64; totalBytes?: Int64 };
  operations?: Operation[];
}

export interface MachineEvent {
  instanceId: string;
  type?: string;
  machine?: MachineState;
}

/** How the calls of one operation went since the leader began. */
export interface CallStats {
  operation?: string;
  calls?: Int64;
  errors?: Int64;
  throttled?: Int64;
  meanSeconds?: number;
  p50Seconds?: number;
  p99Seconds?: number;
}

/** What one shard says of itself. */
export interface ShardInfo {
  clusterId?: string;
  shard?: string;
  term?: Int64;
  version?: string;
  features?: string[];
  configDigest?: string;
  leadingSince?: Stamp;
  administrator?: boolean;
  lease?: { renewedAt?: Stamp; expiresAt?: Stamp; holder?: string };
  storage?: CallStats[];
  providerCalls?: CallStats[];
}

/** A machine with the shard's marks and without a usable record. */
export interface Unmanaged {
  providerInstanceId?: string;
  instanceId?: string;
  tenant?: string;
  group?: string;
  reason?: string;
  since?: Stamp;
}

/** A group's counts at one moment. */
export interface Sample {
  t: Stamp;
  size?: number;
  running?: number;
  pending?: number;
  unhealthy?: number;
  draining?: number;
}

/** Who uses the console, and what the server lets them do. */
export interface Session {
  cluster?: string;
  user?: { id?: string; tenant?: string; role?: string; notAfter?: Stamp };
  version?: string;
  shards?: string[];
  actions?: string[];
  actionToken?: string;
  now?: Stamp;
}
