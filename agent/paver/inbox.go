package paver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// inbox is what the host was told last.
type inbox struct {
	dir, runDir string
	assignment  *assignment.Assignment
	credential  *nstancev1.MachineCredential
	confirmed   *transition.Confirmation
	reset       int64 // epoch of the reset that was carried out; 0: none was by this process
	// later is what came while the host has to be reset first; nil: nothing did. It is in memory alone: the reset
	// of a process that ends is carried out again, and this is said again.
	later *later
}

// later is an assignment with its credential, if that has come.
type later struct {
	assignment assignment.Assignment
	credential *nstancev1.MachineCredential
}

// resets is whether the host has to be reset before anything is built.
func (b *inbox) resets() bool { return b.assignment != nil && b.assignment.Mode == assignment.Reset }

// last is the assignment that was accepted last; nil: none was.
func (b *inbox) last() *assignment.Assignment {
	if b.later != nil {
		return &b.later.assignment
	}
	return b.assignment
}

// operationsFile is the name of the record of operations, in the paver's own directory.
const operationsFile = "operations.json"

func (b inbox) assignmentFile() string { return filepath.Join(b.dir, "assignment.json") }

const credentialPrefix = "credential-"

// openInbox reads what was accepted before a restart.
func openInbox(dir, runDir string) (inbox, error) {
	b := inbox{dir: dir, runDir: runDir}
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return b, err
	}
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return b, fmt.Errorf("make directory of the credential: %w", err)
	}
	text, err := os.ReadFile(b.assignmentFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return b, fmt.Errorf("read assignment: %w", err)
	}
	a, err := assignment.Parse(text)
	if err != nil {
		// It comes again. What the host runs does not depend on it.
		return b, nil //nolint:nilerr // a file that is no assignment is none
	}
	b.assignment = &a
	b.credential = b.readCredential(a.Epoch)
	return b, nil
}

// Forget removes what a host was told, with the credentials, after a reset. No [Paver] works there.
func Forget(dir, runDir string) error {
	b := inbox{dir: dir, runDir: runDir}
	if err := b.keepCredential(nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(durable.Remove(filepath.Join(dir, operationsFile)), durable.Remove(b.assignmentFile()))
}

func (b inbox) readCredential(epoch int64) *nstancev1.MachineCredential {
	text, err := os.ReadFile(b.credentialFile(epoch))
	if err != nil {
		return nil
	}
	c := &nstancev1.MachineCredential{}
	if proto.Unmarshal(text, c) != nil || c.GetEpoch() != epoch {
		return nil
	}
	return c
}

func (b inbox) credentialFile(epoch int64) string {
	return filepath.Join(b.runDir, fmt.Sprint(credentialPrefix, epoch))
}

// keepCredential writes a credential down, or removes the one there is, and every older one.
func (b *inbox) keepCredential(c *nstancev1.MachineCredential) error {
	entries, err := os.ReadDir(b.runDir)
	if err != nil {
		return fmt.Errorf("read directory of the credential: %w", err)
	}
	keep := ""
	if c != nil {
		keep = filepath.Base(b.credentialFile(c.GetEpoch()))
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), credentialPrefix) && entry.Name() != keep {
			if err := durable.Remove(filepath.Join(b.runDir, entry.Name())); err != nil {
				return err
			}
		}
	}
	b.credential = c
	if c == nil {
		return nil
	}
	text, err := proto.Marshal(c)
	if err != nil {
		return errors.New("write credential: it has no wire form")
	}
	return durable.WriteFile(b.credentialFile(c.GetEpoch()), text, 0o600)
}

// Take takes work in. What was taken before may come again. An error says why it is ignored; it is
// reported too, and holds no secret.
func (p *Paver) Take(ctx context.Context, w *nstancev1.MachineWork) error {
	var err error
	switch w := w.GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		err = p.takeAssignment(ctx, w.Assignment)
	case *nstancev1.MachineWork_CredentialUpdate:
		err = p.takeCredential(ctx, w.CredentialUpdate)
	case *nstancev1.MachineWork_NodeConfirmed:
		p.takeConfirmation(ctx, w.NodeConfirmed)
	case *nstancev1.MachineWork_Operation:
		err = p.takeOrder(ctx, w.Operation)
	case *nstancev1.MachineWork_CancelOperation:
		err = p.cancelOrder(ctx, w.CancelOperation.GetId())
	case *nstancev1.MachineWork_Prebuild:
		err = background{p}.takePrebuild(w.Prebuild)
	case *nstancev1.MachineWork_LogsStored:
		handover{p}.answered(w.LogsStored)
	default:
		err = errors.New("work of an unknown kind is ignored")
	}
	poke(p.wake)
	return err
}

