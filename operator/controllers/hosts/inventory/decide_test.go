package inventory

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const id = "wrk068a3cp3thz5z2mv1gejwftabc"

// observed is an instance that is to have a HostMachine, changed by a test.
func observed(change func(*Observation)) Observation {
	at := timestamppb.Now()
	o := Observation{
		Tenant: "default", Shard: "a", Presence: inventory.Present,
		Instance: &nstancev1.InstanceStatus{
			InstanceId: id, Tenant: "default", Group: "web", Template: "base", InstanceType: "small", Status: inventory.StatusRunning,
			CreatedAt: at, RegisteredAt: at, Machine: &nstancev1.InstanceMachine{Arch: "amd64"},
		},
		Group: &nstancev1.GroupStatus{Key: "web", Tenant: "default", Zone: "z1"},
	}
	if change != nil {
		change(&o)
	}
	return o
}

func there(change func(*hostsv1.HostMachine)) func(*Observation) {
	return func(o *Observation) {
		o.Machine = &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: id}}
		o.Machine.Spec.Provisioner = hostsv1.ProvisionerNstance
		o.Machine.Spec.Instance = &hostsv1.InstanceReference{Shard: "a", Tenant: "default", Group: "web", ID: id}
		if change != nil {
			change(o.Machine)
		}
	}
}

func both(changes ...func(*Observation)) func(*Observation) {
	return func(o *Observation) {
		for _, change := range changes {
			change(o)
		}
	}
}

// TestM3M5M7_WhatBecomesOfAHostMachine: each thing that may be known of an instance, and what follows.
func TestM3M5M7_WhatBecomesOfAHostMachine(t *testing.T) {
	gone := func(o *Observation) { o.Presence, o.Instance, o.WhyGone = inventory.Gone, nil, "scale-down" }
	lost := func(o *Observation) { o.Presence, o.Instance = inventory.Unknown, nil }
	binding := func(b string) func(*Observation) {
		return func(o *Observation) { o.Instance.Machine.Binding = b }
	}
	none := func(o *Observation) { o.Instance.Machine = nil }
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*Observation)
		action Action
		reason string
	}{
		"registered":             {nil, Make, "the instance has registered"},
		"not registered":         {func(o *Observation) { o.Instance.RegisteredAt = nil }, Leave, "the instance has not registered"},
		"no node machine":        {none, Leave, "the template of the instance has no machine that is enabled"},
		"not described":          {func(o *Observation) { o.Instance.CreatedAt = nil }, Leave, "its shard has not described the instance yet"},
		"group not described":    {func(o *Observation) { o.Group = nil }, Leave, "its shard has not described group web yet"},
		"about to go":            {func(o *Observation) { o.Instance.Condemned = &nstancev1.Condemned{Reason: "expired"} }, Leave, "the instance is about to be deleted: expired"},
		"gone":                   {gone, Leave, "no connected shard has the instance"},
		"another's":              {func(o *Observation) { o.ClaimedBy = "mine" }, Leave, "HostMachine mine stands for the instance"},
		"warm":                   {binding("idle"), Leave, "the instance serves no cluster"},
		"bound":                  {binding("configuring"), Make, "the instance has registered and its binding is configuring"},
		"serves":                 {binding("bound"), Make, "the instance has registered and its binding is bound"},
		"there":                  {there(nil), Keep, "the instance exists"},
		"there, drains":          {both(there(nil), binding("draining")), Keep, "the instance exists"},
		"there, about to go":     {both(there(nil), func(o *Observation) { o.Instance.Condemned = &nstancev1.Condemned{} }), Keep, "the instance exists"},
		"there, unbound":         {both(there(nil), binding("idle")), Delete, "the instance no longer serves the cluster: its binding has ended"},
		"there, gone":            {both(there(nil), gone), Delete, "the instance is gone: scale-down"},
		"there, out of sight":    {both(there(nil), lost), Leave, "no connected shard has the instance"},
		"there, old server":      {both(there(nil), none), Leave, "its shard does not say that the instance has a node machine, and not that it is gone"},
		"there, not described":   {both(there(nil), func(o *Observation) { o.Instance.CreatedAt = nil }), Leave, "its shard has not described the instance yet"},
		"there, no group":        {both(there(nil), func(o *Observation) { o.Group = nil }), Keep, "the instance exists"},
		"there, being deleted":   {both(there(func(m *hostsv1.HostMachine) { m.DeletionTimestamp = &now }), gone), Leave, "the HostMachine is being deleted"},
		"manual, gone":           {both(there(func(m *hostsv1.HostMachine) { m.Spec.Provisioner, m.Spec.Instance = hostsv1.ProvisionerManual, nil }), gone), Leave, "the HostMachine is of provisioner manual"},
		"cloud, gone":            {both(there(func(m *hostsv1.HostMachine) { m.Spec.Provisioner = hostsv1.ProvisionerCloud }), gone), Leave, "the HostMachine is of provisioner cloud"},
		"of another tenant":      {both(there(func(m *hostsv1.HostMachine) { m.Spec.Instance.Tenant = "acme" }), gone), Leave, "the HostMachine is of tenant acme"},
		"of another instance":    {both(there(func(m *hostsv1.HostMachine) { m.Spec.Instance.ID = "wrk068a3cp3thz5z2mv1gejwftabd" }), gone), Leave, "the HostMachine is not named like its instance"},
		"of the name, no shard":  {both(there(nil), lost, func(o *Observation) { o.Shard = "" }), Leave, "no connected shard has the instance"},
		"gone, without a reason": {both(there(nil), gone, func(o *Observation) { o.WhyGone = "" }), Delete, "the instance is gone: its shard deleted it"},
	} {
		if d := Decide(observed(c.change)); d.Action != c.action || d.Reason != c.reason {
			t.Errorf("%s: %s, %q; want %s, %q", name, d.Action, d.Reason, c.action, c.reason)
		}
	}
}

