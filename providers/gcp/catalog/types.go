package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

// archOf is the server's word for one of the cloud's, or "".
func archOf(word string) string {
	switch word {
	case computepb.MachineType_ARM64.String():
		return "arm64"
	case computepb.MachineType_X86_64.String():
		return "amd64"
	}
	return ""
}

// typesFor is how long the architecture of a type is remembered.
const typesFor = 24 * time.Hour

// typeCache holds the architectures of types that the cloud was asked for.
type typeCache struct {
	mu    sync.Mutex
	known map[string]knownType
}

type knownType struct {
	arch string
	at   time.Time
}

func (c *typeCache) get(name string, now time.Time) (arch string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.known[name]
	return t.arch, ok && now.Sub(t.at) < typesFor
}

func (c *typeCache) put(name, arch string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]knownType{}
	}
	c.known[name] = knownType{arch: arch, at: now}
}

// ValidateInstanceType asks the cloud, and judges by the type's family where the
// cloud does not say.
func (c *Catalog) ValidateInstanceType(ctx context.Context, instanceType, arch string) (driver.TypeVerdict, error) {
	const op = "validate-instance-type"
	if err := api.Begin(ctx, op); err != nil {
		return driver.TypeUnknown, err
	}
	has, err := c.typeArch(ctx, op, instanceType)
	switch {
	case err != nil:
		return driver.TypeUnknown, err
	case has == "":
		return driver.TypeUnknown, nil
	case has != arch:
		return driver.TypeMismatch, nil
	}
	return driver.TypeOK, nil
}

// typeArch is the architecture of a type, or "" for one that does not exist or of
// which nothing is known.
func (c *Catalog) typeArch(ctx context.Context, op, name string) (string, error) {
	if arch, ok := c.types.get(name, c.now()); ok {
		return arch, nil
	}
	if !rules.ResourceName.MatchString(name) {
		return "", nil
	}
	t, err := c.api.Types.Get(ctx, &computepb.GetMachineTypeRequest{Project: c.api.Project, Zone: c.api.Zone, MachineType: name})
	if err != nil {
		switch err = api.Fail(op, api.Reads, err); driver.ClassOf(err) {
		case driver.MissingRef:
			return "", nil
		case driver.Auth:
			return rules.FamilyArch(name), nil
		default:
			return "", err
		}
	}
	arch := cmp.Or(archOf(t.GetArchitecture()), rules.FamilyArch(name))
	c.types.put(name, arch, c.now())
	return arch, nil
}

// InstanceTypes lists the zone's machine types, with the prices that the options
// have.
func (c *Catalog) InstanceTypes(ctx context.Context) ([]driver.InstanceType, error) {
	const op = "instance-types"
	if err := api.Begin(ctx, op); err != nil {
		return nil, err
	}
	byName := map[string]driver.InstanceType{}
	req := &computepb.ListMachineTypesRequest{Project: c.api.Project, Zone: c.api.Zone, MaxResults: new(uint32(api.PageSize))}
	for it := c.api.Types.List(ctx, req); ; {
		t, err := it.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, api.Fail(op, api.Reads, err)
		}
		byName[t.GetName()] = instanceType(t, c.prices)
	}
	types := make([]driver.InstanceType, 0, len(byName))
	for _, t := range byName {
		types = append(types, t)
	}
	slices.SortFunc(types, func(a, b driver.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	return types, nil
}

// instanceType is the server's description of a machine type.
func instanceType(t *computepb.MachineType, prices map[string]float64) driver.InstanceType {
	made := driver.InstanceType{
		Name:      t.GetName(),
		Arch:      cmp.Or(archOf(t.GetArchitecture()), rules.FamilyArch(t.GetName())),
		VCPU:      int(t.GetGuestCpus()),
		MemoryMiB: int(t.GetMemoryMb()),
		HourlyUSD: prices[t.GetName()],
		Family:    rules.Family(t.GetName()),
	}
	for _, a := range t.GetAccelerators() {
		made.GPUs += int(a.GetGuestAcceleratorCount())
		made.GPUModel = cmp.Or(made.GPUModel, a.GetGuestAcceleratorType())
	}
	if made.GPUs > 0 && strings.HasPrefix(made.GPUModel, "nvidia-") {
		made.Extended = []driver.Resource{{Name: "nvidia.com/gpu", Count: int64(made.GPUs)}}
	}
	return made
}
