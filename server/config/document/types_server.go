package document

import (
	"reflect"

	"nstance.dev/server/config/schema"
)

// Server is the part of the configuration about the shard itself.
type Server struct {
	// The cluster: one CA, one set of secrets, one or more shards.
	ClusterID string `json:"cluster_id"`
	// This shard; equals the --shard flag.
	Shard string `json:"shard"`
	// The cloud that the machines live in.
	Provider Provider `json:"provider"`
	// Where keys and secrets are kept.
	Secrets Secrets `json:"secrets,omitzero"`
	// Addresses that the server listens on, host:port; IPv6 in brackets. Default 0.0.0.0 with the ports 8990 to 8994, and 127.0.0.1:8995 for metrics.
	Bind Bind `json:"bind,omitzero"`
	// Addresses that others are told. Default: the ports of bind; an empty host is the leader's address (leader_network.ip), else the primary interface's.
	Advertise Addresses `json:"advertise,omitzero"`
	// An address that moves to the leader.
	LeaderNetwork *LeaderNetwork `json:"leader_network,omitempty"`
	// The provider's subnets in named pools: at least one pool, at least one subnet in each, no subnet in two. Never CIDRs.
	SubnetPools map[string][]string `json:"subnet_pools"`
	// Pools that dynamic groups may use, unless their tenant has a list of its own. Empty: all.
	DynamicSubnetPools []string `json:"dynamic_subnet_pools,omitempty"`
	// Limit of one call of the provider. Default 30s.
	RequestTimeout Duration `json:"request_timeout,omitempty"`
	// Interval between reports of an agent; the server tells the agents. Default 60s.
	HealthCheckInterval Duration `json:"health_check_interval,omitempty"`
	// How long a machine may take to hand over its work before it is deleted; "0s" is no waiting. Default 5m.
	DrainTimeout Duration `json:"drain_timeout,omitempty"`
	// Interval between look-ups of images. Default 6h.
	ImageRefreshInterval Duration `json:"image_refresh_interval,omitempty"`
	// Limit of a graceful stop. Default 10s.
	ShutdownTimeout Duration `json:"shutdown_timeout,omitempty"`
	// The collection of what was left over.
	GarbageCollection GarbageCollection `json:"garbage_collection,omitzero"`
	// Ages at which machines are replaced. Absent: never.
	Expiry Expiry `json:"expiry,omitzero"`
	// Leadership of this shard.
	ShardElection Election `json:"shard_election,omitzero"`
	// Leadership of the cluster: who makes its keys and registers its operators.
	ClusterElection Election `json:"cluster_election,omitzero"`
	// The registration of agents.
	Registration Registration `json:"registration,omitzero"`
	// Tenants whose operators may act on the whole shard. Default: nobody where the shard has several tenants, else ["default"].
	AdminTenants []string `json:"admin_tenants,omitempty"`
	// What tenant default may have in this shard; the others have tenants.NAME.quota.
	DefaultQuota Quota `json:"default_quota,omitzero"`
	// Bounds on what the server does by itself.
	Rails Rails `json:"rails,omitzero"`
	// What groups of mode demand share: prices, quotas, whose priorities are comparable.
	Demand DemandServer `json:"demand,omitzero"`
	// Random wait before the process exits on a fatal error, at most 1h. Default 10s to 40s.
	ErrorExitJitter Jitter `json:"error_exit_jitter,omitzero"`
	// Life of client certificates, in hours.
	ClientCertTTL ClientCertTTL `json:"client_cert_ttl,omitzero"`
	// Let files of kind storage name any object of the bucket that is not the servers' own, not only those under "files/". Default false.
	AllowAnyStorageSource bool `json:"allow_any_storage_source,omitempty"`
}

// Provider names the cloud and the place in it.
type Provider struct {
	// Which cloud; each server program has one. "gcp" is another name of google.
	Kind string `json:"kind"`
	// Region, in the provider's words; for proxmox and local a label.
	Region string `json:"region,omitempty"`
	// Zone, in the provider's words; for proxmox and local a label.
	Zone string `json:"zone"`
	// Settings of the provider's own.
	Options map[string]any `json:"options,omitempty"`
	// Token buckets that replace the driver's own.
	Limits Limits `json:"limits,omitzero"`
}

// Limits are token buckets; nil is the driver's default.
type Limits struct {
	// Create calls.
	Calls *Bucket `json:"calls,omitempty"`
	// Machines created.
	Instances *Bucket `json:"instances,omitempty"`
	// Delete calls.
	Deletes *Bucket `json:"deletes,omitempty"`
	// Reading calls.
	Reads *Bucket `json:"reads,omitempty"`
}

