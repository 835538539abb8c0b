package pavesim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/e2e/sim/objects"
	"nstance.dev/e2e/sim/pavesim/cluster"
	"nstance.dev/e2e/sim/pavesim/shard"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/controllers/hosts/csr"
	hosts "nstance.dev/operator/controllers/hosts/host"
	"nstance.dev/operator/controllers/hosts/operations"
	"nstance.dev/operator/controllers/hosts/rollout"
	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/controllers/hosts/versions"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	namespace = "nstance-system"
	account   = "nstance-node-bootstrap"
	user      = "system:serviceaccount:" + namespace + ":" + account
	apiServer = "v1.36.3"
)

// errDead is what a process gets that has ended: nothing.
var errDead = errors.New("the process has ended")

// The controllers of a process.
const (
	ofVersions  = "versions"
	ofSelection = "selection"
	ofHost      = "host"
	ofCSR       = "csr"
	ofRollout   = "rollout"
	ofDrains    = "drains"
	ofOperation = "operations"
)

// request is an object that a controller is to look at.
type request struct{ controller, name string }

// process is one process of the operator. It does one thing at a time; while it waits for an answer
// of the API server all others go on.
type process struct {
	w           *world
	name        string
	ctx         context.Context //nolint:containedctx // the process's: everything in it ends with it
	cancel      context.CancelFunc
	dead        bool
	working     bool
	cache       *objects.View
	controllers map[string]reconcile.Reconciler
	reports     *reports.Store
	inventory   *inventory.Store
	stream      *shard.Stream
	lags        map[string]time.Time // until when no change of a kind is handed over
	due         map[request]time.Time
	failures    map[request]int
	said        bytes.Buffer // logs and events
}

// launch starts a process, whose cache holds what is there now.
func (w *world) launch(name string) {
	if w.processes[name] != nil || w.calm && name != survivor {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		w: w, name: name, ctx: ctx, cancel: cancel, lags: map[string]time.Time{}, due: map[request]time.Time{}, failures: map[request]int{},
		cache:   w.api.NewView(cluster.Kinds()),
		reports: reports.New(), inventory: inventory.NewStore(shard.Tenant, nil),
	}
	must(errors.Join(
		p.cache.IndexField(ctx, nil, "nodeName", selection.Index), p.cache.IndexField(ctx, nil, csr.IndexCredential, csr.Index),
		p.cache.IndexField(ctx, nil, operations.IndexMachine, operations.OfMachine), p.cache.IndexField(ctx, nil, operations.IndexParent, operations.OfParent),
	))
	p.inventory.Configure([]string{shard.Name})
	p.controllers = p.build()
	for _, kind := range cluster.Kinds() {
		for _, o := range p.cache.Objects(kind) {
			p.concerns(objects.Change{After: o})
		}
	}
	w.processes[name] = p
	w.notef("%s starts", name)
}

// build makes the controllers.
func (p *process) build() map[string]reconcile.Reconciler {
	w := p.w
	cached, live := w.api.Client(p.name, p.cache, p.through), w.api.Client(p.name, nil, p.through)
	log := slog.New(slog.NewTextHandler(&p.said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	notice := func(_ context.Context, _ runtime.Object, reason, _, format string, args ...any) {
		fmt.Fprintf(&p.said, reason+": "+format+"\n", args...)
		w.notef("%s: notice %s", p.name, reason)
	}
	numbers := versions.New(versions.Options{Client: cached, Live: live, Events: p, Now: time.Now})
	roller, drains := p.rollouts(cached, live, rollout.Options{
		Lock: func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, error) {
			locked, err := numbers.Lock(ctx, configuration, number, machine)
			return locked.Reference, err
		},
		Events: p, Log: log,
	})
	return map[string]reconcile.Reconciler{
		ofRollout: roller, ofDrains: drains, ofOperation: p.operations(cached, live, log),
		ofVersions:  numbers,
		ofSelection: selection.New(selection.Options{Client: cached, Live: live, Events: p, APIServer: func() string { return apiServer }, Now: time.Now}),
		ofCSR:       csr.New(csr.Options{Machines: cached, Requests: cached, ServiceAccount: user, Events: p, Notice: notice, Log: log, Now: time.Now}),
		ofHost: hosts.New(hosts.Options{
			Client: cached, Secrets: live, SecretMissing: func(context.Context, string) bool { return false }, Namespace: namespace,
			Nodes: hosts.Nodes{
				Client: cached, Live: live, Version: func() string { return apiServer },
				API: func(context.Context) assignment.APIServer {
					return assignment.APIServer{URL: "https://api.example.com:6443", CA: bundle()}
				},
			},
			Inventory: p.inventory, Reports: p.reports,
			Server: func(string) (hosts.Server, bool) { return server{p}, p.stream != nil && !p.stream.Over() },
			Lock: func(ctx context.Context, configuration string, number int32, machine string) (hosts.Locked, error) {
				locked, err := numbers.Lock(ctx, configuration, number, machine)
				return hosts.Locked{Reference: locked.Reference, Content: assignment.Content{Template: locked.Template}}, err
			},
			Credentials: &hosts.Tokens{Client: live, Namespace: namespace, ServiceAccount: account},
			Events:      p, Notice: notice, Log: log, Now: time.Now,
		}),
	}
}

// Eventf implements events.EventRecorder.
func (p *process) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	fmt.Fprintf(&p.said, reason+": "+note+"\n", args...)
	if o, ok := about.(client.Object); ok {
		p.w.notef("%s: event about %s: %s: %s", p.name, o.GetName(), reason, fmt.Sprintf(note, args...))
	}
}

