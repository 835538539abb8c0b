package webhooks_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/webhooks"
)

func pool(name, group string, shards ...string) *infrav1.NstanceMachinePool {
	return &infrav1.NstanceMachinePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: infrav1.KindMachinePool},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       infrav1.NstanceMachinePoolSpec{Group: group, Shards: shards},
	}
}

func withTemplate(p *infrav1.NstanceMachinePool) *infrav1.NstanceMachinePool {
	p.Spec.Template = "knd"
	return p
}

func withType(p *infrav1.NstanceMachinePool, instanceType string) *infrav1.NstanceMachinePool {
	p.Spec.InstanceType = instanceType
	return p
}

func deleted(p *infrav1.NstanceMachinePool) *infrav1.NstanceMachinePool {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return p
}

// known is a configuration of two shards that both have group old.
func known() webhooks.Known {
	old := map[string]webhooks.Group{"old": {InstanceTypes: []string{"m", "l"}}, "static": {Static: true, Template: "theirs"}}
	return webhooks.Known{Shards: map[string]webhooks.Shard{"a": {true, old}, "b": {true, old}}}
}

// heardHalf is the same before shard b has said what it has.
func heardHalf() webhooks.Known {
	half := known()
	half.Shards["b"] = webhooks.Shard{}
	return half
}

