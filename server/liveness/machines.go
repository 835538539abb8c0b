package liveness

import (
	"strings"
	"time"
	"unicode"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// CreateQueued notes that the create of an instance waits to be sent (again).
func (m *Monitor) CreateQueued(id identity.ID) { m.creating(id, true) }

// CreateSent notes that the create of an instance is sent now.
func (m *Monitor) CreateSent(id identity.ID) { m.creating(id, false) }

func (m *Monitor) creating(id identity.ID, waiting bool) {
	now := m.opts.Now()
	m.change(id, func(s *signs) { s.create(waiting, now) })
}

// CreateAccepted notes that the provider says that it has made the machine. Whoever lacked it
// before has looked too early, whenever the answer came.
func (m *Monitor) CreateAccepted(id identity.ID) {
	now := m.opts.Now()
	m.change(id, func(s *signs) {
		s.create(false, now)
		s.absent = nil
	})
}

// LastCreate is when the instance's create was last sent, or answered; the creation of its
// record where this leader has done neither.
func (m *Monitor) LastCreate(in cache.Instance) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.signs[in.ID]; s != nil && !s.sent.IsZero() {
		return s.sent
	}
	return in.Created
}

// Observe takes in what the provider shows of a machine, as it was when it was asked at the
// given time. It reports whether the machine is known.
func (m *Monitor) Observe(vm driver.Machine, asked time.Time) bool {
	now, stopped := m.opts.Now(), false
	row, err := m.opts.Instances.Note(vm.InstanceID, func(in *cache.Instance) (err error) {
		stopped, err = show(in, vm, now)
		return err
	})
	if err != nil {
		return false
	}
	said := providerWords(vm.Reason)
	m.change(row.ID, func(s *signs) { s.see(row.Power, said, asked) })
	if stopped && row.State.Leaving() {
		m.opts.Changed(Change{Event: NoMachine, Instance: row})
	}
	return true
}

// show notes in a row what the provider shows of the machine, and reports whether it was
// found stopped just now. What a registered agent has reported of its place is not overruled.
func show(in *cache.Instance, vm driver.Machine, now time.Time) (stopped bool, err error) {
	if in.State == fleet.Deleted {
		return false, nil
	}
	in.ProviderID, in.ProviderStatus, in.ProviderSeenAt = vm.ProviderID, string(vm.Status), now
	if in.State != fleet.Deleting { // else its end is our own doing
		stopped = in.Power != fleet.Down && vm.Status.Down()
		in.Power = powerOf(vm.Status)
	}
	if in.RegisteredAt.IsZero() {
		fillAddresses(in, vm)
	}
	if in.State == fleet.Pending {
		state, err := in.State.On(fleet.EventAccepted)
		if err != nil {
			return false, err
		}
		in.State = state
	}
	return stopped, nil
}

func powerOf(status driver.Status) fleet.Power {
	if status.Down() {
		return fleet.Down
	}
	return fleet.Up
}

func fillAddresses(in *cache.Instance, vm driver.Machine) {
	if vm.Hostname != "" {
		in.Hostname = vm.Hostname
	}
	if vm.IPv4.IsValid() {
		in.IPv4 = vm.IPv4.String()
	}
	if vm.IPv6.IsValid() {
		in.IPv6 = vm.IPv6.String()
	}
}

// Missing notes that the provider does not show a machine, as it was when it was asked
// at the given time: the answer may have taken longer than the machine took to be made.
// Listings alone end no drain (S20): the provider is asked for the very machine first.
func (m *Monitor) Missing(id identity.ID, by fleet.Source, asked time.Time) {
	row, ok := m.opts.Instances.Known(id)
	if !ok {
		return
	}
	sent, lag, gone, confirmed := m.LastCreate(row), m.opts.Settings().Lag, false, false
	m.change(id, func(s *signs) {
		gone = s.miss(by, asked, sent, lag) && !s.connected
		confirmed = !s.absence().Get.IsZero()
	})
	switch {
	case !row.State.Leaving():
	case gone && confirmed:
		m.Gone(id)
	case !confirmed:
		m.AskSoon(id)
	}
}

// Gone notes that the VM of an instance that is leaving is not there any more: nothing is
// left to drain. Whoever deletes it finds out by itself.
func (m *Monitor) Gone(id identity.ID) {
	row, err := m.opts.Instances.Note(id, func(in *cache.Instance) error {
		in.Power = fleet.Gone
		return nil
	})
	if err == nil {
		m.opts.Changed(Change{Event: NoMachine, Instance: row})
	}
}

// ended notes why the provider ended a machine that it still remembers.
func (m *Monitor) ended(id identity.ID, said string) {
	if said == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(id).said = providerWords(said)
}

// providerWords bounds what a provider says of a machine: text of one line.
func providerWords(text string) string {
	const most = 512
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
