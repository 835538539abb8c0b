package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
