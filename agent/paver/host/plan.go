package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/render"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// planner says what is written for machines, as far as the policy of the host allows it.
type planner struct{ opts *Options }

// plan is what is written for a slot's machine. Without a credential the secret files in it are
// placeholders.
func (p planner) plan(a assignment.Assignment, s journal.Slot, c *nstancev1.MachineCredential) (*nstancev1.MachineAssignment, render.Plan, error) {
	return p.render(a, s, c, p.judge)
}

// planAgain is what was written for a slot's machine that has run before. What the policy says today
// is no reason to keep that one down: of it only the SSH keys follow.
func (p planner) planAgain(a assignment.Assignment, s journal.Slot) (render.Plan, error) {
	_, plan, err := p.render(a, s, nil, func(m *nstancev1.MachineAssignment, _ render.Host) ([]string, error) {
		local, err := p.opts.Policy()
		if err != nil {
			p.opts.Log.Warn("keys of SSH users are left out: the policy cannot be read", "machine", p.opts.Name(s), "error", err)
			return nil, nil
		}
		return p.users(local, m), nil
	})
	return plan, err
}

func (p planner) render(
	a assignment.Assignment, s journal.Slot, c *nstancev1.MachineCredential, judge func(*nstancev1.MachineAssignment, render.Host) ([]string, error),
) (*nstancev1.MachineAssignment, render.Plan, error) {
	m, about, err := p.about(a, s)
	if err != nil {
		return nil, render.Plan{}, err
	}
	if about.SSHUsers, err = judge(m, about); err != nil {
		return nil, render.Plan{}, err
	}
	plan, err := render.Render(m, about, c)
	if err != nil {
		return nil, render.Plan{}, fmt.Errorf("assignment of epoch %d: %w", a.Epoch, err)
	}
	return m, plan, nil
}

// about is what an assignment says, and what is known of the host for it.
func (p planner) about(a assignment.Assignment, s journal.Slot) (*nstancev1.MachineAssignment, render.Host, error) {
	m, err := p.message(a, s)
	if err != nil {
		return nil, render.Host{}, err
	}
	about, err := facts.Read(m.GetTemplate(), p.opts.Facts)
	if err != nil {
		return nil, render.Host{}, err
	}
	about.Machine, about.StateDir = p.opts.Name(s), p.opts.Dir
	return m, about, nil
}

// allowed asks the host's policy before anything is done for an assignment.
func (p planner) allowed(a assignment.Assignment, s journal.Slot) error {
	m, about, err := p.about(a, s)
	if err != nil {
		return err
	}
	_, err = p.judge(m, about)
	return err
}

// fit says why no machine may be built on this host as it is now (M91). Preflight reports the same,
// minutes ago and to those who are asked to assign something; what is at stake here is the machine
// that runs. What is asked over the network is not repeated.
func (p planner) fit(ctx context.Context, a assignment.Assignment) error {
	m, err := a.Message()
	if err != nil {
		return err
	}
	local, err := p.opts.Policy()
	if err != nil {
		return err
	}
	t, wants := preflight.For(m)
	t.APIServer, t.ImageSources = "", nil
	wants.Mode, wants.AllowDegraded = p.opts.Mode, local.Allow.Degraded
	facts, err := p.opts.Probe(ctx, t)
	if err != nil {
		return fmt.Errorf("no machine is built while not all is known of the host: %w", err)
	}
	return preflight.Refusal(preflight.Judge(facts, wants))
}

// mayReset asks the host's policy whether somebody else than its administrator may have everything
// removed.
func (p planner) mayReset(a assignment.Assignment) error {
	m, err := a.Message()
	if err != nil {
		return err
	}
	local, err := p.opts.Policy()
	if err != nil {
		return err
	}
	var errs []error
	for _, refusal := range local.Judge(m, policy.Host{}) {
		errs = append(errs, refusal)
	}
	return errors.Join(errs...)
}

// judge asks the host's policy. Users are those whose keys are set.
func (p planner) judge(m *nstancev1.MachineAssignment, about render.Host) (users []string, err error) {
	local, err := p.opts.Policy()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, refusal := range p.refusals(local, m, about) {
		if refusal.Blocks {
			errs = append(errs, refusal)
		}
	}
	return p.users(local, m), errors.Join(errs...)
}

// users are those of an assignment whose keys a policy lets be set.
func (p planner) users(local policy.Policy, m *nstancev1.MachineAssignment) []string {
	return slices.DeleteFunc(facts.Users(m.GetTemplate(), p.opts.Facts), func(user string) bool { return !slices.Contains(local.SSH.Users, user) })
}

// refusals are what a policy does not allow of an assignment.
func (p planner) refusals(local policy.Policy, m *nstancev1.MachineAssignment, about render.Host) []policy.Refusal {
	return local.Judge(m, policy.Host{Paths: about.Paths, Users: facts.Users(m.GetTemplate(), p.opts.Facts), Verifies: true})
}

// keysInPlace are the SSH keys that were set after a machine was built (M56, M100). They take the place of those of its assignment,
// whenever the machine boots, until another assignment comes.
type keysInPlace struct {
	V     int       `json:"v"`
	Epoch int64     `json:"epoch"` // of the assignment that the machine was built from
	Users []keyUser `json:"users"`
}

type keyUser struct {
	User string   `json:"user"`
	Keys []string `json:"keys"`
}

const keysVersion = 1

// keysFile is where those of a slot's machine are kept.
func (p planner) keysFile(s journal.Slot) string {
	return filepath.Join(p.opts.Dir, "ssh-keys-"+string(s)+".json")
}

// message is what the assignment of a slot says, with the keys that were set since.
func (p planner) message(a assignment.Assignment, s journal.Slot) (*nstancev1.MachineAssignment, error) {
	m, err := a.Message()
	if err != nil || m.GetTemplate() == nil {
		return m, err
	}
	text, err := os.ReadFile(p.keysFile(s))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	var set keysInPlace
	if err == nil {
		err = json.Unmarshal(text, &set)
	}
	switch {
	case err != nil || set.V != keysVersion:
		// A key that was taken away must not come back by way of the assignment.
		p.opts.Log.Error("no SSH keys are set: those that were set in place cannot be read; repave, or apply a configuration with other keys", "path", p.keysFile(s), "error", err)
		set.Users = nil
	case set.Epoch != a.Epoch:
		return m, nil
	}
	if m.Template.Host == nil {
		m.Template.Host = &nstancev1.MachineHostSettings{}
	}
	m.Template.Host.SshKeys = nil
	for _, u := range set.Users {
		m.Template.Host.SshKeys = append(m.Template.Host.SshKeys, &nstancev1.MachineSshUser{User: u.User, Keys: u.Keys})
	}
	return m, nil
}
