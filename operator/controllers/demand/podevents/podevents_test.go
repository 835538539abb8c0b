package podevents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/readback"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/testworld"
)

var now = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "0f3c9a51-0000-4000-8000-000000000001", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: cpus("2")}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

func machine(name string, phase demandv1.UpcomingNodePhase, change ...func(*demandv1.UpcomingNode)) *demandv1.UpcomingNode {
	n := &demandv1.UpcomingNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: demandv1.UpcomingNodeSpec{
			MachineID: name, Shard: "a", InstanceType: "m7i.large", Zone: "us-1a", CapacityType: "spot",
			Labels: map[string]string{corev1.LabelTopologyZone: "us-1a", "tier": "7"}, Resources: corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")},
		},
		Status: demandv1.UpcomingNodeStatus{Phase: phase},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func short(reason string) *demandv1.AvailableCapacity {
	return &demandv1.AvailableCapacity{Status: demandv1.AvailableCapacityStatus{Shortfall: &demandv1.Shortfall{
		Reason: reason, Deficit: corev1.ResourceList{"memory": resource.MustParse("8Gi"), "cpu": resource.MustParse("4")}, Since: &metav1.Time{Time: now.Add(-time.Hour)},
	}}}
}

func TestDecide(t *testing.T) {
	asks := &demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: cpus("2")}}
	upcoming := []*demandv1.UpcomingNode{machine("m1", demandv1.UpcomingNodeLaunched), machine("m2", "Provisioning"), machine("m3", "Provisioning"), machine("m4", "Provisioning")}
	with := func(o Observation) Observation {
		if o.Pod == nil {
			o.Pod = pod()
		}
		o.Spec = asks
		return o
	}
	for name, tt := range map[string]struct {
		o     Observation
		event string // its beginning
		after time.Duration
	}{
		"one that has a Node":             {o: with(Observation{Pod: pod(func(p *corev1.Pod) { p.Spec.NodeName = "n" })})},
		"one that is being deleted":       {o: with(Observation{Pod: pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })})},
		"one that has ended":              {o: with(Observation{Pod: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })})},
		"one that asks for nothing":       {o: Observation{Pod: pod()}, after: Pause},
		"a new one":                       {o: with(Observation{Pod: pod(func(p *corev1.Pod) { p.CreationTimestamp.Time = now.Add(-10 * time.Second) })}), after: 20 * time.Second},
		"one that was spoken of":          {o: with(Observation{Told: now.Add(-time.Minute), Upcoming: upcoming}), after: 4 * time.Minute},
		"one that was spoken of long ago": {o: with(Observation{Told: now.Add(-5 * time.Minute), Upcoming: upcoming}), event: "Normal MachineUpcoming Launched", after: Pause},
		"a machine is on its way": {
			o:     with(Observation{Upcoming: upcoming[:1], Reported: true}),
			event: "Normal MachineUpcoming Launched upcoming for Pods like this one: m1, spot m7i.large in us-1a (Launched); the Pod is scheduled when there is room on a Node that is ready", after: Pause,
		},
		"several": {o: with(Observation{Upcoming: upcoming, Reported: true}), event: "Normal MachineUpcoming Launched upcoming for Pods like this one: m1, spot m7i.large in us-1a (Launched); m2, spot m7i.large in us-1a (Provisioning); m3, spot m7i.large in us-1a (Provisioning) and 1 more;", after: Pause},
		"too few": {
			o: with(Observation{Upcoming: upcoming[:1], Capacity: short("LimitReached"), Reported: true}),
			event: "Normal MachineUpcoming Launched upcoming for Pods like this one: m1, spot m7i.large in us-1a (Launched); the Pod is scheduled when there is room on a Node that is ready. " +
				"For all Pods like this one that is not enough: LimitReached, missing cpu 4, memory 8Gi, since 2026-03-04T04:06:00Z, see docs/demand/reference.md#why-a-need-is-short", after: Pause,
		},
		"nothing can be had": {
			o: with(Observation{Capacity: short("NoMatchingOffer"), Reported: true}),
			event: "Warning CapacityShort NoMatchingOffer no machine can be had for Pods like this one: NoMatchingOffer, missing cpu 4, memory 8Gi, since 2026-03-04T04:06:00Z. " +
				"It is tried again by itself; docs/demand/reference.md#why-a-need-is-short says what helps", after: Pause,
		},
		"nothing is known":          {o: with(Observation{Reported: true, Capacity: &demandv1.AvailableCapacity{}}), event: "Normal CapacityRequested Request the shards were told", after: Pause},
		"the shards were told none": {o: with(Observation{}), event: "Warning CapacityNotRequested Request the shards were not told yet", after: Pause},
	} {
		d := Decide(tt.o, now)
		got := ""
		if e := d.Event; e != nil {
			got = strings.Join([]string{e.Type, e.Reason, e.Action, e.Message}, " ")
		}
		if d.After != tt.after || !strings.HasPrefix(got, tt.event) || (got == "") != (tt.event == "") {
			t.Errorf("%s: after %v, %s", name, d.After, got)
		}
		if len(got) > 1024 {
			t.Errorf("%s: longer than an event may be", name)
		}
	}
}

