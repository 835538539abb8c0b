package dashboards_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nstance.dev/e2e/env/panels"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// firing are the alerts about servers that fire at a time.
func firing(t *testing.T, s *panels.Samples, at time.Time) []string {
	t.Helper()
	fire := []string{}
	for _, rule := range read(t, "docs/alerts.yaml").panels {
		fires, err := s.Fires(t.Context(), rule, at)
		if err != nil {
			t.Fatal(err)
		}
		if fires {
			fire = append(fire, rule.Title)
		}
	}
	slices.Sort(fire)
	return fire
}

// scraped is what Prometheus has after so many minutes in which servers say each minute what says returns, by their
// names, and the time of the last scrape.
func scraped(t *testing.T, minutes int, says func(minute int) map[string]string) (s *panels.Samples, at time.Time) {
	t.Helper()
	s = &panels.Samples{}
	for m := range minutes {
		at = start.Add(time.Duration(m) * time.Minute)
		for instance, text := range says(m) {
			// A target of Kubernetes has more labels than job and instance.
			if err := s.Add(map[string]string{"job": "nstance", "instance": instance, "pod": "server-" + instance}, text, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, at
}

// electors are the servers of a shard, as far as they campaign for its lock, and a Prometheus that scrapes
// those that it reaches.
type electors struct {
	t       *testing.T
	store   *memory.Store
	scraped map[string]*elector
	samples panels.Samples
}

type elector struct {
	*lease.Elector
	registry *prometheus.Registry
	end      func()
}

// start starts a server.
func (s *electors) start(id string) *elector {
	s.t.Helper()
	e, err := lease.New(s.store, "leader/a.json", lease.Options{
		ID: id, Log: slog.New(slog.DiscardHandler), NothingStored: func(context.Context) (bool, error) { return true, nil },
		OnAcquire: func(ctx context.Context, _ uint64) { <-ctx.Done() },
		Elapsed:   func() time.Duration { return time.Since(start2000) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Metrics("example", "a"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	one := &elector{e, registry, func() { cancel(); <-done }}
	s.scraped[id] = one
	return one
}

// start2000 is when the clock of a bubble begins.
var start2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// pass has time go by, with a scrape every half a minute.
func (s *electors) pass(d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for id, one := range s.scraped {
			answer := httptest.NewRecorder()
			promhttp.HandlerFor(one.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if err := s.samples.Add(map[string]string{"instance": id}, answer.Body.String(), time.Now()); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// gone ends a server that nobody scrapes any more.
func (s *electors) gone(id string) {
	s.scraped[id].end()
	delete(s.scraped, id)
}

// TestAlertsAboutTheLease: what happens to two servers of a shard, of which a leads at first, and what
// fires in the end.
func TestAlertsAboutTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(s *electors, a, b *elector)
		want    []string
	}{
		"all is well": {func(s *electors, _, _ *elector) { s.pass(30 * time.Minute) }, nil},
		"the standby takes over": {func(s *electors, _, _ *elector) {
			s.gone("a")
			s.pass(5 * time.Minute)
		}, nil},
		"the leader is not scraped": {func(s *electors, a, _ *elector) {
			delete(s.scraped, "a")
			s.pass(30 * time.Minute)
			a.end()
		}, nil},
		"the standby is gone": {func(s *electors, _, _ *elector) {
			s.gone("b")
			s.pass(30 * time.Minute)
		}, nil},
		"all are gone": {func(s *electors, _, _ *elector) {
			s.gone("a")
			s.gone("b")
			s.pass(15 * time.Minute)
		}, []string{"NstanceNobodyLeads"}},
		"the storage is away": {func(s *electors, _, _ *elector) {
			s.store.Down(true)
			s.pass(15 * time.Minute)
		}, []string{"NstanceLeaseRenewedLate", "NstanceNobodyLeads"}},
		"the storage is back": {func(s *electors, _, _ *elector) {
			s.store.Down(true)
			s.pass(15 * time.Minute)
			s.store.Down(false)
			s.pass(6 * time.Minute)
		}, nil},
		"renewals are refused for ten seconds each": {func(s *electors, _, _ *elector) {
			last := time.Now()
			s.store.SetFaults(func(c memory.Call) memory.Fault {
				if c.Op == memory.OpPut && time.Since(last) < 10500*time.Millisecond {
					return memory.Fault{Before: objectstore.ErrThrottled}
				}
				if c.Op == memory.OpPut {
					last = time.Now()
				}
				return memory.Fault{}
			})
			s.pass(20 * time.Minute)
		}, []string{"NstanceLeaseRenewedLate"}},
		"they lead in turns": {func(s *electors, a, b *elector) {
			for range 2 {
				for _, leader := range []*elector{a, b} {
					if err := leader.Resign(s.t.Context(), time.Minute); err != nil {
						s.t.Error(err)
					}
					s.pass(5 * time.Minute)
				}
			}
		}, []string{"NstanceLeaderChanges"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &electors{t: t, store: memory.New(memory.Options{}), scraped: map[string]*elector{}}
				a := s.start("a")
				s.pass(time.Minute)
				b := s.start("b")
				s.pass(10 * time.Minute)
				if fire := firing(t, &s.samples, time.Now()); !a.IsLeader() || len(fire) > 0 {
					t.Fatalf("a leads: %t; %v fire before anything happened", a.IsLeader(), fire)
				}
				test.happens(s, a, b)
				if fire := firing(t, &s.samples, time.Now()); !slices.Equal(fire, slices.Sorted(slices.Values(test.want))) {
					t.Errorf("%v fire, want %v", fire, test.want)
				}
				s.store.Down(false)
				for id := range s.scraped {
					s.gone(id)
				}
			})
		})
	}
}

// TestTheAlertAboutTheAuthority: it fires a year and a month before the end, and for as long as one server signs with the old one.
func TestTheAlertAboutTheAuthority(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		left [2]time.Duration // of the certificate of each server
		want []string
	}{
		"years are left":             {[2]time.Duration{3650 * day, 3650 * day}, []string{}},
		"a year and more is left":    {[2]time.Duration{401 * day, 401 * day}, []string{}},
		"a year is left":             {[2]time.Duration{399 * day, 399 * day}, []string{"NstanceAuthorityEnds"}},
		"one has started since then": {[2]time.Duration{399 * day, 3650 * day}, []string{"NstanceAuthorityEnds"}},
		"it has ended":               {[2]time.Duration{-day, -day}, []string{"NstanceAuthorityEnds"}},
	} {
		s, at := scraped(t, 21, func(int) map[string]string {
			servers := map[string]string{}
			for i, left := range test.left {
				servers[fmt.Sprint(i)] = fmt.Sprintf("nstance_authority_end_timestamp_seconds{cluster=\"example\"} %d\n", start.Add(left).Unix())
			}
			return servers
		})
		if fire := firing(t, s, at); !slices.Equal(fire, test.want) {
			t.Errorf("%s: %v fire, want %v", name, fire, test.want)
		}
	}
}

// TestAlertsAboutThrottlingAndVerdicts: over what a leader and a standby say each minute, for forty minutes.
func TestAlertsAboutThrottlingAndVerdicts(t *testing.T) {
	const calm = `nstance_storage_calls_total{operation="put",outcome="answered"} %[1]d000
nstance_storage_calls_total{operation="put",outcome="throttled"} 3
nstance_provider_call_seconds_count{operation="create"} %[1]d00
nstance_provider_errors_total{operation="create",class="throttled"} 3
nstance_provider_errors_total{operation="create",class="capacity"} 3
nstance_provider_wait_seconds_sum{operation="create"} %[1]d0
nstance_provider_wait_seconds_count{operation="create"} %[1]d00
`
	const well = "nstance_verdicts_suspended 0\n"
	for name, test := range map[string]struct {
		leader func(minute int) string
		want   []string
	}{
		"all is well, three calls were refused": {func(m int) string { return fmt.Sprintf(calm, m) + well }, nil},
		"the storage refuses one call in fifty": {func(m int) string {
			return fmt.Sprintf("nstance_storage_calls_total{operation=\"put\",outcome=\"answered\"} %d\nnstance_storage_calls_total{operation=\"put\",outcome=\"throttled\"} %d\n", 49*m, m) + well
		}, []string{"NstanceStorageThrottles"}},
		"the storage fails": {func(m int) string {
			return fmt.Sprintf("nstance_storage_calls_total{operation=\"put\",outcome=\"failed\"} %d\nnstance_storage_calls_total{operation=\"put\",outcome=\"throttled\"} 0\n", 50*m) + well
		}, nil},
		"the provider refuses every tenth call as one too many": {func(m int) string {
			return fmt.Sprintf("nstance_provider_call_seconds_count{operation=\"create\"} %d\nnstance_provider_errors_total{operation=\"create\",class=\"throttled\"} %d\n", 100*m, 10*m) + well
		}, []string{"NstanceProviderThrottles"}},
		"the provider has no room": {func(m int) string {
			return fmt.Sprintf("nstance_provider_call_seconds_count{operation=\"create\"} %d\nnstance_provider_errors_total{operation=\"create\",class=\"capacity\"} %d\n", 100*m, 10*m) + well
		}, []string{"NstanceProviderErrors"}},
		"each listing of a quiet shard is refused": {func(m int) string {
			return fmt.Sprintf("nstance_provider_call_seconds_count{operation=\"list\"} %[1]d\nnstance_provider_errors_total{operation=\"list\",class=\"auth\"} %[1]d\n", m/2) + well
		}, []string{"NstanceProviderErrors"}},
		"one listing in five of a quiet shard fails": {func(m int) string {
			return fmt.Sprintf("nstance_provider_call_seconds_count{operation=\"list\"} %d\nnstance_provider_errors_total{operation=\"list\",class=\"transient\"} %d\n", m/2, m/10) + well
		}, nil},
		"calls wait for the server's own limits": {func(m int) string {
			return fmt.Sprintf("nstance_provider_wait_seconds_sum{operation=\"delete\"} %d\nnstance_provider_wait_seconds_count{operation=\"delete\"} %d\n", 1100*m, 100*m) + well
		}, []string{"NstanceProviderCallsWait"}},
		"verdicts are suspended": {func(m int) string { return fmt.Sprintf(calm, m) + "nstance_verdicts_suspended 1\n" }, []string{"NstanceVerdictsSuspended"}},
		"verdicts were suspended": {func(m int) string {
			return fmt.Sprintf("nstance_verdicts_suspended %d\n", map[bool]int{true: 1}[m < 39])
		}, nil},
	} {
		s, at := scraped(t, 41, func(m int) map[string]string {
			return map[string]string{"leads": test.leader(m), "waits": "nstance_storage_calls_total{operation=\"put\",outcome=\"throttled\"} 0\n"}
		})
		if fire := firing(t, s, at); !slices.Equal(fire, test.want) {
			t.Errorf("%s: %v fire, want %v", name, fire, test.want)
		}
	}
}

// TestAlertsAboutOneOfSeveralShards: what a shard lacks is not made up for by what another has.
func TestAlertsAboutOneOfSeveralShards(t *testing.T) {
	const wants = `nstance_group_size{tenant="default",group="web"} 10
nstance_demand_needs{cluster="example"} 3
`
	const well = wants + `nstance_instances{tenant="default",group="web",status="running"} 10
nstance_demand_sessions 1
`
	for name, test := range map[string]struct {
		leaders map[string]string
		want    []string
	}{
		"all is well": {map[string]string{"a": well, "b": well, "standby": "nstance_demand_sessions 0\n"}, []string{}},
		"one has fewer, the other more": {map[string]string{
			"a": wants + "nstance_instances{tenant=\"default\",group=\"web\",status=\"running\"} 9\nnstance_demand_sessions 1\n",
			"b": wants + "nstance_instances{tenant=\"default\",group=\"web\",status=\"running\"} 11\nnstance_demand_sessions 1\n",
		}, []string{"NstanceGroupNotAtSize"}},
		"one has none": {map[string]string{"a": wants + "nstance_demand_sessions 1\n", "b": well}, []string{"NstanceGroupNotAtSize"}},
		"no operator is connected to one": {map[string]string{
			"a": wants + "nstance_instances{tenant=\"default\",group=\"web\",status=\"running\"} 10\nnstance_demand_sessions 0\n", "b": well,
		}, []string{"NstanceDemandWithoutOperator"}},
	} {
		s, at := scraped(t, 31, func(int) map[string]string { return test.leaders })
		if fire := firing(t, s, at); !slices.Equal(fire, test.want) {
			t.Errorf("%s: %v fire, want %v", name, fire, test.want)
		}
	}
}

// TestTheAlertAboutARollupThatIsHeld: it fires where a scrape falls into the 20 seconds, and where none does.
func TestTheAlertAboutARollupThatIsHeld(t *testing.T) {
	for name, test := range map[string]struct {
		leader func(minute int) (held, counted int)
		want   []string
	}{
		"none was held":                      {func(int) (int, int) { return 0, 0 }, []string{}},
		"one is held":                        {func(m int) (int, int) { return m / 30, m / 30 }, []string{"NstanceDemandRollupHeld"}},
		"one was held between two scrapes":   {func(m int) (int, int) { return 0, 2 * (m / 28) }, []string{"NstanceDemandRollupHeld"}},
		"one was held twenty minutes before": {func(m int) (int, int) { return 0, 2 * min(m/10, 1) }, []string{}},
	} {
		s, at := scraped(t, 31, func(m int) map[string]string {
			held, counted := test.leader(m)
			return map[string]string{"leads": fmt.Sprintf("nstance_demand_rollup_quarantined{tenant=\"default\"} %d\nnstance_demand_rollups_total{tenant=\"default\",outcome=\"accepted\"} %d\n"+
				"nstance_demand_rollups_total{tenant=\"default\",outcome=\"held\"} %d\n", held, 6*m, counted)}
		})
		if fire := firing(t, s, at); !slices.Equal(fire, test.want) {
			t.Errorf("%s: %v fire, want %v", name, fire, test.want)
		}
	}
}

// TestAlertsAboutOneThrottledShard: what is refused to a small shard, or waits in it, does not drown in the calls of ten busy
// ones, and the alert names its server.
func TestAlertsAboutOneThrottledShard(t *testing.T) {
	const busy = `nstance_storage_calls_total{operation="put",outcome="answered"} %[1]d000
nstance_storage_calls_total{operation="put",outcome="throttled"} 0
nstance_provider_call_seconds_count{operation="create"} %[1]d00
nstance_provider_errors_total{operation="create",class="throttled"} 0
nstance_provider_wait_seconds_sum{operation="create"} %[1]d0
nstance_provider_wait_seconds_count{operation="create"} %[1]d00
`
	const calls = `nstance_provider_call_seconds_count{operation="create"} %d
nstance_provider_errors_total{operation="create",class="throttled"} %d
`
	for name, test := range map[string]struct {
		small func(minute int) string
		want  []string
	}{
		"all is well": {func(m int) string { return fmt.Sprintf(calls, 3*m, 0) }, nil},
		"one call was refused": {func(m int) string {
			return fmt.Sprintf(calls, 3*m, map[bool]int{true: 1}[m > 30])
		}, nil},
		"the provider refuses every third of few calls": {func(m int) string { return fmt.Sprintf(calls, 3*m, m) }, []string{"NstanceProviderThrottles"}},
		"few calls wait for long": {func(m int) string {
			return fmt.Sprintf("nstance_provider_wait_seconds_sum{operation=\"create\"} %d\nnstance_provider_wait_seconds_count{operation=\"create\"} %d\n", 60*m, 3*m)
		}, []string{"NstanceProviderCallsWait"}},
		"the storage refuses every third of few calls": {func(m int) string {
			return fmt.Sprintf("nstance_storage_calls_total{operation=\"put\",outcome=\"answered\"} %d\nnstance_storage_calls_total{operation=\"put\",outcome=\"throttled\"} %d\n", 2*m, m)
		}, []string{"NstanceStorageThrottles"}},
	} {
		s, at := scraped(t, 41, func(m int) map[string]string {
			servers := map[string]string{"small": test.small(m)}
			for i := range 10 {
				servers[fmt.Sprint("busy-", i)] = fmt.Sprintf(busy, m)
			}
			return servers
		})
		if fire := firing(t, s, at); !slices.Equal(fire, test.want) {
			t.Errorf("%s: %v fire, want %v", name, fire, test.want)
		}
		for _, rule := range read(t, "docs/alerts.yaml").panels {
			if !slices.Contains(test.want, rule.Title) {
				continue
			}
			found, err := s.Query(t.Context(), rule.Queries[0], at)
			if err != nil || len(found) != 1 || found[0].Metric.Get("instance") != "small" {
				t.Errorf("%s: %s is about %v, %v; want the small one alone", name, rule.Title, found, err)
			}
		}
	}
}
