package instances

import (
	"strconv"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// The labels of a machine.
var (
	labelManaged    = identity.Label(identity.TagManaged)
	labelCluster    = identity.Label(identity.TagClusterID)
	labelShard      = identity.Label(identity.TagShard)
	labelInstanceID = identity.Label(identity.TagInstanceID)
	labelTenant     = identity.Label(identity.TagTenant)
	labelGroup      = identity.Label(identity.TagGroup)
	labelTemplate   = identity.Label(identity.TagTemplate)
	labelKind       = identity.Label(identity.TagKind)
	labelCreatedAt  = identity.Label(identity.TagCreatedAt)
)

// labelsOf are the labels by which a machine is found and known, and those that
// people read.
func labelsOf(req driver.CreateRequest) map[string]string {
	return map[string]string{
		labelManaged:    "true",
		labelCluster:    labelValue(req.Owner.Cluster),
		labelShard:      labelValue(req.Owner.Shard),
		labelInstanceID: string(req.InstanceID),
		labelTenant:     labelValue(req.Tenant),
		labelGroup:      labelValue(req.Group),
		labelTemplate:   labelValue(req.Template),
		labelKind:       labelValue(req.Kind),
		labelCreatedAt:  strconv.FormatInt(req.CreatedAt.Unix(), 10),
	}
}

// labelValue is text as labels allow it: small letters, - for _.
func labelValue(text string) string {
	return strings.ReplaceAll(strings.ToLower(text), "_", "-")
}

// ownerFilter selects the machines of an owner.
func ownerFilter(owner driver.Owner) string {
	var terms []string
	for _, l := range [][2]string{{labelManaged, "true"}, {labelCluster, labelValue(owner.Cluster)}, {labelShard, labelValue(owner.Shard)}} {
		terms = append(terms, "labels."+l[0]+" = "+strconv.Quote(l[1]))
	}
	return api.AllOf(terms...)
}

// owned reports whether labels are those of a machine of the owner.
func owned(labels map[string]string, owner driver.Owner) bool {
	return labels[labelManaged] == "true" &&
		labels[labelCluster] == labelValue(owner.Cluster) && labels[labelShard] == labelValue(owner.Shard)
}
