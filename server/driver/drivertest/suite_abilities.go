package drivertest

import (
	"context"
	"errors"
	"fmt"

	"nstance.dev/server/driver"
)

// subnetHasRoom fills a subnet that has room for a few machines, if there is
// one, and looks at what is said of it on the way.
func (s *suite) subnetHasRoom() {
	checker, ok := s.Driver.(driver.SubnetChecker)
	if !ok {
		s.missing = "check of subnets"
		return
	}
	s.refusesCancelled("check-subnet", func(ctx context.Context) error {
		_, err := checker.CheckSubnet(ctx, s.request(testOwner).SubnetID)
		return err
	})
	for made := 0; made <= s.Room; made++ {
		subnet := s.request(testOwner).SubnetID
		s.eventually(fmt.Sprintf("the subnet knows of %d machines", made), func(ctx context.Context) string {
			free, err := checker.CheckSubnet(ctx, subnet)
			switch {
			case err != nil:
				s.t.Fatalf("check of subnet %q: %v", subnet, err)
			case s.Room == 0 && free < 0, s.Room > 0 && free == s.Room-made:
				return ""
			}
			return fmt.Sprintf("%d machines fit into it, of %d", free, s.Room)
		})
		if s.Room == 0 {
			return
		}
		if made < s.Room {
			s.create(testOwner)
		}
	}
	_, err := s.Create(s.t.Context(), s.request(testOwner))
	s.wantKind("create in a full subnet", err, driver.Capacity)
}

// balancerMembers puts machines behind load balancers and takes them away, each
// step twice.
func (s *suite) balancerMembers() {
	b, ok := s.Driver.(driver.Balancer)
	if !ok {
		s.t.Fatal("the harness names load balancers, and the driver has none")
	}
	one, other := s.Balancers[0], s.Balancers[1]
	m, n := s.create(testOwner), s.create(testOwner)
	for _, move := range []struct {
		name    string
		do      func(context.Context, driver.LoadBalancer, driver.Ref) error
		machine driver.Machine
		behind  map[string]bool // of m and n in one, by what the step leaves
	}{
		{"register the first", b.LBRegister, m, map[string]bool{m.ProviderID: true}},
		{"register the second", b.LBRegister, n, map[string]bool{m.ProviderID: true, n.ProviderID: true}},
		{"deregister the first", b.LBDeregister, m, map[string]bool{n.ProviderID: true}},
	} {
		ref := driver.Ref{InstanceID: move.machine.InstanceID, ProviderID: move.machine.ProviderID}
		for range 2 {
			if err := move.do(s.t.Context(), one, ref); err != nil {
				s.t.Fatalf("%s: %v", move.name, err)
			}
		}
		s.eventually(move.name, func(context.Context) string {
			for _, machine := range []driver.Machine{m, n} {
				want := 0
				if move.behind[machine.ProviderID] {
					want = 1
				}
				if got := s.behind(b, one, machine); got != want {
					return fmt.Sprintf("%s is listed %d times, want %d", machine.InstanceID, got, want)
				}
				if s.behind(b, other, machine) > 0 {
					s.t.Fatalf("%s is behind the other load balancer too", machine.InstanceID)
				}
			}
			return ""
		})
	}
}

// behind is how often a load balancer lists a machine.
func (s *suite) behind(b driver.Balancer, lb driver.LoadBalancer, m driver.Machine) int {
	s.t.Helper()
	members, err := b.LBList(s.t.Context(), lb)
	if err != nil {
		s.t.Fatalf("members of %s: %v", lb.Key, err)
	}
	n := 0
	for _, ref := range members {
		if ref.InstanceID == "" && ref.ProviderID == "" {
			s.t.Errorf("a member of %s has no id", lb.Key)
		}
		if ref.InstanceID == m.InstanceID || ref.ProviderID == m.ProviderID {
			n++
		}
	}
	return n
}

