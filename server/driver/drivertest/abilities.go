package drivertest

import (
	"context"
	"fmt"

	"nstance.dev/server/driver"
)

// Subnets adds [driver.SubnetChecker] to a cloud: what [Cloud.SetRoom] left free
// for all types, or unlimited.
type Subnets struct{ Of *Cloud }

// CheckSubnet returns how many machines still fit; negative: unlimited.
func (s Subnets) CheckSubnet(ctx context.Context, subnetID string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, driver.Fail(driver.Transient, "check-subnet", err)
	}
	s.Of.mu.Lock()
	defer s.Of.mu.Unlock()
	p := Place{Subnet: subnetID}
	if _, limited := s.Of.room[p]; !limited {
		return -1, nil
	}
	return s.Of.free(p), nil
}

// Network adds [driver.LeaderNetwork] to a cloud.
type Network struct{ Of *Cloud }

// AssignLeaderNetwork remembers the addresses for [Network.Leader].
func (n Network) AssignLeaderNetwork(ctx context.Context, addrs driver.Addresses) error {
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, "assign-leader-network", err)
	}
	n.Of.mu.Lock()
	defer n.Of.mu.Unlock()
	n.Of.network, n.Of.holds = addrs, true
	return nil
}

// ReleaseLeaderNetwork forgets the addresses.
func (n Network) ReleaseLeaderNetwork(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, "release-leader-network", err)
	}
	n.Of.mu.Lock()
	defer n.Of.mu.Unlock()
	n.Of.network, n.Of.holds = driver.Addresses{}, false
	return nil
}

// Leader returns the addresses that were assigned last, and whether they still
// are.
func (n Network) Leader() (driver.Addresses, bool) {
	n.Of.mu.Lock()
	defer n.Of.mu.Unlock()
	return n.Of.network, n.Of.holds
}

// Types adds [driver.TypeValidator] to a cloud: the known types and the
// architecture of each.
type Types map[string]string

// ValidateInstanceType compares with the known types.
func (t Types) ValidateInstanceType(_ context.Context, instanceType, arch string) (driver.TypeVerdict, error) {
	switch has, known := t[instanceType]; {
	case !known:
		return driver.TypeUnknown, nil
	case has != arch:
		return driver.TypeMismatch, nil
	}
	return driver.TypeOK, nil
}

// Power adds [driver.Resumer] to a cloud.
type Power struct{ Of *Cloud }

// Resume starts the owner's stopped machines.
func (p Power) Resume(ctx context.Context, owner driver.Owner) (int, error) {
	return p.move(ctx, "resume", owner, driver.Stopped, driver.Running)
}

// Halt stops the owner's running machines.
func (p Power) Halt(ctx context.Context, owner driver.Owner) error {
	_, err := p.move(ctx, "halt", owner, driver.Running, driver.Stopped)
	return err
}

func (p Power) move(ctx context.Context, op string, owner driver.Owner, from, to driver.Status) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, driver.Fail(driver.Transient, op, err)
	}
	moved := 0
	for _, v := range p.Of.Machines() {
		if v.Owner == owner && v.Status == from && p.Of.SetStatus(v.InstanceID, to) {
			moved++
		}
	}
	return moved, nil
}

// URIs adds [driver.URIer] to a cloud.
type URIs struct{}

// ProviderURI returns fake://{provider id}/{instance id}.
func (URIs) ProviderURI(ref driver.Ref) string {
	return fmt.Sprintf("fake://%s/%s", ref.ProviderID, ref.InstanceID)
}
