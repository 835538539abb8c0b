package balancers_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"nstance.dev/server/balancers"
	"nstance.dev/server/driver"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestPlan(t *testing.T) {
	type known = map[string]balancers.Member
	in, out := balancers.Member{State: balancers.In}, balancers.Member{State: balancers.Out}
	later := epoch.Add(time.Minute)
	register := func(key string) balancers.Step {
		return balancers.Step{Key: key, Op: balancers.Register, Why: "it serves, and its group names the load balancer"}
	}
	deregister := func(key, why string) balancers.Step {
		return balancers.Step{Key: key, Op: balancers.Deregister, Why: why}
	}
	for name, c := range map[string]struct {
		phase balancers.Phase
		keys  []string
		known known
		want  []balancers.Step
		next  time.Time
	}{
		"a machine that waits joins nothing":            {balancers.Waiting, []string{"www"}, nil, nil, time.Time{}},
		"one that serves joins, in the order of keys":   {balancers.Serving, []string{"www", "api"}, nil, []balancers.Step{register("api"), register("www")}, time.Time{}},
		"where it is not yet":                           {balancers.Serving, []string{"www", "api"}, known{"www": in, "api": out}, []balancers.Step{register("api")}, time.Time{}},
		"and stays":                                     {balancers.Serving, []string{"www"}, known{"www": in}, nil, time.Time{}},
		"until its group names others":                  {balancers.Serving, []string{"api"}, known{"api": in, "www": in}, []balancers.Step{deregister("www", "its group does not name the load balancer")}, time.Time{}},
		"a member waits for its agent after a takeover": {balancers.Waiting, []string{"www"}, known{"www": in}, nil, time.Time{}},
		"even where its group names others now":         {balancers.Waiting, []string{"api"}, known{"www": in}, nil, time.Time{}},
		"one that is removed leaves":                    {balancers.Leaving, []string{"www"}, known{"www": in, "old": in}, []balancers.Step{deregister("old", "it is being removed"), deregister("www", "it is being removed")}, time.Time{}},
		"also where nothing is known":                   {balancers.Leaving, []string{"www"}, nil, []balancers.Step{deregister("www", "it is being removed, and may be a member")}, time.Time{}},
		"and not where it is not":                       {balancers.Leaving, []string{"www"}, known{"www": out}, nil, time.Time{}},
		"nothing is done for one that is gone":          {balancers.Gone, []string{"www"}, known{"www": in}, nil, time.Time{}},
		"a call that failed is repeated later": {balancers.Serving, []string{"www", "api"}, known{"www": {Retry: later}, "api": {Retry: later.Add(1)}},
			nil, later},
		"and then": {balancers.Serving, []string{"www"}, known{"www": {Retry: epoch}}, []balancers.Step{register("www")}, time.Time{}},
	} {
		steps, next := balancers.Plan(balancers.Machine{Phase: c.phase, Keys: c.keys}, c.known, epoch)
		if !reflect.DeepEqual(steps, c.want) || !next.Equal(c.next) {
			t.Errorf("%s: %+v, next %v; want %+v, next %v", name, steps, next, c.want, c.next)
		}
	}
}

func TestAfterACall(t *testing.T) {
	down := driver.Fail(driver.Transient, "lb-register", errors.New("down"))
	gone := driver.Fail(driver.NotFound, "lb-deregister", nil)
	m := balancers.Member{}
	for i, pause := range []int{5, 10, 20, 40, 80, 160, 300, 300} {
		m = balancers.After(m, balancers.Register, down, epoch)
		want := balancers.Member{Failures: i + 1, Retry: epoch.Add(time.Duration(pause) * time.Second), Error: down.Error()}
		if m != want {
			t.Errorf("after failure %d: %+v, want %+v", i+1, m, want)
		}
	}
	in, out := balancers.Member{State: balancers.In, Since: epoch}, balancers.Member{State: balancers.Out, Since: epoch}
	if got := balancers.After(m, balancers.Register, nil, epoch); got != in {
		t.Errorf("registered: %+v", got)
	}
	if got := balancers.After(in, balancers.Deregister, nil, epoch); got != out {
		t.Errorf("deregistered: %+v", got)
	}
	if got := balancers.After(in, balancers.Deregister, gone, epoch); got != out {
		t.Errorf("deregistered a machine that is gone: %+v", got)
	}
	if got := balancers.After(balancers.Member{}, balancers.Register, gone, epoch); got.State != balancers.Unknown || got.Retry.IsZero() {
		t.Errorf("registered a machine that is not there yet: %+v, want a retry", got)
	}
}

func TestListed(t *testing.T) {
	const lag = time.Minute
	old, recent := epoch.Add(-2*time.Minute), epoch.Add(-30*time.Second)
	for name, c := range map[string]struct {
		before balancers.Member
		member bool
		want   balancers.Member
	}{
		"a first sight":                        {balancers.Member{}, true, balancers.Member{State: balancers.In, Since: epoch}},
		"somebody took it out":                 {balancers.Member{State: balancers.In, Since: old}, false, balancers.Member{State: balancers.Out, Since: epoch}},
		"somebody put it in":                   {balancers.Member{State: balancers.Out, Since: old}, true, balancers.Member{State: balancers.In, Since: epoch}},
		"it joined just now":                   {balancers.Member{State: balancers.In, Since: recent}, false, balancers.Member{State: balancers.In, Since: recent}},
		"it left just now":                     {balancers.Member{State: balancers.Out, Since: recent}, true, balancers.Member{State: balancers.Out, Since: recent}},
		"as expected":                          {balancers.Member{State: balancers.In, Since: old}, true, balancers.Member{State: balancers.In, Since: old}},
		"it is there although the call failed": {balancers.Member{Failures: 3, Retry: epoch, Error: "down"}, true, balancers.Member{State: balancers.In, Since: epoch}},
	} {
		if got := balancers.Listed(c.before, c.member, epoch, lag); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
