package machine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/operation"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// executor carries out the operations that a host offers here: reboots. The host goes down when the simulator lets it.
type executor struct{ steps *steps }

// Offers implements paver.Executor, as do the next ones.
func (executor) Offers() []string { return []string{operation.Reboot} }

// Refusal implements paver.Executor: the policy allows all.
func (executor) Refusal(string) string { return "" }

// Unsupported implements paver.Executor.
func (executor) Unsupported(operation.Record) string { return "" }

// HostBootID implements paver.Executor.
func (e executor) HostBootID() string { return e.steps.h.bootID() }

var errNotOffered = errors.New("the host does not offer that")

// Unit implements paver.Executor.
func (executor) Unit(context.Context, journal.Slot, string) (operation.Unit, error) {
	return operation.Unit{}, errNotOffered
}

// RestartUnit implements paver.Executor.
func (executor) RestartUnit(context.Context, journal.Slot, string) error { return errNotOffered }

// Collect implements paver.Executor.
func (executor) Collect(context.Context, operation.Record, journal.Slot, []string) (logs.Packed, error) {
	return logs.Packed{}, errNotOffered
}

// SetKeys implements paver.Executor.
func (executor) SetKeys(context.Context, journal.Slot, []*nstancev1.MachineSshUser) (operation.Keys, error) {
	return operation.Keys{}, errNotOffered
}

// StopMachine implements paver.Executor.
func (executor) StopMachine(context.Context, journal.Slot) error { return errNotOffered }

// Reset implements paver.Executor.
func (executor) Reset(context.Context, journal.Journal, bool) error { return errNotOffered }

// GoDown implements paver.Executor.
func (e executor) GoDown(ctx context.Context, _ journal.Slot, _ time.Duration, _ bool) error {
	v, err := e.steps.park(ctx, &Parked{Down: true})
	switch {
	case err != nil:
		return err
	case v.Before:
		e.steps.die()
		return errKilled
	}
	book, err := operation.File{Path: filepath.Join(e.steps.h.state(), "operations.json")}.Load()
	if err != nil {
		return err
	}
	of, under := book.Current()
	if !under {
		return errors.New("the host goes down for no operation that it knows")
	}
	e.steps.h.mu.Lock()
	e.steps.h.down = of.ID
	e.steps.h.mu.Unlock()
	if v.After {
		e.steps.die()
		return errKilled
	}
	return nil
}

func (h *Host) bootID() string { return fmt.Sprint("host-boot-", h.boots) }

// GoesDown is the operation for which the host is about to reboot; empty: it is not.
func (h *Host) GoesDown() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}
