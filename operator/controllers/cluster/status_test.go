package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func contact(ago time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(now.Add(-ago))) }

// connected is a shard that answered a moment ago.
func connected(name string, ago time.Duration) shardView {
	return shardView{
		name: name, heard: true, groups: 2, instances: 5, zone: name + "1", region: "r", provider: "local",
		connection: shards.Status{State: shards.Ready, Address: name + ":1", Term: 7, LastContact: now.Add(-ago)},
	}
}

func lost(name string, reason shards.Reason) shardView {
	return shardView{name: name, connection: shards.Status{State: shards.Unreachable, Reason: reason, Message: "no"}}
}

func domain(name string) clusterv1.FailureDomain {
	return clusterv1.FailureDomain{
		Name: name, ControlPlane: ptr.To(false), Attributes: map[string]string{"zone": name + "1", "region": "r", "provider": "local"},
	}
}

// summary is what a status says in short.
func summary(status infrav1.NstanceClusterStatus) map[string]string {
	all := map[string]string{"shards": status.ShardsReachable}
	for _, c := range status.Conditions {
		all[c.Type] = string(c.Status) + " " + c.Reason
		if c.Message != "" {
			all[c.Type] += ": " + c.Message
		}
	}
	return all
}

func TestClusterStatus(t *testing.T) {
	fine := func(changes map[string]string) map[string]string {
		all := map[string]string{
			"shards": "2/2", "Ready": "True Provisioned", "Paused": "False NotPaused",
			"ShardsReachable": "True Reachable: all 2 shards answer", "FeatureDegraded": "False NotDegraded", "TenantAwake": "True TenantAwake",
		}
		for key, value := range changes {
			all[key] = value
		}
		return all
	}
	lacking := connected("b", 0)
	lacking.connection.Missing = []string{"DeleteInstance"}
	asleep := connected("b", 0)
	asleep.asleep = true
	for _, test := range []struct {
		name   string
		paused bool
		shards []shardView
		want   map[string]string
	}{
		{"all answer", false, []shardView{connected("a", 0), connected("b", 0)}, fine(nil)},
		{"paused", true, []shardView{connected("a", 0), connected("b", 0)}, fine(map[string]string{"Paused": "True Paused"})},
		{
			"one does not", false, []shardView{connected("a", 0), lost("b", shards.ReasonUnreachable)},
			fine(map[string]string{"shards": "1/2", "ShardsReachable": "False ShardUnreachable: b (ShardUnreachable: no)"}),
		},
		{
			"another shard answers in its place", false, []shardView{lost("a", shards.ReasonIdentityMismatch), connected("b", 0)},
			fine(map[string]string{"shards": "1/2", "ShardsReachable": "False ShardIdentityMismatch: a (ShardIdentityMismatch: no)"}),
		},
		{
			"just begun", false, []shardView{connected("a", 0), {name: "b", connection: shards.Status{State: shards.Connecting}}},
			fine(map[string]string{"shards": "1/2", "ShardsReachable": "Unknown Connecting: b"}),
		},
		{
			"a server of an older build", false, []shardView{connected("a", 0), lacking},
			fine(map[string]string{"FeatureDegraded": "True FeatureMissing: b lacks DeleteInstance"}),
		},
		{
			"the tenant sleeps", false, []shardView{connected("a", 0), asleep},
			fine(map[string]string{"TenantAwake": "False TenantAsleep: the tenant sleeps: its groups are scaled to zero on b"}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := view{object: &infrav1.NstanceCluster{}, paused: test.paused, version: "v1", shards: test.shards}
			if diff := cmp.Diff(test.want, summary(clusterStatus(v, now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestShardTable(t *testing.T) {
	object := &infrav1.NstanceCluster{Status: infrav1.NstanceClusterStatus{
		FailureDomains: []clusterv1.FailureDomain{domain("b"), domain("gone")},
		Shards: []infrav1.ClusterShard{
			{Name: "a", LastContact: contact(30 * time.Second)}, {Name: "b", LastContact: contact(time.Hour)}, {Name: "gone"},
		},
	}}
	unknown := lost("c", shards.ReasonTenantUnknown)
	got := clusterStatus(view{object: object, shards: []shardView{connected("a", 0), lost("b", shards.ReasonUnreachable), unknown}}, now)
	want := []infrav1.ClusterShard{
		{Name: "a", State: "Ready", Address: "a:1", LastContact: contact(30 * time.Second), Groups: 2, Instances: 5, Term: 7},
		{Name: "b", State: "Unreachable", LastContact: contact(time.Hour)},
		{Name: "c", State: "TenantUnknown"},
	}
	if diff := cmp.Diff(want, got.Shards); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]clusterv1.FailureDomain{domain("a"), domain("b")}, got.FailureDomains); diff != "" {
		t.Error(diff)
	}
	later := clusterStatus(view{object: object, shards: []shardView{connected("b", 0)}}, now)
	if diff := cmp.Diff(contact(0), later.Shards[0].LastContact); diff != "" {
		t.Error(diff)
	}
}
