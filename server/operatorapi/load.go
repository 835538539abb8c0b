package operatorapi

import (
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/calls"
	"nstance.dev/server/shard"
)

// addLoad adds how the leader of a shard fares: its lease, and its calls to storage and
// provider. The calls are those of all tenants, so they are not for everybody (S12).
func (s *Service) addLoad(info *nstancev1.GetServerInfoResponse, term *shard.Term) {
	if s.opts.Held != nil {
		if doc, ok := s.opts.Held(); ok {
			info.Lease = &nstancev1.Lease{
				RenewedAt: stamp(doc.LastUpdated), ExpiresAt: stamp(doc.LastUpdated.Add(doc.Lease())), Holder: doc.LeaderID,
			}
		}
	}
	if s.opts.Storage != nil {
		info.Storage = callStats(s.opts.Storage())
	}
	info.ProviderCalls = callStats(term.ProviderCalls())
}

func callStats(all []calls.Stat) []*nstancev1.CallStats {
	var out []*nstancev1.CallStats
	for _, c := range all {
		out = append(out, &nstancev1.CallStats{
			Operation: c.Operation, Calls: c.Calls, Errors: c.Errors, Throttled: c.Throttled,
			MeanSeconds: c.Mean.Seconds(), P50Seconds: c.P50.Seconds(), P99Seconds: c.P99.Seconds(),
		})
	}
	return out
}
