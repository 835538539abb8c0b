package session_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/cluster/handover"
	"nstance.dev/agent/credentials"
	"nstance.dev/agent/files"
	"nstance.dev/agent/hostlink"
	"nstance.dev/agent/interruption"
	"nstance.dev/agent/keys"
	"nstance.dev/agent/link"
	"nstance.dev/agent/report"
	"nstance.dev/agent/session"
	"nstance.dev/agent/settings"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const month = 720 * time.Hour

// machine is an agent's session on a machine that has registered.
type machine struct {
	*agenttest.Cluster
	t    *testing.T
	id   identity.ID
	dir  string
	cred *credentials.Dir
	stop context.CancelCauseFunc
	done chan error
	spot *interruption.Watcher // nil: not a spot machine

	cluster *handover.Handover // nil: joins no cluster
	host    *hostlink.Link     // nil: has no paver
}

// life lets the machine's certificate end after this.
type life time.Duration

// newMachine registers a machine; run starts its session.
func newMachine(t *testing.T, l life) *machine {
	t.Helper()
	m := &machine{Cluster: agenttest.NewCluster(t), t: t, id: agenttest.NewID(t), dir: t.TempDir()}
	m.UserData(filepath.Join(m.dir, "identity"), m.id)
	var err error
	if m.cred, err = credentials.Open(filepath.Join(m.dir, "identity"), 0o600, 0o700, m.id); err != nil {
		t.Fatal(err)
	}
	key, err := m.cred.Key()
	if err != nil {
		t.Fatal(err)
	}
	public, err := credentials.PublicKeyPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.cred.StoreCertificate(m.Issue(public, m.id, time.Duration(l))); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) run(when settings.Report, addrs ...string) {
	m.t.Helper()
	id, err := m.cred.Identity()
	if err != nil {
		m.t.Fatal(err)
	}
	keyStore, err := keys.Open(filepath.Join(m.dir, "keys"), 0o640, 0o750)
	if err != nil {
		m.t.Fatal(err)
	}
	received, err := files.Open(files.Options{Dir: m.recv(), Mode: 0o640, DirMode: 0o750, StoreHash: m.cred.StoreConfigHash})
	if err != nil {
		m.t.Fatal(err)
	}
	collector, err := report.New(report.Options{Version: "1.2.3", InstanceID: m.id})
	if err != nil {
		m.t.Fatal(err)
	}
	s := session.New(session.Options{
		Version: "1.2.3", Credentials: m.cred, Identity: id,
		Book:   link.NewBook(addrs, "", link.Agent),
		Dialer: link.Dialer{Roots: m.Roots(), DialContext: m.DialContext},
		Keys:   keyStore, Files: received, Collector: collector, Report: when, Interruption: m.spot,
		Cluster: m.cluster, Host: m.host,
	}, slog.New(slog.NewTextHandler(logTo{m.t}, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, stop := context.WithCancelCause(context.Background())
	m.stop, m.done = stop, make(chan error, 1)
	go func() { m.done <- s.Run(ctx) }()
	m.t.Cleanup(func() { stop(errEnd) })
}

var errEnd = errors.New("the test is over")

func (m *machine) recv() string { return filepath.Join(m.dir, "recv") }

// received returns the content of a delivered file, "" if there is none.
func (m *machine) received(name string) string {
	data, err := os.ReadFile(filepath.Join(m.recv(), name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return string(data)
}

// quit ends the session and returns how long that took.
func (m *machine) quit() time.Duration {
	m.t.Helper()
	start := time.Now()
	m.stop(errEnd)
	if err := <-m.done; !errors.Is(err, errEnd) {
		m.t.Errorf("Run() = %v, want the reason of its context", err)
	}
	return time.Since(start)
}

type logTo struct{ t *testing.T }

func (l logTo) Write(b []byte) (int, error) { l.t.Logf("%s", b); return len(b), nil }

// shard is a server that welcomes agents and remembers what they say. Its zero value is ready.
type shard struct {
	interval time.Duration // for welcome

	mu      sync.Mutex
	streams []visit
	reports []arrival
	submits []*nstancev1.PublicKeys
	joined  []*nstancev1.ClusterReport
	hosts   []int64  // epochs of the statuses of hosts
	logs    []string // operations of the logs of hosts
	onRenew func(*nstancev1.Renew) *nstancev1.Renewed
	current agenttest.Stream
	without bool // welcome says that the instance has no node machine
}

// setWithout has the next welcome say whether the instance has no node machine.
func (s *shard) setWithout(without bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.without = without
}

type visit struct {
	at     time.Time
	serial string
	hello  *nstancev1.Hello
	bye    bool // it ended with a half-close
}

type arrival struct {
	at time.Time
	*nstancev1.HealthReport
}

func (s *shard) connect(stream agenttest.Stream, who identity.Peer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	number := len(s.streams)
	s.streams = append(s.streams, visit{at: time.Now(), serial: who.Serial, hello: first.GetHello()})
	s.current = stream
	greeting := welcome(s.interval)
	greeting.GetWelcome().NoNodeMachine = s.without
	s.mu.Unlock()
	if err := stream.Send(greeting); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		s.mu.Lock()
		if errors.Is(err, io.EOF) {
			s.streams[number].bye = true
			s.mu.Unlock()
			return nil
		}
		if err != nil {
			s.mu.Unlock()
			return err
		}
		var answer *nstancev1.ServerMessage
		switch m := m.GetMessage().(type) {
		case *nstancev1.AgentMessage_Report:
			s.reports = append(s.reports, arrival{time.Now(), m.Report})
		case *nstancev1.AgentMessage_PublicKeys:
			s.submits = append(s.submits, m.PublicKeys)
		case *nstancev1.AgentMessage_Cluster:
			s.joined = append(s.joined, m.Cluster)
		case *nstancev1.AgentMessage_MachineStatus:
			s.hosts = append(s.hosts, m.MachineStatus.GetEpoch())
		case *nstancev1.AgentMessage_MachineLogs:
			s.logs = append(s.logs, m.MachineLogs.GetOperationId())
		case *nstancev1.AgentMessage_Renew:
			if s.onRenew != nil {
				answer = &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Renewed{Renewed: s.onRenew(m.Renew)}}
			}
		}
		s.mu.Unlock()
		if answer != nil {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

func welcome(interval time.Duration) *nstancev1.ServerMessage { return welcomeIn(7, interval) }

// welcomeIn is what the leader of a term says.
func welcomeIn(term int64, interval time.Duration) *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Welcome{Welcome: &nstancev1.Welcome{
		ServerVersion: "1.2.3", Shard: agenttest.Shard, Term: term, ReportInterval: durationpb.New(interval),
	}}}
}

func file(name, content string, modTime time.Time) *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_File{File: &nstancev1.FileTransfer{
		Filename: name, Content: []byte(content), LastModified: stamp(modTime), ConfigHash: "sha256:1",
	}}}
}

func commit(hash string) *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Commit{Commit: &nstancev1.Commit{ConfigHash: hash}}}
}

// send sends messages on the latest stream, and waits until the agent has dealt with them.
func (s *shard) send(t *testing.T, messages ...*nstancev1.ServerMessage) {
	t.Helper()
	s.mu.Lock()
	stream := s.current
	s.mu.Unlock()
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

func (s *shard) seen() (streams []visit, reports []arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]visit(nil), s.streams...), append([]arrival(nil), s.reports...)
}