// poke has a loop look again.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (p *Paver) takeAssignment(ctx context.Context, m *nstancev1.MachineAssignment) error {
	a, err := assignment.From(m)
	if err != nil {
		p.problem("AssignmentInvalid", err.Error())
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh, err := transition.Accept(p.state, p.inbox.last(), p.inbox.reset, a)
	if err != nil {
		p.problems["EpochConflict"] = journal.Cut(err.Error())
		return err
	}
	delete(p.problems, "EpochConflict")
	delete(p.problems, "AssignmentInvalid")
	if !fresh {
		return nil
	}
	if p.inbox.resets() && a.Mode != assignment.Reset {
		p.inbox.later = &later{assignment: a}
		p.opts.Log.InfoContext(ctx, "assignment waits", "epoch", a.Epoch, "mode", a.Mode, "reason", fmt.Sprintf("epoch %d resets the host first", p.inbox.assignment.Epoch))
		return nil
	}
	if err := p.inbox.keepAssignment(a); err != nil {
		return err
	}
	p.accepted(ctx, a)
	if p.cancel != nil && (interruptible(p.step.Kind) || a.Mode == assignment.Reset) {
		p.cancel(errSuperseded)
	}
	return nil
}

// keepAssignment writes an assignment down, which is the last one from now on.
func (b *inbox) keepAssignment(a assignment.Assignment) error {
	if err := durable.WriteFile(b.assignmentFile(), a.Wire, 0o600); err != nil {
		return fmt.Errorf("assignment of epoch %d: %w", a.Epoch, err)
	}
	b.assignment, b.reset, b.later = &a, 0, nil
	return nil
}

func (p *Paver) accepted(ctx context.Context, a assignment.Assignment) {
	p.opts.Log.InfoContext(ctx, "assignment accepted", "epoch", a.Epoch, "mode", a.Mode, "version", a.Configuration.String(), "node", a.NodeName)
}

// takeLater accepts what had to wait for a reset, once that is done. If it cannot be written down it still waits.
func (p *Paver) takeLater(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := p.inbox.later
	if waited == nil || p.inbox.resets() {
		return nil
	}
	if err := p.inbox.keepAssignment(waited.assignment); err != nil {
		return err
	}
	p.accepted(ctx, waited.assignment)
	if waited.credential == nil {
		return nil
	}
	return p.inbox.keepCredential(waited.credential)
}

func (p *Paver) takeCredential(ctx context.Context, c *nstancev1.MachineCredential) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, old := p.inbox.assignment, p.inbox.credential
	if p.inbox.later != nil {
		a, old = &p.inbox.later.assignment, p.inbox.later.credential
	}
	switch {
	case a == nil || c.GetEpoch() != a.Epoch:
		return fmt.Errorf("a credential of epoch %d is ignored: the assignment has another epoch", c.GetEpoch())
	case old.GetEpoch() == c.GetEpoch() && old.GetSequence() >= c.GetSequence():
		return nil
	case p.state.Epoch == c.GetEpoch() && p.state.Transition == nil:
		return nil // it has joined, or is given up
	case p.inbox.later != nil:
		p.inbox.later.credential = proto.CloneOf(c)
		return nil
	}
	if err := p.inbox.keepCredential(proto.CloneOf(c)); err != nil {
		return err
	}
	p.opts.Log.InfoContext(ctx, "credential accepted", "epoch", c.GetEpoch(), "sequence", c.GetSequence(), "expires", c.GetExpiresAt().AsTime())
	return nil
}

