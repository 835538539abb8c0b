package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/rules"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// Create starts a machine, or finishes what an earlier create of it began.
func (all *Machines) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	const op = "create"
	if err := ctx.Err(); err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	if err := checkRequest(req); err != nil {
		return driver.Machine{}, driver.Fail(driver.Invalid, op, err)
	}
	if err := CheckAgent(all.opts.Agent); err != nil {
		return driver.Machine{}, driver.Fail(driver.MissingRef, op, err)
	}
	if err := all.refuseMarked(req.InstanceID); err != nil {
		return driver.Machine{}, err // at once, even while its end holds the lock
	}
	unlock, err := all.store.Lock(ctx, req.InstanceID)
	if err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	defer unlock()
	return all.create(ctx, req)
}

func checkRequest(req driver.CreateRequest) error {
	if _, err := identity.ParseID(string(req.InstanceID)); err != nil {
		return err
	}
	switch {
	case req.Owner.Cluster == "" || req.Owner.Shard == "":
		return fmt.Errorf("%s: the owner has no cluster or no shard", req.InstanceID)
	case len(req.UserData) == 0:
		return fmt.Errorf("%s: the user data is empty; a local machine is what its user data runs", req.InstanceID)
	case strings.ContainsRune(string(req.UserData), 0):
		return fmt.Errorf("%s: the user data contains a NUL byte; it must be a shell script", req.InstanceID)
	case len(req.Args) > 0:
		return fmt.Errorf("%s: args are given; the local provider has none", req.InstanceID)
	}
	return rules.Capacity().Check(req)
}

func (all *Machines) refuseMarked(id identity.ID) error {
	switch marked, err := all.store.Marked(id); {
	case err != nil:
		return driver.Fail(driver.Transient, "create", err)
	case marked:
		return driver.Fail(driver.Invalid, "create", fmt.Errorf("%s was deleted", id))
	}
	return nil
}

// create does its work with the machine's lock held.
func (all *Machines) create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	fail := func(kind driver.ErrorClass, err error) (driver.Machine, error) {
		return driver.Machine{}, driver.Fail(kind, "create", err)
	}
	id := req.InstanceID
	if err := all.refuseMarked(id); err != nil {
		return driver.Machine{}, err
	}
	meta, err := store.ReadMetadata(all.store.Dir(id))
	if errors.Is(err, fs.ErrNotExist) {
		if err := all.settle(ctx, req); err != nil {
			return driver.Machine{}, err
		}
		meta, err = store.MetadataOf(req), nil
	}
	if err != nil {
		return fail(driver.Transient, err)
	}
	if meta.Owner() != req.Owner || meta.InstanceID != id {
		return fail(driver.Invalid, fmt.Errorf("%s exists and is a machine of shard %s in cluster %s", id, meta.Shard, meta.Cluster))
	}
	s, err := all.startOnce(id)
	if err != nil {
		return fail(driver.Ambiguous, err) // it exists: whoever looks next starts it
	}
	m := machineOf(meta, string(id), s)
	m.IPv4 = all.opts.addressOf(id)
	return m, nil
}

// startOnce starts a machine whose user data never ran, and returns how it
// looks then. The caller holds its lock.
func (all *Machines) startOnce(id identity.ID) (state, error) {
	s, _, err := all.look(string(id))
	if err != nil || !s.unfinished() {
		return s, err
	}
	if err := all.start(id); err != nil {
		return s, err
	}
	s, _, err = all.look(string(id))
	return s, err
}
