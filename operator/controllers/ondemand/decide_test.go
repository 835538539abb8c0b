package ondemand

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine/placement"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func shard(name, zone string) placement.Shard {
	return placement.Shard{Name: name, Reachable: true, Known: true, Group: &nstancev1.GroupStatus{Key: "web", Kind: "wrk", Zone: zone}}
}

func selector(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: terms}
}

func in(zones ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}}}
}

func TestO12_Zones(t *testing.T) {
	volume := func(s *corev1.NodeSelector) corev1.PersistentVolume {
		return corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: s}}}
	}
	pod := func(zone string, s *corev1.NodeSelector) *corev1.Pod {
		p := &corev1.Pod{}
		if zone != "" {
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
		return p
	}
	other := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}}}
	for _, tt := range []struct {
		name    string
		pod     *corev1.Pod
		volumes []corev1.PersistentVolume
		want    []string
		limited bool
	}{
		{"anywhere", pod("", nil), nil, nil, false},
		{"by the node selector", pod("a", nil), nil, []string{"a"}, true},
		{"by affinity, one of the terms", pod("", selector(in("b"), in("a", "b"))), nil, []string{"a", "b"}, true},
		{"a term that names no zone allows all", pod("", selector(in("a"), other)), nil, nil, false},
		{"by a volume", pod("", nil), []corev1.PersistentVolume{volume(selector(in("c")))}, []string{"c"}, true},
		{"by all of them", pod("", selector(in("a", "b"))), []corev1.PersistentVolume{volume(selector(in("b", "c"))), volume(nil)}, []string{"b"}, true},
		{"they contradict each other", pod("a", nil), []corev1.PersistentVolume{volume(selector(in("b")))}, []string{}, true},
	} {
		got, limited := Zones(tt.pod, tt.volumes)
		if diff := cmp.Diff(tt.want, got); diff != "" || limited != tt.limited {
			t.Errorf("%s: %t %s", tt.name, limited, diff)
		}
	}
}

func TestO12_ReadAsk(t *testing.T) {
	pod := func(annotations ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{infrav1.OnDemandGroup: "web"}}}
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
		return p
	}
	tied := pod(infrav1.OnDemandClaim, "c1", infrav1.OnDemandVarPrefix+"A", "b")
	tied.Spec.NodeSelector = map[string]string{infrav1.OnDemandClaim: "c1"}
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want Request
		err  string
	}{
		{"a group", pod(), Request{Group: "web", Vars: map[string]string{}}, ""},
		{"all", pod(infrav1.OnDemandInstanceType, "big", infrav1.OnDemandShard, "a"), Request{Group: "web", InstanceType: "big", Shard: "a", Vars: map[string]string{}}, ""},
		{"a claim", tied, Request{Group: "web", Claim: "c1", Vars: map[string]string{
			"A": "b", "NSTANCE_NODE_LABELS": "on-demand.nstance.dev/claim=c1", "NSTANCE_NODE_TAINTS": "on-demand.nstance.dev/claim=c1:NoSchedule",
		}}, ""},
		{"a claim that binds nothing", pod(infrav1.OnDemandClaim, "c1"), Request{Group: "web", Vars: map[string]string{}}, ""},
		{"a variable without a name", pod(infrav1.OnDemandVarPrefix+"1A", "b"), Request{},
			"annotation on-demand.nstance.dev/var.1A: a variable is named by 1 to 64 letters, digits and underscores, no digit first; rename it"},
	} {
		got, err := ReadAsk(tt.pod)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tt.err {
			t.Errorf("%s: error %q", tt.name, text)
		}
	}
	if _, err := ReadAsk(pod(infrav1.OnDemandGroup, "No Group")); err == nil {
		t.Error("a group that is no identifier is taken")
	}
}

// FuzzReadAsk: what users write into annotations ends in an answer, and what is taken fits
// into a machine.
func FuzzReadAsk(f *testing.F) {
	f.Add("web", "small", "a", "A", "b", "c1")
	f.Fuzz(func(t *testing.T, group, kind, shard, name, value, claim string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			infrav1.OnDemandGroup: group, infrav1.OnDemandInstanceType: kind, infrav1.OnDemandShard: shard, infrav1.OnDemandVarPrefix + name: value, infrav1.OnDemandClaim: claim,
		}}}
		ask, err := ReadAsk(pod)
		if err != nil {
			return
		}
		if ask.Group == "" || len(ask.Group) > 32 || len(ask.Shard) > 32 || len(ask.InstanceType) > 63 || len(ask.Vars) > 64 {
			t.Errorf("%+v", ask)
		}
	})
}

