package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
)

// M87: of 500 machines a script deletes 100 Nodes: they are repaved one by one, also by a process that
// starts in between, until a user releases the brake. What was left from an earlier release, when the
// brake had let go by itself, is no such word.
func TestM87_AScriptDeletesNodes(t *testing.T) {
	const all, gone = 500, 100
	run(t, func(w *world) {
		name := func(i int) string { return fmt.Sprintf("m%03d", i) }
		w.configuration("gpu", 1)
		w.fleet = map[string]*hostsv1.HostMachine{}
		one := w.reference("gpu", 1)
		for i := range all {
			m := w.running(name(i), one)
			w.fleet[m.Name] = m
		}
		w.instances()
		release := func() {
			c := &hostsv1.MachineConfiguration{ObjectMeta: objectMeta("gpu")}
			w.must(w.api.Get(t.Context(), keyOf(c), c))
			c.Annotations = map[string]string{hostsv1.AnnotationReleaseBrake: ""}
			w.must(w.api.Update(t.Context(), c))
		}
		release()
		puts := len(w.shard.puts)
		for i := range gone {
			w.deleteNode(name(i))
		}
		look := func() {
			for i := range gone {
				w.must(w.pass(name(i)))
			}
		}
		repaving := func() (names []string) {
			for i := range gone {
				if m := w.get(name(i)); m.Status.Configuration.Assigned.Epoch == 2 && m.Status.NodeRef.UID == "" {
					names = append(names, m.Name)
				}
			}
			return names
		}
		look()
		w.after(lifecycle.ConfirmAfter)
		look()
		look()
		if now := repaving(); len(now) != 1 {
			t.Fatalf("%d are repaved at once: %v", len(now), now)
		}
		if n := slices.IndexFunc(w.counts, func(c string) bool { return strings.HasPrefix(c, hostsv1.EventFleetBrake+": 51 of 500 Nodes") }); n < 0 {
			t.Errorf("no notice: %v", w.counts[len(w.counts)-5:])
		}
		if h := w.get(name(99)).Status.Repave.Held; h == nil || h.Reason != lifecycle.HeldBrake {
			t.Errorf("held: %+v", h)
		}
		for range 3 { // one after the other
			first := repaving()[0]
			w.settle(first)
			w.join(first, "node-2-"+first)
			w.restart()
			w.after(lifecycle.ConfirmAfter)
			look()
			w.after(lifecycle.ConfirmAfter)
			look()
			if now := repaving(); len(now) != 1 || now[0] == first {
				t.Fatalf("%d are repaved at once: %v", len(now), now)
			}
		}
		notices := 0
		for _, c := range w.counts {
			if strings.HasPrefix(c, hostsv1.EventFleetBrake) {
				notices++
			}
		}
		if notices > 4 { // one for each process
			t.Errorf("%d notices", notices)
		}
		release()
		look()
		if now := repaving(); len(now) < gone-5 {
			t.Errorf("after it was released %d are repaved", len(now))
		}
		c := &hostsv1.MachineConfiguration{ObjectMeta: objectMeta("gpu")}
		w.must(w.api.Get(t.Context(), keyOf(c), c))
		if len(c.Annotations) > 0 {
			t.Errorf("the annotation is left: %v", c.Annotations)
		}
		if len(w.shard.puts) == puts {
			t.Error("nothing was published")
		}
	})
}

