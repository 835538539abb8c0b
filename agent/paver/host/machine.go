package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/operation"
	"slices"
	"strings"
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/network"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// The services of a node machine that are stopped by themselves.
const (
	kubelet    = "kubelet.service"
	containerd = "containerd.service"
	podSlice   = "kubepods.slice"
)

// kubeletLimit is how long the kubelet may take to stop (M54), before it is killed.
const kubeletLimit = 4 * time.Second

// exec runs a command in a machine; an exit code other than 0 is an error.
func (h *Host) exec(ctx context.Context, s journal.Slot, limit time.Duration, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := h.opts.Runner.Exec(ctx, s, argv...)
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("exit code %d: %.256s", out.Code, strings.TrimSpace(string(out.Text)))
	}
	if err != nil {
		return fmt.Errorf("%s in %s: %w", strings.Join(argv[:min(len(argv), 3)], " "), h.opts.Name(s), err)
	}
	return nil
}

// stopKubelet keeps the machine's Node from registering again, then stops its Pods.
func (h *Host) stopKubelet(ctx context.Context, w Work) error {
	s := w.Step.Slot
	if t := w.Journal.Transition; t != nil {
		// A machine whose place nothing may take is left alone.
		if err := errors.Join(h.planner.allowed(t.Assignment, t.To), h.planner.fit(ctx, t.Assignment)); err != nil {
			return err
		}
	}
	if err := h.exec(ctx, s, kubeletLimit, "systemctl", "stop", kubelet); err != nil {
		if killErr := h.exec(ctx, s, kubeletLimit, "systemctl", "kill", "--signal=SIGKILL", kubelet); killErr != nil {
			return errors.Join(err, killErr)
		}
		return err // it is looked at again
	}
	if t := w.Journal.Transition; t != nil && t.Assignment.KeepPods {
		return nil
	}
	h.stopPods(ctx, s, timeouts(w).Stop/2)
	return nil
}

// stopPods ends the Pods of a machine within their grace. What is left goes with the machine.
func (h *Host) stopPods(ctx context.Context, s journal.Slot, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := h.opts.Runner.Exec(ctx, s, "crictl", "pods", "--quiet", "--state=ready")
	if err == nil && out.Code == 0 {
		ids := strings.Fields(string(out.Text))
		if len(ids) == 0 {
			return
		}
		if err = h.exec(ctx, s, limit, append([]string{"crictl", "stopp"}, ids...)...); err == nil {
			return
		}
	}
	// Without crictl, and of what it could not end, the processes are told to.
	if err := h.exec(ctx, s, limit, "systemctl", "stop", podSlice); err != nil {
		h.opts.Log.DebugContext(ctx, "pods are left to the halt of their machine", "machine", h.opts.Name(s), "error", err)
	}
}

// startKubelet lets the machine's Node join again: by start, or by restart where the kubelet may run.
// Without a machine there is nothing to start.
func (h *Host) startKubelet(ctx context.Context, s journal.Slot, how string) error {
	if s == journal.None {
		return nil
	}
	state, err := h.opts.Runner.State(ctx, s)
	if err != nil || state.Phase != journal.Running {
		return err
	}
	return h.exec(ctx, s, 20*time.Second, "systemctl", how, kubelet)
}

// StopMachine stops a machine in order, within a time.
func (h *Host) StopMachine(ctx context.Context, s journal.Slot, limit time.Duration) error {
	return h.stop(ctx, s, assignment.Timeouts{Stop: limit})
}

// stop halts a machine in order: the kubelet, so that nothing starts Pods again, then the Pods,
// because a halt would wait for each that does not end, containerd, and the rest.
func (h *Host) stop(ctx context.Context, s journal.Slot, limits assignment.Timeouts) error {
	deadline := h.opts.Now().Add(limits.Stop)
	state, err := h.opts.Runner.State(ctx, s)
	if err != nil {
		return err
	}
	if state.Phase == journal.Running {
		if err := h.exec(ctx, s, kubeletLimit, "systemctl", "stop", kubelet); err != nil {
			h.opts.Log.InfoContext(ctx, "kubelet goes with its machine", "machine", h.opts.Name(s), "error", err)
		}
		h.stopPods(ctx, s, limits.Stop/2)
		if err := h.exec(ctx, s, 10*time.Second, "systemctl", "stop", containerd); err != nil {
			h.opts.Log.DebugContext(ctx, "containerd goes with its machine", "machine", h.opts.Name(s), "error", err)
		}
	}
	return h.opts.Runner.Stop(ctx, s, max(deadline.Sub(h.opts.Now()), 5*time.Second))
}

