package drivertest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"nstance.dev/server/driver"
)

// power switches a machine off and on, each step twice, and looks whether it is
// still the same machine, and the only one that changed.
func (s *suite) power() {
	p, ok := s.Driver.(driver.Powerer)
	if !ok {
		s.missing = "power switch"
		return
	}
	m, other := s.create(testOwner), s.create(testOwner)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	offers := s.offers(p, ref)
	for _, step := range []struct {
		action driver.PowerAction
		then   driver.Status
	}{
		{driver.PowerOn, driver.Running},
		{driver.PowerOff, driver.Stopped},
		{driver.PowerOn, driver.Running},
		{driver.PowerCycle, driver.Running},
		{driver.PowerOffHard, driver.Stopped},
		{driver.PowerOn, driver.Running},
		{driver.PowerOff, driver.Stopped},
		{driver.PowerCycle, driver.Running},
		{driver.PowerReboot, driver.Running},
	} {
		for range 2 {
			err := p.Power(s.t.Context(), ref, step.action)
			if !slices.Contains(offers, step.action) {
				s.wantKind("power "+string(step.action)+", which is not offered", err, driver.Unsupported)
				continue
			}
			if err != nil {
				s.t.Fatalf("power %s: %v", step.action, err)
			}
			if got := s.await(m.InstanceID, step.then); got.ProviderID != m.ProviderID {
				s.t.Errorf("power %s made %s of %s", step.action, got.ProviderID, m.ProviderID)
			}
		}
	}
	if again := s.offers(p, ref); !slices.Equal(again, offers) {
		s.t.Errorf("the machine offers %v, and offered %v", again, offers)
	}
	s.await(other.InstanceID, driver.Running)
	s.once(testOwner, m)
	s.refusesCancelled("power-actions", func(ctx context.Context) error { _, err := p.PowerActions(ctx, ref); return err })
	s.refusesCancelled("power", func(ctx context.Context) error { return p.Power(ctx, ref, driver.PowerOff) })
	s.await(m.InstanceID, driver.Running)
}

// offers are the actions of a machine, which are known, in order, and enough to switch it off and
// on, or to say that it cannot be.
func (s *suite) offers(p driver.Powerer, ref driver.Ref) []driver.PowerAction {
	s.t.Helper()
	offers, err := p.PowerActions(s.t.Context(), ref)
	if err != nil {
		s.t.Fatalf("power actions: %v", err)
	}
	ordered := slices.DeleteFunc(driver.PowerActions(), func(a driver.PowerAction) bool { return !slices.Contains(offers, a) })
	if !slices.Equal(ordered, offers) {
		s.t.Errorf("the machine offers %v; want known actions, each once, in the order of %v", offers, driver.PowerActions())
	}
	on, off := slices.Contains(offers, driver.PowerOn), slices.Contains(offers, driver.PowerOff)
	hard, cycle := slices.Contains(offers, driver.PowerOffHard), slices.Contains(offers, driver.PowerCycle)
	if (off || hard) && !on || hard && !cycle {
		s.t.Errorf("the machine offers %v: it could be switched off for good", offers)
	}
	return offers
}

// powerOfStrangers checks what is said of machines and actions that do not exist.
func (s *suite) powerOfStrangers() {
	p, ok := s.Driver.(driver.Powerer)
	if !ok {
		s.missing = "power switch"
		return
	}
	stranger := driver.Ref{InstanceID: s.request(testOwner).InstanceID}
	for _, action := range []driver.PowerAction{driver.PowerOn, driver.PowerOff, driver.PowerCycle} {
		s.wantKind("power "+string(action)+" of an unknown machine", p.Power(s.t.Context(), stranger, action), driver.NotFound)
	}
	_, err := p.PowerActions(s.t.Context(), stranger)
	s.wantKind("power actions of an unknown machine", err, driver.NotFound)
	m := s.create(testOwner)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	s.wantKind("power sideways", p.Power(s.t.Context(), ref, "sideways"), driver.Invalid)
	if err := p.Power(s.t.Context(), ref, driver.PowerOff); err != nil {
		s.t.Fatalf("power off: %v", err)
	}
	s.await(m.InstanceID, driver.Stopped)
	err = p.Power(s.t.Context(), ref, driver.PowerReboot)
	if err == nil || driver.ClassOf(err) != driver.Unsupported {
		s.wantKind("reboot of a stopped machine", err, driver.Invalid)
	}
	s.await(m.InstanceID, driver.Stopped)
}