// M87: a machine that waits asks nothing of the API server for a minute, and the fleet is listed once for
// all of them. When the one that is repaved has joined, or could not be begun, the next one is
// looked at; when the brake lets go all of them are.
func TestM87_TheNextOneIsLookedAt(t *testing.T) {
	run(t, func(w *world) {
		name := func(i int) string { return fmt.Sprintf("m%02d", i) }
		w.configuration("gpu", 1)
		for i := range 20 {
			w.running(name(i), w.reference("gpu", 1))
		}
		w.instances()
		for i := range 8 {
			w.deleteNode(name(i))
			w.must(w.pass(name(i)))
			w.after(100 * time.Millisecond)
		}
		w.after(lifecycle.ConfirmAfter)
		w.lists = 0
		for i := range 8 {
			w.must(w.pass(name(i)))
		}
		if w.lists != 1 {
			t.Errorf("the fleet was listed %d times at once", w.lists)
		}
		if again := w.last[name(5)].RequeueAfter; again < lifecycle.Resync {
			t.Errorf("a machine that waits is looked at again after %v", again)
		}
		repaving := func() string {
			var names []string
			for i := range 8 {
				if m := w.get(name(i)); m.Status.Configuration.Assigned.Epoch == 2 && m.Status.NodeRef.UID == "" {
					names = append(names, m.Name)
				}
			}
			return strings.Join(names, " ")
		}
		if got := repaving(); got != "m00" {
			t.Fatalf("repaved are %q", got)
		}
		w.settle("m00")
		w.woken.take()
		w.join("m00", "node-2-m00")
		if got := w.woken.take(); !slices.Equal(got, []string{"m01"}) {
			t.Errorf("after m00 has joined looked at are %v", got)
		}
		// The write of its assignment is refused: it is another one's turn.
		w.faults.FailWrite(1, false, errRefused)
		if err := w.pass("m01"); err == nil {
			t.Fatal("the write was not refused")
		}
		w.must(w.pass("m02"))
		if got := repaving(); got != "" {
			t.Errorf("it is not known whether m01 was begun, and repaved are %q", got)
		}
		w.after(unsureFor)
		w.must(w.pass("m02"))
		if got := repaving(); got != "m02" {
			t.Errorf("m01 was not begun, and repaved are %q", got)
		}
		w.must(w.pass("m01"))
		if got := repaving(); got != "m02" {
			t.Errorf("repaved at once are %q", got)
		}
		// Locking fails before anything is written.
		w.settle("m02")
		w.join("m02", "node-2-m02")
		w.woken.take()
		w.lock = errRefused
		if err := w.pass("m01"); err == nil {
			t.Fatal("the version was locked")
		}
		w.lock = nil
		if got := w.woken.take(); !slices.Equal(got, []string{"m03"}) {
			t.Errorf("after m01 could not be begun looked at are %v", got)
		}
		w.must(w.pass("m03"))
		w.must(w.pass("m01"))
		if got := repaving(); got != "m03" {
			t.Errorf("repaved are %q", got)
		}
		c := &hostsv1.MachineConfiguration{ObjectMeta: objectMeta("gpu")}
		w.must(w.api.Get(t.Context(), keyOf(c), c))
		if got := w.r.brake.releasing(t.Context(), c); len(got) > 0 {
			t.Errorf("without the annotation %v are looked at", got)
		}
		c.Annotations = map[string]string{hostsv1.AnnotationReleaseBrake: ""}
		w.must(w.api.Update(t.Context(), c))
		if got := w.r.brake.releasing(t.Context(), c); len(got) != 5 {
			t.Errorf("with the annotation %v are looked at", got)
		}
		// A user's word counts although nobody hears that it was removed.
		w.faults.FailWrite(1, true, errRefused)
		w.must(w.pass("m01"))
		w.must(w.pass("m01"))
		if got := w.woken.take(); !slices.Equal(got, []string{"m01", "m04", "m05", "m06", "m07"}) {
			t.Errorf("after it was released looked at are %v", got)
		}
	})
}

// M87: a user's word is heard once, also where the annotation cannot be removed at first, and the API server that is slow at
// it does not keep other machines waiting.
func TestM87_TheAnnotationIsNotRemoved(t *testing.T) {
	run(t, func(w *world) {
		name := func(i int) string { return fmt.Sprintf("m%d", i) }
		w.configuration("gpu", 1)
		for i := range 6 {
			w.running(name(i), w.reference("gpu", 1))
		}
		w.instances()
		for i := range 6 {
			w.deleteNode(name(i))
			w.must(w.pass(name(i)))
		}
		w.after(lifecycle.ConfirmAfter)
		for i := range 6 {
			w.must(w.pass(name(i)))
		}
		c := &hostsv1.MachineConfiguration{}
		get := func() map[string]string {
			w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, c))
			return c.Annotations
		}
		get()
		c.Annotations = map[string]string{hostsv1.AnnotationReleaseBrake: ""}
		w.must(w.api.Update(t.Context(), c))
		var log strings.Builder
		w.r.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		tries := 0
		w.r.opts.Client = interceptor.NewClient(w.listing(w.api), interceptor.Funcs{
			Patch: func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if _, configuration := o.(*hostsv1.MachineConfiguration); configuration {
					if !w.r.brake.mu.TryLock() {
						t.Error("the brake is locked meanwhile")
					} else {
						w.r.brake.mu.Unlock()
					}
					if tries++; tries < 3 {
						return errRefused
					}
				}
				return api.Patch(ctx, o, p, opts...)
			},
		})
		for i := range 6 {
			if err := w.pass(name(i)); err != nil {
				t.Error(err)
			}
		}
		for i := range 6 {
			if w.get(name(i)).Status.Configuration.Assigned.Epoch != 2 {
				t.Errorf("%s waits although the brake was released", name(i))
			}
		}
		if got := log.String(); strings.Contains(got, "releases nothing") || strings.Count(got, "brake of repaves released") != 1 || strings.Count(got, "annotation not removed") != 2 {
			t.Errorf("logged\n%s", got)
		}
		if left := get(); tries != 3 || len(left) > 0 {
			t.Errorf("tried %d times, left is %v", tries, left)
		}
	})
}