// retire stops the old machine, removes what its Pods have left in the network, and empties the
// directories that do not survive a repave. Nothing of the new machine has run yet, however often it
// is carried out.
func (h *Host) retire(ctx context.Context, w Work) error {
	t := w.Journal.Transition
	var plan render.Plan
	if t.Kind == journal.KindBuild {
		var err error
		if plan, err = h.planner.planAgain(t.Assignment, t.To); err != nil {
			return err
		}
	}
	// It must not start with the host from here on.
	if err := h.opts.Runner.Enable(ctx, journal.None); err != nil {
		return err
	}
	if t.From != journal.None {
		if err := h.stop(ctx, t.From, timeouts(w)); err != nil {
			return err
		}
		h.sweepNetwork(ctx, w.Journal)
	}
	return h.opts.Settings.Wipe(plan)
}

// record reads what the host is like before anything of it is changed: without that nothing could be
// set back, and what Pods leave in the network could not be told from what was there.
func (h *Host) record(ctx context.Context, w Work) (r transition.Result, err error) {
	t := w.Journal.Transition
	_, plan, err := h.planner.plan(t.Assignment, t.To, w.Credential)
	if err != nil {
		return r, err
	}
	if r.Settings, err = h.opts.Settings.Values(plan.Sysctls); err != nil || w.Journal.Network != nil {
		return r, err
	}
	found, err := network.Read(ctx, h.opts.Network)
	if err != nil {
		if t.Attempts < transition.MaxAttempts-1 {
			return r, fmt.Errorf("record the host's network: %w", err)
		}
		// Later it is too late: what Pods have left by then would be taken for the host's own.
		h.opts.Log.WarnContext(ctx, "network of the host is not recorded; nothing of it will be swept", "error", err)
		found = network.State{Unknown: true}
	}
	r.Network, err = json.Marshal(found)
	return r, err
}

// sweepNetwork removes what came since the first boot. The next machine starts all the same where
// something remains: it is in the way of nothing but its own kind.
func (h *Host) sweepNetwork(ctx context.Context, j journal.Journal) {
	if j.Network == nil {
		return
	}
	var before, now network.State
	err := json.Unmarshal(j.Network, &before)
	if err == nil {
		now, err = network.Read(ctx, h.opts.Network)
	}
	if err == nil {
		commands := network.Leftovers(before, now)
		for _, c := range commands {
			h.opts.Log.InfoContext(ctx, "removing leftover of the network", "command", c.String(), "reason", "it came after the first boot, and its machine is down")
		}
		err = network.Remove(ctx, h.opts.Network, commands)
	}
	if err != nil {
		h.opts.Log.WarnContext(ctx, "leftovers of the network remain", "error", err)
	}
}

// start boots a machine that has joined before, and lets it start with its host: it may be that of a
// switch that came no further than to stop it.
func (h *Host) start(ctx context.Context, w Work) (transition.Result, error) {
	r, err := h.boot(ctx, w)
	if err != nil {
		return r, err
	}
	if err := h.opts.Runner.Enable(ctx, w.Step.Slot); err != nil {
		h.opts.Log.WarnContext(ctx, "machine does not start with its host", "machine", h.opts.Name(w.Step.Slot), "error", err)
	}
	return r, nil
}

// boot makes the host as the slot's machine needs it, and starts that. One that runs already is
// looked at, no more.
func (h *Host) boot(ctx context.Context, w Work) (r transition.Result, err error) {
	s := w.Step.Slot
	state, err := h.opts.Runner.State(ctx, s)
	if err != nil {
		return r, err
	}
	if state.Phase != journal.Running {
		if r.CredentialUntil, err = h.ready(ctx, w); err != nil {
			return r, err
		}
	}
	if err := h.opts.Runner.Boot(ctx, s); err != nil {
		return r, err
	}
	until := r.CredentialUntil
	r, err = h.running(ctx, s)
	r.CredentialUntil = until
	return r, err
}

