package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/socket"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func resetFlags(flags *flag.FlagSet) func(context.Context, config, io.Writer, *slog.Logger) error {
	wipe := flags.Bool("wipe", false, "remove directories that survive repaves, and the cache, as well")
	dry := flags.Bool("dry-run", false, "say what would be removed, and change nothing")
	return func(ctx context.Context, c config, out io.Writer, log *slog.Logger) error {
		if *dry {
			return c.wouldReset(*wipe, out)
		}
		ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
		defer cancel()
		return c.reset(ctx, *wipe, out, log)
	}
}

func (c config) journal() journal.File {
	return journal.File{Path: filepath.Join(c.dir, "journal.json")}
}

// wouldReset prints what a reset removes.
func (c config) wouldReset(wipe bool, out io.Writer) error {
	var machines []string
	for _, slot := range journal.Slots() {
		machines = append(machines, slot.Machine())
		fmt.Fprintf(out, "stop and remove %s\n", filepath.Join(c.machines, slot.Machine()))
	}
	for _, path := range render.HostPaths(machines...) {
		fmt.Fprintf(out, "remove %s\n", path)
	}
	if wipe {
		fmt.Fprintf(out, "remove %s\nremove %s\n", filepath.Join(c.dir, "persist"), filepath.Join(c.dir, "cache"))
	}
	j, _, err := c.journal().Load()
	for path, value := range j.Settings {
		fmt.Fprintf(out, "set sysctl %s = %s\n", path, value)
	}
	fmt.Fprintf(out, "remove %s\n", c.journal().Path)
	if errors.Is(err, journal.ErrCorrupt) {
		fmt.Fprintf(out, "%v: the values of sysctls from before are lost\n", err)
		return nil
	}
	return err
}

// reset has the paver of this host do it, or does it itself. A journal that cannot be believed is
// no obstacle: both slots go, whatever it says.
func (c config) reset(ctx context.Context, wipe bool, out io.Writer, log *slog.Logger) error {
	unlock, err := c.takeLock()
	if errors.Is(err, errLocked) {
		return c.askForReset(ctx, wipe, out)
	}
	if err != nil {
		return err
	}
	defer unlock()
	j, _, err := c.journal().Load()
	if err != nil && !errors.Is(err, journal.ErrCorrupt) {
		return err
	}
	if err != nil {
		log.WarnContext(ctx, "the journal cannot be believed; sysctls keep their values", "error", err)
	}
	l, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	if err := l.host.Reset(ctx, j, wipe); err != nil {
		return err
	}
	if err := errors.Join(paver.Forget(c.dir, c.run), c.journal().Remove()); err != nil {
		return err
	}
	fmt.Fprintln(out, "reset")
	return nil
}

// askForReset gives the paver that runs on this host an assignment to reset it.
func (c config) askForReset(ctx context.Context, wipe bool, out io.Writer) error {
	client, err := socket.Dial(ctx, c.socket, version)
	if err != nil {
		return fmt.Errorf("%w; stop it with `systemctl stop nstance-paver` to reset this host without it: %w", errLocked, err)
	}
	defer client.Close() //nolint:errcheck // nothing waits on it
	s, err := client.Next(ctx)
	if err != nil {
		return err
	}
	for _, problem := range s.GetProblems() {
		if problem.GetReason() == journal.ErrCorrupt.Error() {
			return fmt.Errorf("the paver of this host does nothing while its journal cannot be believed; `systemctl stop nstance-paver`, reset, and start it again: %s", problem.GetMessage())
		}
	}
	m := &nstancev1.MachineAssignment{Epoch: s.GetEpoch() + 1, MachineUid: s.GetMachineUid(), Mode: nstancev1.MachineMode_MACHINE_MODE_RESET, WipePersistent: wipe}
	if err := client.Take(ctx, &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: m}}); err != nil {
		return err
	}
	_, err = c.follow(ctx, client, m.GetEpoch(), false, out)
	return err
}
