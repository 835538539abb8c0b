package crash

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/cable"
	"nstance.dev/server/lease"
)

// LeaderCutOff pulls the cable of the leader's host right after a renewal, that many times: from then on
// the leader reaches neither other servers nor the storage nor a machine, but it runs and could
// make machines. The standby answers operators within 1.1 leases of that renewal. It makes one machine
// more and gives it back later; when the cable is in again, the old leader stands by and neither
// writes nor makes anything (L2, S1, S2).
//
// The storage is made when the cable lies, and must be reached from the host, at [cable.Near].
func LeaderCutOff(t *testing.T, rounds int, reached func() Storage) {
	host := cable.New(t)
	storage := reached()
	w := New(t, storage, few)
	w.SetConfig(strings.ReplaceAll(w.Config(), "127.0.0.1:899", "0.0.0.0:899")) // each listens at its own, and says so
	// Machines run where the leader that made them does, so the one that is not cut off makes them.
	w.serveAt(two, cable.Near)
	w.Await("the server on this host leads", func() error { return w.Leads(two) })
	w.Settle(few, time.Time{})
	host.On(func() { w.serveAt(one, cable.Far) })

	size := few
	for range rounds {
		w.handOver(two, one)
		w.serveAt(two, cable.Near)
		w.Settle(size, time.Time{})
		w.Audited(1) // time in which it gets to stand by
		before, seen := w.Machines(), w.Watch()

		old := w.renewal()
		host.Pull()
		pulled := time.Now()
		last, served := w.succession(old)
		bound := storage.lease() * 11 / 10
		t.Logf("measured: lease %v: cut off %v after the last renewal, another serves %v after it, at most %v", storage.lease(),
			pulled.Sub(last.LastUpdated).Round(time.Millisecond), served.Round(time.Millisecond), bound)
		if served > bound {
			t.Errorf("no server served for %v after the last renewal of the leader that was cut off, at most %v", served, bound)
		}
		w.Settle(size, pulled)
		w.unharmed(before, seen())

		// The one that is cut off knows another size, and could still have it on its side.
		size = 2*few + 1 - size
		w.Resize(size)
		w.Settle(size, time.Time{})
		before, seen = w.Machines(), w.Watch()
		led, err := w.Lock()
		if err != nil {
			t.Fatal(err)
		}
		host.Plug()
		w.Await("the old leader stands by", func() error { return w.pointsTo(old.Addrs.Operator, two) })
		w.Audited(2)
		w.unharmed(before, seen())
		if now, err := w.Lock(); err != nil || now.LeaderID != two || now.Term != led.Term {
			t.Errorf("%s leads with term %d (%v), and %s with %d did", now.LeaderID, now.Term, err, two, led.Term)
		}
		if w.Server(one).Ended() {
			t.Error("the old leader has ended instead of standing by")
		}
	}
}

// serveAt starts a server that listens at that address of the host that it is started on.
func (w *World) serveAt(id, address string) {
	w.t.Helper()
	w.servers[id] = w.Serve(id, append([]string{"--bind-host", address}, w.flags...)...)
}

// handOver ends a leader in order, and waits until the other server leads.
func (w *World) handOver(from, to string) {
	w.t.Helper()
	w.Server(from).Signal(syscall.SIGTERM)
	w.Await("the other server leads", func() error { return w.Leads(to) })
	if code := w.Server(from).Exit(w.t); code != 0 {
		w.t.Errorf("exit code %d", code)
	}
}

// renewal waits until the leader renews its lease, and returns what it wrote.
func (w *World) renewal() lease.Document {
	w.t.Helper()
	before, err := w.Lock()
	if err != nil {
		w.t.Fatal(err)
	}
	var now lease.Document
	w.Await("the leader renews its lease", func() error {
		if now, err = w.Lock(); err != nil {
			return err
		}
		if now.SameVersion(before) {
			return fmt.Errorf("it is still the one of %v", now.LastUpdated)
		}
		return nil
	})
	return now
}

// succession waits until another server than the one that holds a lock answers operators. It returns the
// last version that the former wrote, and how long after its time that was.
func (w *World) succession(old lease.Document) (last lease.Document, served time.Duration) {
	w.t.Helper()
	last = old
	for begin := time.Now(); time.Since(begin) < 2*w.storage.lease(); time.Sleep(5 * time.Millisecond) {
		now, err := w.Lock()
		if err != nil {
			w.t.Fatal(err)
		}
		if now.LeaderID == old.LeaderID {
			last = now
			continue
		}
		if w.Leads(other(old.LeaderID)) == nil {
			return last, time.Since(last.LastUpdated)
		}
	}
	w.t.Fatalf("no server serves within two leases after %s was cut off", old.LeaderID)
	return last, 0
}
