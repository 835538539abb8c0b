// Package balancers puts machines behind load balancers. One is a directory that somebody made,
// in which every member has a file. What proxy it belongs to, and how that learns of its
// members, is not the driver's matter.
package balancers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// Balancers are load balancers by the directories of their members. Make it with [New].
type Balancers struct {
	dir   string // has one for each
	store *store.Store
}

// New returns the load balancers below a directory, for the machines of a store.
func New(dir string, machines *store.Store) *Balancers {
	return &Balancers{dir: dir, store: machines}
}

// LBRegister makes the machine's file.
func (b *Balancers) LBRegister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	const op = "lb-register"
	id, dir, err := b.behind(ctx, op, lb, ref)
	if err != nil {
		return err
	}
	if there, err := store.Exists(b.store.Dir(id)); err != nil {
		return driver.Fail(driver.Transient, op, err)
	} else if !there {
		return driver.Fail(driver.NotFound, op, fmt.Errorf("%s does not exist", id))
	}
	if err := os.WriteFile(filepath.Join(dir, string(id)), nil, 0o644); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	return nil
}

// LBDeregister removes the machine's file.
func (b *Balancers) LBDeregister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	const op = "lb-deregister"
	id, dir, err := b.behind(ctx, op, lb, ref)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, string(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return driver.Fail(driver.Transient, op, err)
	}
	return nil
}

// LBList returns the machines whose files are there. Other files are other people's.
func (b *Balancers) LBList(ctx context.Context, lb driver.LoadBalancer) ([]driver.Ref, error) {
	const op = "lb-list"
	dir, err := b.balancer(ctx, op, lb)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, driver.Fail(driver.Transient, op, err)
	}
	var members []driver.Ref
	for _, e := range entries {
		if id, err := identity.ParseID(e.Name()); err == nil {
			members = append(members, driver.Ref{InstanceID: id, ProviderID: e.Name()})
		}
	}
	return members, nil
}

func (b *Balancers) behind(ctx context.Context, op string, lb driver.LoadBalancer, ref driver.Ref) (identity.ID, string, error) {
	dir, err := b.balancer(ctx, op, lb)
	if err != nil {
		return "", "", err
	}
	id, err := store.Resolve(op, ref)
	return id, dir, err
}

// balancer returns the directory of a load balancer that exists.
func (b *Balancers) balancer(ctx context.Context, op string, lb driver.LoadBalancer) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", driver.Fail(driver.Transient, op, err)
	}
	if err := identity.ValidateName(lb.Key); err != nil {
		return "", driver.Fail(driver.Invalid, op, fmt.Errorf("load balancer: %w", err))
	}
	dir := filepath.Join(b.dir, lb.Key)
	switch there, err := store.Exists(dir); {
	case err != nil:
		return "", driver.Fail(driver.Transient, op, err)
	case !there:
		return "", driver.Fail(driver.MissingRef, op, fmt.Errorf("load balancer %q does not exist; make the directory %s", lb.Key, dir))
	}
	return dir, nil
}
