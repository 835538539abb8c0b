package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

func (s *suite) deletes() {
	req := s.request(testOwner)
	m, err := s.Create(s.t.Context(), req)
	if err != nil {
		s.t.Fatalf("create: %v", err)
	}
	s.await(req.InstanceID, driver.Running)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	for i := range 2 {
		if err := s.Delete(s.t.Context(), ref); err != nil {
			s.t.Fatalf("delete no. %d: %v", i+1, err)
		}
	}
	if s.Lag() == 0 {
		s.neverRuns(req.InstanceID)
	}
	s.awaitGone(testOwner, req.InstanceID)
	if err := s.Delete(s.t.Context(), ref); err != nil {
		s.t.Errorf("delete of a machine that is gone: %v", err)
	}
	s.refusesLateCreate(req)
}

// neverRuns checks that a machine whose deletion was accepted does not pass for
// one that works.
func (s *suite) neverRuns(id identity.ID) {
	s.t.Helper()
	m, err := s.Get(s.t.Context(), driver.Ref{InstanceID: id})
	if err == nil && !m.Status.Down() {
		s.t.Errorf("a machine whose deletion was accepted is %q", m.Status)
	}
	for _, m := range s.listed(testOwner, id) {
		if !m.Status.Down() {
			s.t.Errorf("a machine whose deletion was accepted is listed as %q", m.Status)
		}
	}
}

// refusesLateCreate checks that a create which arrives after its delete does
// not bring the machine back.
func (s *suite) refusesLateCreate(req driver.CreateRequest) {
	s.t.Helper()
	_, err := s.Create(s.t.Context(), req)
	s.wantKind("create after the delete", err, driver.Invalid)
	s.awaitGone(req.Owner, req.InstanceID)
}

func (s *suite) deleteUnknown() {
	req := s.request(testOwner)
	for range 2 {
		if err := s.Delete(s.t.Context(), driver.Ref{InstanceID: req.InstanceID}); err != nil {
			s.t.Fatalf("delete of an unknown machine: %v", err)
		}
	}
	s.refusesLateCreate(req)
}

// deleteDuringCreate lets them race: whoever is first, nothing remains.
func (s *suite) deleteDuringCreate() {
	for range 8 {
		req := s.request(testOwner)
		var created, deleted error
		var wg sync.WaitGroup
		wg.Go(func() { _, created = s.Create(s.t.Context(), req) })
		wg.Go(func() { deleted = s.Delete(s.t.Context(), driver.Ref{InstanceID: req.InstanceID}) })
		wg.Wait()
		if deleted != nil {
			s.t.Errorf("delete during a create: %v", deleted)
		}
		if created != nil {
			s.wantKind("create during a delete", created, driver.Invalid)
		}
		s.awaitGone(testOwner, req.InstanceID)
		s.refusesLateCreate(req)
	}
}

// deleteAtEachMoment deletes a machine while its create is under way: at once, and then
// later and later until the create ends first. Nothing remains, however late the call
// that creates reaches the cloud: a driver that finds nothing to delete remembers the
// delete, and its create takes back what it made. A delete may be Transient or
// Ambiguous; then it is repeated, as a server does.
func (s *suite) deleteAtEachMoment() {
	if s.Delay != nil {
		s.Delay(s.t, s.Driver, 2*time.Second)
	}
	ended := false
	for wait := time.Millisecond; !ended; wait *= 3 {
		req := s.request(testOwner)
		result := make(chan error, 1)
		go func() {
			_, err := s.Create(s.t.Context(), req)
			result <- err
		}()
		var err error
		select {
		case err = <-result:
			ended = true
			if err != nil {
				s.t.Fatalf("create: %v", err)
			}
			s.deleteUntilAccepted(req.InstanceID)
		case <-time.After(wait):
			s.deleteUntilAccepted(req.InstanceID)
			err = <-result
		}
		if driver.ClassOf(err) == driver.Ambiguous && err != nil {
			s.deleteUntilAccepted(req.InstanceID) // a server does not believe the first one then
		} else if err != nil {
			s.wantKind(fmt.Sprintf("create of a machine that was deleted after %v", wait), err, driver.Invalid)
		}
		s.awaitGone(testOwner, req.InstanceID)
		s.refusesLateCreate(req)
	}
}

// deleteUntilAccepted deletes as a server does: again while the error is Transient or
// Ambiguous.
func (s *suite) deleteUntilAccepted(id identity.ID) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the delete of %s is accepted", id), func(ctx context.Context) string {
		err := s.Delete(ctx, driver.Ref{InstanceID: id})
		if err == nil {
			return ""
		}
		if kind := driver.ClassOf(err); kind != driver.Transient && kind != driver.Ambiguous {
			s.t.Fatalf("delete: %v", err)
		}
		return err.Error()
	})
}