// Machines are named that the Pod would be scheduled on, and no others.
func TestMachinesThatAPodFitsOn(t *testing.T) {
	in := func(key string, values ...string) demandv1.Requirement {
		return demandv1.Requirement{Key: key, Operator: demandv1.OperatorIn, Values: values}
	}
	tainted := func(effect corev1.TaintEffect) func(*demandv1.UpcomingNode) {
		return func(n *demandv1.UpcomingNode) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: effect}}
		}
	}
	for name, tt := range map[string]struct {
		spec demandv1.CapacityRequestSpec
		on   *demandv1.UpcomingNode
		fits bool
	}{
		"no requirement":             {on: machine("m", "Provisioning"), fits: true},
		"the right zone":             {spec: demandv1.CapacityRequestSpec{Requirements: []demandv1.Requirement{in(corev1.LabelTopologyZone, "us-1a", "us-1b")}}, on: machine("m", "Registered"), fits: true},
		"another zone":               {spec: demandv1.CapacityRequestSpec{Requirements: []demandv1.Requirement{in(corev1.LabelTopologyZone, "us-1b")}}, on: machine("m", "Registered")},
		"a label that is larger":     {spec: demandv1.CapacityRequestSpec{Requirements: []demandv1.Requirement{{Key: "tier", Operator: demandv1.OperatorGt, Values: []string{"6"}}}}, on: machine("m", "Launched"), fits: true},
		"one of two alternatives":    {spec: demandv1.CapacityRequestSpec{Alternatives: []demandv1.Alternative{{Requirements: []demandv1.Requirement{in("tier", "8")}}, {Requirements: []demandv1.Requirement{in("tier", "7")}}}}, on: machine("m", "Launched"), fits: true},
		"none of two alternatives":   {spec: demandv1.CapacityRequestSpec{Alternatives: []demandv1.Alternative{{Requirements: []demandv1.Requirement{in("tier", "8")}}, {Requirements: []demandv1.Requirement{in("tier", "9")}}}}, on: machine("m", "Launched")},
		"too small":                  {spec: demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: cpus("5")}}, on: machine("m", "Launched")},
		"a resource that it lacks":   {spec: demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}, on: machine("m", "Launched")},
		"a size that is not known":   {spec: demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: cpus("5")}}, on: machine("m", "Launched", func(n *demandv1.UpcomingNode) { n.Spec.Resources = nil }), fits: true},
		"a taint":                    {on: machine("m", "Launched", tainted(corev1.TaintEffectNoSchedule))},
		"a taint that is preferred":  {on: machine("m", "Launched", tainted(corev1.TaintEffectPreferNoSchedule)), fits: true},
		"a taint that is tolerated":  {spec: demandv1.CapacityRequestSpec{Tolerations: []demandv1.Toleration{{Key: "gpu", Operator: "Exists"}}}, on: machine("m", "Launched", tainted(corev1.TaintEffectNoExecute)), fits: true},
		"another taint is tolerated": {spec: demandv1.CapacityRequestSpec{Tolerations: []demandv1.Toleration{{Key: "gpu", Operator: "Equal", Value: "no"}}}, on: machine("m", "Launched", tainted(corev1.TaintEffectNoExecute))},
		"it is a Node already":       {on: machine("m", "Ready")},
		"it drains":                  {on: machine("m", "Draining")},
		"it has failed":              {on: machine("m", "Failed")},
	} {
		if got := len(fitting(&tt.spec, []demandv1.UpcomingNode{*tt.on})) == 1; got != tt.fits {
			t.Errorf("%s: it fits: %v", name, got)
		}
	}
	all := fitting(&demandv1.CapacityRequestSpec{}, []demandv1.UpcomingNode{*machine("b", "Launched"), *machine("c", "Provisioning"), *machine("a", "Launched"), *machine("d", "Registered")})
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	if diff := cmp.Diff([]string{"d", "a", "b", "c"}, names); diff != "" {
		t.Error("the furthest first:", diff)
	}
}

