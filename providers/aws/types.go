package aws

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

// ValidateInstanceType asks EC2, once a day for each type. Without the permission
// for that, the name of the type's family has to do.
func (d *Driver) ValidateInstanceType(ctx context.Context, instanceType, arch string) (driver.TypeVerdict, error) {
	const op = "validate-instance-type"
	if err := begin(ctx, op); err != nil {
		return driver.TypeUnknown, err
	}
	archs, err := d.types.get(instanceType, func() ([]string, error) { return d.architectures(ctx, instanceType) })
	switch {
	case err == nil:
		return verdict(archs, arch), nil
	case kindOf(err, reads) == driver.Auth:
		return verdict(familyArch(instanceType), arch), nil
	default:
		return driver.TypeUnknown, fail(op, reads, err)
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
func (d *Driver) architectures(ctx context.Context, instanceType string) ([]string, error) {
	out, err := d.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceType(instanceType)},
	})
	if codeIs(err, "InvalidInstanceType") {
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

// typeName is the form of a type's name: family, generation, attributes, size.
// Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
var typeName = regexp.MustCompile(`^([a-z][a-z-]*?)-?([0-9]+)([a-z0-9-]*)\.[a-z0-9-]+$`)

// familyArch guesses the architectures of a type by its name: a "g" among the
// attributes stands for Graviton. It gives nil for a name of another form.
func familyArch(instanceType string) []string {
	parts := typeName.FindStringSubmatch(instanceType)
	if parts == nil {
		return nil
	}
	family, generation, attributes := parts[1], parts[2], parts[3]
	attributes, _, _ = strings.Cut(attributes, "-") // what follows, as in i7ie or u7in-16tb, is no processor
	if strings.Contains(attributes, "g") || family == "a" && generation == "1" {
		return []string{arm64}
	}
	return []string{amd64}
}

// checkType is what can be said of a type without asking EC2.
func checkType(instanceType, arch string) error {
	switch {
	case !typeName.MatchString(instanceType):
		return fmt.Errorf("%q is not an instance type of EC2, such as t4g.medium", instanceType)
	case !slices.Contains(types.InstanceType("").Values(), types.InstanceType(instanceType)):
		return fmt.Errorf("%w: %q is newer than this build, or misspelled", driver.ErrUnknownType, instanceType)
	case verdict(familyArch(instanceType), arch) == driver.TypeMismatch:
		return fmt.Errorf("%q has the architecture %s", instanceType, strings.Join(familyArch(instanceType), ", "))
	}
	return nil
}

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