// stop ends a process at once.
func (w *world) stop(name string) {
	p := w.processes[name]
	if p == nil {
		return
	}
	p.dead = true
	p.cancel()
	if p.stream != nil {
		p.stream.Close()
	}
	w.oracle.ended(p)
	delete(w.processes, name)
	w.notef("%s has ended", name)
}

// through is what becomes of a call to the API server, while which the world goes on.
func (p *process) through(c cluster.Call, do func() error) error {
	w := p.w
	for w.chance("stall") && !p.dead {
		for end := time.Now().Add(w.drawn(4 * time.Second)); time.Now().Before(end) && !p.dead; {
			w.step(end)
		}
	}
	if p.dead {
		return errDead
	}
	if err := w.refusal(!c.Writes); err != nil {
		return err
	}
	hit := ""
	if c.Writes {
		w.result.Fired["writes"]++
		if fmt.Sprint(w.result.Fired["writes"]) == w.text("hit") {
			hit = w.text("with")
		}
	}
	switch {
	case c.Writes && (hit == "before" || w.chance("before")):
		w.notef("%s: the process ends before it can %s", p.name, c)
		p.dead = true
		return errDead
	case hit == "refused" || w.chance("refused"):
		return p.refused(c)
	}
	err := do()
	p.w.oracle.answered(p, c, err)
	if c.Writes {
		w.notef("%s: %s: %v", p.name, c, err)
	}
	switch {
	case err != nil || !c.Writes:
	case hit == "after" || w.chance("after"):
		w.notef("%s: the process ends after that", p.name)
		p.dead = true
		return errDead
	case hit == "lost" || w.chance("lost"):
		w.notef("%s: the answer is lost", p.name)
		return errAway
	}
	return err
}

// refused is one of the ways in which the API server does not carry a call out.
func (p *process) refused(c cluster.Call) error {
	kind := []string{"403", "404", "500", "timeout", "away"}[p.w.random.IntN(5)]
	if c.Writes && kind == "404" {
		kind = "500"
	}
	p.w.notef("%s: %s: %s", p.name, c, kind)
	return refusal(kind)
}

// refusal is what the API server answers to everybody now; nil: it works. What is in front of one that
// is away answers reads with 404.
func (w *world) refusal(reads bool) error {
	if !w.outage.until.After(time.Now()) {
		return nil
	}
	if w.outage.kind == "404" && !reads {
		return refusal("500")
	}
	return refusal(w.outage.kind)
}

func refusal(kind string) error {
	switch kind {
	case "403":
		return apierrors.NewForbidden(hostsv1.GroupVersion.WithResource("objects").GroupResource(), "it", errors.New("no rule allows it"))
	case "404":
		return apierrors.NewGenericServerResponse(404, "get", hostsv1.GroupVersion.WithResource("objects").GroupResource(), "it", "default backend", 0, true)
	case "500":
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	case "timeout":
		return apierrors.NewTimeoutError("the request timed out", 1)
	}
	return errAway
}