// Bucket is a token bucket.
type Bucket struct {
	// Tokens per second, from 0.001 to 1000000.
	Rate float64 `json:"rate" jsonschema:"minimum=0.001,maximum=1000000"`
	// Tokens that may be saved up, at least 1.
	Burst int `json:"burst" jsonschema:"minimum=1"`
}

// Secrets says where keys and secrets are kept.
type Secrets struct {
	// The store. Default object-storage.
	Provider string `json:"provider,omitempty" jsonschema:"enum=object-storage,enum=aws-parameter-store,enum=aws-secrets-manager,enum=google-secret-manager"`
	// What stands before each name. Default: "secret/" in object storage, "/CLUSTER/" in the parameter store, "CLUSTER/" in AWS Secrets Manager, "CLUSTER-" in Google Secret Manager.
	Prefix string `json:"prefix,omitempty"`
	// Project of google-secret-manager, required there.
	ProjectID string `json:"project_id,omitempty"`
	// The key that seals secrets in object storage. Absent: they are stored in the clear, with a warning.
	EncryptionKey *KeySource `json:"encryption_key,omitempty"`
	// Older keys that can still open what they sealed.
	OldEncryptionKeys []KeySource `json:"old_encryption_keys,omitempty"`
	// How long a secret that was read may be used again. 0: not at all. Default 0.
	CacheTTL Duration `json:"cache_ttl,omitempty"`
}

// Stores of [Secrets].
const (
	SecretsObjectStorage       = "object-storage"
	SecretsAWSParameterStore   = "aws-parameter-store"
	SecretsAWSSecretsManager   = "aws-secrets-manager"
	SecretsGoogleSecretManager = "google-secret-manager"
)

// KeySource says where an encryption key comes from.
type KeySource struct {
	// What kind of place it is.
	Provider string `json:"provider" jsonschema:"enum=env,enum=file,enum=aws-parameter-store,enum=aws-secrets-manager,enum=google-secret-manager"`
	// Name of the environment variable (default NSTANCE_ENCRYPTION_KEY), path, name or ARN.
	Source string `json:"source,omitempty"`
	// Project of google-secret-manager, required there.
	ProjectID string `json:"project_id,omitempty"`
}

// Places of a [KeySource] besides the stores of [Secrets].
const (
	KeyFromEnv  = "env"
	KeyFromFile = "file"

	// DefaultKeyVariable is the environment variable of a [KeyFromEnv] without a source.
	DefaultKeyVariable = "NSTANCE_ENCRYPTION_KEY"
)

// Addresses are the server's five addresses, each host:port.
type Addresses struct {
	// HTTP health and readiness, for probes.
	Health string `json:"health_addr,omitempty"`
	// HTTPS between servers.
	Election string `json:"election_addr,omitempty"`
	// gRPC of machines and operators that have no certificate yet.
	Registration string `json:"registration_addr,omitempty"`
	// gRPC of operators and nstance-admin.
	Operator string `json:"operator_addr,omitempty"`
	// gRPC of agents.
	Agent string `json:"agent_addr,omitempty"`
}

// Bind are the addresses that a server listens on.
type Bind struct {
	// HTTP health and readiness, for probes.
	Health string `json:"health_addr,omitempty"`
	// HTTPS between servers.
	Election string `json:"election_addr,omitempty"`
	// gRPC of machines and operators that have no certificate yet.
	Registration string `json:"registration_addr,omitempty"`
	// gRPC of operators and nstance-admin.
	Operator string `json:"operator_addr,omitempty"`
	// gRPC of agents.
	Agent string `json:"agent_addr,omitempty"`
	// HTTP metrics, for Prometheus. They name all tenants and groups, and nobody is asked who they are: keep the address on loopback or behind
	// something that asks. The same as health_addr puts both on one port; empty: none are served.
	Metrics string `json:"metrics_addr,omitempty"`
}

// LeaderNetwork is an address that moves to the server that leads.
type LeaderNetwork struct {
	// The address.
	IP string `json:"ip"`
	// Args are the provider's own members, as they stand. Package rules of the provider reads them.
	Args map[string]any `json:"-" jsonc:"others"`
}

// Others is the type of the members that providers add; see [jsonc.Open].
func (LeaderNetwork) Others() reflect.Type { return schema.Known().LeaderNetwork }

// GarbageCollection says how left-overs are found and removed.
type GarbageCollection struct {
	// Interval between passes. Default 2m.
	Interval Duration `json:"interval,omitempty"`
	// How long a new machine may take to register. Default 5m.
	RegistrationTimeout Duration `json:"registration_timeout,omitempty"`
	// How long a deleted machine is still known by its id; the record of one on demand stays as long, at most 24h, so that its id is not used again. Default 30m.
	DeletedRecordRetention Duration `json:"deleted_record_retention,omitempty"`
}

