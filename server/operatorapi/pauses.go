package operatorapi

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// SetPause is [shard.Requests.SetPause].
func (l Leader) SetPause(ctx context.Context, tenant string, req *nstancev1.SetPauseRequest) (*nstancev1.Pause, error) {
	p := groupfile.Pause{Scope: req.Scope, Group: req.Group, Reason: req.Reason}
	if req.Until != nil {
		p.Until = &document.Time{Time: req.Until.AsTime()}
	}
	p, err := l.term.Requests().SetPause(ctx, tenant, p)
	if err != nil {
		return nil, err
	}
	return pauseStatus(p), nil
}

// ClearPause is [shard.Requests.ClearPause].
func (l Leader) ClearPause(ctx context.Context, tenant string, req *nstancev1.ClearPauseRequest) error {
	return l.term.Requests().ClearPause(ctx, tenant, req.Scope, req.Group)
}

// pauseStatus is a pause in the words of the API.
func pauseStatus(p groupfile.Pause) *nstancev1.Pause {
	out := &nstancev1.Pause{Scope: p.Scope, Group: p.Group, Reason: p.Reason}
	if p.Until != nil {
		out.Until = timestamppb.New(p.Until.Time)
	}
	if p.Since != nil {
		out.Since = timestamppb.New(p.Since.Time)
	}
	return out
}