// powerAfterDelete checks that nothing brings back a machine whose deletion was
// accepted, whatever the answers are.
func (s *suite) powerAfterDelete() {
	p, ok := s.Driver.(driver.Powerer)
	if !ok {
		s.missing = "power switch"
		return
	}
	m := s.create(testOwner)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	if err := s.Delete(s.t.Context(), ref); err != nil {
		s.t.Fatalf("delete: %v", err)
	}
	for _, action := range []driver.PowerAction{driver.PowerOn, driver.PowerCycle} {
		err := p.Power(s.t.Context(), ref, action)
		var e *driver.Error
		if err != nil && !errors.As(err, &e) {
			s.t.Errorf("power %s after the delete: %v, want a driver.Error", action, err)
		}
	}
	s.awaitGone(testOwner, m.InstanceID)
	if offers, err := p.PowerActions(s.t.Context(), ref); len(offers) > 0 || err != nil && driver.ClassOf(err) != driver.NotFound {
		s.t.Errorf("power actions of a machine that is gone: %v, %v; want none, or class NotFound", offers, err)
	}
}

// typeCatalog checks that the list is one that can be relied on, and that it has
// the type that machines of the suite are made of.
func (s *suite) typeCatalog() {
	c, ok := s.Driver.(driver.TypeCatalog)
	if !ok {
		s.missing = "catalogue of types"
		return
	}
	list, err := c.InstanceTypes(s.t.Context())
	if err != nil {
		s.t.Fatalf("instance types: %v", err)
	}
	if !slices.IsSortedFunc(list, func(a, b driver.InstanceType) int { return cmp.Compare(a.Name, b.Name) }) {
		s.t.Errorf("the types are not in order of name: %+v", list)
	}
	for i, it := range list {
		switch {
		case it.Name == "", i > 0 && list[i-1].Name == it.Name:
			s.t.Errorf("type %q has no name, or is there twice", it.Name)
		case it.VCPU < 0, it.MemoryMiB < 0, it.GPUs < 0, it.HourlyUSD < 0, it.SpotUSD < 0:
			s.t.Errorf("less than nothing: %+v", it)
		case it.MaxPods < 0, it.EphemeralGiB < 0, it.GPUMemoryMiB < 0, !(it.InterruptionPerHour >= 0 && it.InterruptionPerHour <= 1):
			s.t.Errorf("no probability, or less than nothing: %+v", it)
		case !slices.IsSortedFunc(it.Extended, func(a, b driver.Resource) int { return cmp.Compare(a.Name, b.Name) }),
			slices.ContainsFunc(it.Extended, func(r driver.Resource) bool { return r.Count < 1 || !strings.Contains(r.Name, "/") }):
			s.t.Errorf("type %s has the extended resources %+v; want each above 0, in order of name, with a domain", it.Name, it.Extended)
		case it.Arch != "" && it.Arch != "amd64" && it.Arch != "arm64":
			s.t.Errorf("type %s has the architecture %q", it.Name, it.Arch)
		}
	}
	req := s.request(testOwner)
	i := slices.IndexFunc(list, func(it driver.InstanceType) bool { return it.Name == req.InstanceType })
	if i < 0 {
		s.t.Errorf("type %q is not listed, and machines are made of it", req.InstanceType)
	} else if list[i].Arch != "" && list[i].Arch != req.Arch {
		s.t.Errorf("type %q is for %s, and machines for %s are made of it", req.InstanceType, list[i].Arch, req.Arch)
	}
	s.refusesCancelled("instance-types", func(ctx context.Context) error { _, err := c.InstanceTypes(ctx); return err })
}
