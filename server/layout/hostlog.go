package layout

import (
	"strings"
	"time"

	"nstance.dev/protos/identity"
)

// HostLog names logs that a host has handed over.
type HostLog struct {
	Tenant    string
	Instance  identity.ID
	At        time.Time // when they were stored first, to the millisecond
	Operation string    // that has collected them
}

const (
	// HostLogs is what the keys of the logs of all hosts begin with.
	HostLogs = "hostlog/"

	hostLogSuffix = ".log.gz"
)

// HostLogPrefix returns what the keys of the logs of all the shard's hosts begin with.
func HostLogPrefix(shard string) string { return key(HostLogs, shard, "/") }

// HostLogsOf returns what the keys of the logs of one instance begin with, the oldest first.
func HostLogsOf(shard, tenant string, id identity.ID) string {
	return join(HostLogPrefix(shard), key("", tenant, "."), idPart(id, false), ".")
}

// Key returns the key of the logs in a shard, or "" if l names nothing valid.
func (l HostLog) Key(shard string) string {
	if !ValidOperationID(l.Operation) {
		return ""
	}
	return join(HostLogsOf(shard, l.Tenant, l.Instance), FormatTimestamp(l.At), ".", l.Operation, hostLogSuffix)
}

// ParseHostLogKey reads what [HostLog.Key] returned. Errors match [ErrKey].
func ParseHostLogKey(k string) (shard string, l HostLog, err error) {
	folder, name, _ := cutKey(k, HostLogs, hostLogSuffix)
	if parts := strings.Split(name, "."); len(parts) == 4 {
		l = HostLog{Tenant: parts[0], Operation: parts[3]}
		l.Instance, _ = identity.ParseID(parts[1])
		if l.At, err = ParseTimestamp(parts[2]); err == nil && l.Key(folder) == k {
			return folder, l, nil
		}
	}
	return "", HostLog{}, keyError(k, "hostlog/{shard}/{tenant}.{instance-id}.{timestamp}.{operation}.log.gz")
}
