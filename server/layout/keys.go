package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"nstance.dev/protos/identity"
)

// ErrKey says that a key is not one of the form that was expected.
var ErrKey = errors.New("not a key of this layout")

// Keys that a cluster has once.
const (
	// CACertKey holds the cluster's CA certificates, the newest first, as PEM.
	CACertKey = "ca.crt"
	// ClusterLeaderKey holds the lock of the cluster's leader.
	ClusterLeaderKey = "leader/cluster.json"
	// OperatorPrefix is where the operators' records begin.
	OperatorPrefix = "operator/"
)

// timestampLayout is how a moment stands in a key, up to its milliseconds,
// which no layout can put after a hyphen.
const timestampLayout = "2006-01-02t15-04-05"

// LeaderKey returns the key of the shard leader's lock. A shard called
// "cluster" would share its key with the cluster's lock, so it gets none.
func LeaderKey(shard string) string {
	if shard == "cluster" {
		return ""
	}
	return key("leader/", shard, ".json")
}

// ConfigPrefix begins the keys of the configuration files.
const ConfigPrefix = "config/"

// ConfigKey returns the key of the shard's configuration file.
func ConfigKey(shard string) string { return key(ConfigPrefix, shard, ".jsonc") }

// GroupsKey returns the key of the shard's file of dynamic groups.
func GroupsKey(shard string) string { return key("groups/", shard, ".jsonc") }

// PreviousGroupsKey returns the key of the last readable copy of the shard's file of
// dynamic groups. No shard's own file has it: names have no dot.
func PreviousGroupsKey(shard string) string { return key("groups/", shard, ".previous.jsonc") }

// DamagedGroupsKey returns the key under which a file of dynamic groups that could
// not be read is kept when another takes its place.
func DamagedGroupsKey(shard string) string { return key("groups/", shard, ".damaged.jsonc") }

// ParseGroupsKey reads what [GroupsKey] returned. Errors match [ErrKey].
func ParseGroupsKey(k string) (shard string, err error) {
	shard = strings.TrimSuffix(strings.TrimPrefix(k, "groups/"), ".jsonc")
	if k == "" || GroupsKey(shard) != k {
		return "", keyError(k, "groups/{shard}.jsonc")
	}
	return shard, nil
}

// InstancePrefix returns what the keys of all the shard's instance records
// begin with.
func InstancePrefix(shard string) string { return key("instance/", shard, "/") }

// InstanceKey returns the key of an instance's record.
func InstanceKey(shard, tenant string, id identity.ID) string {
	return join(InstancePrefix(shard), key("", tenant, "."), idPart(id, false), ".json")
}

// ParseInstanceKey reads what [InstanceKey] returned. Errors match [ErrKey].
func ParseInstanceKey(k string) (shard, tenant string, id identity.ID, err error) {
	folder, name, ok := cutKey(k, "instance/", ".json")
	tenant, last, dotted := strings.Cut(name, ".")
	if id, err = identity.ParseID(last); !ok || !dotted || err != nil || InstanceKey(folder, tenant, id) != k {
		return "", "", "", keyError(k, "instance/{shard}/{tenant}.{instance-id}.json")
	}
	return folder, tenant, id, nil
}

// OperatorKey returns the key of an operator's record. Ids stand in it by
// their storage form, UUID first.
func OperatorKey(tenant string, id identity.ID) string {
	return join(OperatorPrefix, key("", tenant, "."), idPart(id, true), ".json")
}

// ParseOperatorKey reads what [OperatorKey] returned. Errors match [ErrKey].
func ParseOperatorKey(k string) (tenant string, id identity.ID, err error) {
	name := strings.TrimSuffix(strings.TrimPrefix(k, OperatorPrefix), ".json")
	tenant, last, _ := strings.Cut(name, ".")
	if id, err = identity.ParseStorageKey(last); err != nil || OperatorKey(tenant, id) != k {
		return "", "", keyError(k, "operator/{tenant}.{uuid}-opr.json")
	}
	return tenant, id, nil
}

// OperatorNonceKey returns the key of the mark that an operator's nonce is
// used up. hash is the SHA-256 of the nonce in 64 hexadecimal digits of lower case.
func OperatorNonceKey(hash string) string {
	if !isSHA256(hash) {
		return ""
	}
	return "operator-nonce/" + hash
}

// CertlogKey returns the key of the log of certificates issued to an instance
// at one moment, which is kept to the millisecond.
func CertlogKey(shard, tenant string, at time.Time, id identity.ID) string {
	return join(key("certlog/", shard, "/"), key("", tenant, "."), FormatTimestamp(at)+".", idPart(id, false), ".json")
}

// ParseCertlogKey reads what [CertlogKey] returned. Errors match [ErrKey].
func ParseCertlogKey(k string) (shard, tenant string, at time.Time, id identity.ID, err error) {
	folder, name, _ := cutKey(k, "certlog/", ".json")
	parts := strings.Split(name, ".")
	if len(parts) == 3 {
		at, err = ParseTimestamp(parts[1])
		if id, _ = identity.ParseID(parts[2]); err == nil && CertlogKey(folder, parts[0], at, id) == k {
			return folder, parts[0], at, id, nil
		}
	}
	return "", "", time.Time{}, "", keyError(k, "certlog/{shard}/{tenant}.{timestamp}.{instance-id}.json")
}

