package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server are the calls to a shard.
type Server interface {
	PutAssignment(ctx context.Context, req *nstancev1.PutAssignmentRequest) error
	DeleteAssignment(ctx context.Context, req *nstancev1.DeleteAssignmentRequest) error
	ConfirmNode(ctx context.Context, req *nstancev1.ConfirmNodeRequest) error
	SetHold(ctx context.Context, req *nstancev1.SetHoldRequest) (*nstancev1.Hold, error)
	ClearHold(ctx context.Context, req *nstancev1.ClearHoldRequest) error
}

// Locked is a version that is locked, and what it holds.
type Locked struct {
	Reference hostsv1.VersionReference
	Content   assignment.Content
}

// Nodes is the cluster that Nodes join.
type Nodes struct {
	// Client reads from a cache and writes. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// API is where kubelets reach the API server.
	API func(ctx context.Context) assignment.APIServer
	// Version of the API server; empty: not known.
	Version func() string
}

// Options are the surroundings of a Reconciler; all are required, but for the counters.
type Options struct {
	// Client reads HostMachines, their configurations and Machines from a cache and writes.
	Client client.Client
	// Secrets reads Secrets of the operator's namespace from the API server. SecretMissing reports
	// whether one does not exist.
	Secrets       client.Reader
	SecretMissing func(ctx context.Context, name string) bool
	Namespace     string
	Nodes         Nodes
	Inventory     *inventory.Store
	Reports       *reports.Store
	// Server returns the calls to a shard; false: it is not connected.
	Server func(shard string) (Server, bool)
	// Lock locks a version for a machine, and returns what it holds once the API server has
	// acknowledged that.
	Lock        func(ctx context.Context, configuration string, number int32, machine string) (Locked, error)
	Credentials Credentials
	// Events are about HostMachines; Notice is about the operator as a whole, and something else that is
	// related; nil: nothing is.
	Events events.EventRecorder
	Notice func(ctx context.Context, related runtime.Object, reason, action, format string, args ...any)
	Log    *slog.Logger
	Now    func() time.Time
	Count  Counters
}

// Counters hear what happens; nil functions are left out.
type Counters struct {
	// Repaved hears the end of an assignment: its reason, and Joined, Reverted, Held or what it failed of.
	Repaved func(reason, result string)
	// Back hears how long a Node was away that was deleted.
	Back func(took time.Duration)
}

// Reconciler looks at one HostMachine at a time, which its requests name. New makes one; it is safe
// for concurrent use.
type Reconciler struct {
	opts  Options
	brake *brake

	mu       sync.Mutex
	memories map[string]*memory // by machine
}

// memory is what is remembered of a machine, and costs little when it is lost.
type memory struct {
	absence lifecycle.Absence
	// credential is the one that was made last.
	credential *nstancev1.MachineCredential
	// problems are those that were told of.
	problems map[string]bool
}

// Issued is a credential that was made.
type Issued struct {
	Token string
	// ID is how the API server calls it where it is used.
	ID    string
	Until time.Time
}

// Credentials makes what machines join with.
type Credentials interface {
	// Issue makes a credential of a machine that lives for so long.
	Issue(ctx context.Context, machine string, life time.Duration) (Issued, error)
	// Revoke ends all credentials of a machine. It may have none.
	Revoke(ctx context.Context, machine string) error
}

var manager = status.FieldManager("hosts-host")

// remember returns the memory of a machine.
func (r *Reconciler) remember(name string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memories[name] == nil {
		r.memories[name] = &memory{problems: map[string]bool{}}
	}
	return r.memories[name]
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	delete(r.memories, name)
	r.mu.Unlock()
	r.brake.forget(name)
}

// pass is one look at a machine.
type pass struct {
	m      *hostsv1.HostMachine
	memory *memory
	in     lifecycle.Input
	d      lifecycle.Decision
	node   *corev1.Node // that was seen; nil: there is none
	live   bool         // the API server itself was asked for the Node
	wrote  bool         // a write of the status was tried
	held   bool         // the instance is on hold
	log    *slog.Logger
}

// server returns the calls to the shard of a machine.
func (r *Reconciler) server(m *hostsv1.HostMachine) (Server, error) {
	shard := string(m.Spec.Instance.Shard)
	s, connected := r.opts.Server(shard)
	if !connected {
		return nil, fmt.Errorf("shard %s is not connected", shard)
	}
	return s, nil
}

// nodeUID is the Node that a machine has; empty: it has none.
func nodeUID(m *hostsv1.HostMachine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.UID
}