// A Pod that waits is told what happens next: that its request was not reported, then what is missing, then which
// machine comes, each five minutes after the last event at the soonest.
func TestWhatAPodIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod(func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() })
		request := translate.Object(p, translate.Build(p, translate.Volumes{}, translate.Options{}).Spec)
		api := testworld.NewClientBuilder(t).WithObjects(p, request).Build()
		var events testworld.Events
		r := New(Options{Cache: api, Events: &events, Limiter: rate.NewLimiter(10, 100)})
		look := func(wantAfter time.Duration) (said []string) {
			t.Helper()
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
			if err != nil || result.RequeueAfter.Round(time.Second) != wantAfter {
				t.Errorf("looked at again after %v, error %v", result.RequeueAfter, err)
			}
			return events.All()
		}
		write := func(o client.Object) {
			t.Helper()
			if err := api.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if said := look(Patience); len(said) > 0 {
			t.Errorf("a new Pod is told %q", said)
		}
		time.Sleep(Patience)
		if said := look(Pause); len(said) != 1 || !strings.Contains(said[0], CapacityNotRequested) {
			t.Errorf("told %q", said)
		}
		request.Status.Phase = demandv1.CapacityRequestAcknowledged
		write(request)
		time.Sleep(time.Minute)
		if said := look(Pause - time.Minute); len(said) != 1 {
			t.Errorf("told again too early: %q", said)
		}
		missing := short("QuotaExhausted")
		rows, _ := aggregate.Build(aggregate.Options{}, func(yield func(aggregate.Item) bool) { yield(aggregate.Item{ID: "x", Spec: &request.Spec}) })
		missing.Name, missing.Spec.ProfileFingerprint = readback.CapacityName(rows[0].Fingerprint), rows[0].Fingerprint
		if err := api.Create(t.Context(), missing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Pause)
		if said := look(Pause); len(said) != 2 || !strings.Contains(said[1], "QuotaExhausted") {
			t.Errorf("told %q", said)
		}
		// The machine type has to be there, as a Pod without requirements asks for any.
		n := machine("m1", "Launched", func(n *demandv1.UpcomingNode) { n.Spec.Labels[corev1.LabelInstanceTypeStable] = "m7i.large" })
		if err := api.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Pause)
		if said := look(Pause); len(said) != 3 || !strings.Contains(said[2], "m1, spot m7i.large") {
			t.Errorf("told %q", said)
		}
		p.Spec.NodeName = "n1"
		write(p)
		time.Sleep(Pause)
		if said := look(0); len(said) != 3 {
			t.Errorf("a Pod with a Node is told %q", said)
		}
	})
}

// Without requests for Pods the Pod itself says what it asks for, and all Pods together get as many events as the
// limit lets pass: the others are told later.
func TestPodsThatCountByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testworld.NewClientBuilder(t)
		names := []string{"ignored", "a", "b"}
		for _, name := range names {
			b = b.WithObjects(pod(func(p *corev1.Pod) {
				p.Name, p.UID, p.CreationTimestamp = name, types.UID(name), metav1.NewTime(time.Now().Add(-time.Hour))
			}))
		}
		var events testworld.Events
		r := New(Options{
			Cache: b.Build(), Events: &events, Limiter: rate.NewLimiter(rate.Every(time.Minute), 1),
			Translate: func(_ context.Context, p *corev1.Pod) (demandv1.CapacityRequestSpec, bool) {
				return translate.Build(p, translate.Volumes{}, translate.Options{}).Spec, p.Name != "ignored"
			},
		})
		var after []time.Duration
		for _, name := range append(names, "b") {
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: name}})
			if err != nil {
				t.Fatal(err)
			}
			after = append(after, result.RequeueAfter)
			if result.RequeueAfter == time.Minute {
				time.Sleep(time.Minute)
			}
		}
		if diff := cmp.Diff([]time.Duration{Pause, Pause, time.Minute, Pause}, after); diff != "" || len(events.All()) != 2 {
			t.Errorf("%s, events %q", diff, events.All())
		}
	})
}

