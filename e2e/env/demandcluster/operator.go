package demandcluster

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
)

// electionLease is the Lease of the operator that leads.
const electionLease = "nstance-operator-leader-election"

// keeper runs the operator as a kubelet does: one that ends by itself is started again.
type keeper struct {
	stop func() // it is no longer to be kept; may be called again
	over <-chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	process *kube.Process
}

// again is how long a keeper waits before it starts the operator again.
const again = time.Second

// StartOperator starts the operator, with flags after those of the chart. None runs. One that
// ends by itself, as it does when it loses its Lease, is started again.
func (c *Cluster) StartOperator(flags ...string) {
	c.t.Helper()
	program, log := box.Binary(c.t, "nstance-operator"), filepath.Join(c.t.ArtifactDir(), "nstance-operator-"+c.Tenant+".log")
	over := make(chan struct{})
	k := &keeper{stop: sync.OnceFunc(func() { close(over) }), over: over}
	start := func() error {
		process, err := kube.Run(program, append(slices.Clone(c.installation.Args), flags...), c.installation.Env, log)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.process = process
		return err
	}
	if err := start(); err != nil {
		c.t.Fatal(err)
	}
	c.keeper = k
	k.done.Go(func() {
		for k.keep() {
			if err := start(); err != nil {
				c.t.Errorf("start the operator again: %v", err)
				return
			}
		}
	})
}

// keep waits until the operator has ended by itself; false: it is no longer to be kept.
func (k *keeper) keep() bool {
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for {
		select {
		case <-k.over:
			return false
		case <-ticker.C:
			if k.current().Ended() {
				return true
			}
		}
	}
}

func (k *keeper) current() *kube.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process
}

// leave has nobody start the operator again.
func (k *keeper) leave() {
	k.stop()
	k.done.Wait()
}

// KillOperator ends the operator as a crash does. Its Lease is over at once, as if it were for
// long that none runs.
func (c *Cluster) KillOperator() {
	c.t.Helper()
	c.keeper.leave()
	c.Operator().Kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 10*time.Second)
	defer cancel()
	_, err := c.Client.CoordinationV1().Leases(Namespace).Patch(ctx, electionLease, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":""}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Logf("end the Lease of the operator: %v", err)
	}
}

// StopOperator asks the operator to end, and waits until it has.
func (c *Cluster) StopOperator() {
	c.t.Helper()
	c.keeper.leave()
	if err := c.Operator().Stop(time.Minute); err != nil {
		c.t.Error(err)
	}
}

// Operator is the process of the operator, which another one may have followed.
func (c *Cluster) Operator() *kube.Process { return c.keeper.current() }

// MetricsAddr is the host:port of the operator's metrics.
func (c *Cluster) MetricsAddr() string { return c.installation.Flag("--metrics-bind-address") }

// Metrics is what the operator answers to a scrape. It is safe for concurrent use.
func (c *Cluster) Metrics(ctx context.Context) (string, error) {
	return box.Metrics(ctx, c.MetricsAddr())
}

// OperatorUser is the operator, as the API server calls it.
func (c *Cluster) OperatorUser() string {
	return "system:serviceaccount:" + Namespace + ":" + c.installation.Account
}