func (p *Paver) takeConfirmation(ctx context.Context, c *nstancev1.NodeConfirmed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inbox.confirmed = &transition.Confirmation{Epoch: c.GetEpoch(), NodeUID: c.GetNodeUid(), BootID: c.GetBootId()}
	p.opts.Log.InfoContext(ctx, "node confirmed", "epoch", c.GetEpoch(), "node_uid", c.GetNodeUid(), "boot_id", c.GetBootId())
}

// credential is the one for what is under way, or else for what comes next, if it can be used.
func (p *Paver) credential(v transition.View) *nstancev1.MachineCredential {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.inbox.credential
	epoch := v.Journal.Epoch
	if v.Journal.Transition == nil && v.Assignment != nil {
		epoch = v.Assignment.Epoch
	}
	if c == nil || c.GetEpoch() != epoch || !v.Now.Before(c.GetExpiresAt().AsTime()) {
		return nil
	}
	return c
}

// joined removes the credential: its machine has one of its own.
func (p *Paver) joined() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.inbox.credential; c != nil && c.GetEpoch() > p.state.Epoch {
		return // of the next assignment
	}
	if err := p.inbox.keepCredential(nil); err != nil {
		p.problems["CredentialNotRemoved"] = journal.Cut(err.Error())
	}
}

// forget removes what the host was told, after a reset, but for what came while that was carried out.
func (p *Paver) forget() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.inbox.keepCredential(nil); err != nil {
		return err
	}
	if err := durable.Remove(p.inbox.assignmentFile()); err != nil {
		return err
	}
	if p.inbox.assignment != nil {
		p.inbox.reset = p.inbox.assignment.Epoch
	}
	p.inbox.assignment, p.inbox.confirmed = nil, nil
	// Who is given this host next must not see what was asked of it.
	if err := p.orders.file.Remove(); err != nil {
		return err
	}
	p.orders.book = operation.Book{}
	return nil
}

func (p *Paver) problem(reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems[reason] = journal.Cut(message)
}

func (p *Paver) solved(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.problems, reason)
}

// publish makes the report, and wakes those who wait for one.
func (p *Paver) publish(ctx context.Context, v transition.View, seen map[journal.Slot]host.Seen) {
	around := p.opts.Host.Surroundings(ctx, v.Journal)
	p.mu.Lock()
	defer p.mu.Unlock()
	in := report.Input{
		View: v, Step: p.step, Reset: p.inbox.reset, Sequence: p.inbox.credential.GetSequence(), Slots: map[journal.Slot]report.Slot{},
		Around: around, Version: p.opts.Version, Now: p.opts.Now(),
	}
	if c := p.inbox.credential; c != nil && p.inbox.assignment != nil && c.GetEpoch() != p.inbox.assignment.Epoch {
		in.Sequence = 0
	}
	for slot, s := range seen {
		in.Slots[slot] = report.Slot{Observed: s.Observed, Exists: s.Exists}
	}
	in.Operations = p.orders.book.Told(in.Now)
	in.Around.Executors = executors(p.opts.Executor)
	for _, reason := range slices.Sorted(maps.Keys(p.problems)) {
		in.Problems = append(in.Problems, &nstancev1.MachineProblem{Reason: reason, Message: p.problems[reason]})
	}
	p.report(report.Status(in))
}

// progressEvery is how often a report says how far a stage is.
const progressEvery = 2 * time.Second

// Progress notes how far the step is that is being carried out: what is being done, and how many bytes
// of how many are done; whole is negative while it is unknown. It does not wait.
func (p *Paver) Progress(what string, done, whole int64) {
	now := p.opts.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == nil || p.cancel == nil || now.Sub(p.progressed) < progressEvery {
		return
	}
	p.progressed = now
	s := proto.CloneOf(p.status)
	s.Progress = &nstancev1.MachineProgress{What: what, DoneBytes: done, TotalBytes: max(whole, 0)}
	s.ReportedAt = timestamppb.New(now)
	p.report(s)
}

// report makes a report the last one. The caller has the lock.
func (p *Paver) report(s *nstancev1.MachineStatus) {
	p.status = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// Status is the last report, nil before the first, and a channel that is closed when there is a newer
// one. The report is not to be changed.
func (p *Paver) Status() (*nstancev1.MachineStatus, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.changed
}
