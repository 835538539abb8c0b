package bucket_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/server/bucket"
)

func TestKeys(t *testing.T) {
	hash := strings.Repeat("0f", 32)
	for want, got := range map[string]string{
		"leader/us-west-2a.json":                                                      bucket.LeaderKey("us-west-2a"),
		"config/us-west-2a.jsonc":                                                     bucket.ConfigKey("us-west-2a"),
		"groups/us-west-2a.jsonc":                                                     bucket.GroupsKey("us-west-2a"),
		"instance/us-west-2a/prod." + node.String() + ".json":                         bucket.InstanceKey("us-west-2a", "prod", node),
		"operator/prod." + operator.UUID().String() + "-opr.json":                     bucket.OperatorKey("prod", operator),
		"operator-nonce/" + hash:                                                      bucket.OperatorNonceKey(hash),
		"certlog/us-west-2a/prod.2026-11-21t12-30-15-042z." + node.String() + ".json": bucket.CertlogKey("us-west-2a", "prod", moment, node),
		"snapshot/us-west-2a/00000000000000000012-0003.json.gz":                       bucket.SnapshotKey("us-west-2a", 12, 3),
		"tenant/us-west-2a/prod.json":                                                 bucket.TenantKey("us-west-2a", "prod"),
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	for _, key := range []string{
		bucket.InstanceKey("us-west-2a", "prod", operator), bucket.OperatorKey("prod", node),
		bucket.OperatorNonceKey(strings.ToUpper(hash)), bucket.SnapshotKey("a", 0, 1), bucket.LeaderKey("cluster"),
	} {
		if key != "" {
			t.Errorf("key %q for something that has none", key)
		}
	}
}

func TestF52_BadNamesGiveNoKey(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "a%2fb", "a.b", "A", "а", "a--b", "-a", strings.Repeat("a", 33), "a\x00"} {
		for _, key := range []string{
			bucket.LeaderKey(name), bucket.ConfigKey(name), bucket.GroupsKey(name), bucket.InstancePrefix(name),
			bucket.InstanceKey(name, "prod", node), bucket.InstanceKey("a", name, node), bucket.OperatorKey(name, operator),
			bucket.CertlogKey(name, "prod", moment, node), bucket.CertlogKey("a", name, moment, node),
			bucket.SnapshotKey(name, 1, 1), bucket.TenantKey(name, "prod"), bucket.TenantKey("a", name),
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
		if strings.Compare(bucket.FormatTimestamp(a), bucket.FormatTimestamp(b)) != a.Compare(b) {
			t.Fatalf("%v and %v", a, b)
		}
		if got, err := bucket.ParseTimestamp(bucket.FormatTimestamp(a)); err != nil || !got.Equal(a) {
			t.Fatalf("read again as %v: %v", got, err)
		}
	})
}

// FuzzParseKeys shows that every key that a parser takes is the one that its
// builder makes of the parts, so no two keys mean the same.
func FuzzParseKeys(f *testing.F) {
	f.Add(bucket.InstanceKey("a", "prod", node))
	f.Add(bucket.OperatorKey("prod", operator))
	f.Add(bucket.CertlogKey("a", "prod", moment, node))
	f.Add(bucket.SnapshotKey("a", 12, 3))
	f.Add("snapshot/a/1-1.json.gz")
	f.Add("operator/operator/prod.x.json.json")
	f.Fuzz(func(t *testing.T, k string) {
		check := func(again string, err error) {
			if err == nil && (k == "" || again != k) {
				t.Fatalf("%q is read, and written as %q", k, again)
			}
			if err != nil && !errors.Is(err, bucket.ErrKey) {
				t.Fatalf("error of another kind: %v", err)
			}
		}
		shard, tenant, id, err := bucket.ParseInstanceKey(k)
		check(bucket.InstanceKey(shard, tenant, id), err)
		tenant, id, err = bucket.ParseOperatorKey(k)
		check(bucket.OperatorKey(tenant, id), err)
		shard, tenant, at, id, err := bucket.ParseCertlogKey(k)
		check(bucket.CertlogKey(shard, tenant, at, id), err)
		shard, generation, part, err := bucket.ParseSnapshotKey(k)
		check(bucket.SnapshotKey(shard, generation, part), err)
	})
}