func (s *suite) deleteSparesOthers() {
	keep, drop := s.create(testOwner), s.create(testOwner)
	if err := s.Delete(s.t.Context(), driver.Ref{InstanceID: drop.InstanceID, ProviderID: drop.ProviderID}); err != nil {
		s.t.Fatalf("delete: %v", err)
	}
	s.awaitGone(testOwner, drop.InstanceID)
	if got := s.await(keep.InstanceID, driver.Running); got.ProviderID != keep.ProviderID {
		s.t.Errorf("the other machine changed from %s to %s", keep.ProviderID, got.ProviderID)
	}
}

func (s *suite) deleteAfterRestart() {
	req := s.request(testOwner)
	if _, err := s.Create(s.t.Context(), req); err != nil {
		s.t.Fatalf("create: %v", err)
	}
	s.await(req.InstanceID, driver.Running)
	s.Driver = s.Reopen(s.t, s.Driver)
	if err := s.Delete(s.t.Context(), driver.Ref{InstanceID: req.InstanceID}); err != nil {
		s.t.Fatalf("delete: %v", err)
	}
	s.Driver = s.Reopen(s.t, s.Driver)
	s.awaitGone(testOwner, req.InstanceID)
	if s.Forgets {
		return
	}
	s.Driver = s.Reopen(s.t, s.Driver)
	s.refusesLateCreate(req)
}

// deadMachine checks that a crash shows. A provider may keep the wreck or clear
// it away, but must not call it running, and must not make it anew.
func (s *suite) deadMachine() {
	req := s.request(testOwner)
	if _, err := s.Create(s.t.Context(), req); err != nil {
		s.t.Fatalf("create: %v", err)
	}
	s.await(req.InstanceID, driver.Running)
	s.Kill(s.t, s.Driver, req.InstanceID)
	s.eventually("the crash shows", func(ctx context.Context) string {
		m, err := s.Get(ctx, driver.Ref{InstanceID: req.InstanceID})
		if driver.IsNotFound(err) || err == nil && m.Status.Down() {
			return ""
		}
		if err != nil {
			s.t.Fatalf("get: %v", err)
		}
		return string(m.Status)
	})
	if m, err := s.Create(s.t.Context(), req); err == nil && !m.Status.Down() {
		s.t.Errorf("a repeated create of a dead machine made it %q", m.Status)
	}
	if err := s.Delete(s.t.Context(), driver.Ref{InstanceID: req.InstanceID}); err != nil {
		s.t.Errorf("delete of a dead machine: %v", err)
	}
	s.awaitGone(testOwner, req.InstanceID)
}

func (s *suite) cancelled() {
	m := s.create(testOwner)
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	req := s.request(testOwner)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	for name, call := range map[string]func() error{
		"create": func() error { _, err := s.Create(ctx, req); return err },
		"get":    func() error { _, err := s.Get(ctx, ref); return err },
		"list":   func() error { _, err := s.List(ctx, testOwner); return err },
		"delete": func() error { return s.Delete(ctx, ref) },
	} {
		err := call()
		var e *driver.Error
		if !errors.Is(err, context.Canceled) || !errors.As(err, &e) {
			s.t.Errorf("%s with a cancelled context: %v, want a driver.Error that wraps context.Canceled", name, err)
		}
	}
	s.await(m.InstanceID, driver.Running)
	s.awaitGone(testOwner, req.InstanceID)
}

func (s *suite) haltAndResume() {
	r, ok := s.Driver.(driver.Resumer)
	if !ok {
		s.missing = "way to halt all machines"
		return
	}
	other := driver.Owner{Cluster: testOwner.Cluster, Shard: "two"}
	ours, theirs := []driver.Machine{s.create(testOwner), s.create(testOwner)}, s.create(other)
	for range 2 {
		if err := r.Halt(s.t.Context(), testOwner); err != nil {
			s.t.Fatalf("halt: %v", err)
		}
	}
	for _, m := range ours {
		s.await(m.InstanceID, driver.Stopped)
	}
	s.await(theirs.InstanceID, driver.Running)
	for _, want := range []int{len(ours), 0} {
		if n, err := r.Resume(s.t.Context(), testOwner); err != nil || n != want {
			s.t.Errorf("resume: %d, %v; want %d", n, err, want)
		}
	}
	for _, m := range ours {
		if got := s.await(m.InstanceID, driver.Running); got.ProviderID != m.ProviderID {
			s.t.Errorf("%s came back as %s", m.ProviderID, got.ProviderID)
		}
		s.once(testOwner, m)
	}
}

func (s *suite) providerURI() {
	u, ok := s.Driver.(driver.URIer)
	if !ok {
		s.missing = "URIs"
		return
	}
	a, b := s.request(testOwner).InstanceID, s.request(testOwner).InstanceID
	ra, rb := driver.Ref{InstanceID: a, ProviderID: string(a)}, driver.Ref{InstanceID: b, ProviderID: string(b)}
	if u.ProviderURI(ra) != u.ProviderURI(ra) || u.ProviderURI(ra) == u.ProviderURI(rb) {
		s.t.Errorf("URIs of two machines: %q, %q", u.ProviderURI(ra), u.ProviderURI(rb))
	}
}