// M87: it is this machine's turn only if no other process has begun one: where two lead for a moment, what the cache
// has of the other one's counts, however short ago the fleet was looked at.
func TestM87_AnotherProcessHasBegunOne(t *testing.T) {
	run(t, func(w *world) {
		name := func(i int) string { return fmt.Sprintf("m%d", i) }
		w.configuration("gpu", 1)
		for i := range 6 {
			w.running(name(i), w.reference("gpu", 1))
		}
		w.instances()
		for i := range 5 {
			w.deleteNode(name(i))
			w.must(w.pass(name(i)))
		}
		w.after(lifecycle.ConfirmAfter)
		w.lock = errRefused
		if err := w.pass("m0"); err == nil { // the fleet was looked at
			t.Fatal("the version was locked")
		}
		w.lock = nil
		m := w.get("m1")
		m.Status.Configuration.Assigned.Epoch, m.Status.NodeRef.UID = 2, ""
		m.Status.Repave = &hostsv1.RepaveStatus{Epoch: 2, Mode: hostsv1.ModeRepave, Reason: lifecycle.ReasonNodeDeleted}
		w.must(w.api.Status().Update(t.Context(), m))
		w.must(w.pass("m0"))
		if m := w.get("m0"); m.Status.Configuration.Assigned.Epoch != 1 || m.Status.Repave.Held == nil || m.Status.Repave.Held.Reason != lifecycle.HeldBrake {
			t.Errorf("m0 is repaved while m1 is: %+v", m.Status.Repave)
		}
	})
}

// M66, M87: what a rollout deletes does not count, and waits for no brake: it has a budget of its own.
func TestM66M87_RolloutsAreNotBraked(t *testing.T) {
	run(t, func(w *world) {
		w.configuration("gpu", 1)
		name := func(i int) string { return fmt.Sprintf("m%02d", i) }
		for i := range 20 {
			m := w.running(name(i), w.reference("gpu", 1))
			if i < 8 {
				m.Status.Rollout = &hostsv1.MachineRollout{VersionReference: w.reference("gpu", 1), Stage: hostsv1.RolloutRepaving, NodeUID: m.Status.NodeRef.UID}
				w.must(w.api.Status().Update(t.Context(), m))
			}
		}
		w.instances()
		for i := range 8 {
			w.deleteNode(name(i))
			w.must(w.pass(name(i)))
		}
		w.after(lifecycle.ConfirmAfter)
		for i := range 8 {
			w.must(w.pass(name(i)))
		}
		for i := range 8 {
			if m := w.get(name(i)); m.Status.Configuration.Assigned.Epoch != 2 {
				t.Errorf("%s is not repaved: %+v", m.Name, m.Status.Repave)
			}
		}
		for _, c := range w.counts {
			if strings.HasPrefix(c, hostsv1.EventFleetBrake) {
				t.Error(c)
			}
		}
	})
}

// M87: a repave of which it is not known whether it was written counts also after another attempt, which was in
// conflict with it.
func TestM87_AnAnswerIsLostAndTheNextAttemptConflicts(t *testing.T) {
	run(t, func(w *world) {
		name := func(i int) string { return fmt.Sprintf("m%d", i) }
		w.configuration("gpu", 1)
		w.fleet = map[string]*hostsv1.HostMachine{}
		for i := range 6 {
			m := w.running(name(i), w.reference("gpu", 1))
			w.fleet[m.Name] = m
		}
		w.instances()
		for i := range 5 {
			w.deleteNode(name(i))
			w.must(w.pass(name(i)))
		}
		w.after(lifecycle.ConfirmAfter)
		before := w.get("m0")
		w.faults.FailWrite(1, true, errRefused)
		if err := w.pass("m0"); err == nil || w.get("m0").Status.Configuration.Assigned.Epoch != 2 {
			t.Fatalf("%v, and m0 is at epoch %d", err, w.get("m0").Status.Configuration.Assigned.Epoch)
		}
		w.stale = before // the cache is behind
		if err := w.pass("m0"); !apierrors.IsConflict(err) {
			t.Fatalf("%v, want a conflict", err)
		}
		w.stale = nil
		w.must(w.pass("m1"))
		if m := w.get("m1"); m.Status.Configuration.Assigned.Epoch != 1 {
			t.Errorf("m1 is repaved while m0 is")
		}
	})
}
