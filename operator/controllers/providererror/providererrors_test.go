package providererror

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJudge(t *testing.T) {
	for class, want := range map[string]Verdict{
		"capacity":  {Word: "InsufficientCapacity", NoRoom: true, Message: "InsufficientCapacity: shard a: oh"},
		"quota":     {Word: "QuotaExceeded", NoRoom: true, Quota: true, Message: "QuotaExceeded: shard a: oh"},
		"invalid":   {Word: "InvalidConfig", Message: "InvalidConfig: shard a: oh"},
		"throttled": {Word: "ProviderThrottled", Message: "ProviderThrottled: shard a: oh"},
		"":          {Word: "ProviderError", Message: "ProviderError: shard a: oh"},
		"new":       {Word: "ProviderError", Message: "ProviderError: shard a: oh"},
	} {
		if diff := cmp.Diff(want, Judge("a", &nstancev1.ErrorEvent{Class: class, Error: "oh"})); diff != "" {
			t.Errorf("%q: %s", class, diff)
		}
	}
	long := Judge("a", &nstancev1.ErrorEvent{Error: strings.Repeat("é", 1000)}).Message
	if len(long) > maxMessage || !utf8.ValidString(long) {
		t.Errorf("%d bytes, text: %t", len(long), utf8.ValidString(long))
	}
}

func TestBudget(t *testing.T) {
	var b Budget
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	spend := func(shard, object, message string, after time.Duration, want bool) {
		t.Helper()
		if got := b.Spend(shard, object, message, now.Add(after)); got != want {
			t.Errorf("%s, %s, %s after %v: %t", shard, object, message, after, got)
		}
	}
	spend("a", "x", "m", 0, true)
	spend("a", "x", "m", repeatAfter-1, false)
	spend("a", "y", "m", 0, true)
	spend("a", "x", "n", 0, true)
	spend("a", "x", "m", repeatAfter, true)
	for i := range perShard - 1 {
		spend("a", "z", fmt.Sprint(i), repeatAfter, true)
	}
	spend("a", "z", "more", repeatAfter, false)
	spend("b", "z", "more", repeatAfter, true)
	spend("a", "z", "again", repeatAfter+time.Minute, true)
}

const id = "wrk01arz3ndektsv4rrffq69g5fav"

// said runs a reporter for some errors and returns what was published.
func said(t *testing.T, errors ...*nstancev1.ErrorEvent) (events []string, c client.Client, full *inventory.CoolOffs) {
	t.Helper()
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: testworld.Namespace, Name: name, UID: types.UID("u-" + name)}
	}
	b := testworld.NewClientBuilder(t).WithObjects(
		&infrav1.NstanceCluster{ObjectMeta: object("c")},
		&infrav1.NstanceShardGroup{ObjectMeta: object("web--a")},
		&infrav1.NstanceMachine{ObjectMeta: object(id), Spec: infrav1.NstanceMachineSpec{InstanceID: id}},
	)
	for field, index := range nodes.MachineIndexes() {
		b.WithIndex(&infrav1.NstanceMachine{}, field, index)
	}
	c, full = b.Build(), &inventory.CoolOffs{}
	synctest.Test(t, func(t *testing.T) {
		recorded := &testworld.Events{}
		r := New(Options{Client: c, Namespace: testworld.Namespace, Cluster: "c", Events: recorded, CoolOff: full})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = r.Start(ctx) }()
		for _, e := range errors {
			r.Report("a", e)
		}
		synctest.Wait()
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: id}}); err != nil {
			t.Error(err)
		}
		stop()
		synctest.Wait()
		events = recorded.All()
	})
	return events, c, full
}

func TestProviderErrorsAreSaidOfTheMostSpecificObject(t *testing.T) {
	web, other, instance, unknown := "web", "other", id, "wrk01arz3ndektsv4rrffq69g5fax"
	events, c, full := said(t,
		&nstancev1.ErrorEvent{Group: &web, InstanceId: &instance, Class: "quota", Error: "no more"},
		&nstancev1.ErrorEvent{Group: &web, InstanceId: &unknown, Class: "throttled", Error: "slow"},
		&nstancev1.ErrorEvent{Group: &web, InstanceId: &unknown, Class: "throttled", Error: "slow"},
		&nstancev1.ErrorEvent{Group: &other, Class: "auth", Error: "who"},
	)
	want := []string{
		"ProviderError: NstanceMachine: QuotaExceeded: shard a: no more",
		"ProviderError: NstanceShardGroup: ProviderThrottled: shard a: slow",
		"ProviderError: NstanceCluster: ProviderAuthFailed: shard a: who",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	m := &infrav1.NstanceMachine{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: testworld.Namespace, Name: id}, m); err != nil {
		t.Fatal(err)
	}
	room := meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionCapacityAvailable)
	if m.Status.LastError != "QuotaExceeded: shard a: no more" || room == nil || room.Reason != infrav1.ReasonQuotaExceeded {
		t.Errorf("%+v", m.Status)
	}
	if full.Of(inventory.ShardGroup{Shard: "a", Group: "web"}).Refusals != 1 || full.Of(inventory.ShardGroup{Shard: "a", Group: "other"}).Refusals != 0 {
		t.Error("what there is no room for is not remembered")
	}
}

// More errors than can be said at once are counted, and nobody waits for them.
func TestS22_AFloodOfErrorsIsCounted(t *testing.T) {
	lost := 0
	r := New(Options{CoolOff: &inventory.CoolOffs{}, Count: func(_, _ string, l bool) {
		if l {
			lost++
		}
	}})
	for range backlog + 5 {
		r.Report("a", &nstancev1.ErrorEvent{Class: "auth"})
	}
	if lost != 5 {
		t.Errorf("%d are counted as lost", lost)
	}
}
