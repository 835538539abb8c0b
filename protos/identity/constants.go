package identity

import (
	"encoding/asn1"
	"strings"
)

// DefaultTenant is the tenant that every cluster has. It is implied:
// configuration never declares it.
const DefaultTenant = "default"

// Role is what a client certificate allows its owner to be.
type Role string

// The roles. A certificate has exactly one of them, or is no client
// certificate of ours.
const (
	RoleAgent    Role = "agent"
	RoleOperator Role = "operator"
	RoleViewer   Role = "viewer" // an operator who may look, and change nothing
)

// Operates reports whether the role is one of those who call the operators' service.
func (r Role) Operates() bool { return r == RoleOperator || r == RoleViewer }

// RoleOID identifies the certificate extension that holds the [Role], as a
// UTF8String. Its arc is private and unregistered: it means something inside
// one cluster's trust domain only.
var RoleOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 999999, 1}

// AnyServerName is the DNS name in every server's certificate, beside the one
// of [ServerName].
const AnyServerName = "nstance-server"

// ServerName is the DNS name in the certificate of a shard's servers. Clients
// set it as the TLS server name whatever address they dial, so a connection
// that lands at another shard fails in the handshake.
func ServerName(shard, cluster string) string { return shard + "." + cluster + ".nstance" }

// LeaderTrailer is the gRPC trailer in which a server that does not lead names the
// address, host:port, at which the leader offers the same service.
const LeaderTrailer = "nstance-leader"

// Names of the tags on a machine. Those of the first group are how machines of
// a shard are found and known; the others are for people and never decide
// anything.
const (
	TagManaged    = "nstance:managed" // "true" on every machine of ours
	TagClusterID  = "nstance:cluster-id"
	TagShard      = "nstance:shard"
	TagInstanceID = "nstance:instance-id"

	TagTenant    = "nstance:tenant"
	TagGroup     = "nstance:group"
	TagTemplate  = "nstance:template"
	TagKind      = "nstance:kind"
	TagCreatedAt = "nstance:created-at"
)

// Label returns the form of a tag's name for clouds whose labels know no colon:
// nstance:shard becomes nstance-shard.
func Label(tag string) string { return strings.ReplaceAll(tag, ":", "-") }

// Environment variables of the agent.
const (
	EnvDebug                  = "NSTANCE_DEBUG"
	EnvEnvironment            = "NSTANCE_ENVIRONMENT"
	EnvServerRegistrationAddr = "NSTANCE_SERVER_REGISTRATION_ADDR"
	EnvServerAgentAddr        = "NSTANCE_SERVER_AGENT_ADDR"
	EnvServerAddrFile         = "NSTANCE_SERVER_ADDR_FILE"
	EnvIdentityDir            = "NSTANCE_IDENTITY_DIR"
	EnvIdentityMode           = "NSTANCE_IDENTITY_MODE"
	EnvKeysDir                = "NSTANCE_KEYS_DIR"
	EnvKeysMode               = "NSTANCE_KEYS_MODE"
	EnvRecvDir                = "NSTANCE_RECV_DIR"
	EnvRecvMode               = "NSTANCE_RECV_MODE"
	EnvClusterDir             = "NSTANCE_CLUSTER_DIR"
	EnvClusterStatus          = "NSTANCE_CLUSTER_STATUS"
	EnvPaverSocket            = "NSTANCE_PAVER_SOCKET"
	EnvInstanceID             = "NSTANCE_INSTANCE_ID"
	EnvInstanceKind           = "NSTANCE_INSTANCE_KIND"
	EnvInstanceHostname       = "NSTANCE_INSTANCE_HOSTNAME"
	EnvInstanceFQDN           = "NSTANCE_INSTANCE_FQDN"
	EnvInstanceIPv4           = "NSTANCE_INSTANCE_IPV4"
	EnvInstanceIPv6           = "NSTANCE_INSTANCE_IPV6"
	EnvReportInterval         = "NSTANCE_REPORT_INTERVAL"
	EnvMetricsInterface       = "NSTANCE_METRICS_INTERFACE"
	EnvProvider               = "NSTANCE_PROVIDER"
	EnvSpotPollInterval       = "NSTANCE_SPOT_POLL_INTERVAL"
	EnvMetadataAddr           = "NSTANCE_METADATA_ADDR"
	EnvHealthAddr             = "NSTANCE_HEALTH_ADDR"
)

// Environment variables of the server, of the machines of its local provider,
// and of the CLI.
const (
	EnvEncryptionKey    = "NSTANCE_ENCRYPTION_KEY"
	EnvMachineDir       = "NSTANCE_MACHINE_DIR"
	EnvAdminContext     = "NSTANCE_ADMIN_CONTEXT"
	EnvAdminServers     = "NSTANCE_ADMIN_SERVERS"
	EnvAdminShard       = "NSTANCE_ADMIN_SHARD"
	EnvAdminIdentityDir = "NSTANCE_ADMIN_IDENTITY_DIR"
	EnvAdminTokenFile   = "NSTANCE_ADMIN_TOKEN_FILE"
)
