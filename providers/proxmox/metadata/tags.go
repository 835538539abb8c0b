// Package metadata writes down in Proxmox VE whose a machine is: in tags, by which machines
// are found, and in notes within its description, for people and for a machine whose maker
// died before it could set tags. It is pure.
package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Tags have no values here, so the ones that must not be taken for each other carry
// a prefix. Those of cluster and shard stand without one too, for people.
const (
	TagOwned    = "nstance"
	tagCluster  = "nstance-c-"
	tagShard    = "nstance-s-"
	tagInstance = "nstance-i-"
	tagGroup    = "nstance-g-"
	TagSep      = ";"
)

// plainName is what can stand in a tag as it is.
var plainName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// GroupTag is the tag of a group's machines, which are spread by it; empty: no group.
func GroupTag(tenant, group string) string {
	switch {
	case group == "":
		return ""
	case plainName.MatchString(tenant) && plainName.MatchString(group):
		return tagGroup + tenant + "." + group
	}
	sum := sha256.Sum256([]byte(tenant + "\x00" + group))
	return tagGroup + hex.EncodeToString(sum[:10])
}

// Tags are the tags of a machine that has some already: those of others stay. group is
// the groupTag.
func Tags(owner driver.Owner, id identity.ID, group string, has []string) []string {
	tags := []string{
		TagOwned, owner.Cluster, owner.Shard,
		tagCluster + owner.Cluster, tagShard + owner.Shard, tagInstance + string(id),
	}
	if group != "" {
		tags = append(tags, group)
	}
	for _, tag := range has {
		if !slices.ContainsFunc([]string{tagCluster, tagShard, tagInstance, tagGroup}, func(p string) bool { return strings.HasPrefix(tag, p) }) {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// SplitTags reads a list of tags as the API writes it, or as a person may have.
func SplitTags(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(";, ", r) })
}

// OwnedBy reports whether tags say that a machine belongs to owner. Prefixed tags
// decide where there are any; two clusters may have each other's name for a shard.
func OwnedBy(tags []string, owner driver.Owner) bool {
	if !slices.Contains(tags, TagOwned) {
		return false
	}
	says := func(prefix, name string) bool {
		if prefixed, ok := afterPrefix(tags, prefix); ok {
			return prefixed == name
		}
		return slices.Contains(tags, name)
	}
	return says(tagCluster, owner.Cluster) && says(tagShard, owner.Shard)
}

// TaggedID returns the instance id that tags name; empty if they name none.
func TaggedID(tags []string) identity.ID {
	text, _ := afterPrefix(tags, tagInstance)
	id, err := identity.ParseID(text)
	if err != nil {
		return ""
	}
	return id
}

func afterPrefix(tags []string, prefix string) (rest string, ok bool) {
	for _, tag := range tags {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			return rest, true
		}
	}
	return "", false
}
