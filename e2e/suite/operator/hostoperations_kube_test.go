//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/backoff"
	controllers "nstance.dev/operator/controllers/hosts/operations"
	"nstance.dev/operator/hosts/inplace"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/policies/policytest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// operating is a cluster with host machines, an operator that is killed, and executors that race.
type operating struct {
	*hostCourt
	scheme *runtime.Scheme
	admin  client.Client
	kill   func(t *testing.T)

	mu       sync.Mutex
	executed map[string]int // by operation
	acting   int
	most     int
	finished atomic.Int64
}

func newOperating(t *testing.T) *operating {
	t.Helper()
	w := &operating{hostCourt: newHostCourt(t), scheme: runtime.NewScheme(), executed: map[string]int{}}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hostsv1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.admin = w.client(t, w.cluster.Admin())
	return w
}

func (w *operating) client(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: w.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts an operator. Its end by kill is that of a process: no request of it arrives any more.
func (w *operating) start(t *testing.T) {
	t.Helper()
	config, err := w.cluster.User(policytest.Params.User, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	var dead atomic.Bool
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{next, &dead} })
	yes := true
	o := ctrl.Options{Scheme: w.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: asShipped}
	o.Controller.SkipNameValidation = &yes
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(config, client.Options{Scheme: w.scheme})
	if err != nil {
		t.Fatal(err)
	}
	r := controllers.New(controllers.Options{
		Client: mgr.GetClient(), Live: live, Events: mgr.GetEventRecorder("nstance-operator"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	some := controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: &yes, RateLimiter: backoff.Limiter()}
	if err := r.SetupWithManager(t.Context(), mgr, some); err != nil {
		t.Fatal(err)
	}
	r.Carry(hostsv1.ExecutorController, &inplace.Applier{
		Versions: mgr.GetClient(), Nodes: mgr.GetClient(), Group: func(*hostsv1.HostMachine) (*nstancev1.NodeSettings, bool) { return nil, true },
		Host: away{},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	w.kill = func(t *testing.T) {
		t.Helper()
		dead.Store(true)
		stop()
		if err := <-ended; err != nil {
			t.Log(err)
		}
	}
}

// away is a host whose agent is not connected: it sets no SSH keys.
type away struct{}

func (away) Offers(*hostsv1.HostMachine) []string { return nil }

func (away) Carry(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (*operations.Outcome, error) {
	return nil, errors.New("the host was asked, and it offers nothing")
}

// mortal is a connection that ends with its process.
type mortal struct {
	next http.RoundTripper
	dead *atomic.Bool
}

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("the process is dead")
	}
	return m.next.RoundTrip(r)
}

// execute is one process of an executor. It claims what it may, and does that.
func (w *operating) execute(ctx context.Context, c client.Client, work *sync.WaitGroup) {
	for ctx.Err() == nil {
		var list hostsv1.MachineOperationList
		if c.List(ctx, &list, client.MatchingLabels{hostsv1.LabelExecutor: "tracer"}) != nil {
			continue
		}
		for i := range list.Items {
			op := &list.Items[i]
			status, err := operations.Claim(op, "tracer", time.Now())
			if err != nil {
				continue
			}
			if op.Status = status; c.Status().Update(ctx, op) != nil {
				continue // the other process was faster, or it may not be taken any more
			}
			w.mu.Lock()
			w.executed[op.Name]++
			w.acting++
			w.most = max(w.most, w.acting)
			w.mu.Unlock()
			work.Go(func() { w.finish(ctx, c, op) })
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// finish does the work and says so until it is heard.
func (w *operating) finish(ctx context.Context, c client.Client, op *hostsv1.MachineOperation) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(200 * time.Millisecond):
	}
	w.mu.Lock()
	w.acting--
	w.mu.Unlock()
	for ctx.Err() == nil {
		status, err := operations.Finish(op, "tracer", operations.Outcome{Results: map[string]string{"packets": "12"}}, time.Now())
		if err != nil {
			return
		}
		op.Status = status
		if err = c.Status().Update(ctx, op); err == nil {
			w.finished.Add(1)
			return
		}
		if c.Get(ctx, client.ObjectKeyFromObject(op), op) != nil {
			continue
		}
	}
}

// machines makes machines on which the executor offers packetCapture.
func (w *operating) machines(t *testing.T, n int) {
	t.Helper()
	var makers sync.WaitGroup
	for maker := range 8 {
		makers.Go(func() {
			for i := maker; i < n; i += 8 {
				m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("box%03d", i), Labels: map[string]string{"rack": "1"}}}
				m.Spec.Provisioner = hostsv1.ProvisionerManual
				err := w.admin.Create(t.Context(), m)
				if err == nil {
					m.Status.Executors = []hostsv1.Executor{{Name: "tracer", Operations: []string{"packetCapture"}}}
					err = w.admin.Status().Update(t.Context(), m)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	makers.Wait()
}

// awaitSome waits until operations are being made for machines.
func (w *operating) awaitSome(t *testing.T) {
	t.Helper()
	kube.Await(t, "some are made", func(ctx context.Context) error {
		var list hostsv1.MachineOperationList
		if err := w.admin.List(ctx, &list); err != nil {
			return err
		}
		if len(list.Items) < 20 {
			return fmt.Errorf("%d are", len(list.Items))
		}
		return nil
	})
}

// M72, M73, M74, M75, M80: an operation on a fleet of machines, no more than 20 at once, executed by two processes that race for each
// of them, while the operator is killed five times: each is executed once, all finish, and the object is deleted when its
// time is over, by a process that was not there when it finished.
func TestM72M73M74M75M80_FanOutOverAFleet(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	w := newOperating(t)
	const limit, ttl = int32(20), int32(3)
	fleet := *hostFleet
	w.machines(t, fleet)
	w.start(t)
	ctx, stop := context.WithCancel(t.Context())
	var processes, work sync.WaitGroup
	for range 2 {
		c := w.client(t, w.cluster.Admin())
		processes.Go(func() { w.execute(ctx, c, &work) })
	}
	most, life := limit, ttl
	all := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	all.Spec.OperationName, all.Spec.MaxConcurrent, all.Spec.TTLSecondsAfterFinished = "packetCapture", &most, &life
	all.Spec.MachineSelector = &hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"rack": "1"}}
	if err := w.admin.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for _, percent := range []int{0, 12, 34, 56, 78} {
		after := int64(fleet * percent / 100)
		kube.AwaitFor(t, 3*time.Minute, fmt.Sprintf("%d have finished", after), func(context.Context) error {
			if n := w.finished.Load(); n < after {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
		if after == 0 {
			w.awaitSome(t)
		}
		w.kill(t)
		w.start(t)
	}
	kube.AwaitFor(t, 3*time.Minute, "all have finished", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(all), all); err != nil {
			return err
		}
		if all.Status.State != hostsv1.OperationComplete {
			return fmt.Errorf("%s, %+v, %d executed", all.Status.State, all.Status.Children, w.finished.Load())
		}
		return nil
	})
	took := time.Since(begun)
	w.kill(t)
	if c := all.Status.Children; int(c.Total) != fleet || int(c.Complete) != fleet || c.Failed+c.Pending+c.InProgress != 0 {
		t.Errorf("children %+v", c)
	}
	w.mu.Lock()
	if len(w.executed) != fleet || w.most > int(limit) || w.most < int(limit)/2 {
		t.Errorf("%d of %d were executed, at most %d at once of %d", len(w.executed), fleet, w.most, limit)
	}
	for name, n := range w.executed {
		if n != 1 {
			t.Errorf("%s was executed %d times", name, n)
		}
	}
	t.Logf("%d operations in %s, at most %d at once, operator killed 5 times", len(w.executed), took.Round(time.Millisecond), w.most)
	w.mu.Unlock()
	time.Sleep(time.Until(all.Status.CompletionTime.Add(time.Duration(ttl) * time.Second)))
	w.start(t)
	defer func() { w.kill(t) }()
	kube.AwaitFor(t, 20*time.Second, "it is deleted", func(ctx context.Context) error {
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(all), all)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	stop()
	processes.Wait()
	work.Wait()
}

// M56, M71, M75: applyConfiguration brings labels and taints to a Node on a real server, with what the operator may do, says what it
// has changed, and fails with the fields that take a repave.
func TestM56M71M75_ApplyConfigurationOnARealServer(t *testing.T) {
	ownCluster(t)
	w := newOperating(t)
	operator, err := w.cluster.User(policytest.Params.User, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	owner := w.client(t, operator)
	for number, kubernetes := range []hostsv1.Kubernetes{
		{Version: "v1.36.3", NodeLabels: map[string]hostsv1.LabelValue{"tier": "a"}, Taints: []hostsv1.Taint{{Key: "gpu", Value: "one", Effect: corev1.TaintEffectNoSchedule}}},
		{Version: "v1.36.3", NodeLabels: map[string]hostsv1.LabelValue{"tier": "b", "new": "z"}},
		{Version: "v1.36.4", NodeLabels: map[string]hostsv1.LabelValue{"tier": "c"}},
	} {
		v := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-v%d", number+1)}}
		v.Spec.ConfigurationName, v.Spec.Version = "gpu", int32(number+1) //nolint:gosec // three
		v.Spec.Template = hostsv1.Template{Image: hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:1"}}, Kubernetes: kubernetes}
		if err := owner.Create(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", Labels: map[string]string{"tier": "a", "mine": "y"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "one", Effect: corev1.TaintEffectNoSchedule}, {Key: "mine", Effect: corev1.TaintEffectNoExecute}}
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "box"}}
	m.Spec.Provisioner = hostsv1.ProvisionerManual
	for _, object := range []client.Object{node, m} {
		if err := w.admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	desire := func(version int32) {
		t.Helper()
		m.Status.NodeRef = &hostsv1.NodeReference{Name: "box", UID: string(node.UID)}
		m.Status.Configuration = &hostsv1.ConfigurationStatus{
			Applied: &hostsv1.AppliedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: 1}},
			Desired: &hostsv1.VersionReference{Name: "gpu", Version: version},
		}
		if err := w.admin.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	desire(2)
	w.start(t)
	defer func() { w.kill(t) }()
	ask := func(name string, state hostsv1.OperationState, reason string) *hostsv1.MachineOperation {
		t.Helper()
		op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		op.Spec.OperationName, op.Spec.MachineRef = hostsv1.OperationApplyConfiguration, &hostsv1.MachineReference{Name: "box"}
		if err := w.admin.Create(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		kube.Await(t, name+" has ended", func(ctx context.Context) error {
			if err := w.admin.Get(ctx, client.ObjectKeyFromObject(op), op); err != nil {
				return err
			}
			if op.Status.State != state || op.Status.Reason != reason {
				return fmt.Errorf("%s/%s: %s", op.Status.State, op.Status.Reason, op.Status.Message)
			}
			return nil
		})
		return op
	}
	op := ask("first", hostsv1.OperationComplete, hostsv1.ReasonSucceeded)
	if op.Status.Executor != hostsv1.ExecutorController || op.Status.Attempts != 1 || op.Status.Results["changed"] != "label new, label tier, taint gpu:NoSchedule" {
		t.Errorf("%+v", op.Status)
	}
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	mine := 0
	for _, taint := range node.Spec.Taints {
		if taint.Key == "gpu" {
			t.Error("the taint is still there")
		}
		if taint.Key == "mine" {
			mine++
		}
	}
	if node.Labels["tier"] != "b" || node.Labels["new"] != "z" || node.Labels["mine"] != "y" || mine != 1 {
		t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
	final := op.DeepCopy() // its labels may still change
	op.Status.State = hostsv1.OperationPending
	if err := w.admin.Status().Patch(t.Context(), op, client.MergeFrom(final)); !apierrors.IsInvalid(err) {
		t.Errorf("what is final is changed: %v", err)
	}
	w.kill(t)
	desire(3)
	w.start(t) // one that knows of it
	last := ask("second", hostsv1.OperationFailed, inplace.ReasonNeedsRepave)
	if last.Status.Message != "these fields take a repave: kubernetes.version" {
		t.Errorf("message %q", last.Status.Message)
	}
}
