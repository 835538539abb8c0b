package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/hostlogs"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var workers = fleet.GroupID{Tenant: "prod", Name: "workers"}

// world is a shard with object storage that outlives its leaders.
type world struct {
	t       *testing.T
	storage *memory.Store
	logs    *strings.Builder // all that was ever logged
	ids     *identity.Generator
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &world{t: t, storage: memory.New(memory.Options{}), logs: &strings.Builder{}, ids: &identity.Generator{}})
	})
}

func (w *world) newID() identity.ID {
	w.t.Helper()
	id, err := w.ids.NewID("knc")
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// leader is one leader's term.
type leader struct {
	*Machines
	w      *world
	term   uint64
	rows   *cache.Cache
	agents *agents
	over   error // what ended the term
	stop   context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	heard []identity.ID
}

// lead begins a term with the given instances, each with a node machine.
func (w *world) lead(term uint64, ids ...identity.ID) *leader {
	w.t.Helper()
	l := w.prepare(term, ids...)
	l.begin()
	return l
}

// prepare is lead, without the reading of what is stored.
func (w *world) prepare(term uint64, ids ...identity.ID) *leader {
	w.t.Helper()
	rows, err := cache.Open(w.t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	l := &leader{w: w, term: term, rows: rows, agents: &agents{open: map[identity.ID]bool{}, room: 100}, stop: stop, done: make(chan struct{})}
	writes := objectstore.RetryPolicy{Permit: func(ctx context.Context) error { return ctx.Err() }}
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l.Machines = New(ctx, Options{
		Logs:  hostlogs.New(hostlogs.Options{Shard: "s1", Store: w.storage, Writes: writes, Now: time.Now, Log: log}),
		Shard: "s1", Term: term, Store: w.storage, Cache: rows,
		Writes: writes,
		Agents: func() Agents { return l.agents },
		Heard: func(id identity.ID) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.heard = append(l.heard, id)
		},
		Go: func(f func()) { go f() },
		Over: func(err error) bool {
			ends := errors.Is(err, lease.ErrSuperseded) || errors.Is(err, context.Canceled)
			if ends {
				l.over = err
			}
			return ends
		},
		Metrics: NewMetrics(nil), Now: time.Now, Log: log,
	})
	for _, id := range ids {
		l.insert(id, func(*cache.Instance) {})
	}
	return l
}

func (l *leader) begin() {
	go func() {
		defer close(l.done)
		_ = l.Run(l.ctx)
	}()
	synctest.Wait()
}

// end ends the term.
func (l *leader) end() {
	l.stop()
	<-l.done
	_ = l.rows.Close()
}

func (l *leader) insert(id identity.ID, change func(*cache.Instance)) cache.Instance {
	l.w.t.Helper()
	row := cache.Instance{
		Instance: fleet.Instance{ID: id, Group: workers, State: fleet.Running, Power: fleet.Up, RegisteredAt: time.Now()},
		Machine:  cache.Machine{On: true},
	}
	change(&row)
	if err := l.rows.Insert(row); err != nil {
		l.w.t.Fatal(err)
	}
	return row
}

func (l *leader) row(id identity.ID) cache.Instance {
	row, _ := l.rows.Instance(id)
	return row
}

// agents are the streams of agents, whose queues have room for so many messages.
type agents struct {
	mu   sync.Mutex
	open map[identity.ID]bool
	room int
	sent []string
	last *nstancev1.MachineWork
}

// SendWork implements [Agents].
func (a *agents) SendWork(id identity.ID, w *nstancev1.MachineWork) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.open[id]:
		return errors.New("the agent is not connected")
	case len(a.sent) >= a.room:
		return errors.New("too many messages wait for the agent")
	}
	a.last = proto.CloneOf(w)
	a.sent = append(a.sent, describe(w))
	return nil
}

func describe(w *nstancev1.MachineWork) string {
	switch w := w.GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		return fmt.Sprintf("assignment %d %s", w.Assignment.Epoch, strings.TrimPrefix(w.Assignment.Mode.String(), "MACHINE_MODE_"))
	case *nstancev1.MachineWork_CredentialUpdate:
		return fmt.Sprintf("credential %d/%d", w.CredentialUpdate.Epoch, w.CredentialUpdate.Sequence)
	case *nstancev1.MachineWork_NodeConfirmed:
		return fmt.Sprintf("confirmed %d %s", w.NodeConfirmed.Epoch, w.NodeConfirmed.NodeUid)
	case *nstancev1.MachineWork_Operation:
		return fmt.Sprintf("operation %s %s", w.Operation.Id, w.Operation.Name)
	case *nstancev1.MachineWork_CancelOperation:
		return "cancel " + w.CancelOperation.Id
	case *nstancev1.MachineWork_LogsStored:
		if w.LogsStored.Refused != "" {
			return "logs of " + w.LogsStored.OperationId + " refused"
		}
		return "logs of " + w.LogsStored.OperationId + " stored"
	case *nstancev1.MachineWork_Prebuild:
		if w.Prebuild.Assignment == nil {
			return "no prebuild"
		}
		return fmt.Sprintf("prebuild %d %s", w.Prebuild.Assignment.Configuration.Version, w.Prebuild.PullSecrets["pull"])
	}
	return "nothing"
}

