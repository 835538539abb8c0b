package local

import (
	"fmt"
	"path/filepath"
	"time"

	"nstance.dev/providers/local/balancers"
	"nstance.dev/providers/local/images"
	"nstance.dev/providers/local/machines"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// Driver is the cloud of one directory. It implements [driver.Driver] and every
// optional ability but [driver.TypeValidator] and [driver.TypeCatalog]: types are
// labels here. It is the parts that it embeds, one for each subject. Any number of
// drivers, in any number of processes, may share a directory; only [Options.Room] is
// kept by each for itself. Methods are safe for concurrent use.
type Driver struct {
	*machines.Machines
	*balancers.Balancers
	*images.Images

	opts Options
}

// Names in the machines' directory, beside them.
const (
	leaderFile   = "leader.json"
	balancersDir = "balancers"
	imagesDir    = "images"
)

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
	driver.Outputter
	driver.URIer
} = (*Driver)(nil)

// New opens the directory, and makes it if it is missing. The caller closes the
// driver; machines stay.
func New(opts Options) (*Driver, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, fmt.Errorf("local provider: %w", err)
	}
	dir, err := store.Open(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("local provider: %w", err)
	}
	all, err := machines.New(machines.Options{
		Store: dir, Agent: opts.Agent, Room: opts.Room, Addresses: opts.Addresses, LeaderFile: filepath.Join(opts.Dir, leaderFile),
		Log: opts.Log, Now: opts.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("local provider: %w", err)
	}
	return &Driver{
		opts: opts, Machines: all, Images: images.New(filepath.Join(opts.Dir, imagesDir)),
		Balancers: balancers.New(filepath.Join(opts.Dir, balancersDir), dir),
	}, nil
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