// balancerStrangers checks what is said of machines and load balancers that do
// not exist.
func (s *suite) balancerStrangers() {
	b, ok := s.Driver.(driver.Balancer)
	if !ok {
		return // BalancerMembers says so
	}
	lb, nowhere := s.Balancers[0], driver.LoadBalancer{Key: "no-such-balancer"}
	stranger := driver.Ref{InstanceID: s.request(testOwner).InstanceID}
	s.wantKind("register a machine that never was", b.LBRegister(s.t.Context(), lb, stranger), driver.NotFound)
	if err := b.LBDeregister(s.t.Context(), lb, stranger); err != nil {
		s.t.Errorf("deregister a machine that never was: %v", err)
	}
	m := s.create(testOwner)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	if err := b.LBDeregister(s.t.Context(), lb, ref); err != nil {
		s.t.Errorf("deregister a machine that is not there: %v", err)
	}
	s.wantKind("register with a load balancer that does not exist", b.LBRegister(s.t.Context(), nowhere, ref), driver.MissingRef)
	_, err := b.LBList(s.t.Context(), nowhere)
	s.wantKind("list a load balancer that does not exist", err, driver.MissingRef)
	for op, call := range map[string]func(context.Context) error{
		"lb-register":   func(ctx context.Context) error { return b.LBRegister(ctx, lb, ref) },
		"lb-deregister": func(ctx context.Context) error { return b.LBDeregister(ctx, lb, ref) },
		"lb-list":       func(ctx context.Context) error { _, err := b.LBList(ctx, lb); return err },
	} {
		s.refusesCancelled(op, call)
	}
}

func (s *suite) resolvesImages() {
	resolver, ok := s.Driver.(driver.ImageResolver)
	if !ok {
		s.t.Fatal("the harness names images, and the driver looks none up")
	}
	for _, c := range s.Images {
		got, err := resolver.ResolveImage(s.t.Context(), c.Query)
		if c.Want == "" {
			s.wantKind(fmt.Sprintf("look-up of %+v", c.Query), err, driver.MissingRef)
		} else if got != c.Want || err != nil {
			s.t.Errorf("look-up of %+v: %q, %v; want %q", c.Query, got, err, c.Want)
		}
	}
	s.refusesCancelled("resolve-image", func(ctx context.Context) error {
		_, err := resolver.ResolveImage(ctx, s.Images[0].Query)
		return err
	})
}

func (s *suite) instanceTypes() {
	v, ok := s.Driver.(driver.TypeValidator)
	if !ok {
		s.missing = "check of instance types"
		return
	}
	req := s.request(testOwner)
	verdicts := map[driver.TypeVerdict]bool{}
	for _, arch := range []string{"amd64", "arm64"} {
		verdict, err := v.ValidateInstanceType(s.t.Context(), req.InstanceType, arch)
		if err != nil {
			s.t.Errorf("type %q on %s: %v", req.InstanceType, arch, err)
		}
		if arch == req.Arch && verdict == driver.TypeMismatch {
			s.t.Errorf("type %q does not fit %s, and machines are made of it", req.InstanceType, arch)
		}
		verdicts[verdict] = true
	}
	if verdicts[driver.TypeOK] && !verdicts[driver.TypeMismatch] {
		s.t.Errorf("type %q fits both architectures", req.InstanceType)
	}
}

func (s *suite) leaderNetwork() {
	n, ok := s.Driver.(driver.LeaderNetwork)
	if !ok {
		s.missing = "address of the leader"
		return
	}
	addrs := driver.Addresses{Registration: "192.0.2.1:8992", Operator: "192.0.2.1:8993", Agent: "192.0.2.1:8994", Health: "192.0.2.1:8990"}
	for i := range 2 {
		if err := n.AssignLeaderNetwork(s.t.Context(), addrs); err != nil {
			s.t.Fatalf("assign no. %d: %v", i+1, err)
		}
	}
	s.refusesCancelled("assign-leader-network", func(ctx context.Context) error { return n.AssignLeaderNetwork(ctx, addrs) })
	for i := range 2 {
		if err := n.ReleaseLeaderNetwork(s.t.Context()); err != nil {
			s.t.Errorf("release no. %d: %v", i+1, err)
		}
	}
}

func (s *suite) selfID() {
	self, ok := s.Driver.(driver.SelfIdentifier)
	if !ok {
		s.missing = "way to know its own machine"
		return
	}
	first, err := self.SelfID(s.t.Context())
	again, _ := self.SelfID(s.t.Context())
	if err != nil || first == "" || first != again {
		s.t.Errorf("own id: %q, %v, and then %q", first, err, again)
	}
}

// refusesCancelled checks that a call which is given up before it begins says so.
func (s *suite) refusesCancelled(op string, call func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	err := call(ctx)
	var e *driver.Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &e) {
		s.t.Errorf("%s with a cancelled context: %v, want a driver.Error that wraps context.Canceled", op, err)
	}
}
