package filesync

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/filesync/delivery"
)

// serve does for one machine what is to be done now.
func (s *Syncer) serve(ctx context.Context, id identity.ID) {
	m := s.find(id)
	if m == nil {
		return
	}
	b := s.basis() // before looking: what changes meanwhile makes it stale again
	m.mu.Lock()
	line, now := m.line, s.opts.Now()
	stale := m.stale(b, now)
	if line == nil || !m.due(b, now) {
		m.mu.Unlock()
		return
	}
	m.basis = b // a change from here on is not forgotten
	m.mu.Unlock()
	d, ok := s.opts.Describe(id)
	if !ok {
		m.invalidate()
		return
	}
	if stale {
		s.update(ctx, m, d)
	}
	v := &visit{syncer: s, machine: m, line: line, subject: d, hash: d.Config.RuntimeHash}
	v.carry(ctx)
}

// update makes anew what a machine should have.
func (s *Syncer) update(ctx context.Context, m *machine, d Machine) {
	wanted, complete := s.wants.of(ctx, m.id, d)
	if s.troubles.keep(m.id, func(file string) bool { _, ok := d.Config.Files[file]; return ok }) {
		s.opts.UndeliveredChanged(d.Group)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted, m.again = wanted, time.Time{}
	if !complete {
		m.again = s.opts.Now().Add(readAgain)
	}
}

// visit is one round of sending to one machine.
type visit struct {
	syncer  *Syncer
	machine *machine
	line    Line
	subject Machine
	hash    string // of the configuration that subject is
}

// carry carries out the plan of now, as far as there is room.
func (v *visit) carry(ctx context.Context) {
	v.machine.mu.Lock()
	plan := v.machine.ledger.Plan(v.machine.wanted, v.syncer.opts.Now())
	same := v.machine.wanted.Hash == v.hash
	if len(plan.Keys) > 0 && v.current() {
		v.machine.ask(plan.Keys, v.syncer.opts.Now())
	}
	v.machine.mu.Unlock()
	if !same {
		v.machine.invalidate() // it changed between two looks
		v.syncer.Wake(v.machine.id)
		return
	}
	var certificates []delivery.Push
	var contents []made
	for _, p := range plan.Files {
		if p.Certificate() {
			certificates = append(certificates, p)
			continue
		}
		c, ok := v.make(ctx, p)
		if !ok && plan.Whole {
			v.note(func(l *delivery.Ledger) { l.Abandoned(v.hash, v.syncer.opts.Now()) })
			return
		}
		if ok {
			contents = append(contents, c)
		}
	}
	if v.sendAll(contents) && v.certify(ctx, certificates) {
		v.commit(plan)
	}
}

// made is a file that is ready to be sent.
type made struct {
	delivery.Push
	kind     string
	data     []byte
	modified time.Time
}

// make makes the content of a file that is no certificate.
func (v *visit) make(ctx context.Context, p delivery.Push) (made, bool) {
	f := v.subject.Config.Files[p.Name]
	c, err := v.syncer.wants.sources.Content(ctx, request(p.Name, f, v.subject))
	if err != nil {
		if ctx.Err() == nil {
			v.failed(p, f.Kind, err)
		}
		return made{}, false
	}
	return made{Push: p, kind: f.Kind, data: c.Data, modified: c.Modified}, true
}

// sendAll sends files in order, and reports whether all of them fitted.
func (v *visit) sendAll(files []made) bool {
	for _, f := range files {
		if !v.send(f) {
			return false
		}
	}
	return true
}

func (v *visit) send(f made) bool {
	msg := &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_File{File: &nstancev1.FileTransfer{
		Filename: f.Name, Content: f.data, LastModified: timestamppb.New(f.modified), ConfigHash: v.hash,
	}}}
	now := v.syncer.opts.Now()
	if !v.offer(msg, func(l *delivery.Ledger) { l.Sent(f.File, v.hash, f.modified, now) }) {
		return false
	}
	v.syncer.opts.Metrics.pushed(f.kind)
	v.syncer.tell(v.machine, v.subject, trouble{f.Name, true}, "")
	v.syncer.mirror(v.machine, f.Name)
	v.syncer.opts.Log.Debug("file sent", "instance", v.machine.id, "file", f.Name, "reason", f.Reason)
	return true
}

// commit ends the batch, unless nothing of it could be made.
func (v *visit) commit(plan delivery.Plan) {
	hash := plan.Commit
	v.machine.mu.Lock()
	nothing := hash == "" || !plan.Whole && !v.machine.ledger.Staged()
	v.machine.mu.Unlock()
	if nothing {
		return
	}
	msg := &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Commit{Commit: &nstancev1.Commit{ConfigHash: hash}}}
	if v.offer(msg, func(l *delivery.Ledger) { l.Committed(hash, v.syncer.opts.Now()) }) {
		v.syncer.opts.Metrics.committed()
	}
}

// offer sends a message on the line that this visit is for, and notes it. False
// means that it did not fit, or that the line is not the machine's any more.
func (v *visit) offer(msg *nstancev1.ServerMessage, note func(*delivery.Ledger)) bool {
	v.machine.mu.Lock()
	defer v.machine.mu.Unlock()
	if !v.current() || !v.line.Offer(msg) {
		return false
	}
	note(&v.machine.ledger)
	return true
}

// current needs the machine's lock.
func (v *visit) current() bool { return v.machine.line == v.line }

func (v *visit) note(note func(*delivery.Ledger)) {
	v.machine.mu.Lock()
	defer v.machine.mu.Unlock()
	note(&v.machine.ledger)
}

// failed notes a file that cannot be made, and tells the tenant. The error holds
// no content.
func (v *visit) failed(p delivery.Push, kind string, err error) {
	v.syncer.opts.Metrics.failed(kind)
	v.note(func(l *delivery.Ledger) { l.Failed(p.File, v.syncer.opts.Now()) })
	v.syncer.tell(v.machine, v.subject, trouble{p.Name, true}, err.Error())
	v.syncer.mirror(v.machine, p.Name)
}
