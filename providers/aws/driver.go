package aws

import (
	"context"
	"fmt"
	"time"

	"nstance.dev/providers/aws/api"
	"nstance.dev/providers/aws/balancers"
	"nstance.dev/providers/aws/catalog"
	"nstance.dev/providers/aws/instances"
	"nstance.dev/providers/aws/leader"
	"nstance.dev/server/driver"
)

// Driver is an account of Amazon EC2 in one region. It implements
// [driver.Driver] and the optional abilities that EC2 has. Methods are safe for
// concurrent use.
type Driver struct {
	*instances.Instances
	*balancers.Balancers
	*leader.Network
	*catalog.Catalog

	zone string
}

// The contract that Driver keeps.
var _ interface {
	driver.Driver
	driver.SubnetChecker
	driver.TypeValidator
	driver.TypeCatalog
	driver.ImageResolver
	driver.Balancer
	driver.LeaderNetwork
	driver.SelfIdentifier
	driver.Powerer
	driver.Outputter
	driver.URIer
} = (*Driver)(nil)

// New signs in. The error says which setting is missing; the permissions of the
// credentials are not tried out.
func New(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	client, err := api.Connect(ctx, api.Options{Region: opts.Region, Profile: opts.Profile, HTTPClient: opts.HTTPClient, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	all := instances.New(client, opts.Now)
	return &Driver{
		Instances: all,
		Balancers: balancers.New(client, all),
		Network: leader.New(client, leader.Options{
			IP: opts.LeaderIP, Interface: opts.LeaderInterface, Log: opts.Log, Addresses: opts.Addresses,
		}),
		Catalog: catalog.New(client, catalog.Options{
			Zone: opts.Zone, OtherZones: opts.OtherZones, Prices: opts.Prices, Log: opts.Log, Now: opts.Now,
		}),
		zone: opts.Zone,
	}, nil
}

// Limits are the documented defaults of an account in a region: RunInstances has
// one bucket of requests and one of instances, TerminateInstances is a mutating
// call, and the describing calls have a bucket each.
// Source: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
func (d *Driver) Limits() driver.Limits {
	return driver.Limits{
		Calls:     driver.Bucket{Rate: 2, Burst: 5},
		Instances: driver.Bucket{Rate: 2, Burst: 1000},
		Deletes:   driver.Bucket{Rate: 5, Burst: 100},
		Reads:     driver.Bucket{Rate: 20, Burst: 100},
	}
}

// Lag is three minutes.
func (d *Driver) Lag() time.Duration { return instances.Lag }

// LongestCreate implements driver.SlowCreator: an instance is pending for so long at worst.
func (d *Driver) LongestCreate() time.Duration { return 2 * time.Minute }

// ProviderURI is what Kubernetes calls the machine: aws:///<zone>/<id>.
func (d *Driver) ProviderURI(ref driver.Ref) string {
	return fmt.Sprintf("aws:///%s/%s", d.zone, ref.ProviderID)
}
