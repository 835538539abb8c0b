// Package operatorapi is the operators' API of a shard in the messages of the wire contract:
// groups, instances, status, explain, plan, watch.
//
// What a call does is a method of [shard.Requests], in plain types; [Of] gives a leader's term
// the same calls in messages. [Service] is the service of gRPC on top of that: it takes the
// tenant from the certificate of a [Caller], whom package rpc has let in, and leaves what
// concerns the whole shard to administrators. It decides nothing else. Errors are those of
// package refusal, which rpc turns into gRPC's.
package operatorapi

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/server/shard"
)

// Leader answers operators for one leader's term. A tenant is the caller's: what belongs to
// another one does not exist (S12). It is safe for concurrent use.
type Leader struct {
	term *shard.Term
}

// Of returns the API of a term.
func Of(term *shard.Term) Leader { return Leader{term} }

// stamp is a moment in the words of the API, nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func count32(n int) int32 { return int32(max(math.MinInt32, min(n, math.MaxInt32))) }
