package layout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/server/layout"
)

func TestKeys(t *testing.T) {
	hash := strings.Repeat("0f", 32)
	for want, got := range map[string]string{
		"leader/us-west-2a.json":                                                      layout.LeaderKey("us-west-2a"),
		"config/us-west-2a.jsonc":                                                     layout.ConfigKey("us-west-2a"),
		"groups/us-west-2a.jsonc":                                                     layout.GroupsKey("us-west-2a"),
		"instance/us-west-2a/prod." + node.String() + ".json":                         layout.InstanceKey("us-west-2a", "prod", node),
		"operator/prod." + operator.UUID().String() + "-opr.json":                     layout.OperatorKey("prod", operator),
		"operator-nonce/" + hash:                                                      layout.OperatorNonceKey(hash),
		"certlog/us-west-2a/prod.2026-11-21t12-30-15-042z." + node.String() + ".json": layout.CertlogKey("us-west-2a", "prod", moment, node),
		"snapshot/us-west-2a/00000000000000000012-0003.json.gz":                       layout.SnapshotKey("us-west-2a", 12, 3),
		"decision/us-west-2a.json.gz":                                                 layout.DecisionKey("us-west-2a"),
		"tenant/us-west-2a/prod.json":                                                 layout.TenantKey("us-west-2a", "prod"),
		"machine/us-west-2a/prod." + node.String() + ".json":                          layout.MachineKey("us-west-2a", "prod", node),
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	for _, key := range []string{
		layout.InstanceKey("us-west-2a", "prod", operator), layout.OperatorKey("prod", node), layout.MachineKey("us-west-2a", "prod", operator),
		layout.OperatorNonceKey(strings.ToUpper(hash)), layout.SnapshotKey("a", 0, 1), layout.LeaderKey("cluster"),
	} {
		if key != "" {
			t.Errorf("key %q for something that has none", key)
		}
	}
}

func TestF52_BadNamesGiveNoKey(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "a%2fb", "a.b", "A", "а", "a--b", "-a", strings.Repeat("a", 33), "a\x00"} {
		for _, key := range []string{
			layout.LeaderKey(name), layout.ConfigKey(name), layout.GroupsKey(name), layout.InstancePrefix(name),
			layout.InstanceKey(name, "prod", node), layout.InstanceKey("a", name, node), layout.OperatorKey(name, operator),
			layout.CertlogKey(name, "prod", moment, node), layout.CertlogKey("a", name, moment, node),
			layout.SnapshotKey(name, 1, 1), layout.DecisionKey(name), layout.TenantKey(name, "prod"), layout.TenantKey("a", name),
			layout.MachinePrefix(name), layout.MachineKey(name, "prod", node), layout.MachineKey("a", name, node),
		} {
			if key != "" {
				t.Errorf("name %q gives key %q", name, key)
			}
		}
	}
}

func TestTimestampsSortAsTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) time.Time {
			return time.UnixMilli(rapid.Int64Range(0, 253402300799999).Draw(t, name))
		}
		a, b := draw("a"), draw("b")
		if strings.Compare(layout.FormatTimestamp(a), layout.FormatTimestamp(b)) != a.Compare(b) {
			t.Fatalf("%v and %v", a, b)
		}
		if got, err := layout.ParseTimestamp(layout.FormatTimestamp(a)); err != nil || !got.Equal(a) {
			t.Fatalf("read again as %v: %v", got, err)
		}
	})
}

// FuzzParseKeys shows that every key that a parser takes is the one that its
// builder makes of the parts, so no two keys mean the same.
func FuzzParseKeys(f *testing.F) {
	f.Add(layout.InstanceKey("a", "prod", node))
	f.Add(layout.OperatorKey("prod", operator))
	f.Add(layout.CertlogKey("a", "prod", moment, node))
	f.Add(layout.SnapshotKey("a", 12, 3))
	f.Add(layout.MachineKey("a", "prod", node))
	f.Add("snapshot/a/1-1.json.gz")
	f.Add("operator/operator/prod.x.json.json")
	f.Fuzz(func(t *testing.T, k string) {
		check := func(again string, err error) {
			if err == nil && (k == "" || again != k) {
				t.Fatalf("%q is read, and written as %q", k, again)
			}
			if err != nil && !errors.Is(err, layout.ErrKey) {
				t.Fatalf("error of another kind: %v", err)
			}
		}
		shard, tenant, id, err := layout.ParseInstanceKey(k)
		check(layout.InstanceKey(shard, tenant, id), err)
		shard, tenant, id, err = layout.ParseMachineKey(k)
		check(layout.MachineKey(shard, tenant, id), err)
		tenant, id, err = layout.ParseOperatorKey(k)
		check(layout.OperatorKey(tenant, id), err)
		shard, tenant, at, id, err := layout.ParseCertlogKey(k)
		check(layout.CertlogKey(shard, tenant, at, id), err)
		shard, generation, part, err := layout.ParseSnapshotKey(k)
		check(layout.SnapshotKey(shard, generation, part), err)
	})
}