// Expiry are the ages at which machines are replaced; 0 is never.
type Expiry struct {
	// From this age on a machine is replaced when its group is settled and a maintenance window is open, one at a time.
	EligibleAge Duration `json:"eligible_age,omitempty"`
	// From this age on it is replaced outside of maintenance windows too, and in a group that is not settled; at most a quarter of
	// a group at once. In demand mode the windows alone stop counting. Above eligible_age.
	ForcedAge Duration `json:"forced_age,omitempty"`
	// From this age on an on-demand machine is deleted, and nothing takes its place.
	OnDemandAge Duration `json:"ondemand_age,omitempty"`
}

// Election are the terms of one leadership.
type Election struct {
	// False for the shard: this server leads without a lock, for a single server only. False for the cluster: nobody leads it, its keys must exist. Default true.
	Enabled bool `json:"enabled,omitempty"`
	// The lease L: how long a leader that is not heard of still leads. Whole seconds from 5s, with gcs storage from 10s, to 1h. Default 15s.
	LeaderTimeout Duration `json:"leader_timeout,omitempty"`
	// Interval between the leader's renewals, at most L/3. Default L/3.
	FrequentInterval Duration `json:"frequent_interval,omitempty"`
	// Interval between a standby's looks at the stored lock while it hears from the leader. Default 30s.
	InfrequentInterval Duration `json:"infrequent_interval,omitempty"`
	// Interval between a standby's questions to the leader, at most L/10. Default L/25, at most 500ms.
	PeerInterval Duration `json:"peer_interval,omitempty"`
}

// Registration are the rules for agents that register.
type Registration struct {
	// What happens to a registration that comes from another address than those that the provider reports for the machine:
	// it is refused (require), granted with an error event (warn), or granted (off). Nothing where the provider reports none. true is read as require, false as off. Default warn.
	CheckSource SourceCheck `json:"check_source,omitempty"`
	// How long the nonce lives that a machine gets with its user data, from before the machine is asked for: at least garbage_collection.registration_timeout,
	// which counts from when the provider shows the machine running. Default: that time and the longest that the provider takes to make a machine.
	NonceTTL Duration `json:"nonce_ttl,omitempty"`
}

// Rails are bounds on what the server does without being told to.
type Rails struct {
	// Share of a group whose machines still run and may be under repair at once; never less than one machine. Rotation takes one at a time. Default 10%.
	MaxUnavailable Percent `json:"max_unavailable,omitempty"`
	// Share of the shard's machines that may be deleted in a minute with groups that were deleted, and share that may be replaced in
	// a minute after many were lost at once; never less than ten. Default 25%.
	MaxDeleteShare Percent `json:"max_delete_share,omitempty"`
	// How many machines a group may make in an hour in place of ones that never registered or ended within five minutes of it, at least 1. Default 5.
	NeverRegisteredPerHour int `json:"never_registered_per_hour,omitempty" jsonschema:"minimum=1"`
	// When machines may be replaced for eligible_age or a changed configuration; other work does not wait for them. Empty: always.
	MaintenanceWindows []MaintenanceWindow `json:"maintenance_windows,omitempty"`
}

// GroupRails are the bounds of a group that differ from the server's.
type GroupRails struct {
	// As in server.rails.
	MaxUnavailable *Percent `json:"max_unavailable,omitempty"`
	// Share of the group's machines that may be deleted in a minute once the group has left the configuration and is deleted; never less than one. The shard's bound, server.rails.max_delete_share, counts as well. Default: that one alone.
	MaxDeleteShare *Percent `json:"max_delete_share,omitempty"`
	// As in server.rails.
	NeverRegisteredPerHour *int `json:"never_registered_per_hour,omitempty" jsonschema:"minimum=1"`
	// As in server.rails. An empty list: always, whatever the server says.
	MaintenanceWindows []MaintenanceWindow `json:"maintenance_windows,omitzero"`
}

// MaintenanceWindow is a time that comes round again.
type MaintenanceWindow struct {
	// When it opens: minute, hour, day of month, month, day of week.
	Cron string `json:"cron"`
	// How long it stays open, above 0.
	Duration Duration `json:"duration"`
	// Time zone of cron, an IANA name. Default UTC.
	Timezone string `json:"timezone,omitempty"`
}

// Jitter is a range that a random wait is drawn from; 0 and 0 is no wait.
type Jitter struct {
	// The least. Default 10s.
	MinDelay Duration `json:"min_delay,omitempty"`
	// The most. Default 40s.
	MaxDelay Duration `json:"max_delay,omitempty"`
}

// ClientCertTTL is the life of client certificates.
type ClientCertTTL struct {
	// Agents, in hours, at most 87600. Default 720.
	Agent Hours `json:"agent,omitempty" jsonschema:"minimum=1,maximum=87600"`
	// Operators, in hours, at most 87600. Default 8760.
	Operator Hours `json:"operator,omitempty" jsonschema:"minimum=1,maximum=87600"`
}