func TestCheckPool(t *testing.T) {
	const (
		belongs = `spec.shards[0]: Invalid value: "a": (old, a) already belongs to pool first; ` +
			`take the shard out of one of the two, or choose another group`
		noShard    = "spec.shards: the operator's configuration has no shard c; its part of the pool waits until it has"
		noTemplate = "spec.template: none of the shards has group new yet, and without a template they cannot make it"
		noType     = "spec.instanceType: shard a does not allow s, but m, l"
	)
	tests := []struct {
		name      string
		pool, old *infrav1.NstanceMachinePool
		others    []*infrav1.NstanceMachinePool
		known     webhooks.Known
		warnings  []string
		errs      []string
	}{
		{name: "a pool of a group that is there", pool: pool("p", "old", "a", "b"), known: known()},
		{name: "a pool by shard", pool: pool("p", "old", "b"), others: []*infrav1.NstanceMachinePool{pool("first", "old", "a")}, known: known()},
		{name: "another group on the same shard", pool: pool("p", "old", "a"), others: []*infrav1.NstanceMachinePool{pool("first", "x", "a")}, known: known()},
		{name: "the pool itself is no other one", pool: pool("p", "old", "a"), others: []*infrav1.NstanceMachinePool{pool("p", "old", "a")}, known: known()},
		{
			name: "a part that another pool has", pool: pool("p", "old", "a", "b"),
			others: []*infrav1.NstanceMachinePool{pool("first", "old", "a")}, known: known(), errs: []string{belongs},
		},
		{
			name: "a shard that another pool has is added", pool: pool("p", "old", "a", "b"), old: pool("p", "old", "b"),
			others: []*infrav1.NstanceMachinePool{pool("first", "old", "a")}, known: known(), errs: []string{belongs},
		},
		{
			name: "a conflict that is stored already stays editable", pool: pool("p", "old", "a"), old: pool("p", "old", "a", "b"),
			others: []*infrav1.NstanceMachinePool{pool("first", "old", "a")}, known: known(),
		},
		{
			name: "a pool on its way out is not checked", pool: deleted(pool("p", "old", "a", "c")),
			others: []*infrav1.NstanceMachinePool{pool("first", "old", "a")}, known: known(),
		},
		{name: "a shard that nobody knows", pool: pool("p", "old", "a", "c"), known: known(), warnings: []string{noShard}},
		{name: "a new group without a template", pool: pool("p", "new", "a", "b"), known: known(), warnings: []string{noTemplate}},
		{name: "a new group with a template", pool: withTemplate(pool("p", "new", "a", "b")), known: known()},
		{name: "a group that the silent shard may have", pool: pool("p", "new", "a", "b"), known: heardHalf()},
		{name: "a group that one shard has", pool: pool("p", "old", "a", "b"), known: heardHalf()},
		{
			name: "a template that a static group ignores", pool: withTemplate(pool("p", "static", "a")), known: known(),
			warnings: []string{"spec.template: ignored, because the configuration of shard a has group static and says something else; leave the field out"},
		},
		{name: "a static group without fields of its own", pool: pool("p", "static", "a"), known: known()},
		{name: "a type that is not allowed", pool: withType(pool("p", "old", "a"), "s"), known: known(), warnings: []string{noType}},
		{name: "a type that is allowed", pool: withType(pool("p", "old", "a"), "l"), known: known()},
		{name: "where nothing is known nothing is odd", pool: withType(pool("p", "new", "c"), "s")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var others []infrav1.NstanceMachinePool
			for _, other := range test.others {
				others = append(others, *other)
			}
			warnings, list := webhooks.CheckPool(test.pool, test.old, others, test.known)
			var errs []string
			for _, err := range list {
				errs = append(errs, err.Error())
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.errs, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// lister is the part of a client that the validator uses.
type lister struct {
	client.Reader
	pools []infrav1.NstanceMachinePool
	err   error
}

func (l lister) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *infrav1.NstanceMachinePoolList:
		list.Items = l.pools
	case *infrav1.NstanceClusterList:
		list.Items = []infrav1.NstanceCluster{cluster()}
	case *infrav1.NstanceShardGroupList:
		list.Items = parts()
	}
	return l.err
}

// cluster and parts are what the objects of a namespace say of two shards that both have
// groups old and static.
func cluster() infrav1.NstanceCluster {
	return infrav1.NstanceCluster{Status: infrav1.NstanceClusterStatus{Shards: []infrav1.ClusterShard{
		{Name: "a", State: infrav1.ShardReady, Groups: 2}, {Name: "b", State: infrav1.ShardReady, Groups: 2},
	}}}
}

func parts() (all []infrav1.NstanceShardGroup) {
	for _, shard := range []string{"a", "b"} {
		all = append(all,
			infrav1.NstanceShardGroup{
				Spec:   infrav1.NstanceShardGroupSpec{Group: "old", Shard: shard},
				Status: infrav1.NstanceShardGroupStatus{Config: &infrav1.GroupConfig{InstanceTypes: []string{"m", "l"}}},
			},
			infrav1.NstanceShardGroup{
				Spec:   infrav1.NstanceShardGroupSpec{Group: "static", Shard: shard},
				Status: infrav1.NstanceShardGroupStatus{IsStatic: true, Config: &infrav1.GroupConfig{Template: "theirs"}},
			},
			infrav1.NstanceShardGroup{Spec: infrav1.NstanceShardGroupSpec{Group: "new", Shard: shard}}, // its shard has not answered
		)
	}
	return all
}

// A replica that is connected to no shard knows of them what the objects say.
func TestO15_WhatObjectsSayOfShards(t *testing.T) {
	one := cluster()
	if diff := cmp.Diff(known(), webhooks.KnownOf(&one, parts())); diff != "" {
		t.Error(diff)
	}
	one.Status.Shards[1].Groups = 3 // one of them has no pool
	half := known()
	half.Shards["b"] = webhooks.Shard{Groups: half.Shards["b"].Groups}
	if diff := cmp.Diff(half, webhooks.KnownOf(&one, parts())); diff != "" {
		t.Errorf("a group without a pool: %s", diff)
	}
	one.Status.Shards[1].Groups, one.Status.Shards[1].State = 2, infrav1.ShardUnreachable
	if diff := cmp.Diff(half, webhooks.KnownOf(&one, parts())); diff != "" {
		t.Errorf("a shard that does not answer: %s", diff)
	}
	if got := webhooks.KnownOf(&infrav1.NstanceCluster{}, parts()); got.Shards != nil {
		t.Errorf("nobody has connected yet: %v", got)
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := infrav1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPoolValidator(t *testing.T) {
	validator := webhooks.PoolValidator{
		Reader: lister{pools: []infrav1.NstanceMachinePool{*pool("first", "old", "a")}},
	}
	webhook := admission.WithValidator(scheme(t), validator)
	ask := func(operation admissionv1.Operation, p, old *infrav1.NstanceMachinePool) admission.Response {
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, Namespace: "ns"}}
		request.Object.Raw, _ = json.Marshal(p)
		if old != nil {
			request.OldObject.Raw, _ = json.Marshal(old)
		}
		return webhook.Handle(t.Context(), request)
	}

	refused := ask(admissionv1.Create, pool("p", "old", "a", "c"), nil)
	if refused.Allowed || !strings.Contains(refused.Result.Message, `NstanceMachinePool.infrastructure.cluster.x-k8s.io "p" is invalid: spec.shards[0]`) {
		t.Errorf("a pool with another one's part: %+v", refused.AdmissionResponse)
	}
	if len(refused.Warnings) != 1 {
		t.Errorf("warnings %q, want one, of the shard that is not configured", refused.Warnings)
	}
	if answer := ask(admissionv1.Create, pool("p", "old", "b"), nil); !answer.Allowed {
		t.Errorf("a pool of its own: %+v", answer.AdmissionResponse)
	}
	if answer := ask(admissionv1.Update, pool("p", "old", "a", "b"), pool("p", "old", "a")); !answer.Allowed {
		t.Errorf("a pool that had the conflict before: %+v", answer.AdmissionResponse)
	}
}

// Trouble of the operator's own must not stop anybody.
func TestPoolValidatorThatCannotLook(t *testing.T) {
	validator := webhooks.PoolValidator{Reader: lister{err: context.DeadlineExceeded}}
	warnings, err := validator.ValidateCreate(t.Context(), pool("p", "old", "a"))
	if want := (admission.Warnings{
		"other pools were not looked at: context deadline exceeded",
		"what the shards have was not looked at: list *v1beta1.NstanceClusterList: context deadline exceeded",
	}); err != nil || !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, error %v; want %q and none", warnings, err, want)
	}
}
