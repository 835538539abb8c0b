package session

import (
	"bytes"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance.dev/agent/hostlink"
	"nstance.dev/protos/binding"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// How often the files of the handover are looked at: while something goes on, otherwise, and on
// a machine that cannot join clusters.
const (
	busyLook   = 250 * time.Millisecond
	idleLook   = 5 * time.Second
	unableLook = 30 * time.Second
)

// bindings is what the server of a stream knows of the machine's binding. Its zero value is that
// of a server that was not told anything.
type bindings struct {
	able bool // the capability was offered in hello
	told bool
	last binding.Report
	due  time.Time // when to look again; zero: not before the welcome
}

// capabilities is what hello says that this machine is able to do.
func (st *stream) capabilities() (names []string) {
	if st.session.Cluster != nil && st.session.Cluster.Able() {
		st.cluster.able = true
		names = append(names, binding.Capability)
	}
	if st.session.Host != nil && st.session.Host.Able() && !st.session.idleHost {
		st.machine.able = true
		names = append(names, hostlink.Capability)
	}
	return names
}

// welcome has the binding told to a leader that has not heard of it.
func (b *bindings) welcome(now time.Time) { b.told, b.due = false, now }

func (b *bindings) isDue(now time.Time) bool { return !b.due.IsZero() && !now.Before(b.due) }

// watchBinding looks at what became of the binding, and tells it if it is news. A machine that
// has become able to join clusters opens a new stream to say so.
func (st *stream) watchBinding(ctx context.Context, now time.Time) error {
	b, cluster := &st.cluster, st.session.Cluster
	b.due = now.Add(idleLook)
	switch {
	case cluster == nil:
		b.due = now.Add(never)
		return nil
	case !b.able:
		b.due = now.Add(unableLook)
		if cluster.Able() && st.reopen.IsZero() {
			st.session.log.InfoContext(ctx, "machine can join clusters")
			st.reopen = now
		}
		return nil
	}
	r, ok := cluster.Report()
	if !ok {
		st.session.log.WarnContext(ctx, "status of nstance-cluster.service is unreadable")
		return nil
	}
	return st.tellBinding(ctx, r, now)
}

// tellBinding sends a report unless it is the last one that was sent on this stream.
func (st *stream) tellBinding(ctx context.Context, r binding.Report, now time.Time) error {
	b := &st.cluster
	if r.Binding != "" && !r.State.Ended() {
		b.due = now.Add(busyLook)
	}
	if b.told && same(b.last, r) {
		return nil
	}
	b.told, b.last = true, r
	if r.Binding != "" {
		st.session.log.InfoContext(ctx, "reporting binding", "report", r)
	}
	return st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Cluster{Cluster: &nstancev1.ClusterReport{
		BindingId: r.Binding, Action: actions[r.Action], State: states[r.State],
		ExitCode: int32(r.ExitCode), Output: r.Output, Error: r.Error, //nolint:gosec // an exit code
	}}})
}

func same(a, b binding.Report) bool {
	return a.Binding == b.Binding && a.Action == b.Action && a.State == b.State && a.ExitCode == b.ExitCode &&
		a.Error == b.Error && bytes.Equal(a.Output, b.Output)
}

var (
	actions = map[binding.Action]nstancev1.ClusterAction{
		binding.Joining: nstancev1.ClusterAction_CLUSTER_ACTION_JOIN,
		binding.Leaving: nstancev1.ClusterAction_CLUSTER_ACTION_LEAVE,
	}
	states = map[binding.State]nstancev1.ClusterState{
		binding.Accepted: nstancev1.ClusterState_CLUSTER_STATE_ACCEPTED,
		binding.Running:  nstancev1.ClusterState_CLUSTER_STATE_RUNNING,
		binding.Done:     nstancev1.ClusterState_CLUSTER_STATE_DONE,
		binding.Failed:   nstancev1.ClusterState_CLUSTER_STATE_FAILED,
	}
)

// join hands over what the machine is to join. It is answered each time, for the server may have
// asked again because no answer came.
func (st *stream) join(ctx context.Context, m *nstancev1.ClusterJoin, now time.Time) error {
	return st.answerBinding(ctx, now, func() binding.Report {
		return st.session.Cluster.Join(binding.Join{
			Binding: m.GetBindingId(), Blob: m.GetBlob(), Node: binding.Node{
				Labels: m.GetLabels(), Taints: taintsOf(m.GetTaints()), StartupTaints: taintsOf(m.GetStartupTaints()),
			},
		})
	})
}

// leave hands over that the machine is to leave.
func (st *stream) leave(ctx context.Context, m *nstancev1.ClusterLeave, now time.Time) error {
	return st.answerBinding(ctx, now, func() binding.Report { return st.session.Cluster.Leave(m.GetBindingId()) })
}

func (st *stream) answerBinding(ctx context.Context, now time.Time, answer func() binding.Report) error {
	if !st.cluster.able {
		st.session.log.WarnContext(ctx, "server asks for a binding that was not offered")
		return nil
	}
	st.cluster.told = false
	return st.tellBinding(ctx, answer(), now)
}

func taintsOf(all []*nstancev1.ClusterTaint) (out []binding.Taint) {
	for _, t := range all {
		out = append(out, binding.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: t.GetEffect()})
	}
	return out
}

// hostNews gets a value when the paver came, went or reported; nil: there is none ever.
func (s *Session) hostNews() <-chan struct{} {
	if s.Host == nil {
		return nil
	}
	return s.Host.News()
}

// watchHost tells the last report of the paver, if it is news. Where a paver has come that was
// not offered a new stream says so. Of an instance that has no node machine nothing is said.
func (st *stream) watchHost(ctx context.Context, now time.Time) error {
	m, host := &st.machine, st.session.Host
	m.due = time.Time{}
	switch {
	case host == nil, st.session.idleHost:
		return nil
	case !m.able:
		if host.Able() && st.reopen.IsZero() {
			st.session.log.InfoContext(ctx, "host can build node machines")
			st.reopen = now
		}
		return nil
	}
	if logs := m.newLogs(host); logs != nil {
		if size := proto.Size(logs); size > maxLogs {
			st.session.log.WarnContext(ctx, "logs of the host dropped", "reason", "they are too large", "bytes", size, "limit", maxLogs)
		} else if err := st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineLogs{MachineLogs: logs}}); err != nil {
			return err
		}
	}
	status := m.news(host, now)
	if status == nil {
		return nil
	}
	if size := proto.Size(status); size > maxStatus {
		st.session.log.WarnContext(ctx, "report of the paver dropped", "reason", "it is too large", "bytes", size, "limit", maxStatus)
		return nil
	}
	return st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineStatus{MachineStatus: status}})
}

// deliver passes on what the server says of the node machine.
func (st *stream) deliver(ctx context.Context, w *nstancev1.MachineWork) {
	if !st.machine.able {
		st.session.log.WarnContext(ctx, "server speaks of a node machine though no paver was offered")
		return
	}
	st.session.Host.Deliver(w)
}
