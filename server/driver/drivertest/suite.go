package drivertest

import (
	"context"
	"errors"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

func (s *suite) createShows() {
	req := s.request(testOwner)
	m, err := s.Create(s.t.Context(), req)
	if err != nil {
		s.t.Fatalf("create: %v", err)
	}
	if m.InstanceID != req.InstanceID || m.ProviderID == "" || m.Status.Down() {
		s.t.Errorf("create returned %+v for %s", m, req.InstanceID)
	}
	got := s.await(req.InstanceID, driver.Running)
	if got.ProviderID != m.ProviderID || got.Tenant != req.Tenant || got.Group != req.Group {
		s.t.Errorf("get: %+v, want provider id %s, tenant %s, group %s", got, m.ProviderID, req.Tenant, req.Group)
	}
	if got.Template != req.Template || got.Kind != req.Kind {
		s.t.Errorf("get: %+v, want template %q, kind %q", got, req.Template, req.Kind)
	}
	s.once(testOwner, m)
}

// once waits until List shows m, and fails if it shows it twice.
func (s *suite) once(owner driver.Owner, m driver.Machine) {
	s.t.Helper()
	s.eventually("the machine is listed", func(context.Context) string {
		list := s.listed(owner, m.InstanceID)
		if len(list) == 0 {
			return "it is not"
		}
		if len(list) > 1 || list[0].ProviderID != m.ProviderID {
			s.t.Fatalf("one machine is listed as %+v, its provider id is %s", list, m.ProviderID)
		}
		return ""
	})
}

func (s *suite) createTwice() {
	req := s.request(testOwner)
	var first driver.Machine
	for i := range 3 {
		m, err := s.Create(s.t.Context(), req)
		if err != nil {
			s.t.Fatalf("create no. %d: %v", i+1, err)
		}
		if i == 0 {
			first = m
		}
		if m.ProviderID != first.ProviderID {
			s.t.Errorf("create no. %d made %s, the first one %s", i+1, m.ProviderID, first.ProviderID)
		}
	}
	s.await(req.InstanceID, driver.Running)
	s.once(testOwner, first)
}

func (s *suite) createAtOnce() {
	req := s.request(testOwner)
	machines, errs := make([]driver.Machine, 8), make([]error, 8)
	var wg sync.WaitGroup
	for i := range machines {
		wg.Go(func() { machines[i], errs[i] = s.Create(s.t.Context(), req) })
	}
	wg.Wait()
	for i, m := range machines {
		if errs[i] != nil || m.ProviderID != machines[0].ProviderID {
			s.t.Errorf("create no. %d of one request: %s, %v; another made %s", i, m.ProviderID, errs[i], machines[0].ProviderID)
		}
	}
	s.await(req.InstanceID, driver.Running)
	s.once(testOwner, machines[0])
}

func (s *suite) createAfterRestart() {
	req := s.request(testOwner)
	first, err := s.Create(s.t.Context(), req)
	if err != nil {
		s.t.Fatalf("create: %v", err)
	}
	s.Driver = s.Reopen(s.t, s.Driver)
	again, err := s.Create(s.t.Context(), req)
	if err != nil || again.ProviderID != first.ProviderID {
		s.t.Errorf("create after a restart: %s, %v; before it made %s", again.ProviderID, err, first.ProviderID)
	}
	s.await(req.InstanceID, driver.Running)
	s.once(testOwner, first)
}

func (s *suite) createRefuses() {
	for name, spoil := range map[string]func(*driver.CreateRequest){
		"no instance id":        func(r *driver.CreateRequest) { r.InstanceID = "" },
		"an id that is a path":  func(r *driver.CreateRequest) { r.InstanceID = "../../../../../../../../etc/p" },
		"an upper case id":      func(r *driver.CreateRequest) { r.InstanceID = "KNC068A3CP3THZ5Z2MV1GEJWFTABC" },
		"an owner without name": func(r *driver.CreateRequest) { r.Owner = driver.Owner{} },
	} {
		req := s.request(testOwner)
		spoil(&req)
		_, err := s.Create(s.t.Context(), req)
		s.wantKind("create with "+name, err, driver.Invalid)
	}
}

// createMeetsAnothers checks that a create whose instance id another owner's machine has
// is refused as Invalid, by the driver that made that machine and by one that knows nothing
// of it, and that the machine stays as it was.
func (s *suite) createMeetsAnothers() {
	for _, theirs := range []driver.Owner{{Cluster: testOwner.Cluster, Shard: "two"}, {Cluster: "other", Shard: testOwner.Shard}} {
		req := s.request(theirs)
		made, err := s.Create(s.t.Context(), req)
		if err != nil {
			s.t.Fatalf("create: %v", err)
		}
		s.await(req.InstanceID, driver.Running)
		s.once(theirs, made)
		ours := req
		ours.Owner = testOwner
		m, err := s.Create(s.t.Context(), ours)
		s.wantKind("create of "+string(req.InstanceID)+", a machine of another owner, which is now "+m.ProviderID, err, driver.Invalid)
		if s.Reopen != nil {
			s.Driver = s.Reopen(s.t, s.Driver)
			m, err = s.Create(s.t.Context(), ours)
			s.wantKind("create after a restart of "+string(req.InstanceID)+", a machine of another owner, which is now "+m.ProviderID, err, driver.Invalid)
		}
		if got := s.await(req.InstanceID, driver.Running); got.ProviderID != made.ProviderID {
			s.t.Errorf("the other owner's machine changed from %s to %s", made.ProviderID, got.ProviderID)
		}
		s.once(theirs, made)
		if n := len(s.listed(testOwner, req.InstanceID)); n > 0 {
			s.t.Errorf("another owner's machine is listed as ours %d times", n)
		}
	}
}

// wantKind checks that err says its kind itself and is of that kind.
func (s *suite) wantKind(what string, err error, want driver.ErrorClass) {
	s.t.Helper()
	var e *driver.Error
	if !errors.As(err, &e) || e.Class != want || e.Op == "" {
		s.t.Errorf("%s: error %v, want one of kind %s that names its operation", what, err, want)
	}
}

func (s *suite) getUnknown() {
	_, err := s.Get(s.t.Context(), driver.Ref{InstanceID: s.request(testOwner).InstanceID})
	s.wantKind("get of an unknown machine", err, driver.NotFound)
}

func (s *suite) getByEitherHandle() {
	m := s.create(testOwner)
	for _, ref := range []driver.Ref{{InstanceID: m.InstanceID}, {InstanceID: m.InstanceID, ProviderID: m.ProviderID}} {
		got, err := s.Get(s.t.Context(), ref)
		if err != nil || got.InstanceID != m.InstanceID || got.ProviderID != m.ProviderID {
			s.t.Errorf("get %+v: %+v, %v", ref, got, err)
		}
	}
}

func (s *suite) listKeepsOwnersApart() {
	owners := []driver.Owner{testOwner, {Cluster: testOwner.Cluster, Shard: "two"}, {Cluster: "other", Shard: testOwner.Shard}}
	made := map[driver.Owner]identity.ID{}
	for _, owner := range owners {
		made[owner] = s.create(owner).InstanceID
	}
	for _, owner := range owners {
		s.eventually("the owner's machine is listed alone", func(ctx context.Context) string {
			list, err := s.List(ctx, owner)
			if err != nil {
				s.t.Fatalf("list %v: %v", owner, err)
			}
			if len(list) == 0 {
				return "the list is empty"
			}
			if len(list) > 1 || list[0].InstanceID != made[owner] {
				s.t.Fatalf("%v has %s, its list is %+v", owner, made[owner], list)
			}
			return ""
		})
	}
	if list, err := s.List(s.t.Context(), driver.Owner{Cluster: "other", Shard: "two"}); err != nil || len(list) > 0 {
		s.t.Errorf("list of an owner without machines: %+v, %v", list, err)
	}
}

func (s *suite) limits() {
	l := s.Limits()
	for name, b := range map[string]driver.Bucket{"calls": l.Calls, "instances": l.Instances, "deletes": l.Deletes, "reads": l.Reads} {
		if b != (driver.Bucket{}) && (b.Rate <= 0 || b.Burst < 1) {
			s.t.Errorf("the bucket of %s lets nothing through: %+v", name, b)
		}
	}
	if l != s.Limits() || s.Lag() != s.Lag() || s.Lag() < 0 {
		s.t.Errorf("limits %+v and lag %v are not constant and positive", l, s.Lag())
	}
}
