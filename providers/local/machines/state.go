package machines

import (
	"errors"
	"path/filepath"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// state is all that decides about the status of a machine, and why it does not run.
type state struct {
	marked  bool // its end was asked for
	stopped bool // Halt stopped it
	started bool // a process was recorded
	reboot  bool // and the box was booted since then
	alive   bool // that process runs
	booted  bool // the user data was begun
	off     bool // its process has ended by itself and in order: the machine has switched itself off

	why string // the machine failed or switched itself off, or a boot of the box stopped it; otherwise empty
}

// status says what a machine is that looks like this.
func (s state) status() driver.Status {
	switch {
	case s.marked:
		return driver.Deleting
	case s.stopped && s.alive:
		return driver.Stopping
	case s.stopped, s.reboot:
		return driver.Stopped
	case s.alive && s.booted:
		return driver.Running
	case s.started && s.booted && s.off:
		return driver.Stopped
	case s.started && s.booted:
		return driver.Failed
	default:
		return driver.Pending
	}
}

// unfinished reports whether a create was interrupted before the user data ran.
func (s state) unfinished() bool { return s.status() == driver.Pending && !s.alive }

// look sees a machine's state. The marker of a halt is read before and after the
// process, because Halt sets it before it kills and Resume takes it away before
// it starts; the mark of a delete is read last, because it comes before the kill.
func (all *Machines) look(name string) (state, process.ID, error) {
	var s state
	var errs [4]error
	dir := filepath.Join(all.store.Root, name)
	s.stopped, errs[0] = store.Exists(filepath.Join(dir, store.StoppedFile))
	p, err := store.ReadStart(dir)
	if err != nil {
		return s, p, err
	}
	s.started = p != process.ID{}
	s.reboot = s.started && p.Boot != all.host.Boot
	s.booted, errs[1] = store.Exists(filepath.Join(dir, store.BootedFile))
	if s.alive, err = all.host.Alive(p); err != nil {
		return s, p, err
	}
	if !s.alive && !s.stopped {
		s.stopped, errs[2] = store.Exists(filepath.Join(dir, store.StoppedFile))
	}
	s.marked, errs[3] = all.store.Marked(identity.ID(name))
	switch status := s.status(); {
	case status == driver.Failed:
		s.why, s.off = all.host.HowEnded(dir, p)
	case status == driver.Stopped && !s.stopped:
		s.why = "the box was booted since the machine was started"
	}
	return s, p, errors.Join(errs[:]...)
}

// machineOf is what the server learns of a machine that looks like s.
func machineOf(m store.Metadata, name string, s state) driver.Machine {
	found := driver.Machine{
		InstanceID: m.InstanceID,
		RawID:      name,
		ProviderID: name,
		Status:     s.status(),
		Reason:     s.why,
		CreatedAt:  m.CreatedAt,
		Tenant:     m.Tenant,
		Group:      m.Group,
		Template:   m.Template,
		Kind:       m.Kind,
		SubnetID:   m.SubnetID,
		Type:       m.InstanceType,
	}
	// A directory that someone copied or renamed is nobody's machine.
	if id, err := identity.ParseID(name); err != nil || id != m.InstanceID {
		found.InstanceID, found.Status, found.Reason = "", driver.Unknown, ""
	}
	return found
}