// observed is a Pod that waits for an instance, with two shards that have its group.
func observed(changes ...func(*Observation)) Observation {
	o := Observation{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "apps", Name: "p", UID: "pod", CreationTimestamp: metav1.NewTime(now),
				Annotations: map[string]string{infrav1.OnDemandGroup: "web", infrav1.OnDemandClaim: "c1"},
			},
			Spec: corev1.PodSpec{
				NodeSelector:    map[string]string{infrav1.OnDemandClaim: "c1"},
				SchedulingGates: []corev1.PodSchedulingGate{{Name: infrav1.OnDemandGate}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		},
		Shards: []placement.Shard{shard("a", "zone-a"), shard("b", "zone-b")},
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func made(o *Observation) {
	o.Machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "nstance", Name: "m", UID: "m1", Labels: map[string]string{infrav1.OnDemandClaim: "c1"}, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)),
	}}
	o.Infra = &infrav1.NstanceMachine{Spec: infrav1.NstanceMachineSpec{MachineSettings: infrav1.MachineSettings{Shard: "a"}}}
}

func joined(o *Observation) {
	made(o)
	o.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{infrav1.OnDemandClaim: "c1"}}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

func notes(pairs ...string) func(*Observation) {
	return func(o *Observation) {
		for i := 0; i < len(pairs); i += 2 {
			o.Pod.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func podGone(o *Observation) { o.Pod = nil }

func TestO12_Decide(t *testing.T) {
	rules := Rules{ProvisionTimeout: 15 * time.Minute, Linger: time.Minute}
	ask := Request{Group: "web", Claim: "c1", Vars: map[string]string{
		"NSTANCE_NODE_LABELS": "on-demand.nstance.dev/claim=c1", "NSTANCE_NODE_TAINTS": "on-demand.nstance.dev/claim=c1:NoSchedule",
	}}
	phase := func(p corev1.PodPhase) func(*Observation) { return func(o *Observation) { o.Pod.Status.Phase = p } }
	on := func(node string) func(*Observation) { return func(o *Observation) { o.Pod.Spec.NodeName = node } }
	deleting := func(o *Observation) { at := metav1.NewTime(now); o.Machine.DeletionTimestamp = &at }
	old := func(o *Observation) { o.Machine.CreationTimestamp = metav1.NewTime(now.Add(-15 * time.Minute)) }
	failing := func(o *Observation) { o.Infra.Status.LastError = "no room" }
	endedAt := func(ago time.Duration) func(*Observation) {
		return func(o *Observation) {
			o.Machine.Annotations = map[string]string{infrav1.OnDemandEndedAt: now.Add(-ago).Format(time.RFC3339)}
		}
	}
	zone := func(z string) func(*Observation) {
		return func(o *Observation) { o.Pod.Spec.NodeSelector[corev1.LabelTopologyZone] = z }
	}
	known := notes(infrav1.OnDemandMachine, "nstance/m", infrav1.OnDemandTries, "m1@a")
	const ready, making = "node n is ready", "machine m is being made"
	const full = "pods that came before it leave it no room on node n: apps/x; have the user data give NSTANCE_NODE_TAINTS to the kubelet"
	said := notes(infrav1.OnDemandState, "Joined", infrav1.OnDemandMessage, ready)
	ungated := func(o *Observation) { o.Pod.Spec.SchedulingGates = nil }
	strangers := func(o *Observation) { o.Strangers = []string{"apps/x"} }
	noRoom := func(o *Observation) {
		o.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	readyFor := func(d time.Duration) func(*Observation) {
		return func(o *Observation) { o.Node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-d)) }
	}
	for _, tt := range []struct {
		name  string
		o     Observation
		want  []Action
		again time.Duration
	}{
		{"a new pod", observed(), []Action{Make{Request: ask}}, AtOnce},
		{"a pod that asks for nothing", observed(func(o *Observation) { o.Pod.Annotations = nil }), nil, 0},
		{"a pod of a daemon set", observed(func(o *Observation) {
			o.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}), nil, 0},
		{"a pod that runs already", observed(on("x"), phase(corev1.PodRunning)), nil, 0},
		{"a pod on its way out", observed(func(o *Observation) { at := metav1.NewTime(now); o.Pod.DeletionTimestamp = &at }), nil, 0},
		{"a pinned one", observed(notes(infrav1.OnDemandShard, "b")), []Action{Make{Request: func() Request { a := ask; a.Shard = "b"; return a }(), Shard: "b"}}, AtOnce},
		{"one of a zone", observed(zone("zone-b")), []Action{Make{Request: ask, Shard: "b"}}, AtOnce},
		{"one of a zone without a shard", observed(zone("zone-c")), []Action{
			Annotate{infrav1.OnDemandMessage: "no shard has group web; make the group, or another machine (of the shards in zone-c)"},
			PublishEvent{"OnDemandGroupNotFound", true, "no shard has group web; make the group, or another machine (of the shards in zone-c)"},
		}, lookAgain},
		{"a second try goes elsewhere", observed(notes(infrav1.OnDemandTries, "m0@a")), []Action{Make{Request: ask, Shard: "b"}}, AtOnce},
		{"a third one begins again", observed(notes(infrav1.OnDemandTries, "m0@a,m1@b")), []Action{Make{Request: ask, Shard: "a"}}, AtOnce},
		{"there is no fourth", observed(notes(infrav1.OnDemandTries, "m0@a,m1@b,m2@a", infrav1.OnDemandMessage, "no room")), []Action{
			Annotate{infrav1.OnDemandState: "Failed", infrav1.OnDemandMessage: "no instance came to be in 3 tries: no room"},
			PublishEvent{"OnDemandProvisioningFailed", true, "no instance came to be in 3 tries: no room"},
		}, 0},
		{"it has failed", observed(notes(infrav1.OnDemandState, "Failed", infrav1.OnDemandRetry, "1", infrav1.OnDemandRetried, "1")), nil, 0},
		{"until somebody asks again", observed(notes(infrav1.OnDemandState, "Failed", infrav1.OnDemandRetry, "2", infrav1.OnDemandRetried, "1")), []Action{
			Annotate{infrav1.OnDemandState: "", infrav1.OnDemandMessage: "", infrav1.OnDemandTries: "", infrav1.OnDemandRetried: ""},
		}, AtOnce},
		{"it is being made", observed(made), []Action{
			Annotate{infrav1.OnDemandState: "Provisioning", infrav1.OnDemandMessage: making, infrav1.OnDemandMachine: "nstance/m", infrav1.OnDemandTries: "m1@a"},
			PublishEvent{"OnDemandProvisioning", false, making},
		}, 14 * time.Minute},
		{"which is said once", observed(made, known, notes(infrav1.OnDemandState, "Provisioning", infrav1.OnDemandMessage, making)), nil, 14 * time.Minute},
		{"it takes too long", observed(made, old, failing, known, notes(infrav1.OnDemandState, "Provisioning")), []Action{
			Annotate{infrav1.OnDemandMessage: "no node within 15m0s: no room"}, PublishEvent{"OnDemandProvisioning", false, "no node within 15m0s: no room"}, DeleteMachine{"no node within 15m0s: no room"},
		}, 0},
		{"its end is news", observed(made, deleting), nil, 0},
		{"its node is ready", observed(joined, known), []Action{
			Annotate{infrav1.OnDemandState: "Joined", infrav1.OnDemandMessage: ready}, PublishEvent{"OnDemandReady", false, ready}, Ungate{},
		}, 0},
		{"others came before it", observed(joined, known, notes(infrav1.OnDemandState, "Joined", infrav1.OnDemandMessage, ready), func(o *Observation) { o.Strangers = []string{"apps/x"} }), []Action{
			Ungate{}, PublishNodeEvent{"NodeShared", "not alone on this node: apps/x"},
		}, 0},
		{"it waits for room", observed(joined, known, said, ungated, strangers, noRoom), nil, 14 * time.Minute},
		{"it gets none", observed(joined, old, known, said, ungated, strangers, noRoom), []Action{
			Annotate{infrav1.OnDemandState: "Provisioning", infrav1.OnDemandMessage: full}, PublishEvent{"OnDemandProvisioning", false, full}, DeleteMachine{full},
		}, 0},
		{"its node was ready late", observed(joined, old, known, said, ungated, strangers, noRoom, readyFor(5*time.Minute)), nil, 10 * time.Minute},
		{"it has room, and nobody has bound it yet", observed(joined, old, known, said, ungated, strangers), nil, 0},
		{"its node is its own, and too small", observed(joined, old, known, said, ungated, noRoom), nil, 0},
		{"others may be there", observed(joined, old, known, said, ungated, strangers, noRoom, func(o *Observation) { o.Machine.Labels = nil }), nil, 0},
		{"its node lets others in", observed(joined, known, notes(infrav1.OnDemandState, "Provisioning", infrav1.OnDemandMessage, making), func(o *Observation) { o.Node.Labels = nil }), nil, lookAgain},
		{"its node is not ready", observed(joined, known, notes(infrav1.OnDemandState, "Provisioning", infrav1.OnDemandMessage, making), func(o *Observation) { o.Node.Status.Conditions = nil }), nil, lookAgain},
		{"it runs on its node", observed(joined, known, on("n")), []Action{Annotate{infrav1.OnDemandState: "Bound", infrav1.OnDemandMessage: "it runs on its own node n"}}, 0},
		{"it runs elsewhere", observed(joined, known, on("x")), nil, 30 * time.Second},
		{"and stays there", observed(joined, known, on("x"), func(o *Observation) { o.Pod.CreationTimestamp = metav1.NewTime(now.Add(-elsewhereFor)) }), []Action{
			Annotate{infrav1.OnDemandState: "Released", infrav1.OnDemandMessage: "it runs on node x, so its own instance is not needed"},
			PublishEvent{"OnDemandUnused", false, "it runs on node x, so its own instance is not needed"},
			DeleteMachine{"it runs on node x, so its own instance is not needed"},
		}, 0},
		{"it is gone", observed(joined, podGone), []Action{MarkEnded{now}}, time.Minute + AtOnce},
		{"it was gone a moment ago", observed(joined, podGone, endedAt(20*time.Second)), nil, 40 * time.Second},
		{"it was gone for a while", observed(joined, podGone, endedAt(time.Minute)), []Action{DeleteMachine{"its pod is gone or has ended"}}, 0},
		{"it has succeeded", observed(joined, phase(corev1.PodSucceeded), endedAt(time.Minute), notes(infrav1.OnDemandState, "Bound")), []Action{
			DeleteMachine{"its pod is gone or has ended"}, Annotate{infrav1.OnDemandState: "Released", infrav1.OnDemandMessage: "the pod has ended"},
		}, 0},
		{"it is gone before its machine was made", observed(podGone, func(o *Observation) { o.Infra = &infrav1.NstanceMachine{} }), []Action{DeleteInfra{}}, 0},
		{"nothing is left", observed(podGone), nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.o, rules, now)
			if diff := cmp.Diff(tt.want, d.Actions); diff != "" {
				t.Error(diff)
			}
			if d.RequeueAfter != tt.again {
				t.Errorf("again after %v, want %v", d.RequeueAfter, tt.again)
			}
		})
	}
}

