package capi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// separator cannot occur in an identifier of the servers, so what it joins comes apart
// again in one way only.
const separator = "--"

// Cluster returns the name of the Cluster of a tenant, and of the objects that go with
// it: cluster--tenant. It fits into a label: one of more than 63 characters is the first
// 54, a hyphen and a hash.
func Cluster(clusterID, tenant string) string {
	name := clusterID + separator + tenant
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return strings.TrimRight(name[:54], "-") + "-" + short(name)
}

// ShardGroup returns the name of the NstanceShardGroup of a group on a shard: group--shard.
func ShardGroup(group, shard string) string { return group + separator + shard }

// SplitShardGroup returns what [ShardGroup] joined; false: it did not make this name.
func SplitShardGroup(name string) (group, shard string, ok bool) {
	return strings.Cut(name, separator)
}

// PoolLabel returns the value of label cluster.x-k8s.io/pool-name for a MachinePool: its
// name, or the form that Cluster API gives to a name that is no value of a label. Cluster
// API finds the machines of a pool by it, so the two must agree to the letter
// (sigs.k8s.io/cluster-api/util/labels/format).
func PoolLabel(machinePool string) string {
	if len(validation.IsValidLabelValue(machinePool)) == 0 {
		return machinePool
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(machinePool)) // never fails
	return "hash_" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)) + "_z"
}

// Label returns a name as the value of a label: one of more than 63 characters is the
// first 54, a hyphen and a hash. The name must be one of Kubernetes' own.
func Label(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return strings.TrimRight(name[:54], "-.") + "-" + short(name)
}

// OnDemand returns the name of the Machine, and of the NstanceMachine, of a Pod that has
// an instance of its own. The Pod's name is there for users; its UID alone makes the
// name differ from those of other Pods, of the same name in another namespace and of a
// later one.
func OnDemand(pod string, uid types.UID) string {
	return "on-demand-" + strings.TrimRight(pod[:min(len(pod), 40)], "-.") + "-" + short(string(uid))
}

// Taken returns another name for an object whose name somebody else's object has.
func Taken(name string) string { return name + "-" + short(name) }

// short returns eight characters that depend on all of text.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
