package operations

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
)

// Begin of the example of docs/hosts/executor.md.

const name = "tracer"

// Tracer is an executor for operation example.com/packetCapture. One process of it runs at a time.
type Tracer struct {
	API     client.Client
	Capture func(ctx context.Context, machine, seconds string) (file string, err error)

	mine sync.Map // UIDs of the operations that this process has claimed
}

// Offer says on a machine what this executor does there. It may be repeated.
func (t *Tracer) Offer(ctx context.Context, machine string) error {
	offer := `{"apiVersion": "hosts.nstance.dev/v1alpha1", "kind": "HostMachine", "metadata": {"name": "` + machine + `"},
		"status": {"executors": [{"name": "` + name + `", "operations": ["example.com/packetCapture"]}]}}`
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: machine}}
	return t.API.Status().Patch(ctx, m, client.RawPatch(types.ApplyPatchType, []byte(offer)), client.FieldOwner(name), client.ForceOwnership)
}

// Reconcile does what comes next for one operation. Run it for all that have the label hosts.nstance.dev/executor=tracer.
func (t *Tracer) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	op := &hostsv1.MachineOperation{}
	if err := t.API.Get(ctx, r.NamespacedName, op); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, here := t.mine.Load(op.UID); op.Status.State == hostsv1.OperationInProgress && op.Status.Executor == name && !here {
		// A process before this one has claimed it, and nobody knows how far it came.
		return ctrl.Result{}, t.end(ctx, op, operations.Outcome{Failed: true, Reason: hostsv1.ReasonInterrupted})
	}
	claimed, err := operations.Claim(op, name, time.Now())
	if err != nil {
		return ctrl.Result{}, nil // it has another executor, has ended, or it is not its turn
	}
	op.Status = claimed
	t.mine.Store(op.UID, true)
	if err := t.API.Status().Update(ctx, op); err != nil { // not claimed: nothing may be done
		t.mine.Delete(op.UID)
		if apierrors.IsConflict(err) {
			err = nil // it has changed since it was read, and is looked at again
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	until, stop := context.WithDeadline(ctx, op.Status.Deadline.Time)
	defer stop()
	file, err := t.Capture(until, string(op.Spec.MachineRef.Name), string(op.Spec.Parameters["seconds"]))
	outcome := operations.Outcome{Results: map[string]string{"file": file}}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outcome = operations.Outcome{Failed: true, Reason: hostsv1.ReasonTimeout, Message: err.Error()}
	case err != nil:
		outcome = operations.Outcome{Failed: true, Message: err.Error()}
	}
	return ctrl.Result{}, t.end(ctx, op, outcome)
}

// end says how an operation has ended, until that is heard.
func (t *Tracer) end(ctx context.Context, op *hostsv1.MachineOperation, o operations.Outcome) error {
	for {
		ended, err := operations.Finish(op, name, o, time.Now())
		if errors.Is(err, operations.ErrNotYours) {
			return nil // it is final: the operator has ended it
		}
		op.Status = ended
		if err := t.API.Status().Update(ctx, op); !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if err := t.API.Get(ctx, client.ObjectKeyFromObject(op), op); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
}

// End of the example.

// The page of executors has the example as it is tested here.
func TestThePageHasTheExample(t *testing.T) {
	read := func(path ...string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(path...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, source, _ := strings.Cut(read("tracer_test.go"), "docs/hosts/executor.md.\n")
	source, _, found := strings.Cut(source, "// End of the example.")
	if !found || !strings.Contains(read("..", "..", "..", "..", "docs", "hosts", "executor.md"), "```go\n"+strings.TrimSpace(source)+"\n```\n") {
		t.Error("docs/hosts/executor.md has another example than tracer_test.go")
	}
}

// M72, M75, M78, M79: the executor of the example offers, claims, acts and ends; it does not touch what another one has, what it was
// killed at it ends as interrupted, and what takes too long as timed out.
func TestM72M75M78M79_AnExecutorOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		m := &hostsv1.HostMachine{}
		s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
		m.Status.Executors = nil
		s.must(s.api.Status().Update(t.Context(), m))
		var captured []string
		tracer := func(capture func(ctx context.Context) error) *Tracer {
			return &Tracer{API: s.api, Capture: func(ctx context.Context, machine, seconds string) (string, error) {
				captured = append(captured, machine+" "+seconds)
				return "/var/tmp/box.pcap", capture(ctx)
			}}
		}
		good := func(context.Context) error { return nil }
		look := func(e *Tracer, name string) {
			t.Helper()
			_, err := e.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
			s.must(err)
			s.settle()
		}
		ask := func(spec *hostsv1.MachineOperationSpec) {
			spec.OperationName, spec.Parameters = "example.com/packetCapture", map[string]hostsv1.ParameterValue{"seconds": "$(id); 30"}
		}
		e := tracer(good)
		s.ask("a", "box", ask)
		s.settle()
		s.says("a", "Pending/NoExecutor")
		look(e, "a")
		s.must(e.Offer(t.Context(), "box"))
		s.must(e.Offer(t.Context(), "box"))
		s.settle()
		s.says("a", "Pending/Offered")
		look(e, "a")
		s.says("a", "Complete/Succeeded")
		look(e, "a")
		if op := s.get("a"); op.Status.Results["file"] != "/var/tmp/box.pcap" || op.Status.Executor != "tracer" || strings.Join(captured, ",") != "box $(id); 30" {
			t.Errorf("%+v; captured %q", op.Status, captured)
		}

		s.ask("slow", "box", ask)
		s.settle()
		look(tracer(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}), "slow")
		s.says("slow", "Failed/Timeout")
		s.ask("bad", "box", ask)
		s.settle()
		look(tracer(func(context.Context) error { return errors.New("no such interface") }), "bad")
		s.says("bad", "Failed/ExecutorFailed")

		s.ask("killed", "box", ask)
		s.settle()
		status, err := operations.Claim(s.get("killed"), name, time.Now())
		s.must(err)
		op := s.get("killed")
		op.Status = status
		s.must(s.api.Status().Update(t.Context(), op)) // and its process is killed
		before := len(captured)
		look(tracer(good), "killed")
		s.says("killed", "Failed/Interrupted")
		s.ask("other", "box", func(spec *hostsv1.MachineOperationSpec) { spec.OperationName = hostsv1.OperationReboot })
		s.settle()
		look(tracer(good), "other")
		if len(captured) != before || s.get("other").Status.State != hostsv1.OperationPending {
			t.Errorf("captured %q; other is %+v", captured, s.get("other").Status)
		}
	})
}
