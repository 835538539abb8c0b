package demandbench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim"
)

// soak is a world with a load that does not change: in every minute a twentieth of the Pods is deleted,
// and made again by their controllers.
type soak struct {
	clusters, services, tiny int // Pods of each cluster; a service fills a machine
	length                   time.Duration
}

// quietAfter is how long its machines may take to come.
const quietAfter = 10 * time.Minute

// G16: 24 hours of 2,000 machines of 20 clusters, in cycles of ten seconds, of which a boot takes three.
var day = soak{clusters: 20, services: 95, tiny: 55, length: 24 * time.Hour}

func (s soak) plan() sim.Plan {
	p := sim.Plan{Settings: map[string]string{
		"clusters": strconv.Itoa(s.clusters), "boot": "30s", "tick": "10s", "length": (quietAfter + s.length).String(),
	}}
	each := func(at time.Duration, verb string, args ...string) {
		for c := range s.clusters {
			p.Events = append(p.Events, sim.Event{At: at, Verb: verb, Args: append([]string{"cluster-" + string(rune('a'+c))}, args...)})
		}
	}
	each(time.Minute, "set", "service", "api", strconv.Itoa(s.services))
	each(time.Minute, "set", "tiny", "web", strconv.Itoa(s.tiny))
	for at := quietAfter; at < quietAfter+s.length; at += time.Minute {
		each(at, "churn", strconv.Itoa((s.services+s.tiny+19)/20))
	}
	return p
}

// soaked is what came of one.
type soaked struct {
	took             time.Duration
	machines         int
	churned          int
	bought, reclaims int // while nothing that is asked for changed
	broken           int // promises
}

func (s soak) run() (soaked, error) {
	plan := s.plan()
	from := time.Now()
	result := demandsim.Run(plan, sim.Options{})
	out := soaked{took: time.Since(from), broken: len(result.Violations)}
	for _, text := range result.Log {
		var line struct {
			Kind string
			T    int64
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return soaked{}, fmt.Errorf("line of a trace: %w", err)
		}
		quiet := line.T >= quietAfter.Milliseconds()
		switch {
		case line.Kind == "churned":
			out.churned++
		case line.Kind == "provision" && !quiet:
			out.machines++
		case line.Kind == "provision":
			out.bought++
		case line.Kind == "reclaim" && quiet:
			out.reclaims++
		}
	}
	return out, nil
}

// Nothing that is asked for changes, so that no machine is surplus, and none is missing: a machine that
// is given back, or bought, is one too many. Goal: none of either, within 5 minutes.
func measureSoak(context.Context, bench.Env) ([]bench.Row, error) {
	c := calibrate()
	s, err := day.run()
	if err != nil {
		return nil, err
	}
	row := c.or(calibrate()).cost(fmt.Sprintf("24 hours of %d machines, %d Pods replaced", s.machines, s.churned), "s", s.took.Seconds(), 300)
	switch {
	case s.broken > 0:
		row.Broken = fmt.Sprintf("%d promises were broken", s.broken)
	case s.bought+s.reclaims > 0:
		row.Broken = fmt.Sprintf("%d machines were bought and %d given back at a steady load", s.bought, s.reclaims)
	}
	return []bench.Row{row}, nil
}

// G17: machines that are bought where a boot takes its time, for one that is bought where it takes none.
//
// Goal: 1.00 with boots of 0, 30, 60 and 300 seconds.
func measureOverBuy(context.Context, bench.Env) ([]bench.Row, error) {
	var instant float64
	worst, at := 0.0, ""
	for _, boot := range []string{"0s", "30s", "1m", "5m"} {
		plan := sim.Plan{
			Settings: map[string]string{"length": "1h", "boot": boot, "clusters": "2"},
			Events: []sim.Event{
				{At: time.Minute, Verb: "set", Args: []string{"cluster-a", "service", "api", "60"}},
				{At: time.Minute, Verb: "set", Args: []string{"cluster-a", "tiny", "web", "90"}},
				{At: time.Minute, Verb: "set", Args: []string{"cluster-b", "racked", "db", "6"}},
				{At: time.Minute, Verb: "set", Args: []string{"cluster-b", "gpu", "infer", "20"}},
				{At: 20 * time.Minute, Verb: "scale", Args: []string{"cluster-a", "api", "90"}},
			},
		}
		made := float64(demandsim.Run(plan, sim.Options{}).Made)
		if boot == "0s" {
			instant = made
		}
		if factor := made / instant; factor > worst {
			worst, at = factor, boot
		}
	}
	if instant == 0 {
		return nil, fmt.Errorf("no machine was bought")
	}
	return []bench.Row{amount(fmt.Sprintf("machines bought for one that is needed, worst at a boot of %s", at), "1", worst, 1)}, nil
}
