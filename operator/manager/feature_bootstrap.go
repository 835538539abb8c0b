package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/jointoken"
	"nstance.dev/operator/demand/bootstrap"
	"nstance.dev/operator/metrics"
)

// bootstrapFeature follows the template of what makes machines join, in demand mode.
var bootstrapFeature = feature{
	name: "bootstrap of machines",
	on:   func(s config.Settings) bool { return s.Demand.Enabled },
	objects: func(_ context.Context, w wiring) error {
		return w.mgr.Add(manager.RunnableFunc(w.joining.renderer.Run))
	},
}

// joinTokenFeature keeps a token with which machines join the cluster, while the template calls
// for one. It neither reads nor lists: who can read what it may create has the tokens of all
// service accounts of kube-system.
var joinTokenFeature = feature{
	name:   "join tokens",
	on:     func(s config.Settings) bool { return s.Demand.MakesJoinTokens() },
	rights: []Right{to("create delete", SystemOfWorkload, core, "secrets")},
	nodes: func(ctx context.Context, w wiring) error {
		present := w.config()
		keeper := jointoken.New(jointoken.Options{
			Client: w.workload.GetClient(), ClusterID: present.ClusterID, Tenant: present.Tenant,
			Life: w.settings.Demand.Bootstrap.JoinTokenLife, Groups: w.settings.Demand.Bootstrap.JoinTokenGroups,
			Wanted: w.joining.renderer.UsesToken,
			Made: func(until time.Time, err error) {
				w.joining.metrics.JoinToken(until, err)
				if err != nil {
					w.notices.warn(ctx, "JoinTokenFailed", "Renew", "machines cannot join the cluster with a new token: %v", err)
				}
			},
			Log: w.notices.log,
		})
		w.joining.tokens.Store(keeper)
		return w.mgr.Add(keeper)
	},
}

// joining is what makes machines join the cluster, in demand mode.
type joining struct {
	renderer *bootstrap.Renderer
	metrics  *metrics.Bootstrap
	tokens   atomic.Pointer[jointoken.Keeper] // nil: there is none, or this is not the leader
}

// newJoining reads the template: every replica fails at its start where that cannot be used. It
// returns nil where demand mode is off.
func newJoining(s config.Settings, c config.Config, log *slog.Logger) (*joining, error) {
	if !s.Demand.Enabled {
		return nil, nil
	}
	j := &joining{metrics: metrics.NewBootstrap(ctrlmetrics.Registry)}
	renderer, err := bootstrap.New(bootstrap.Options{
		File: s.Demand.Bootstrap.TemplateFile, ClusterID: c.ClusterID, Tenant: c.Tenant, Token: j.token, Log: log,
		Observer: bootstrap.Observer{Rendered: j.metrics.Rendered, Reloaded: j.metrics.Reloaded, Rejected: j.metrics.Rejected},
	})
	if err != nil {
		return nil, fmt.Errorf("bootstrap of machines: %w", err)
	}
	j.renderer = renderer
	return j, nil
}

func (j *joining) token() (string, time.Time, error) {
	if keeper := j.tokens.Load(); keeper != nil {
		return keeper.Token()
	}
	return "", time.Time{}, errors.New("the operator makes no join tokens: see --demand-join-token-life")
}