// doable adds what a process can do.
func (p *process) doable(now time.Time, can func(time.Time, func())) {
	for _, r := range slices.SortedFunc(keys(p.due), func(a, b request) int {
		return cmp.Or(cmp.Compare(a.controller, b.controller), cmp.Compare(a.name, b.name))
	}) {
		can(p.due[r], func() { p.reconcile(r) })
	}
	if p.w.outage.until.After(now) {
		can(p.w.outage.until, func() {})
	} else {
		for _, kind := range cluster.Kinds() {
			if p.cache.Waits(kind) {
				can(p.lags[kind], func() {
					if p.w.chance("lag") {
						p.lags[kind] = now.Add(p.w.drawn(20 * time.Second))
						return
					}
					p.concerns(p.cache.HandOver(kind))
				})
			}
		}
	}
	switch {
	case p.stream != nil && p.stream.Waits():
		can(now, p.hear)
	case p.stream != nil && p.stream.Over():
		can(now, p.lose)
	case p.stream == nil && p.w.shard.Leads():
		can(now, p.open)
	}
}

func keys[K comparable, V any](m map[K]V) func(yield func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// open begins a stream of a leader, and lists what instances there are.
func (p *process) open() {
	p.stream = p.w.shard.Open()
	p.reports.MachinesOpened(shard.Name)
	now := time.Now()
	list := inventory.InstanceList{Complete: true, Asked: now}
	for _, h := range p.w.hosts {
		list.Instances = append(list.Instances, &nstancev1.InstanceStatus{
			InstanceId: h.id.String(), Tenant: shard.Tenant, Group: "web", Status: inventory.StatusRunning,
			CreatedAt: timestamppb.New(p.w.start), LastSeen: timestamppb.New(now), RegisteredAt: timestamppb.New(p.w.start),
			Machine: &nstancev1.InstanceMachine{Arch: "amd64"},
		})
	}
	groups := inventory.GroupList{Groups: []*nstancev1.GroupStatus{{Key: "web", Tenant: shard.Tenant}}, Asked: now}
	p.inventory.Update(shard.Name, func(s *inventory.Shard) []inventory.Change {
		s.Connected(1, now)
		return append(s.ListedGroups(groups, now), s.ListedInstances(list, now)...)
	})
	p.all(ofHost)
	p.w.notef("%s: a stream begins", p.name)
}

// lose ends a stream of a leader that is gone.
func (p *process) lose() {
	p.stream.Close()
	p.stream = nil
	p.reports.MachinesOpened(shard.Name)
	p.inventory.Update(shard.Name, func(s *inventory.Shard) []inventory.Change { return s.Lost() })
	p.all(ofHost)
}

// hear takes in what a leader tells of a host.
func (p *process) hear() {
	e := p.stream.Take()
	p.reports.MachineEvent(shard.Name, e)
	if e.GetType() == "snapshot_end" {
		p.all(ofHost)
	}
	for _, m := range objects.Known[*hostsv1.HostMachine](p.cache) {
		if m.Spec.Instance != nil && string(m.Spec.Instance.ID) == e.GetInstanceId() {
			p.add(ofHost, m.Name, 0)
		}
	}
}

// all has a controller look at every machine.
func (p *process) all(controller string) {
	for _, m := range objects.Known[*hostsv1.HostMachine](p.cache) {
		p.add(controller, m.Name, 0)
	}
}

func (p *process) add(controller, name string, after time.Duration) {
	r, at := request{controller, name}, time.Now().Add(after)
	if is, waits := p.due[r]; !waits || at.Before(is) {
		p.due[r] = at
	}
}

// reconcile has a controller look at an object.
func (p *process) reconcile(r request) {
	delete(p.due, r)
	p.working = true
	result, err := p.controllers[r.controller].Reconcile(p.ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: r.name}})
	p.working = false
	switch {
	case p.dead:
	case err != nil:
		p.failures[r]++
		p.w.notef("%s: %s of %s: %v", p.name, r.controller, r.name, err)
		p.add(r.controller, r.name, min(10*time.Millisecond<<min(p.failures[r], 12), 30*time.Second))
	default:
		delete(p.failures, r)
		if result.RequeueAfter > 0 {
			p.add(r.controller, r.name, result.RequeueAfter)
		}
	}
}

// server are the calls to the shard, which may be lost before or after they have their effect.
type server struct{ p *process }

