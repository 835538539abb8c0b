package nodes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestO11_OneOwnerDeletesANode(t *testing.T) {
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const uri = "aws:///z/i-1"
	nodeOf := func(changes ...func(*Instanceless)) Instanceless {
		n := Instanceless{NodeProviderID: uri, Correlated: true, EndedAt: ended, InstanceProviderID: uri}
		for _, change := range changes {
			change(&n)
		}
		return n
	}
	ready := func(n *Instanceless) { n.Ready = true }
	deleted := func(n *Instanceless) { n.Correlated, n.Deleted = false, true }
	unheard := func(n *Instanceless) { n.Correlated = false }
	exists := func(n *Instanceless) { n.Exists = true }
	referred := func(n *Instanceless) { n.MachineHasNode = true }
	controlled := func(n *Instanceless) { n.HasControlPlane = true }
	nodeID := func(id string) func(*Instanceless) { return func(n *Instanceless) { n.NodeProviderID = id } }
	instanceID := func(id string) func(*Instanceless) { return func(n *Instanceless) { n.InstanceProviderID = id } }

	demand := func(n *Instanceless) { n.Demand = true }
	left := func(n *Instanceless) { n.Demand, n.MachineLeft = true, true }
	host := func(n *Instanceless) { n.HostMachine = true }
	stopped := func(n *Instanceless) { n.HostMachine, n.HostStopped = true, true }
	released := func(n *Instanceless) { n.HostMachine, n.HostReleased = true, true }
	hosts := Deletion{Owner: OwnerHost, Reason: "the node machine that it runs in is gone"}
	bound := Deletion{Owner: OwnerNone, Reason: "its machine has not left the cluster"}
	demands := Deletion{Owner: OwnerDemand, Reason: "its machine has left the cluster"}
	none := Deletion{Owner: OwnerNone, Reason: "its instance has not ended"}
	another := Deletion{Owner: OwnerNone, Reason: "its provider ID is not that of the ended instance"}
	core := Deletion{Owner: OwnerClusterAPI, Reason: "Cluster API deletes it with its Machine"}
	ours := Deletion{Owner: OwnerOperator, Reason: "its instance has ended"}
	for _, tt := range []struct {
		name  string
		node  Instanceless
		after time.Duration
		want  Deletion
	}{
		{"a correlated Node whose instance is gone", nodeOf(), 0, ours},
		{"a Node that was never correlated, whose instance was deleted", nodeOf(deleted), 0, ours},
		{"an instance that no shard reports as ended", nodeOf(unheard), time.Hour, none},
		{"an instance that a shard still has", nodeOf(exists), time.Hour, none},
		{"a deleted instance whose provider ID another one has", nodeOf(deleted, exists), time.Hour, none},
		{"a Node without a provider ID", nodeOf(nodeID("")), time.Hour, none},
		{
			"a ready Node stays for the grace period", nodeOf(ready), 20 * time.Second,
			Deletion{Owner: OwnerOperator, Reason: "its instance has ended, and it is still ready", After: 40 * time.Second},
		},
		{"and no longer", nodeOf(ready), ReadyNodeGrace, ours},
		{"a Machine that refers to the Node", nodeOf(referred, controlled), time.Hour, core},
		{"without a control plane Cluster API deletes no Node", nodeOf(referred), 0, ours},
		{"nor where the Machine refers to none", nodeOf(controlled), 0, ours},
		{"a Machine does not end a Node whose instance exists", nodeOf(referred, controlled, exists), time.Hour, none},
		{"the provider ID of another machine", nodeOf(nodeID("aws:///z/i-2")), time.Hour, another},
		{"the same machine, written otherwise", nodeOf(nodeID("aws:///eu/z/i-1")), 0, ours},
		{"a machine of demand mode that serves", nodeOf(demand, unheard, exists, ready), time.Hour, bound},
		{"a machine of demand mode that its shard has not given up, and that seems to be gone", nodeOf(demand), time.Hour, bound},
		{"a machine of demand mode that is deleted", nodeOf(left), 0, demands},
		{"one that is drained, is used again and was ready a moment ago", nodeOf(left, unheard, exists, ready), 0, demands},
		{"one whose Node has the provider ID of another machine", nodeOf(left, nodeID("aws:///z/i-2")), time.Hour, another},
		{"one whose Node has none", nodeOf(left, nodeID("")), time.Hour, another},
		{"one that a Machine of Cluster API refers to", nodeOf(left, referred, controlled), time.Hour, core},
		{"a provider ID that means nothing", nodeOf(nodeID("i-1")), time.Hour, another},
		{"an instance without a provider ID", nodeOf(instanceID("")), time.Hour, another},
		{"a Node in a node machine that runs", nodeOf(host, exists), time.Hour, none},
		{"one whose node machine is stopped, while another is built", nodeOf(stopped, exists), 0, hosts},
		{"one whose HostMachine is being deleted", nodeOf(released, exists, ready), 0, hosts},
		{"one without a provider ID", nodeOf(released, nodeID("")), 0, hosts},
		{"one whose instance has ended goes as all others do", nodeOf(released), 0, ours},
		{"and with its Machine", nodeOf(released, referred, controlled), 0, core},
		{
			"one of demand mode whose binding has ended", nodeOf(host, left, exists), 0,
			Deletion{Owner: OwnerHost, Reason: "its HostMachine is deleted with the binding, and deletes it"},
		},
		{"one of demand mode that serves and is repaved", nodeOf(host, demand, exists), time.Hour, bound},
		{"one of demand mode that is deleted", nodeOf(host, left), 0, demands},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, DeletionOf(tt.node, ended.Add(tt.after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
