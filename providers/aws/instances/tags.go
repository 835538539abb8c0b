package instances

import (
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

const (
	tagName = "Name" // what the console shows

	managed = "true" // the value of identity.TagManaged
)

// tagged are the kinds of resource that a create tags: what exists because of the
// machine and may outlive it.
var tagged = []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface}

// tagsOf are the tags of a machine and its parts.
func tagsOf(req driver.CreateRequest) []types.Tag {
	return []types.Tag{
		tag(identity.TagManaged, managed),
		tag(identity.TagClusterID, req.Owner.Cluster),
		tag(identity.TagShard, req.Owner.Shard),
		tag(identity.TagInstanceID, string(req.InstanceID)),
		tag(identity.TagTenant, req.Tenant),
		tag(identity.TagGroup, req.Group),
		tag(identity.TagTemplate, req.Template),
		tag(identity.TagKind, req.Kind),
		tag(identity.TagCreatedAt, req.CreatedAt.UTC().Format(time.RFC3339)),
	}
}

func tag(key, value string) types.Tag {
	return types.Tag{Key: sdk.String(key), Value: sdk.String(value)}
}

// withTags adds ours to the tags that the arguments ask for, which keep their
// order. A name that they give stays, because it is only for display.
func withTags(given []types.TagSpecification, ours []types.Tag, name string) []types.TagSpecification {
	var specs []types.TagSpecification
	index := map[types.ResourceType]int{}
	add := func(resource types.ResourceType, tags ...types.Tag) {
		i, there := index[resource]
		if !there {
			i = len(specs)
			index[resource] = i
			specs = append(specs, types.TagSpecification{ResourceType: resource})
		}
		specs[i].Tags = append(specs[i].Tags, tags...)
	}
	for _, spec := range given {
		add(spec.ResourceType, spec.Tags...)
	}
	for _, resource := range tagged {
		if i, there := index[resource]; !there || !hasTag(specs[i].Tags, tagName) {
			add(resource, tag(tagName, name))
		}
		add(resource, ours...)
	}
	return specs
}

func hasTag(tags []types.Tag, key string) bool {
	return slices.ContainsFunc(tags, func(t types.Tag) bool { return sdk.ToString(t.Key) == key })
}

// tagMap makes the tags of a machine a map.
func tagMap(tags []types.Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	return m
}

// ofOwner selects the machines of an owner that have not ended.
func ofOwner(owner driver.Owner) []types.Filter {
	return []types.Filter{
		api.Filter("tag:"+identity.TagManaged, managed),
		api.Filter("tag:"+identity.TagClusterID, owner.Cluster),
		api.Filter("tag:"+identity.TagShard, owner.Shard),
		api.Filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped"),
	}
}

// ofInstance selects the machines that carry one of the instance ids, those that have
// ended included.
func ofInstance(ids ...string) []types.Filter {
	return []types.Filter{api.Filter("tag:"+identity.TagManaged, managed), api.Filter("tag:"+identity.TagInstanceID, ids...)}
}