// connect opens the stream of an agent with a paver.
func (l *leader) connect(id identity.ID) {
	l.agents.mu.Lock()
	l.agents.open[id] = true
	l.agents.mu.Unlock()
	l.Greeted(id, true, "v1")
}

func (l *leader) disconnect(id identity.ID) {
	l.agents.mu.Lock()
	delete(l.agents.open, id)
	l.agents.mu.Unlock()
	l.Disconnected(id)
}

// expectSent compares what was sent since the last call.
func (l *leader) expectSent(what string, want ...string) {
	l.w.t.Helper()
	synctest.Wait()
	l.agents.mu.Lock()
	defer l.agents.mu.Unlock()
	if got := strings.Join(l.agents.sent, ", "); got != strings.Join(want, ", ") {
		l.w.t.Errorf("%s: sent %q, want %q", what, got, strings.Join(want, ", "))
	}
	l.agents.sent = nil
}

var hash = "sha256:" + strings.Repeat("0a", 32)

// paving is an assignment with a template.
func paving(epoch int64) *nstancev1.MachineAssignment {
	mode := nstancev1.MachineMode_MACHINE_MODE_REPAVE
	if epoch == 1 {
		mode = nstancev1.MachineMode_MACHINE_MODE_PAVE
	}
	return &nstancev1.MachineAssignment{
		MachineName: "m1", MachineUid: "machine-uid", Epoch: epoch, Mode: mode, NodeName: "n1.example.com",
		Configuration: &nstancev1.MachineConfigurationVersion{Name: "workers", Version: 1, Uid: "cfg", Hash: hash},
		Template: &nstancev1.MachineTemplate{Kubernetes: &nstancev1.MachineKubernetes{
			Version: "v1.36.3", NodeLabels: map[string]string{"a": "b", "c": "d", "e": "f"},
		}},
		ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://api.example.com:6443"},
	}
}

const marked = "marked-secret-7c31"

func credentialFor(epoch int64, sequence int32, lives time.Duration) *nstancev1.MachineCredential {
	return &nstancev1.MachineCredential{
		Epoch: epoch, Sequence: sequence, Token: marked + "-token", ExpiresAt: timestamppb.New(time.Now().Add(lives)),
		PullSecrets: map[string][]byte{"pull": []byte(`{"auths":"` + marked + `"}`)},
	}
}

// put puts an assignment with a credential, and returns the reason of a refusal, or the error.
func (l *leader) put(id identity.ID, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) error {
	return l.Put(l.w.t.Context(), l.row(id), &nstancev1.PutAssignmentRequest{InstanceId: id.String(), Assignment: a, Credential: c})
}

func (l *leader) mustPut(id identity.ID, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) {
	l.w.t.Helper()
	if err := l.put(id, a, c); err != nil {
		l.w.t.Fatalf("put epoch %d: %v", a.Epoch, err)
	}
}

func (l *leader) mustConfirm(id identity.ID, epoch int64, uid string) {
	l.w.t.Helper()
	l.mustConfirmBoot(id, epoch, uid, "boot")
}

func (l *leader) mustConfirmBoot(id identity.ID, epoch int64, uid, boot string) {
	l.w.t.Helper()
	if err := l.Confirm(l.w.t.Context(), l.row(id), &nstancev1.ConfirmNodeRequest{Epoch: epoch, NodeUid: uid, BootId: boot}); err != nil {
		l.w.t.Fatalf("confirm epoch %d: %v", epoch, err)
	}
}

// view is what operators are told of a machine, as text.
func (l *leader) view(id identity.ID) string {
	v := l.event(id).GetMachine()
	if v == nil {
		return "nothing"
	}
	var all []string
	if v.Connected {
		all = append(all, "connected")
	}
	if v.Status != nil {
		all = append(all, "stage "+strings.TrimPrefix(v.Status.Stage.String(), "MACHINE_STAGE_"))
	}
	if a := v.Assignment; a != nil {
		all = append(all, fmt.Sprintf("epoch %d", a.Epoch))
		if a.Confirmed != nil {
			all = append(all, "confirmed "+a.Confirmed.NodeUid)
		}
		if a.CredentialSequence > 0 {
			all = append(all, fmt.Sprintf("credential %d", a.CredentialSequence))
		}
		if a.CredentialMissing {
			all = append(all, "credential missing")
		}
	}
	return strings.Join(all, ", ")
}

func (l *leader) expectView(what string, id identity.ID, want string) {
	l.w.t.Helper()
	if got := l.view(id); got != want {
		l.w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// stored is the object of an instance; nil: there is none.
func (w *world) stored(id identity.ID) *layout.MachineRecord {
	w.t.Helper()
	key := layout.MachineKey("s1", "prod", id)
	obj, err := w.storage.Get(w.t.Context(), key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	rec, err := layout.DecodeMachineRecord(key, obj.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	return &rec
}
