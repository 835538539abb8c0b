package instances

import (
	"context"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// launchedFor reports whether an instance was launched for an id, which was the client
// token then. One that somebody launched as a copy of ours has its tags and another
// token.
func launchedFor(i types.Instance, id identity.ID) bool {
	return sdk.ToString(i.ClientToken) == string(id)
}

// claims reports whether an instance may have been launched for an id although it shows
// another token, or none. EC2 shows the token that a request had "if applicable", and
// does not say whether that holds for spot instances, which it launches by a request of
// its own. They cannot be stopped, so the launch time of one is that of its only launch.
func claims(i types.Instance, id identity.ID) bool {
	at := sdk.ToTime(i.LaunchTime)
	return !launchedFor(i, id) && i.InstanceLifecycle == types.InstanceLifecycleTypeSpot &&
		at.After(id.CreatedAt().Add(-remembered)) && at.Before(id.CreatedAt().Add(remembered))
}

const (
	// remembered is about how long EC2 shows an instance that was terminated.
	remembered = time.Hour
	// mostValues is how many values of a filter one call asks for.
	mostValues = 100
)

// machinesOf are the machines that instances are. A spot instance with the tag of an
// instance id and without its token is that machine if no other instance has the tag.
func (all *Instances) machinesOf(ctx context.Context, instances []types.Instance) ([]driver.Machine, error) {
	machines := make([]driver.Machine, len(instances))
	claimed := map[int]identity.ID{}
	var ids []string
	for i, instance := range instances {
		machines[i] = machineOf(instance)
		if id, err := identity.ParseID(machines[i].RawID); err == nil && claims(instance, id) {
			claimed[i] = id
			ids = append(ids, string(id))
		}
	}
	slices.Sort(ids)
	carriers := map[string]map[string]bool{} // instances by the tag that they carry, those that have ended included
	for some := range slices.Chunk(slices.Compact(ids), mostValues) {
		found, err := all.api.Describe(ctx, &ec2.DescribeInstancesInput{Filters: ofInstance(some...), MaxResults: sdk.Int32(api.PageSize)})
		if err != nil {
			return nil, err
		}
		for _, instance := range append(found, instances...) {
			tag := tagMap(instance.Tags)[identity.TagInstanceID]
			if carriers[tag] == nil {
				carriers[tag] = map[string]bool{}
			}
			carriers[tag][sdk.ToString(instance.InstanceId)] = true
		}
	}
	for i, id := range claimed {
		if len(carriers[string(id)]) == 1 {
			machines[i].InstanceID = id
		}
	}
	return machines, nil
}
