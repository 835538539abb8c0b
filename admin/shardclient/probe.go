package shardclient

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Role is what a server is in its shard.
type Role string

// The roles. A server that does not answer has none.
const (
	Leader  Role = "leader"
	Standby Role = "standby"
)

// Probe is what a server at one address answered.
type Probe struct {
	Address string
	Role    Role
	// Leader is the address that a standby names; may be empty.
	Leader string
	// Info is the leader's answer.
	Info *nstancev1.GetServerInfoResponse
	// Took is the time of connecting and asking.
	Took time.Duration
	// Err is why the server has no role.
	Err error
}

// ProbeAll asks each address of a shard once, all at the same time, and those that
// standbys name as leader. The answers are in the order of the addresses. Nothing is
// repeated: the answer is how the shard is now.
func ProbeAll(ctx context.Context, target Target, id *Identity, opts Options) []Probe {
	opts = opts.withDefaults()
	addresses := slices.Clone(target.Addresses)
	if target.LeaderFile != "" {
		if address, err := readLeaderFile(target.LeaderFile); err == nil && !slices.Contains(addresses, address) {
			addresses = append([]string{address}, addresses...)
		}
	}
	probes := probeEach(ctx, target.Shard, addresses, id, opts)
	var named []string
	for _, p := range probes {
		if p.Leader != "" && !slices.Contains(addresses, p.Leader) && !slices.Contains(named, p.Leader) {
			named = append(named, p.Leader)
		}
	}
	return append(probes, probeEach(ctx, target.Shard, named, id, opts)...)
}

func probeEach(ctx context.Context, shard string, addresses []string, id *Identity, opts Options) []Probe {
	probes := make([]Probe, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { probes[i] = probe(ctx, shard, address, id, opts) })
	}
	all.Wait()
	return probes
}

func probe(ctx context.Context, shard, address string, id *Identity, opts Options) Probe {
	started := opts.Now()
	p := Probe{Address: address}
	l, err := newLink(address, id.tlsConfig(shard), opts.DialContext)
	if err == nil {
		defer l.cc.Close()
		err = l.connect(ctx, opts.ConnectTimeout)
	}
	if err == nil {
		err = p.ask(ctx, l.cc, opts.CallTimeout)
	}
	p.Err, p.Took = err, opts.Now().Sub(started)
	return p
}

func (p *Probe) ask(ctx context.Context, cc *grpc.ClientConn, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var trailer metadata.MD
	info, err := nstancev1.NewOperatorServiceClient(cc).GetServerInfo(ctx, &emptypb.Empty{}, grpc.Trailer(&trailer))
	if err == nil {
		p.Role, p.Info = Leader, info
		return nil
	}
	if leader, standby := leaderOf(trailer); standby && status.Code(err) == codes.Unavailable {
		p.Role, p.Leader = Standby, leader
		return nil
	}
	return err
}

// Serving returns the address that served the last call; empty: none has.
func (c *Conn) Serving() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good
}
