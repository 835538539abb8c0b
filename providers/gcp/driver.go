package gcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/compute/metadata"

	"nstance.dev/server/driver"
)

// Driver is the machines of one zone of a project. It implements [driver.Driver]
// and the abilities below. Methods are safe for concurrent use.
type Driver struct {
	place
	opts     Options
	api      api
	metadata *metadata.Client
	ended    ended
	types    typeCache
	// plainDisks: the role does not allow labels of disks.
	plainDisks atomic.Bool
}

// The contract that Driver keeps.
var _ interface {
	driver.Driver
	driver.SubnetChecker
	driver.TypeValidator
	driver.TypeCatalog
	driver.Powerer
	driver.Balancer
	driver.LeaderNetwork
	driver.SelfIdentifier
	driver.URIer
} = (*Driver)(nil)

// New finds the credentials and the project, and asks once for the zone, so that
// what is missing shows before anything leads. Nothing has to be closed.
func New(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	d := &Driver{metadata: metadataServer(opts.Metadata)}
	if opts.HTTPClient == nil {
		var project string
		if opts.HTTPClient, project, err = authorize(ctx); err != nil {
			return nil, err
		}
		if opts.Project == "" {
			opts.Project = project
		}
	}
	if opts.Project == "" {
		return nil, fmt.Errorf("project: missing; set server.provider.options.project or %s, for the credentials name none", EnvProject)
	}
	if d.api, err = connect(ctx, opts.HTTPClient, opts.Endpoint); err != nil {
		return nil, err
	}
	d.opts, d.place = opts, place{project: opts.Project, region: opts.Region, zone: opts.Zone}
	if err := d.checkZone(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// zoneTimeout bounds the question for the zone, which is asked while nothing
// else goes on.
const zoneTimeout = 30 * time.Second

// checkZone finds out whether the credentials let this server into the zone. A
// cloud that cannot be reached is no reason not to start.
func (d *Driver) checkZone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, zoneTimeout)
	defer cancel()
	_, err := d.api.zones.Get(ctx, &computepb.GetZoneRequest{Project: d.project, Zone: d.zone})
	if err == nil {
		return nil
	}
	switch err = fail("get-zone", reads, err); driver.KindOf(err) {
	case driver.Auth:
		return fmt.Errorf("the credentials do not let this server into project %q: %w", d.project, err)
	case driver.MissingRef, driver.Invalid:
		return fmt.Errorf("project %q has no zone %q: %w", d.project, d.zone, err)
	default:
		d.opts.Log.WarnContext(ctx, "zone not checked", "project", d.project, "zone", d.zone, "error", err)
		return nil
	}
}

// Limits are well below the rates that the API grants a project; see
// https://cloud.google.com/compute/api-quota.
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{
		Calls:   driver.Bucket{Rate: 10, Burst: 20},
		Deletes: driver.Bucket{Rate: 10, Burst: 20},
		Reads:   driver.Bucket{Rate: 20, Burst: 100},
	}
}

// Lag is how long a listing may take to show a change.
func (d *Driver) Lag() time.Duration { return 3 * time.Minute }

// LongestCreate implements driver.SlowCreator: an operation takes so long at worst.
func (d *Driver) LongestCreate() time.Duration { return 2 * time.Minute }

// ProviderURI returns gce://{project}/{zone}/{name}, by which Kubernetes knows a
// node of Google's.
func (d *Driver) ProviderURI(ref driver.Ref) string {
	name, _ := nameOf("", ref)
	return "gce://" + d.project + "/" + d.zone + "/" + name
}

// nameOf is the name of a machine.
func nameOf(op string, ref driver.Ref) (string, error) {
	switch {
	case ref.ProviderID != "":
		return ref.ProviderID, nil
	case ref.InstanceID != "":
		return string(ref.InstanceID), nil
	}
	return "", driver.Fail(driver.Invalid, op, errors.New("neither an instance id nor a provider id is given"))
}
