package catalog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
)

// ValidateInstanceType asks EC2, once a day for each type. Without the permission
// for that, the name of the type's family has to do.
func (c *Catalog) ValidateInstanceType(ctx context.Context, instanceType, arch string) (driver.TypeVerdict, error) {
	const op = "validate-instance-type"
	if err := api.Begin(ctx, op); err != nil {
		return driver.TypeUnknown, err
	}
	archs, err := c.types.get(instanceType, func() ([]string, error) { return c.architectures(ctx, instanceType) })
	switch {
	case err == nil:
		return verdict(archs, arch), nil
	case api.KindOf(err, api.Reads) == driver.Auth:
		return verdict(rules.FamilyArch(instanceType), arch), nil
	default:
		return driver.TypeUnknown, api.Fail(op, api.Reads, err)
	}
}

// verdict compares the architectures of a type, nil if nothing is known of it,
// with the wanted one.
func verdict(archs []string, arch string) driver.TypeVerdict {
	switch {
	case archs == nil:
		return driver.TypeUnknown
	case slices.Contains(archs, arch):
		return driver.TypeOK
	default:
		return driver.TypeMismatch
	}
}

// architectures asks for those of one type; nil if there is no such type.
func (c *Catalog) architectures(ctx context.Context, instanceType string) ([]string, error) {
	out, err := c.api.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceType(instanceType)},
	})
	if api.HasCode(err, "InvalidInstanceType") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, info := range out.InstanceTypes {
		return archsOf(info), nil
	}
	return nil, nil
}

// archsOf are the architectures of a type in our words; empty, and not nil, for one
// that has others alone.
func archsOf(info types.InstanceTypeInfo) []string {
	archs := []string{}
	if info.ProcessorInfo == nil {
		return archs
	}
	for _, a := range info.ProcessorInfo.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664:
			archs = append(archs, amd64)
		case types.ArchitectureTypeArm64:
			archs = append(archs, arm64)
		}
	}
	return archs
}

const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// typeCache keeps what EC2 said of instance types for a day.
type typeCache struct {
	now func() time.Time

	mu    sync.Mutex
	known map[string]typeEntry
}

type typeEntry struct {
	archs []string
	at    time.Time
}

const (
	typeLife = 24 * time.Hour
	maxTypes = 4096 // names come from callers; EC2 has about a thousand
)

func newTypeCache(now func() time.Time) *typeCache {
	return &typeCache{now: now, known: map[string]typeEntry{}}
}

// get returns what is kept of a type, or asks.
func (c *typeCache) get(name string, ask func() ([]string, error)) ([]string, error) {
	c.mu.Lock()
	entry, kept := c.known[name]
	c.mu.Unlock()
	if kept && c.now().Sub(entry.at) < typeLife {
		return entry.archs, nil
	}
	archs, err := ask()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxTypes {
		clear(c.known)
	}
	c.known[name] = typeEntry{archs, c.now()}
	return archs, nil
}
