package capi_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"nstance.dev/operator/capi"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 32)
	tests := []struct{ name, got, want string }{
		{"a cluster", capi.Cluster("example", "default"), "example--default"},
		{"a cluster that just fits", capi.Cluster(long, long[:29]), long + "--" + long[:29]},
		{"a cluster that is too long", capi.Cluster(long, long), strings.Repeat("a", 32) + "--" + strings.Repeat("a", 20) + "-94580967"},
		{"a part of a group", capi.ShardGroup("workers", "us-west-2a"), "workers--us-west-2a"},
		{"a pool", capi.PoolLabel("workers"), "workers"},
		{"a pool with a long name", capi.PoolLabel(strings.Repeat("p", 64)), "hash_X-hqxQ_z"},
		{"a Pod's own", capi.OnDemand("job-1", "uid-1"), "on-demand-job-1-4a49acf8"},
		{"a Pod's own, cut", capi.OnDemand(strings.Repeat("p", 39)+".x", "uid-1"), "on-demand-" + strings.Repeat("p", 39) + "-4a49acf8"},
		{"a label", capi.Label("web-0"), "web-0"},
		{"another name", capi.Taken("web"), "web-4b5e57f6"},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
}

func TestWhatIsTooLongStaysApart(t *testing.T) {
	long := strings.Repeat("a", 32)
	a, b := capi.Cluster(long, long), capi.Cluster(long, long[:31]+"b")
	if a == b {
		t.Errorf("two clusters are both %q", a)
	}
	c, d := capi.Label(strings.Repeat("p", 64)), capi.Label(strings.Repeat("p", 65))
	if c == d {
		t.Errorf("two Pods are both %q", c)
	}
	for _, value := range []string{a, b, c, d} {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("%q is no value of a label: %v", value, problems)
		}
	}
	if x, y := capi.OnDemand("p", "1"), capi.OnDemand("p", "2"); x == y {
		t.Errorf("two Pods of one name share %q", x)
	}
}

func TestSplitShardGroup(t *testing.T) {
	if group, shard, ok := capi.SplitShardGroup(capi.ShardGroup("web-1", "zone-a")); !ok || group != "web-1" || shard != "zone-a" {
		t.Errorf("%q %q %v", group, shard, ok)
	}
	if _, _, ok := capi.SplitShardGroup("web-1"); ok {
		t.Error("a name without a shard is split")
	}
}