func (s server) call(what string, do func() error) error {
	w := s.p.w
	if s.p.dead || w.chance("refused") {
		return said(what, shard.ErrAway)
	}
	err := said(what, do())
	synctest.Wait() // the leader has told whom it concerns before anybody goes on
	w.notef("%s: %s: %v", s.p.name, what, err)
	if err == nil && w.chance("lost") {
		return said(what, shard.ErrAway)
	}
	return err
}

// classes are how callers see the codes of servers.
var classes = map[string]shards.Class{
	"InvalidArgument": shards.Invalid, "NotFound": shards.NotFound, "AlreadyExists": shards.Exists, "FailedPrecondition": shards.Precondition,
	"Aborted": shards.Unavailable, "Unavailable": shards.Unavailable,
}

// said is the answer of a server as a connection has it.
func said(what string, err error) error {
	if err == nil {
		return nil
	}
	code, reason, refused := shard.Refusal(err)
	if !refused {
		return &shards.Error{Shard: shard.Name, Method: what, Class: shards.Unavailable, Err: err}
	}
	class, known := classes[code]
	if !known {
		class = shards.Broken
	}
	return &shards.Error{Shard: shard.Name, Method: what, Class: class, Reason: reason, Err: err}
}

// StartOperation implements power.Shard, as do the next two.
func (s server) StartOperation(ctx context.Context, r *nstancev1.StartOperationRequest) (out *nstancev1.OperationStatus, err error) {
	err = s.call("start "+r.GetName()+" "+r.GetId(), func() error {
		out, err = s.p.w.shard.StartOperation(ctx, r)
		return err
	})
	return out, err
}

// GetOperation implements power.Shard.
func (s server) GetOperation(ctx context.Context, id string) (out *nstancev1.OperationStatus, err error) {
	err = s.call("get operation "+id, func() error {
		out, err = s.p.w.shard.GetOperation(ctx, id)
		return err
	})
	return out, err
}

// CancelOperation implements power.Shard.
func (s server) CancelOperation(ctx context.Context, id string) (out *nstancev1.OperationStatus, err error) {
	err = s.call("cancel operation "+id, func() error {
		out, err = s.p.w.shard.CancelOperation(ctx, id)
		return err
	})
	return out, err
}

// GetInstanceStatus implements holds.Shard.
func (s server) GetInstanceStatus(_ context.Context, id string) (out *nstancev1.InstanceStatus, err error) {
	err = s.call("look at "+id, func() error {
		out = &nstancev1.InstanceStatus{InstanceId: id, Status: inventory.StatusRunning, Hold: s.p.w.shard.Hold(id)}
		return nil
	})
	return out, err
}

// PutAssignment implements hosts.Server, as do the next two.
func (s server) PutAssignment(ctx context.Context, r *nstancev1.PutAssignmentRequest) error {
	a := r.GetAssignment()
	return s.call(fmt.Sprintf("put %s epoch %d, credential %d", a.GetMachineName(), a.GetEpoch(), r.GetCredential().GetSequence()),
		func() error { return s.p.w.shard.PutAssignment(ctx, r) })
}

// DeleteAssignment implements hosts.Server.
func (s server) DeleteAssignment(ctx context.Context, r *nstancev1.DeleteAssignmentRequest) error {
	return s.call("delete the assignment of "+r.GetInstanceId(), func() error { return s.p.w.shard.DeleteAssignment(ctx, r) })
}

// SetHold implements hosts.Server, as does ClearHold.
func (s server) SetHold(ctx context.Context, r *nstancev1.SetHoldRequest) (out *nstancev1.Hold, err error) {
	err = s.call("hold "+r.GetInstanceId(), func() error {
		out, err = s.p.w.shard.SetHold(ctx, r)
		return err
	})
	return out, err
}

// ClearHold implements hosts.Server.
func (s server) ClearHold(ctx context.Context, r *nstancev1.ClearHoldRequest) error {
	return s.call("unhold "+r.GetInstanceId(), func() error { return s.p.w.shard.ClearHold(ctx, r) })
}

// ConfirmNode implements hosts.Server.
func (s server) ConfirmNode(ctx context.Context, r *nstancev1.ConfirmNodeRequest) error {
	return s.call(fmt.Sprintf("confirm epoch %d, Node %s", r.GetEpoch(), r.GetNodeUid()), func() error { return s.p.w.shard.ConfirmNode(ctx, r) })
}