// DecisionKey returns the key of the decisions that a shard has made lately.
func DecisionKey(shard string) string { return key("decision/", shard, ".json.gz") }

// SnapshotPrefix returns what the keys of the shard's snapshots begin with.
func SnapshotPrefix(shard string) string { return key("snapshot/", shard, "/") }

// SnapshotKey returns the key of one part of a snapshot of the shard's
// records. Generations and parts count from 1; a listing has them in order.
func SnapshotKey(shard string, generation uint64, part int) string {
	if generation == 0 || part < 1 || part > 9999 {
		return ""
	}
	return join(SnapshotPrefix(shard), fmt.Sprintf("%020d-%04d", generation, part), ".json.gz")
}

// ParseSnapshotKey reads what [SnapshotKey] returned. Errors match [ErrKey].
func ParseSnapshotKey(k string) (shard string, generation uint64, part int, err error) {
	folder, name, _ := cutKey(k, "snapshot/", ".json.gz")
	first, second, _ := strings.Cut(name, "-")
	generation, _ = strconv.ParseUint(first, 10, 64)
	part, _ = strconv.Atoi(second)
	if k == "" || SnapshotKey(folder, generation, part) != k {
		return "", 0, 0, keyError(k, "snapshot/{shard}/{generation}-{part}.json.gz")
	}
	return folder, generation, part, nil
}

// TenantKey returns the key of a tenant's state in a shard.
func TenantKey(shard, tenant string) string {
	return join(key("tenant/", shard, "/"), key("", tenant, ".json"))
}

// MachinePrefix returns what the keys of the assignments of all the shard's host machines
// begin with.
func MachinePrefix(shard string) string { return key("machine/", shard, "/") }

// MachineKey returns the key of the assignment of an instance's host machine.
func MachineKey(shard, tenant string, id identity.ID) string {
	return join(MachinePrefix(shard), key("", tenant, "."), idPart(id, false), ".json")
}

// ParseMachineKey reads what [MachineKey] returned. Errors match [ErrKey].
func ParseMachineKey(k string) (shard, tenant string, id identity.ID, err error) {
	folder, name, ok := cutKey(k, "machine/", ".json")
	tenant, last, dotted := strings.Cut(name, ".")
	if id, err = identity.ParseID(last); !ok || !dotted || err != nil || MachineKey(folder, tenant, id) != k {
		return "", "", "", keyError(k, "machine/{shard}/{tenant}.{instance-id}.json")
	}
	return folder, tenant, id, nil
}

// FormatTimestamp writes t as it stands in keys: in UTC, to the millisecond,
// such that the order of texts is the order of times (2006-01-02t15-04-05-000z).
func FormatTimestamp(t time.Time) string {
	t = t.UTC()
	return fmt.Sprintf("%s-%03dz", t.Format(timestampLayout), t.Nanosecond()/int(time.Millisecond))
}

// ParseTimestamp reads what [FormatTimestamp] wrote. Errors match [ErrKey].
func ParseTimestamp(s string) (time.Time, error) {
	if n := len(timestampLayout); len(s) == n+len("-000z") {
		t, err := time.Parse(timestampLayout, s[:n])
		ms, errMS := strconv.ParseUint(s[n+1:n+4], 10, 16)
		t = t.Add(time.Duration(ms) * time.Millisecond)
		if err == nil && errMS == nil && FormatTimestamp(t) == s {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: timestamp %q is not of the form 2006-01-02t15-04-05-000z", ErrKey, s)
}

// key returns name between before and after, or "" for an invalid name.
func key(before, name, after string) string {
	if identity.ValidateName(name) != nil {
		return ""
	}
	return before + name + after
}

// idPart returns id in its own or its storage form, or "" for a malformed one.
func idPart(id identity.ID, storage bool) string {
	if _, err := identity.ParseID(id.String()); err != nil || storage != (id.Prefix() == identity.OperatorPrefix) {
		return ""
	}
	if storage {
		return id.StorageKey()
	}
	return id.String()
}

// join returns the parts as one key, or "" where one of them is missing.
func join(parts ...string) string {
	for _, p := range parts {
		if p == "" {
			return ""
		}
	}
	return strings.Join(parts, "")
}

// cutKey returns what stands between prefix and suffix, cut at its one slash.
func cutKey(k, prefix, suffix string) (folder, name string, ok bool) {
	k, hasPrefix := strings.CutPrefix(k, prefix)
	k, hasSuffix := strings.CutSuffix(k, suffix)
	folder, name, ok = strings.Cut(k, "/")
	return folder, name, ok && hasPrefix && hasSuffix
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func keyError(k, form string) error {
	const most = 200
	return fmt.Errorf("%w: %q is not of the form %s", ErrKey, k[:min(len(k), most)], form)
}
