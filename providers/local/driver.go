package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Driver is the cloud of one directory. It implements [driver.Driver] and every
// optional ability but [driver.TypeValidator] and [driver.TypeCatalog]: types are
// labels here. Any number
// of drivers, in any number of processes, may share a directory; only
// [Options.Room] is kept by each for itself. Methods are safe for concurrent use.
type Driver struct {
	opts Options
	host host

	life context.Context //nolint:containedctx // of the work that goes on after a call has returned
	die  context.CancelFunc
	wg   sync.WaitGroup

	placing sync.Mutex // held while a machine is put where room is limited

	mu     sync.Mutex
	closed bool
	ending map[identity.ID]bool
	swept  time.Time
}

// The contract that Driver keeps.
var _ interface {
	driver.Driver
	driver.SubnetChecker
	driver.Balancer
	driver.ImageResolver
	driver.LeaderNetwork
	driver.SelfIdentifier
	driver.Resumer
	driver.Powerer
	driver.URIer
} = (*Driver)(nil)

// New opens the directory, and makes it if it is missing. The caller closes the
// driver; machines stay.
func New(opts Options) (*Driver, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, fmt.Errorf("local provider: %w", err)
	}
	for _, sub := range []string{"", marksDir, locksDir, newDir, trashDir} {
		if err := os.MkdirAll(filepath.Join(opts.Dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("local provider: dir: %w", err)
		}
	}
	box, err := openHost()
	if err != nil {
		return nil, fmt.Errorf("local provider: %w", err)
	}
	d := &Driver{opts: opts, host: box, ending: map[identity.ID]bool{}}
	d.life, d.die = context.WithCancel(context.Background())
	d.sweep()
	return d, nil
}

// Close ends the driver's own goroutines and waits for them. Machines go on, and
// deletes that were accepted are finished by the next driver that looks.
func (d *Driver) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.die()
	d.wg.Wait()
}

// background runs work in a goroutine of its own until Close, and reports
// whether it does.
func (d *Driver) background(work func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.wg.Go(work)
	return true
}

// Limits keep one box responsive while it starts hundreds of processes.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{Calls: driver.Bucket{Rate: 200, Burst: 50}}
}

// Lag is zero: what was done shows at once.
func (d *Driver) Lag() time.Duration { return 0 }

// ProviderURI returns nstance://{shard}/{instance id}.
func (d *Driver) ProviderURI(ref driver.Ref) string {
	return "nstance://" + d.opts.Shard + "/" + string(ref.InstanceID)
}

// Create starts a machine, or finishes what an earlier create of it began.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	const op = "create"
	if err := ctx.Err(); err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	if err := checkRequest(req); err != nil {
		return driver.Machine{}, driver.Fail(driver.Invalid, op, err)
	}
	if err := checkAgent(d.opts.Agent); err != nil {
		return driver.Machine{}, driver.Fail(driver.MissingRef, op, err)
	}
	if err := d.refuseMarked(req.InstanceID); err != nil {
		return driver.Machine{}, err // at once, even while its end holds the lock
	}
	unlock, err := d.lock(ctx, req.InstanceID)
	if err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	defer unlock()
	return d.create(ctx, req)
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
	return nil
}

func (d *Driver) refuseMarked(id identity.ID) error {
	switch marked, err := d.marked(id); {
	case err != nil:
		return driver.Fail(driver.Transient, "create", err)
	case marked:
		return driver.Fail(driver.Invalid, "create", fmt.Errorf("%s was deleted", id))
	}
	return nil
}

// create does its work with the machine's lock held.
func (d *Driver) create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	fail := func(kind driver.Kind, err error) (driver.Machine, error) {
		return driver.Machine{}, driver.Fail(kind, "create", err)
	}
	id := req.InstanceID
	if err := d.refuseMarked(id); err != nil {
		return driver.Machine{}, err
	}
	meta, err := readMetadata(d.dir(id))
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.settle(ctx, req); err != nil {
			return driver.Machine{}, err
		}
		meta, err = metadataOf(req), nil
	}
	if err != nil {
		return fail(driver.Transient, err)
	}
	if meta.owner() != req.Owner || meta.InstanceID != id {
		return fail(driver.Invalid, fmt.Errorf("%s exists and is a machine of shard %s in cluster %s", id, meta.Shard, meta.Cluster))
	}
	s, err := d.startOnce(id)
	if err != nil {
		return fail(driver.Ambiguous, err) // it exists: whoever looks next starts it
	}
	m := meta.machine(string(id), s)
	m.IPv4 = d.opts.addressOf(id)
	return m, nil
}

// startOnce starts a machine whose user data never ran, and returns how it
// looks then. The caller holds its lock.
func (d *Driver) startOnce(id identity.ID) (sight, error) {
	s, _, err := d.look(string(id))
	if err != nil || !s.unfinished() {
		return s, err
	}
	if err := d.start(id); err != nil {
		return s, err
	}
	s, _, err = d.look(string(id))
	return s, err
}

// machine is what the server learns of a machine that looks like s.
func (m metadata) machine(name string, s sight) driver.Machine {
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

// resolve returns the instance id in ref; for machines of this provider the
// provider id is the same.
func resolve(op string, ref driver.Ref) (identity.ID, error) {
	name := string(ref.InstanceID)
	if name == "" {
		name = ref.ProviderID
	}
	id, err := identity.ParseID(name)
	if err != nil {
		return "", driver.Fail(driver.Invalid, op, err)
	}
	return id, nil
}
