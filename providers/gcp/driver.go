package gcp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/providers/gcp/balancers"
	"nstance.dev/providers/gcp/catalog"
	"nstance.dev/providers/gcp/instances"
	"nstance.dev/providers/gcp/leader"
	"nstance.dev/server/driver"
)

// Driver is the machines of one zone of a project. It implements [driver.Driver]
// and the abilities below: it is the parts that it embeds, one for each subject.
// Methods are safe for concurrent use.
type Driver struct {
	*instances.Instances
	*balancers.Balancers
	*leader.Network
	*catalog.Catalog

	api *api.Client
}

// The contract that Driver keeps.
var _ interface {
	driver.Driver
	driver.SubnetChecker
	driver.TypeValidator
	driver.TypeCatalog
	driver.Powerer
	driver.Outputter
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
	if opts.HTTPClient == nil {
		var project string
		if opts.HTTPClient, project, err = api.Authorize(ctx); err != nil {
			return nil, err
		}
		if opts.Project == "" {
			opts.Project = project
		}
	}
	if opts.Project == "" {
		return nil, fmt.Errorf("project: missing; set server.provider.options.project or %s, for the credentials name none", EnvProject)
	}
	client, err := api.Connect(ctx, opts.HTTPClient, opts.Endpoint, api.Place{Project: opts.Project, Region: opts.Region, Zone: opts.Zone})
	if err != nil {
		return nil, err
	}
	if err := checkZone(ctx, client, opts.Log); err != nil {
		return nil, err
	}
	return &Driver{
		Instances: instances.New(client, opts.Log, opts.Now),
		Balancers: balancers.New(client),
		Network:   leader.New(client, opts.Metadata, opts.LeaderIP, opts.Log),
		Catalog:   catalog.New(client, opts.Prices, opts.Now),
		api:       client,
	}, nil
}

// zoneTimeout bounds the question for the zone, which is asked while nothing
// else goes on.
const zoneTimeout = 30 * time.Second

// checkZone finds out whether the credentials let this server into the zone. A
// cloud that cannot be reached is no reason not to start.
func checkZone(ctx context.Context, client *api.Client, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, zoneTimeout)
	defer cancel()
	_, err := client.Zones.Get(ctx, &computepb.GetZoneRequest{Project: client.Project, Zone: client.Zone})
	if err == nil {
		return nil
	}
	switch err = api.Fail("get-zone", api.Reads, err); driver.ClassOf(err) {
	case driver.Auth:
		return fmt.Errorf("the credentials do not let this server into project %q: %w", client.Project, err)
	case driver.MissingRef, driver.Invalid:
		return fmt.Errorf("project %q has no zone %q: %w", client.Project, client.Zone, err)
	default:
		log.WarnContext(ctx, "zone not checked", "project", client.Project, "zone", client.Zone, "error", err)
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
	name, _ := api.NameOf("", ref)
	return "gce://" + d.api.Project + "/" + d.api.Zone + "/" + name
}
