//go:build hostvm

package hosts_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// step is what the paver of the host prints before it does a step of a kind.
func step(kind string) *regexp.Regexp {
	return regexp.MustCompile(`"msg":"next step","step":"` + kind + `"`)
}

// waitsForItsNode is what it prints while a new machine runs whose Node is not there.
var waitsForItsNode = regexp.MustCompile(`"reason":"the Node has not joined yet"`)

// loses takes the power from the host a while after it has printed something, and gives it back.
func (w *vmWorld) loses(from int, printed *regexp.Regexp, after time.Duration) (until int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), nodesAreReady)
	defer cancel()
	if _, err := w.vm.Prints(ctx, from, printed); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(after)
	if err := w.vm.CutPower(); err != nil {
		w.t.Fatal(err)
	}
	until = w.printed()
	w.t.Logf("the power was cut %v after the host had printed %s", after, printed)
	if err := w.vm.RestorePower(); err != nil {
		w.t.Fatal(err)
	}
	return until
}

// printed is how much the host has printed.
func (w *vmWorld) printed() int {
	w.t.Helper()
	text, err := w.vm.Console()
	if err != nil {
		w.t.Fatal(err)
	}
	return len(text)
}

// losesPower: while a host is repaved it loses its power, again and again: while the new machine is built, while the
// old one is stopped, while the new one starts, and while its Node is awaited. It goes on each time, and in the end
// there is one machine, with one Node. So it is where the Node has joined and the host has not written that down.
func (w *vmWorld) losesPower(version int32) {
	w.t.Helper()
	w.configure(w.template(fmt.Sprint(version)))
	w.knows(version)
	at, was := w.printed(), w.deleteNode()
	at = w.loses(at, step("build"), 5*time.Second)
	at = w.loses(at, step("retire"), time.Second)
	at = w.loses(at, step("boot"), 5*time.Second)
	w.loses(at, waitsForItsNode, 0)
	w.t.Logf("measured: after four losses of power the Node joined after %v more", w.joined(was, version).Round(time.Second))
	w.onlyNode()
	w.expectOne(fmt.Sprint(version))

	version++
	w.configure(w.template(fmt.Sprint(version)))
	w.knows(version)
	at, was = w.printed(), w.deleteNode()
	w.loses(at, step("commit"), 0)
	joined := w.onlyNode()
	if joined.UID == was {
		w.t.Fatalf("Node %s is the one that was deleted", was)
	}
	w.again(joined, version)
	w.onlyNode()
	w.expectOne(fmt.Sprint(version))
}

// onlyNode is the one Node that there is.
func (w *vmWorld) onlyNode() *corev1.Node {
	w.t.Helper()
	var all corev1.NodeList
	if err := w.admin.List(w.t.Context(), &all); err != nil {
		w.t.Fatal(err)
	}
	if len(all.Items) != 1 {
		w.t.Fatalf("%d Nodes: %v", len(all.Items), all.Items)
	}
	return &all.Items[0]
}

// goesDown: a host reboots because an operation asks for it, which is over when the host has another boot; and it
// is shut down, is off on purpose then, and is switched on. It is the same Node each time, nothing is assigned, and
// the instance stays.
func (w *vmWorld) goesDown(version int32) {
	w.t.Helper()
	was, epoch, boot := w.node(), w.host().Status.Repave.Epoch, w.host().Status.Host.BootID
	w.operate("reboot", hostsv1.OperationReboot, hostsv1.ExecutorPaver)
	w.bootedAgain(boot)
	w.again(was, version)
	w.expectOne(fmt.Sprint(version))

	was, boot = w.node(), w.host().Status.Host.BootID
	w.operate("shutdown", hostsv1.OperationShutdown, hostsv1.ExecutorPaver)
	kube.AwaitFor(w.t, nodesAreReady, "the host is off on purpose", func(context.Context) error {
		if s := w.host().Status; s.Phase != hostsv1.PhaseOff || s.Hold == nil || s.Hold.Reason != "power" {
			return fmt.Errorf("phase %s, hold %+v", s.Phase, s.Hold)
		}
		return nil
	})
	time.Sleep(2 * time.Minute) // longer than it takes to replace what has failed
	if phase := w.host().Status.Phase; phase != hostsv1.PhaseOff {
		w.t.Errorf("the host was off on purpose, and is %s now", phase)
	}
	w.operate("on", hostsv1.OperationPowerOn, hostsv1.ExecutorProvider)
	w.again(was, version)
	w.expectOne(fmt.Sprint(version))
	w.bootedAgain(boot)
	if now := w.host().Status.Repave.Epoch; now != epoch {
		w.t.Errorf("assignment %d was made, before %d", now, epoch)
	}
	if now := w.node().UID; now != was.UID {
		w.t.Errorf("the Node is %s, before %s", now, was.UID)
	}
}

// bootedAgain waits until the host reports another boot than before: its first reports, while it looks at itself, say
// nothing of that.
func (w *vmWorld) bootedAgain(before string) {
	w.t.Helper()
	kube.AwaitFor(w.t, nodesAreReady, "the host reports another boot", func(context.Context) error {
		if h := w.host().Status.Host; h == nil || h.BootID == "" || h.BootID == before {
			return fmt.Errorf("%+v, before %s", h, before)
		}
		return nil
	})
}

// operate asks for an operation of the host, and waits until it is complete.
func (w *vmWorld) operate(name, operation, executor string) {
	w.t.Helper()
	limit := int32(14 * time.Minute / time.Second) // an emulated host takes minutes to boot, and is on hold for 15 at most
	o := &hostsv1.MachineOperation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       hostsv1.MachineOperationSpec{MachineRef: &hostsv1.MachineReference{Name: hostsv1.Label(w.machine)}, OperationName: operation, TimeoutSeconds: &limit},
	}
	if err := w.admin.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	began := time.Now()
	kube.AwaitFor(w.t, 2*nodesAreReady, "operation "+name+" is over", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, types.NamespacedName{Name: name}, o); err != nil {
			return err
		}
		if o.Status.State != hostsv1.OperationComplete && o.Status.State != hostsv1.OperationFailed {
			return fmt.Errorf("%s: %s %s", o.Status.State, o.Status.Reason, o.Status.Message)
		}
		return nil
	})
	s := o.Status
	w.t.Logf("measured: %s was %s after %v: %s", operation, strings.ToLower(string(s.State)), time.Since(began).Round(time.Second), s.Message)
	if s.State != hostsv1.OperationComplete || s.Executor != executor {
		w.t.Fatalf("%s: %s %s by %s: %s", name, s.State, s.Reason, s.Executor, s.Message)
	}
}
