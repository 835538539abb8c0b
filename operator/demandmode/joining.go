package demandmode

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/jointoken"
	"nstance.dev/operator/demand/bootstrap"
	"nstance.dev/operator/metrics"
)

// Joining is what makes machines join the cluster: the template, and the token that it calls for.
type Joining struct {
	*bootstrap.Renderer

	metrics *metrics.Bootstrap
	tokens  atomic.Pointer[jointoken.Keeper] // nil: there is none, or this is not the leader
}

// NewJoining reads the template: each replica fails at its start where that cannot be used. It
// returns nil where demand mode is off.
func NewJoining(s config.Settings, c config.Config, registry prometheus.Registerer, log *slog.Logger) (*Joining, error) {
	if !s.Demand.Enabled {
		return nil, nil
	}
	j := &Joining{metrics: metrics.NewBootstrap(registry)}
	renderer, err := bootstrap.New(bootstrap.Options{
		File: s.Demand.Bootstrap.TemplateFile, ClusterID: c.ClusterID, Tenant: c.Tenant, Token: j.token, Log: log,
		Observer: bootstrap.Observer{Rendered: j.metrics.Rendered, Reloaded: j.metrics.Reloaded, Rejected: j.metrics.Rejected},
	})
	if err != nil {
		return nil, fmt.Errorf("bootstrap of machines: %w", err)
	}
	j.Renderer = renderer
	return j, nil
}

// Keep returns what keeps a token in the workload cluster while the template calls for one; from
// now on the template gets it. failed hears of each token that could not be made.
func (j *Joining) Keep(s config.Settings, c config.Config, workload client.Writer, failed func(error), log *slog.Logger) *jointoken.Keeper {
	keeper := jointoken.New(jointoken.Options{
		Client: workload, ClusterID: c.ClusterID, Tenant: c.Tenant,
		Life: s.Demand.Bootstrap.JoinTokenLife, Groups: s.Demand.Bootstrap.JoinTokenGroups, Wanted: j.UsesToken,
		Made: func(until time.Time, err error) {
			j.metrics.JoinToken(until, err)
			if err != nil {
				failed(err)
			}
		},
		Log: log,
	})
	j.tokens.Store(keeper)
	return keeper
}

func (j *Joining) token() (string, time.Time, error) {
	if keeper := j.tokens.Load(); keeper != nil {
		return keeper.Token()
	}
	return "", time.Time{}, errors.New("the operator makes no join tokens: see --demand-join-token-life")
}
