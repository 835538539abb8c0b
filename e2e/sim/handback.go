package sim

import (
	"slices"
	"time"

	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/lease/handback"
)

// echoTime is how long after a kill something that the process had sent may arrive: longer
// than the lease is given back, and than the next leader takes to begin.
const echoTime = 6 * time.Second

// note keeps a version of the lock in the cache directory, as package handback does.
func (b *box) note(doc lease.Document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.noted) > 0 && b.noted[0].Term != doc.Term {
		b.noted = nil
	}
	b.noted = append(b.noted, doc)
}

// echo has a call that the process had sent before it was killed arrive later, if the kill
// was of that kind.
func (p *process) echo(what string, effect func()) {
	if !p.dead() || !p.echoes.Load() {
		return
	}
	p.box.w.weather.note("echo")
	time.AfterFunc(p.box.w.dice.between(0, echoTime, p.box.name, what, "echo"), effect)
}

// crashRelease kills the process, and gives its lease back as the command release does.
func (b *box) crashRelease(after time.Duration) {
	if p := b.running(); p != nil {
		p.echoes.Store(true)
		b.kill(true)
		time.AfterFunc(after, b.release)
	}
}

func (w *world) crashReleaseLeader(after, down time.Duration) {
	if p := w.leader(); p != nil {
		p.box.crashRelease(after)
		time.AfterFunc(down, p.box.start)
	}
}

// release is the command of that name: while a process runs it has the cache directory,
// and nothing is given back.
func (b *box) release() {
	b.mu.Lock()
	noted, runs := slices.Clone(b.noted), b.proc != nil
	b.mu.Unlock()
	if runs || b.w.net.cut(b.name, theStore) {
		return
	}
	b.w.truth.mu.Lock()
	holder := b.w.truth.held.doc.LeaderID
	b.w.truth.mu.Unlock()
	out, err := handback.Release(b.w.ctx, b.w.store, layout.LeaderKey(shardName), noted, b.now)
	switch {
	case err != nil:
		b.w.logf("%s does not give its lease back: %v", b.name, err)
	case out.Given && holder != b.name:
		b.w.violate("S1", "%s gives back the lease of %s", b.name, holder)
	case out.Given:
		b.w.weather.note("handed-back")
		b.w.logf("%s gives its lease back, term %d", b.name, out.Term)
	default:
		b.w.logf("%s leaves the lease alone: %s", b.name, out.Why)
	}
}