// TestM4_Labels: each label that an instance gives, those of its group's Nodes, and what no label can say.
func TestM4_Labels(t *testing.T) {
	o := observed(func(o *Observation) {
		o.Instance.OnDemand, o.Instance.InstanceType = true, "n2 custom/8"
		o.Group.Node = &nstancev1.NodeSettings{Labels: map[string]string{
			"example.com/tier": "batch", "plain": "", "hosts.nstance.dev/group": "mine", "hosts.nstance.dev/other": "mine", "a b": "c",
		}}
	})
	own, ofGroup, unfit := Labels(o.Shard, o.Instance, o.Group)
	want := map[string]string{
		hostsv1.LabelGroup: "web", hostsv1.LabelShard: "a", hostsv1.LabelTenant: "default", hostsv1.LabelTemplate: "base", hostsv1.LabelKind: "wrk",
		hostsv1.LabelArch: "amd64", hostsv1.LabelZone: "z1", hostsv1.LabelOnDemand: "true",
	}
	equal(t, "labels of the instance", own, want)
	equal(t, "labels of the group", ofGroup, map[string]string{"example.com/tier": "batch", "plain": ""})
	if wanted := []string{"a b", hostsv1.LabelInstanceType}; !slices.Equal(unfit, wanted) {
		t.Errorf("left out are %v, want %v", unfit, wanted)
	}
}

func equal(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if is, ok := got[name]; !ok || is != value {
			t.Errorf("%s: %s is %q, want %q", what, name, is, value)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is not to be there", what, name)
		}
	}
}

// M84, M85: a HostMachine says that its instance is on hold, and that it is off on purpose.
func TestM84M85_WhatAHostMachineSaysOfAHold(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	for name, c := range map[string]struct {
		status, reason string
		until          time.Time
		want, hold     string
	}{
		"it runs":        {"running", "", time.Time{}, "True/InstanceRunning", "none"},
		"it reboots":     {"running", "reboot", until, "True/InstanceRunning", "reboot until 2026-03-01T12:00:00Z"},
		"it is off":      {"powered-off", "power", until, "True/PoweredOff", "power until 2026-03-01T12:00:00Z"},
		"that has ended": {"unhealthy", "power", time.Time{}, "False/InstanceNotRunning", "none"},
	} {
		d := Decide(observed(both(there(nil), func(o *Observation) {
			o.Instance.Status, o.Instance.Hold, o.HeldUntil = c.status, &nstancev1.Hold{Reason: c.reason}, c.until
		})))
		hold := "none"
		if d.Hold != nil {
			hold = d.Hold.Reason + " until " + d.Hold.Until.UTC().Format(time.RFC3339Nano)
		}
		if got := string(d.Conditions[0].Status) + "/" + d.Conditions[0].Reason; got != c.want || hold != c.hold {
			t.Errorf("%s: %s, hold %s; want %s, %s", name, got, hold, c.want, c.hold)
		}
	}
}
