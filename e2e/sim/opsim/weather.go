package opsim

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nstance.dev/operator/testworld/apiserver"
)

// Faults of the API server that may hit a single call or watch of the operator, as a
// plan's weather names them. What lasts for a while is an event instead.
const (
	apiConflict = "api-conflict" // 409
	apiBusy     = "api-busy"     // 429
	apiBroken   = "api-broken"   // 500, before or without an effect
	apiLost     = "api-lost"     // done, and the answer lost
	apiSlow     = "api-slow"     // up to 5 s
	apiExpired  = "api-expired"  // 410 for a watch
	watchBreaks = "watch-breaks" // instead of an event
	watchLags   = "watch-lags"   // up to 10 s
)

// kinds are all of them, with the highest likelihood that makes sense.
var kinds = map[string]float64{
	apiConflict: 0.1, apiBusy: 0.1, apiBroken: 0.1, apiLost: 0.1, apiSlow: 0.1, apiExpired: 0.3, watchBreaks: 0.05, watchLags: 0.1,
}

// weather hits the calls of the operator; those of the models behind it are only slow.
type weather struct{ g *guest }

// Call implements [apiserver.Faults].
func (w weather) Call(c apiserver.Call) apiserver.Fault {
	what := c.String()
	n := w.g.Nth(what)
	f := apiserver.Fault{Latency: w.g.Between(time.Millisecond, 10*time.Millisecond, what, n)}
	w.g.Event("call %d: %s", n, what)
	hits := func(kind string) bool { return w.g.Hits(kind, what, n) }
	resource := schema.GroupResource{Resource: c.Kind}
	writes := c.Verb != "get" && c.Verb != "list" && c.Verb != "watch"
	switch {
	case c.By != operator && c.By != operator+"'s cache":
	case hits(apiBusy):
		f.Before = apierrors.NewTooManyRequests("as the plan wants", 1)
	case hits(apiBroken):
		f.Before = apierrors.NewInternalError(errPlan)
	case c.Verb == "watch" && hits(apiExpired):
		f.Before = apiserver.ErrGone
	case hits(apiSlow):
		f.Latency += w.g.Between(0, 5*time.Second, what, n, "slow")
	case writes && hits(apiConflict):
		f.Before = apierrors.NewConflict(resource, c.Name, errPlan)
	case writes && hits(apiLost):
		f.After = apierrors.NewInternalError(errPlan)
	}
	return f
}

// Lag implements [apiserver.Faults].
func (w weather) Lag(by, kind string, n int) (time.Duration, bool) {
	what := by + " sees " + kind
	lag := w.g.Between(time.Millisecond, 20*time.Millisecond, what, n)
	w.g.Event("event %d: %s", n, what)
	if w.g.Hits(watchLags, what, n) {
		lag += w.g.Between(0, 10*time.Second, what, n, "lags")
	}
	return lag, w.g.Hits(watchBreaks, what, n)
}

var errPlan = errors.New("as the plan wants")
