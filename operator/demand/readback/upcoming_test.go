package readback

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// begin has a part of a second, which objects do not keep.
var begin = time.Date(2026, 11, 1, 12, 0, 0, 250_000_000, time.UTC)

// kept is an object as the API server gives it back.
func kept[T any](t *testing.T, o *T) *T {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func update(state demandpb.MachineState) *demandpb.NodeStateUpdate {
	return &demandpb.NodeStateUpdate{
		MachineId: "i-1", State: state, InstanceType: "m5.large", Zone: "a", CapacityType: "spot",
		Labels:        map[string]string{"nstance.dev/instance-id": "i-1"},
		Resources:     []*demandpb.ResourceAmount{{Name: "cpu", Amount: 1930}, {Name: "memory", Amount: 7 << 30}, {Name: "pods", Amount: 58}},
		Taints:        []*demandpb.Taint{{Key: "gpu", Value: "yes", Effect: demandpb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}},
		StartupTaints: []*demandpb.Taint{{Key: "net", Effect: demandpb.TaintEffect_TAINT_EFFECT_NO_EXECUTE}},
	}
}

// apply does to an object what the one who writes does.
func apply(t *testing.T, have *demandv1.UpcomingNode, c NodeChange) *demandv1.UpcomingNode {
	t.Helper()
	switch {
	case c.Delete:
		return nil
	case c.Create != nil:
		return kept(t, c.Create)
	case have == nil:
		return nil
	}
	next := have.DeepCopy()
	if c.Spec != nil {
		next.Spec = *c.Spec
	}
	if c.Status != nil {
		next.Status = *c.Status
	}
	return kept(t, next)
}

func TestUpcomingFollowsAMachine(t *testing.T) {
	var o *demandv1.UpcomingNode
	for i, step := range []struct {
		state demandpb.MachineState
		want  demandv1.UpcomingNodePhase // empty: the object is gone
	}{
		{demandpb.MachineState_MACHINE_STATE_CREATING, demandv1.UpcomingNodeProvisioning},
		{demandpb.MachineState_MACHINE_STATE_IDLE, demandv1.UpcomingNodeLaunched},
		{demandpb.MachineState_MACHINE_STATE_CONFIGURING, demandv1.UpcomingNodeRegistered},
		{demandpb.MachineState_MACHINE_STATE_CONFIGURED, demandv1.UpcomingNodeReady},
		{demandpb.MachineState_MACHINE_STATE_DRAINING, demandv1.UpcomingNodeDraining},
		{demandpb.MachineState_MACHINE_STATE_IDLE, ""},
		{demandpb.MachineState_MACHINE_STATE_CONFIGURING, demandv1.UpcomingNodeRegistered}, // used again
		{demandpb.MachineState_MACHINE_STATE_DELETING, demandv1.UpcomingNodeDraining},
		{demandpb.MachineState_MACHINE_STATE_DELETED, ""},
		{demandpb.MachineState_MACHINE_STATE_DELETED, ""},
	} {
		now := begin.Add(time.Duration(i) * time.Minute)
		before := o.DeepCopy()
		c, err := Upcoming(o, "zone-a", update(step.state), now)
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(before, o) {
			t.Errorf("step %d: what was observed was changed", i)
		}
		if o = apply(t, o, c); o == nil && step.want == "" {
			continue
		}
		if o == nil || o.Status.Phase != step.want || c.Reason == "" || !o.Status.LastTransitionTime.Time.Equal(now.Truncate(time.Second)) {
			t.Fatalf("step %d: %+v, want %q", i, o, step.want)
		}
		// The same once more, after the API server kept it: nothing is written.
		again, err := Upcoming(o, "zone-a", update(step.state), now.Add(time.Second))
		if err != nil || again.Create != nil || again.Spec != nil || again.Status != nil || again.Delete {
			t.Errorf("step %d: it is written again: %+v, %v", i, again, err)
		}
	}
}

// Of each machine only the newest state is written. One that is idle has left the cluster if it was
// there, whatever was not written in between.
func TestUpcomingOfAMachineThatLeftUnseen(t *testing.T) {
	node := &demandv1.NodeReference{Name: "n"}
	for _, test := range []struct {
		was  demandv1.UpcomingNodePhase
		node *demandv1.NodeReference
		gone bool
	}{
		{demandv1.UpcomingNodeReady, node, true},
		{demandv1.UpcomingNodeReady, nil, true},
		{demandv1.UpcomingNodeRegistered, node, true},
		{demandv1.UpcomingNodeRegistered, nil, false}, // it was not told to join after all
		{demandv1.UpcomingNodeFailed, node, true},
		{demandv1.UpcomingNodeFailed, nil, false},
		{demandv1.UpcomingNodeLaunched, nil, false},
		{demandv1.UpcomingNodeProvisioning, nil, false},
	} {
		c, err := Upcoming(nil, "zone-a", update(demandpb.MachineState_MACHINE_STATE_CONFIGURED), begin)
		if err != nil {
			t.Fatal(err)
		}
		o := apply(t, nil, c)
		o.Status.Phase, o.Status.NodeRef = test.was, test.node
		if c, err = Upcoming(o, "zone-a", update(demandpb.MachineState_MACHINE_STATE_IDLE), begin); err != nil || c.Delete != test.gone {
			t.Errorf("%s, Node %v, then idle: gone %t, %v", test.was, test.node, c.Delete, err)
		}
	}
}

func TestUpcomingDescribesTheMachine(t *testing.T) {
	c, err := Upcoming(nil, "zone-a", update(demandpb.MachineState_MACHINE_STATE_CREATING), begin)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Create.Spec
	if c.Create.Name != "i-1" || s.Shard != "zone-a" || s.MachineID != "i-1" || s.Zone != "a" || s.CapacityType != "spot" ||
		s.Resources.Cpu().String() != "1930m" || s.Resources.Memory().String() != "7Gi" || s.Resources.Pods().Value() != 58 {
		t.Errorf("%+v", c.Create)
	}
	want := []corev1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: "net", Effect: "NoExecute"}}
	if !slices.Equal(s.Taints, want) {
		t.Errorf("taints %v", s.Taints)
	}
	cheaper := update(demandpb.MachineState_MACHINE_STATE_CREATING)
	cheaper.InstanceType = "m5.xlarge"
	if c, err = Upcoming(kept(t, c.Create), "zone-a", cheaper, begin); err != nil || c.Spec == nil || c.Spec.InstanceType != "m5.xlarge" || c.Status != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestUpcomingKeepsWhatAnUpdateDoesNotSay(t *testing.T) {
	u := update(demandpb.MachineState_MACHINE_STATE_CONFIGURING)
	u.ProviderId = "aws:///a/i-1"
	c, err := Upcoming(nil, "zone-a", u, begin)
	if err != nil {
		t.Fatal(err)
	}
	o := kept(t, c.Create)
	o.Status.NodeRef = &demandv1.NodeReference{Name: "n", UID: "u"}
	failed := update(demandpb.MachineState_MACHINE_STATE_FAILED)
	failed.LastError = "no answer"
	c, err = Upcoming(o, "zone-a", failed, begin.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Status
	if s.NodeRef == nil || s.ProviderID != "aws:///a/i-1" || s.LastError != "no answer" || !s.ProvisioningStartTime.Equal(o.Status.ProvisioningStartTime) {
		t.Errorf("%+v", s)
	}
	// It comes back: what went wrong is over. One that was in the cluster and is idle has left.
	o = apply(t, o, c)
	for state, deleted := range map[demandpb.MachineState]bool{demandpb.MachineState_MACHINE_STATE_CONFIGURED: false, demandpb.MachineState_MACHINE_STATE_IDLE: true} {
		if c, err = Upcoming(o, "zone-a", update(state), begin); err != nil || c.Delete != deleted || !deleted && c.Status.LastError != "" {
			t.Errorf("%v: %+v, %v", state, c, err)
		}
	}
	o.Status.NodeRef = nil // it never joined
	if c, err = Upcoming(o, "zone-a", update(demandpb.MachineState_MACHINE_STATE_IDLE), begin); err != nil || c.Delete {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestUpcomingRefusesWhatItCannotTell(t *testing.T) {
	o := &demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "i-1"}, Spec: demandv1.UpcomingNodeSpec{MachineID: "i-1", Shard: "zone-b"}}
	if c, err := Upcoming(o, "zone-a", update(demandpb.MachineState_MACHINE_STATE_DELETED), begin); err == nil || c.Delete {
		t.Errorf("an object of another shard: %+v, %v", c, err)
	}
	for _, state := range []demandpb.MachineState{demandpb.MachineState_MACHINE_STATE_UNSPECIFIED, 99} {
		if c, err := Upcoming(nil, "zone-a", update(state), begin); err == nil || c.Create != nil {
			t.Errorf("%v: %+v, %v", state, c, err)
		}
	}
}

func TestNamesAreNames(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{"i-1", "I-1", "i_1", "", strings.Repeat("x", 300)} {
		name := NodeName(id)
		if len(validation.IsDNS1123Subdomain(name)) > 0 || seen[name] {
			t.Errorf("%q: %q", id, name)
		}
		seen[name] = true
	}
}

// A snapshot deletes what it does not name, of its own shard alone.
func TestAbsent(t *testing.T) {
	of := func(shard, id string) demandv1.UpcomingNode {
		return demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: NodeName(id)}, Spec: demandv1.UpcomingNodeSpec{MachineID: id, Shard: shard}}
	}
	have := []demandv1.UpcomingNode{of("a", "i-3"), of("a", "i-1"), of("a", "i-2"), of("b", "i-4")}
	if got := Absent(have, "a", []string{"i-2"}); !slices.Equal(got, []string{"i-1", "i-3"}) {
		t.Errorf("%v", got)
	}
	if got := Absent(have, "b", nil); !slices.Equal(got, []string{"i-4"}) {
		t.Errorf("%v", got)
	}
}

func TestExpires(t *testing.T) {
	o := &demandv1.UpcomingNode{Status: demandv1.UpcomingNodeStatus{Phase: demandv1.UpcomingNodeFailed, LastTransitionTime: &metav1.Time{Time: begin}}}
	if at, ok := Expires(o); !ok || !at.Equal(begin.Add(time.Hour)) {
		t.Errorf("%v, %t", at, ok)
	}
	o.Status.Phase = demandv1.UpcomingNodeReady
	if _, ok := Expires(o); ok {
		t.Error("one that works expires")
	}
}
