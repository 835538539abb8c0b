package agents

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Clusters is told what becomes of the bindings of machines to clusters. It hears of all
// streams of an instance in the order in which they follow each other, in the turns in which
// Files and Liveness hear of connections: it may call the service, and must not wait for a
// stream.
type Clusters interface {
	// Greeted says that the agent of an instance is connected, also when a stream goes on
	// under this leader, and whether its machine can join clusters. One that can reports its
	// binding next.
	Greeted(id identity.ID, able bool)
	// Binding says what the agent of an instance reports of its machine's binding: after
	// Greeted, in answer to JoinCluster and LeaveCluster, and whenever it
	// changes. The same may be said twice.
	Binding(id identity.ID, r binding.Report)
}

// Errors of JoinCluster and LeaveCluster: nothing was sent.
var (
	// ErrNotConnected says that the instance has no stream with this leader.
	ErrNotConnected = errors.New("the agent is not connected")
	// ErrNoCapability says that the agent does not offer [binding.Capability].
	ErrNoCapability = errors.New("the agent cannot join clusters: it does not offer " + binding.Capability)
	// ErrStreamFull says that too much waits for the agent already; try again.
	ErrStreamFull = errors.New("too many messages wait for the agent")
)

// membership is what the agent of a stream says of clusters.
type membership struct {
	able     atomic.Bool // its machine can join them; does not change after hello
	reported atomic.Pointer[binding.Report]
}

// bindings is how a [Service] and [Clusters] speak: what agents are told of their machines'
// bindings to clusters, and what they report.
type bindings struct {
	clusters Clusters // nil: nobody makes machines join clusters
	streams  *registry
	turns    *turns
	handler  *handler // the service
	log      *slog.Logger
}

// JoinCluster tells the agent of an instance that its machine is to join a cluster. It does not
// wait: [Clusters] hears what becomes of it. It may be called again with the same binding, and
// is after a reconnect after which the agent does not report it: a machine runs nothing twice.
func (b *bindings) JoinCluster(id identity.ID, j binding.Join) error {
	if err := j.Check(); err != nil {
		return fmt.Errorf("join cluster: %w", err)
	}
	return b.tell(id, &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_ClusterJoin{ClusterJoin: &nstancev1.ClusterJoin{
		BindingId: j.Binding, Blob: j.Blob, Labels: j.Node.Labels,
		Taints: taintsOf(j.Node.Taints), StartupTaints: taintsOf(j.Node.StartupTaints),
	}}})
}

// LeaveCluster tells the agent of an instance that its machine is to leave its cluster. As with
// JoinCluster it does not wait, and may be called again.
func (b *bindings) LeaveCluster(id identity.ID, name string) error {
	if !binding.ValidID(name) {
		return fmt.Errorf("leave cluster: %.80q is not the name of a binding", name)
	}
	return b.tell(id, &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_ClusterLeave{
		ClusterLeave: &nstancev1.ClusterLeave{BindingId: name},
	}})
}

// tell queues a message for an agent that understands it.
func (b *bindings) tell(id identity.ID, msg *nstancev1.ServerMessage) error {
	s := b.streams.of(id)
	switch {
	case s == nil:
		return ErrNotConnected
	case !s.offers.clusters.able.Load():
		return ErrNoCapability
	case !(line{s, b.handler}).Offer(msg):
		if s.over() {
			return ErrNotConnected
		}
		return ErrStreamFull
	}
	return nil
}

func taintsOf(all []binding.Taint) []*nstancev1.ClusterTaint {
	out := make([]*nstancev1.ClusterTaint, 0, len(all))
	for _, t := range all {
		out = append(out, &nstancev1.ClusterTaint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return out
}

// noteCapabilities notes whether an agent can join clusters. The stream is not anybody's yet.
func (s *stream) noteCapabilities(names []string) {
	s.offers.clusters.able.Store(slices.Contains(names, binding.Capability))
}

// report takes the report of a binding. One that this server does not understand is left
// alone, for agents may be newer.
func (b *bindings) report(s *stream, report *nstancev1.ClusterReport) {
	if !s.offers.clusters.able.Load() {
		return
	}
	r, ok := reportOf(report)
	if !ok {
		b.log.Debug("report of a binding is not understood", "instance", s.id, "action", int(report.GetAction()), "state", int(report.GetState()))
		return
	}
	s.offers.clusters.reported.Store(&r)
	b.hear(s, func(c Clusters) { c.Binding(s.id, r) })
}

// RepeatBindings tells [Clusters] again of all agents that are connected, and what they reported last: for one that
// did not listen before.
func (b *bindings) RepeatBindings() {
	for _, s := range b.streams.all() {
		b.greeted(s)
		if r := s.offers.clusters.reported.Load(); r != nil {
			b.hear(s, func(c Clusters) { c.Binding(s.id, *r) })
		}
	}
}

func reportOf(report *nstancev1.ClusterReport) (r binding.Report, ok bool) {
	if report.GetBindingId() == "" {
		return binding.Report{}, true
	}
	r = binding.Report{
		Binding: report.GetBindingId(), Action: actions[report.GetAction()], State: states[report.GetState()],
		ExitCode: int(report.GetExitCode()), Output: binding.Last(report.GetOutput()), Error: printableText(report.GetError()),
	}
	return r, binding.ValidID(r.Binding) && r.Action != "" && r.State != ""
}

var (
	actions = map[nstancev1.ClusterAction]binding.Action{
		nstancev1.ClusterAction_CLUSTER_ACTION_JOIN:  binding.Joining,
		nstancev1.ClusterAction_CLUSTER_ACTION_LEAVE: binding.Leaving,
	}
	states = map[nstancev1.ClusterState]binding.State{
		nstancev1.ClusterState_CLUSTER_STATE_ACCEPTED: binding.Accepted,
		nstancev1.ClusterState_CLUSTER_STATE_RUNNING:  binding.Running,
		nstancev1.ClusterState_CLUSTER_STATE_DONE:     binding.Done,
		nstancev1.ClusterState_CLUSTER_STATE_FAILED:   binding.Failed,
	}
)

// greeted tells [Clusters] of an agent that is connected.
func (b *bindings) greeted(s *stream) {
	b.hear(s, func(c Clusters) { c.Greeted(s.id, s.offers.clusters.able.Load()) })
}

// hear tells [Clusters] something that a stream says, while it is the instance's stream.
func (b *bindings) hear(s *stream, tell func(Clusters)) {
	if b.clusters == nil {
		return
	}
	defer b.turns.of(s.id)()
	if b.streams.of(s.id) == s {
		tell(b.clusters)
	}
}

// printableText cuts the reason of a failure down to what may stand in a log or a status.
func printableText(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s[:min(len(s), binding.MaxError)])
}
