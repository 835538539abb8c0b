package metadata

import (
	"slices"
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

const testID identity.ID = "knc068a3cp3thz5z2mv1gejwftabc"

func TestTagsOf(t *testing.T) {
	owner := driver.Owner{Cluster: "prod", Shard: "rack-1"}
	for name, c := range map[string]struct{ has, want []string }{
		"of a machine without any": {
			nil,
			[]string{"nstance", "nstance-c-prod", "nstance-i-" + string(testID), "nstance-s-rack-1", "prod", "rack-1"},
		},
		"others' stay, once, and what a copied machine says of itself goes": {
			[]string{"debian", "prod", "nstance-s-rack-2", "nstance-i-knc06bgm7733st2576nx5jht4ecjw"},
			[]string{"debian", "nstance", "nstance-c-prod", "nstance-i-" + string(testID), "nstance-s-rack-1", "prod", "rack-1"},
		},
	} {
		if got := Tags(owner, testID, "", c.has); !slices.Equal(got, c.want) {
			t.Errorf("tags %s: %q, want %q", name, got, c.want)
		}
	}
}

func TestS6_OwnedByTags(t *testing.T) {
	owner := driver.Owner{Cluster: "a", Shard: "b"}
	for name, c := range map[string]struct {
		tags string
		want bool
	}{
		"its own":                                 {"a;b;nstance;nstance-c-a;nstance-s-b", true},
		"its own, without prefixed ones":          {"a;b;nstance", true},
		"separated by what a person types":        {"a, b nstance", true},
		"of cluster b, whose shard is called a":   {"a;b;nstance;nstance-c-b;nstance-s-a", false},
		"of another shard":                        {"a;c;nstance;nstance-c-a;nstance-s-c", false},
		"of another cluster that has the tag too": {"a;b;nstance;nstance-c-x;nstance-s-b", false},
		"nobody's": {"a;b", false},
		"none":     {"", false},
	} {
		if got := OwnedBy(SplitTags(c.tags), owner); got != c.want {
			t.Errorf("tags %s, %q: owned %t", name, c.tags, got)
		}
	}
}

func TestTaggedID(t *testing.T) {
	for tags, want := range map[string]identity.ID{
		"nstance;nstance-i-" + string(testID): testID,
		"nstance;nstance-i-web":               "",
		"nstance":                             "",
	} {
		if got := TaggedID(SplitTags(tags)); got != want {
			t.Errorf("tags %q name %q, want %q", tags, got, want)
		}
	}
}
