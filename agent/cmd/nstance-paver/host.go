package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/content"
	"nstance.dev/agent/paver/executor"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/runner/direct"
	"nstance.dev/agent/paver/runner/service"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// errLocked is matched by the error about a host that another process works on.
var errLocked = errors.New("another nstance-paver works on this host")

// lock keeps every other process away until unlock is called, or this one ends.
func (c config) takeLock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(c.lock), 0o755); err != nil {
		return nil, fmt.Errorf("lock this host: %w", err)
	}
	f, err := os.OpenFile(c.lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock this host: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errLocked
		}
		return nil, errors.Join(fmt.Errorf("lock this host: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// runnerFor returns the runner of this host. Known is what the journal remembers of a slot.
func (c config) runnerFor(ctx context.Context, known func(journal.Slot) journal.Leader) (runner.Runner, preflight.Mode, error) {
	mode := c.mode
	if mode == "auto" {
		mode = "service"
		if service.Available(ctx) != nil {
			mode = "direct"
		}
	}
	switch mode {
	case "service":
		return service.New(service.Options{}), preflight.Service, service.Available(ctx)
	case "direct":
		return direct.New(direct.Options{Machines: c.machines, Logs: c.run, Known: known}), preflight.Direct, nil
	}
	return nil, "", fmt.Errorf("%w: -mode: %q must be one of service, direct and auto", errUsage, mode)
}

// local is this host with the loop that works on it.
type local struct {
	host  *host.Host
	paver *paver.Paver
}

// open makes ready to work on this host. Nothing is changed yet.
func (c config) open(ctx context.Context, log *slog.Logger) (*local, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it must run as root", errUsage)
	}
	if c.storage != "" {
		if address, err := image.Address(c.storage); err != nil || address.RawQuery != "" {
			return nil, fmt.Errorf("%w: -storage-url: it must begin with https:// or http://, and have neither a user nor a query", errUsage)
		}
	}
	l := &local{}
	run, mode, err := c.runnerFor(ctx, func(slot journal.Slot) journal.Leader {
		if l.paver == nil {
			return journal.Leader{}
		}
		return l.paver.Known(slot)
	})
	if err != nil {
		return nil, err
	}
	load := func() (policy.Policy, error) { return policy.Load(c.policy) }
	blobs, err := cache.Open(ctx, filepath.Join(c.dir, "cache"), cache.Options{Log: log})
	if err != nil {
		return nil, err
	}
	images := content.New(blobs, content.Options{
		Policy: load, Log: log, Storage: c.storage, Progress: func(what string, done, whole int64) { l.paver.Progress(what, done, whole) },
	})
	l.host = host.New(host.Options{
		Dir: c.dir, Machines: c.machines, Runner: run, Mode: mode, Images: images, Policy: load, Reachable: reachable, Log: log,
	})
	doing := executor.New(executor.Options{Machines: l.host, Runner: run, Mode: mode, Policy: load, Log: log})
	l.paver, err = paver.New(paver.Options{Host: l.host, Executor: doing, Preparer: host.Background{Host: l.host}, Dir: c.dir, RunDir: c.run, Version: version, Log: log})
	return l, err
}

// reachable says whether the API server answers that a machine is to join.
func reachable(ctx context.Context, m *nstancev1.MachineAssignment) error {
	facts, err := preflight.Prober{}.Probe(ctx, preflight.Targets{APIServer: m.GetApiServer().GetEndpoint(), CABundle: m.GetApiServer().GetCaBundle()})
	if answer := facts.Network.APIServer; answer != nil && answer.Err != nil {
		return fmt.Errorf("API server %s cannot be reached: %w", answer.Asked, answer.Err)
	}
	if ctx.Err() != nil {
		return err
	}
	return nil
}