func TestStrangers(t *testing.T) {
	owned := func(kind string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: kind, OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}}}
	}
	mirror := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}
	got := strangers([]corev1.Pod{*owned("DaemonSet"), *owned("ReplicaSet"), mirror})
	if diff := cmp.Diff([]string{"apps/ReplicaSet"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestKeep(t *testing.T) {
	asks, into := observed().Pod, &corev1.Pod{}
	if Keep(asks, into); !cmp.Equal(asks, into) {
		t.Error("of a Pod that asks something is left out")
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "p", Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{NodeName: "n"}}
	into = &corev1.Pod{}
	if Keep(other, into); !cmp.Equal(&corev1.Pod{}, into) {
		t.Errorf("kept of another: %v", into)
	}
}

func TestO12_RulesOfNamespaces(t *testing.T) {
	if d := Decide(observed(), Rules{Namespaces: []string{"others"}}, now); d.Actions != nil {
		t.Errorf("a namespace that may not ask: %v", d.Actions)
	}
	d := Decide(observed(func(o *Observation) { o.InNamespace = 2 }), Rules{MaxPerNamespace: 2}, now)
	const message = "the pods of namespace apps have 2 instances, the most they may have"
	want := []Action{Annotate{infrav1.OnDemandMessage: message}, PublishEvent{"OnDemandQuota", true, message}}
	if diff := cmp.Diff(want, d.Actions); diff != "" || d.RequeueAfter != lookAgain {
		t.Errorf("%s, %v", diff, d.RequeueAfter)
	}
}