// ready writes what a boot of the slot needs: the credential into it, and the host's settings.
func (h *Host) ready(ctx context.Context, w Work) (until time.Time, err error) {
	s, t := w.Step.Slot, w.Journal.Transition
	a, ok, err := h.Built(s)
	if err != nil {
		return until, err
	}
	if !ok {
		return until, fmt.Errorf("boot %s: it is not known what it was built from; a new assignment builds it again", h.opts.Name(s))
	}
	joins := w.Step.Kind == transition.BootSlot && t != nil && t.Kind == journal.KindBuild
	var credential *nstancev1.MachineCredential
	var plan render.Plan
	if joins {
		credential = w.Credential
		_, plan, err = h.planner.plan(a, s, credential)
	} else {
		plan, err = h.planner.planAgain(a, s)
	}
	if err != nil {
		return until, err
	}
	if credential != nil {
		if err := h.slots.Write(s, secret(plan)); err != nil {
			return until, err
		}
		until = credential.GetExpiresAt().AsTime()
	}
	warnings, err := h.opts.Settings.Apply(ctx, plan)
	for _, warning := range warnings {
		h.opts.Log.WarnContext(ctx, "setting of the host left out", "machine", h.opts.Name(s), "reason", warning)
	}
	if err != nil {
		return until, err
	}
	return until, h.remember(onHost, plan.Of(render.OnHost))
}

// running says what is known of a machine that runs.
func (h *Host) running(ctx context.Context, s journal.Slot) (transition.Result, error) {
	state, err := h.opts.Runner.State(ctx, s)
	if err != nil {
		return transition.Result{}, err
	}
	if state.Phase != journal.Running || state.BootID == "" {
		return transition.Result{}, fmt.Errorf("%s: %w", h.opts.Name(s), runner.ErrNotRunning)
	}
	return transition.Result{BootID: state.BootID, Leader: state.Leader}, nil
}

// SetKeys sets the SSH keys of users of the host for the machine of a slot, and takes those of all others away. Users whom the host does not
// have, or its policy does not name, are left out. They are durable before the first file is written. It may be repeated.
func (h *Host) SetKeys(ctx context.Context, s journal.Slot, users []*nstancev1.MachineSshUser) (came operation.Keys, err error) {
	if _, err := h.opts.Policy(); err != nil { // else all keys would be taken away
		return came, err
	}
	a, ok, err := h.Built(s)
	switch {
	case err != nil:
		return came, err
	case !ok:
		return came, fmt.Errorf("set SSH keys: it is not known what %s was built from", h.opts.Name(s))
	}
	set := keysInPlace{V: keysVersion, Epoch: a.Epoch, Users: []keyUser{}}
	for _, u := range users {
		if err := render.PublicKeys(u.GetUser(), u.GetKeys()); err != nil {
			return came, fmt.Errorf("set SSH keys: %w", err)
		}
		set.Users = append(set.Users, keyUser{u.GetUser(), u.GetKeys()})
	}
	text, err := json.Marshal(set)
	if err != nil {
		return came, fmt.Errorf("set SSH keys: %w", err)
	}
	if err := durable.WriteFile(h.planner.keysFile(s), text, 0o600); err != nil {
		return came, fmt.Errorf("set SSH keys: %w", err)
	}
	plan, err := h.planner.planAgain(a, s)
	if err != nil {
		return came, err
	}
	if err := h.opts.Settings.Keys(ctx, plan); err != nil {
		return came, err
	}
	files := plan.Of(render.OnHost)
	for _, u := range users {
		if slices.ContainsFunc(files, func(f render.File) bool { return f.Path == render.SSHDir+"/"+u.GetUser() }) {
			came.Set = append(came.Set, u.GetUser())
		} else {
			came.Refused = append(came.Refused, u.GetUser())
		}
	}
	err = h.remember(onHost, files)
	h.survey.written.Add(1)
	return came, err
}