// Of many Pods that wait each is told in its turn, and none is looked at without need: what the limiter has no room for within
// a pause comes after it.
func TestManyPodsWaitForTheirTurns(t *testing.T) {
	now := time.Date(2026, 3, 4, 4, 5, 6, 0, time.UTC)
	turns := newTurns(rate.NewLimiter(10, 100))
	first, next, later := 0, 0, 0
	for i := range 10_000 {
		p := pod(func(p *corev1.Pod) {
			p.UID, p.CreationTimestamp = types.UID(fmt.Sprint(i)), metav1.NewTime(now.Add(-time.Hour))
		})
		switch wait := turns.take(p.UID, now); {
		case wait == 0:
			first++
		case wait <= Pause:
			next++
			if _, again := turns.wait(p, now.Add(wait/2)); again != wait-wait/2 {
				t.Fatalf("looked at early, it waits for %v, want %v", again, wait-wait/2)
			}
			if _, again := turns.wait(p, now.Add(wait)); again != 0 {
				t.Fatalf("its turn has come, and it waits for %v", again)
			}
			if i < 110 && turns.take(p.UID, now.Add(wait)) != 0 {
				t.Fatal("its turn has come, and it is not told")
			}
		case wait <= 2*Pause:
			later++
		default:
			t.Fatalf("waits for %v", wait)
		}
	}
	if first != 100 || next != 3000 || later != 6900 {
		t.Errorf("%d are told at once, %d get a turn, %d come later", first, next, later)
	}
	turns.wait(pod(), now.Add(3*Pause))
	if len(turns.told)+len(turns.due) != 0 {
		t.Errorf("%d and %d are remembered", len(turns.told), len(turns.due))
	}
}

// added is a queue that notes when requests come.
type added struct {
	queue
	after []time.Duration
}

func (a *added) AddAfter(_ reconcile.Request, after time.Duration) { a.after = append(a.after, after) }

// A Pod is looked at when there may be something to say of it; what changes while it waits asks for nothing.
func TestWhenAPodIsLookedAt(t *testing.T) {
	waiting, placed := pod(), pod(func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	fresh := pod(func(p *corev1.Pod) { p.CreationTimestamp.Time = now.Add(-10 * time.Second) })
	a := arrivals{func() time.Time { return now }}
	for name, tt := range map[string]struct {
		event func(q queue)
		want  []time.Duration
	}{
		"a new Pod":           {func(q queue) { a.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: fresh}, q) }, []time.Duration{20 * time.Second}},
		"one that waits long": {func(q queue) { a.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: waiting}, q) }, []time.Duration{0}},
		"one that has a Node": {func(q queue) { a.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: placed}, q) }, nil},
		"one that waits still": {func(q queue) {
			a.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: fresh, ObjectNew: waiting}, q)
		}, nil},
		"one that gets a Node": {func(q queue) {
			a.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: waiting, ObjectNew: placed}, q)
		}, nil},
		"one that begins to": {func(q queue) {
			a.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: placed, ObjectNew: fresh}, q)
		}, []time.Duration{20 * time.Second}},
		"one that is gone": {func(q queue) { a.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: waiting}, q) }, nil},
	} {
		var q added
		if tt.event(&q); !slices.Equal(q.after, tt.want) {
			t.Errorf("%s: looked at after %v, want %v", name, q.after, tt.want)
		}
	}
	// Those that wait when the operator starts do not come all at once.
	var q added
	for range 100 {
		a.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: waiting, IsInInitialList: true}, &q)
	}
	if first, last := slices.Min(q.after), slices.Max(q.after); first < Patience/2 || last > Patience || last-first < Patience/4 {
		t.Errorf("looked at after %v to %v", first, last)
	}
}
