package shards

import (
	"context"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// connect finds the leader of the shard: at the address that served last, at those of the
// configuration, or where a standby points to. If there is none, the error is the one that
// says most; see [telling].
func (s *Shard) connect(ctx context.Context, more ...grpc.DialOption) (*session, error) {
	queue := s.addresses()
	followed := false
	var tried []string
	var worst error
	for len(queue) > 0 && ctx.Err() == nil {
		address := queue[0]
		queue = queue[1:]
		if slices.Contains(tried, address) {
			continue
		}
		tried = append(tried, address)
		next, trailer, err := s.probe(ctx, address, more)
		if err == nil {
			return next, nil
		}
		if worst == nil || telling(err) > telling(worst) {
			worst = fmt.Errorf("%s: %w", address, err)
		}
		if leader := leaderOf(trailer); leader != "" && !followed {
			followed = true // once: two servers that take each other for the leader must not keep us running
			queue = append([]string{leader}, queue...)
		}
	}
	if worst == nil {
		worst = context.Cause(ctx)
	}
	return nil, worst
}

// telling ranks what is heard at the addresses of a shard. One that is not of the shard
// says little while another is: then nobody leads, which passes.
func telling(err error) int {
	switch class, reason := Classify(err); {
	case reason == reasonNotLeader:
		return 2
	case class == Mismatch:
		return 1
	case class == Unavailable:
		return 0
	}
	return 3
}

// probe asks the server at an address who it is.
func (s *Shard) probe(ctx context.Context, address string, more []grpc.DialOption) (*session, metadata.MD, error) {
	cc, why, err := Dial(address, identity.ServerName(s.name, s.opts.Cluster), s.opts.Credentials, s.opts.Dial, append(tracing(s.opts.Traces), more...)...)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, methodGetServerInfo.timeout)
	defer cancel()
	var trailer metadata.MD
	info, err := nstancev1.NewOperatorServiceClient(cc).GetServerInfo(ctx, &emptypb.Empty{}, grpc.Trailer(&trailer))
	class, _ := Classify(err)
	switch {
	case err != nil && class == Unimplemented:
		info = nil // the server's name in its certificate has to suffice
	case err != nil:
		_ = cc.Close()
		return nil, trailer, why.Of(err)
	case info.GetClusterId() != s.opts.Cluster || info.GetShard() != s.name:
		_ = cc.Close()
		return nil, nil, fmt.Errorf("%w: it is %.64q of cluster %.64q", errMismatch, info.GetShard(), info.GetClusterId())
	}
	return newSession(cc, why, address, info), nil, nil
}

// leaderOf returns the address in a standby's trailer, "" if there is none that can be one.
func leaderOf(trailer metadata.MD) string {
	values := trailer.Get(identity.LeaderTrailer)
	if len(values) != 1 {
		return ""
	}
	if host, port, err := net.SplitHostPort(values[0]); err != nil || host == "" || port == "" {
		return ""
	}
	return values[0]
}
