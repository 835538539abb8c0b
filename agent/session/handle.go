package session

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/report"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// maxKeys bounds what one message of the server can make the agent generate.
const maxKeys = 256

// hello opens the conversation.
func (st *stream) hello(ctx context.Context) error {
	s := st.session
	bootID, err := s.Collector.BootID()
	if err != nil {
		s.log.DebugContext(ctx, "boot id is unknown", "error", err)
	}
	return st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{
		InstanceId:   s.Identity.Peer.ID.String(),
		AgentVersion: s.Version,
		BootId:       bootID,
		Capabilities: st.capabilities(),
	}}})
}

// handle does what one message of the server asks for. What fails on this machine is
// reported and logged; only a stream that cannot be written to is an error.
func (st *stream) handle(ctx context.Context, m *nstancev1.ServerMessage) error {
	s, now := st.session, st.session.Now()
	switch m := m.GetMessage().(type) {
	case *nstancev1.ServerMessage_Welcome:
		st.welcome(ctx, m.Welcome, now)
	case *nstancev1.ServerMessage_KeyRequest:
		return st.submitKeys(ctx, m.KeyRequest.GetKeyNames())
	case *nstancev1.ServerMessage_KeysStored:
		for _, r := range m.KeysStored.GetRefused() {
			s.log.WarnContext(ctx, "public key was refused", "key", r.GetFilename(), "code", r.GetCode(), "reason", r.GetMessage())
		}
	case *nstancev1.ServerMessage_File:
		st.stage(ctx, m.File, now)
	case *nstancev1.ServerMessage_Commit:
		st.commit(ctx, m.Commit.GetConfigHash(), now)
	case *nstancev1.ServerMessage_ClusterJoin:
		return st.join(ctx, m.ClusterJoin, now)
	case *nstancev1.ServerMessage_ClusterLeave:
		return st.leave(ctx, m.ClusterLeave, now)
	case *nstancev1.ServerMessage_Renewed:
		st.renewed(ctx, m.Renewed, now)
	case *nstancev1.ServerMessage_MachineWork:
		st.deliver(ctx, m.MachineWork)
	default:
		s.unknown++
		s.log.DebugContext(ctx, "message of an unknown kind was ignored", "ignored", s.unknown)
	}
	return nil
}

func (st *stream) welcome(ctx context.Context, w *nstancev1.Welcome, now time.Time) {
	st.reports.welcome(w.GetReportInterval().AsDuration(), now, st.session.Random())
	if st.session.idleHost != w.GetNoNodeMachine() {
		st.session.idleHost = w.GetNoNodeMachine()
		st.machine.welcome(now)
	}
	if w.GetTerm() == st.term && !st.welcomed.IsZero() {
		return
	}
	st.term = w.GetTerm()
	st.cluster.welcome(now) // who leads anew has heard nothing of the binding
	st.machine.welcome(now)
	if st.welcomed.IsZero() {
		st.welcomed = now
	} else {
		st.reports.due = now // who leads anew has heard nothing yet, though the stream stayed
		st.discard(ctx)      // nor does it know what was staged
	}
	st.session.log.InfoContext(ctx, "connected", "shard", w.GetShard(), "term", w.GetTerm(),
		"server_version", w.GetServerVersion(), "report_interval", st.reports.interval.String())
}

// discard throws away what was staged and not committed.
func (st *stream) discard(ctx context.Context) {
	if err := st.session.Files.Discard(); err != nil {
		st.session.log.ErrorContext(ctx, "staged files were not discarded", "error", err)
	}
}

// submitKeys answers a request with every key that there is or can be made.
func (st *stream) submitKeys(ctx context.Context, names []string) error {
	s := st.session
	if len(names) > maxKeys {
		s.log.ErrorContext(ctx, "server asks for too many keys", "names", len(names), "answered", maxKeys)
		names = names[:maxKeys]
	}
	var found []*nstancev1.AgentPublicKey
	for _, name := range names {
		public, err := s.Keys.Public(name)
		if err != nil {
			s.log.ErrorContext(ctx, "no key to submit", "error", err)
			continue
		}
		found = append(found, &nstancev1.AgentPublicKey{Filename: name, PublicKeyPem: public})
	}
	if len(found) == 0 {
		return nil
	}
	st.request++
	return st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{
		PublicKeys: &nstancev1.PublicKeys{RequestId: "keys-" + strconv.Itoa(st.request), Keys: found},
	}})
}

// news is closed when the cloud announces the machine's end; nil where it never does.
func (s *Session) news() <-chan struct{} {
	if s.Interruption == nil {
		return nil
	}
	return s.Interruption.News()
}

// notice is what the cloud announced, nil if nothing.
func (s *Session) notice() *nstancev1.TerminationNotice {
	if s.Interruption == nil {
		return nil
	}
	n, ok := s.Interruption.Notice()
	if !ok {
		return nil
	}
	notice := &nstancev1.TerminationNotice{Action: n.Action}
	if !n.Deadline.IsZero() {
		notice.Deadline = timestamppb.New(n.Deadline)
	}
	return notice
}

func (st *stream) stage(ctx context.Context, f *nstancev1.FileTransfer, now time.Time) {
	var modTime time.Time
	if f.GetLastModified().IsValid() {
		modTime = f.GetLastModified().AsTime()
	}
	if err := st.session.Files.Stage(f.GetFilename(), f.GetContent(), modTime); err != nil {
		st.session.log.ErrorContext(ctx, "delivered file was refused", "error", err)
		st.reports.hurry(now, st.session.Random())
	}
}

func (st *stream) commit(ctx context.Context, hash string, now time.Time) {
	if err := st.session.Files.Commit(hash); err != nil {
		st.session.log.ErrorContext(ctx, "delivered files were not applied", "error", err)
	} else {
		st.session.log.InfoContext(ctx, "delivered files applied", "config_hash", hash)
	}
	st.reports.hurry(now, st.session.Random())
}

// report sends what there is to say. A measurement that fails is no reason for silence.
func (st *stream) report(ctx context.Context, now time.Time) error {
	s := st.session
	hash, err := s.Credentials.ConfigHash()
	if err != nil {
		s.log.WarnContext(ctx, "report is incomplete", "error", err)
	}
	health, err := s.Collector.Collect(report.Numbered(!s.Report.Disabled), s.Files.Statuses(), hash)
	if err != nil {
		s.log.DebugContext(ctx, "report is incomplete", "error", err)
	}
	health.TerminationNotice = s.notice()
	st.reports.reported(now, s.Random())
	return st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: health}})
}
