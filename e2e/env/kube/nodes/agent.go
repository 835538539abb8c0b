package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// retry is the pause after a call of the API server that went wrong.
const retry = time.Second

// Agent is the Node of one machine.
type Agent struct {
	client  kubernetes.Interface
	machine Machine
	log     *slog.Logger

	unready atomic.Bool
	changed chan struct{}         // readiness has changed
	lease   *coordinationv1.Lease // as it was renewed last; nil: it has to be read
}

// New returns the agent of a machine. It does nothing before it runs.
func New(client kubernetes.Interface, machine Machine, log *slog.Logger) *Agent {
	return &Agent{
		client:  client,
		machine: machine.withDefaults(),
		log:     log.With("node", machine.Name),
		changed: make(chan struct{}, 1),
	}
}

// SetReady has the machine say, from now on, that it is ready or that it is not; at
// first it is. It may be called at any time.
func (a *Agent) SetReady(ready bool) {
	a.unready.Store(!ready)
	select {
	case a.changed <- struct{}{}:
	default: // it has not looked yet
	}
}

// Run registers the Node and serves it until ctx ends, which is no error. What the API
// server refuses is logged and tried again.
func (a *Agent) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.register(ctx)
		if err == nil {
			break
		}
		a.log.WarnContext(ctx, "not registered", "error", err)
		a.pause(ctx, retry)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { a.beat(ctx); return nil })
	g.Go(func() error { return a.runPods(ctx) })
	return g.Wait()
}

// register creates the Node. One that exists is this machine's from an earlier life.
func (a *Agent) register(ctx context.Context) error {
	node := a.machine.node(!a.unready.Load(), time.Now())
	_, err := a.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// beat keeps the Lease and the readiness of the Node until ctx ends.
func (a *Agent) beat(ctx context.Context) {
	for ctx.Err() == nil {
		wait := a.machine.Heartbeat
		if err := a.heartbeat(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "heartbeat", "error", err)
			wait = min(retry, wait)
		}
		a.pause(ctx, wait)
	}
}

// pause waits, at most until the readiness changes or ctx ends.
func (a *Agent) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-a.changed:
	case <-timer.C:
	}
}

// heartbeat renews the Lease, and sets the Node's readiness where somebody else has
// changed it. A Node that was deleted stays so, as with a kubelet.
func (a *Agent) heartbeat(ctx context.Context) error {
	var read metav1.GetOptions
	if a.lease != nil {
		read.ResourceVersion = "0" // a Node that has been seen is read from the API server's cache, as a kubelet does
	}
	node, err := a.client.CoreV1().Nodes().Get(ctx, a.machine.Name, read)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.renew(ctx, node); err != nil {
		return fmt.Errorf("renew the lease: %w", err)
	}
	conditions, differ := restated(node.Status.Conditions, !a.unready.Load(), time.Now())
	if !differ {
		return nil
	}
	node.Status.Conditions = conditions
	if _, err := a.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// renew renews the Node's Lease as it was last, as a kubelet does, or makes it. It is deleted
// with the Node.
func (a *Agent) renew(ctx context.Context, node *corev1.Node) error {
	leases := a.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(time.Now())
	lease, err := a.lease, error(nil)
	if a.lease = nil; lease == nil {
		lease, err = leases.Get(ctx, a.machine.Name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		lease, err = leases.Create(ctx, a.newLease(node, now), metav1.CreateOptions{})
	case err == nil:
		lease.Spec.RenewTime = &now
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		a.lease = lease
	}
	return err
}

func (a *Agent) newLease(node *corev1.Node, now metav1.MicroTime) *coordinationv1.Lease {
	seconds := int32(leaseLasts * a.machine.Heartbeat / time.Second)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.machine.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
			}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &a.machine.Name, LeaseDurationSeconds: &seconds, RenewTime: &now,
		},
	}
}
