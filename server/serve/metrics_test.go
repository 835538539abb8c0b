package serve

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/config"
	"nstance.dev/server/configsource"
	"nstance.dev/server/keyring"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/rpc"
	"nstance.dev/server/shard"
)

// listing is a registerer that keeps what it is given.
type listing struct {
	prometheus.Registerer
	all []prometheus.Collector
}

func (l *listing) MustRegister(cs ...prometheus.Collector) { l.all = append(l.all, cs...) }

func (l *listing) Register(c prometheus.Collector) error {
	l.all = append(l.all, c)
	return nil
}

var described = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// labels are all that our metrics may have. Each has few values, or as many as
// there are groups; none names an instance, an address or a text of others.
var labels = []string{"action", "capacity_type", "cause", "class", "condition", "disposition", "group", "held_by", "kind", "operation", "outcome", "phase", "result", "role", "seconds", "sign", "state", "status", "tenant"}

var goodName = regexp.MustCompile(`^nstance(_[a-z][a-z0-9]*)+$`)

// TestS22_MetricNamesAndLabels: names begin with ours, are in snake case and say
// their unit; counters end in _total, and labels are bounded.
func TestS22_MetricNamesAndLabels(t *testing.T) {
	l := &listing{}
	m := shard.NewMetrics(l)
	rpc.NewMetrics(l)
	shard.New(shard.Options{Metrics: m}, config.Version{})
	l.MustRegister(newStorageCalls())
	elector, err := lease.New(memory.New(memory.Options{}), "leader/a.json", lease.Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	l.MustRegister(elector.Metrics("c", "a"))
	keys := &keyring.Keyring{}
	l.MustRegister(keys.Metric())
	l.MustRegister(configsource.New(nil, configsource.Options{}).Metric())
	seen := map[string]bool{}
	for _, c := range l.all {
		for _, found := range describe(c) {
			name, help, given := found[1], found[2], found[3]
			if !strings.HasPrefix(name, "nstance_") {
				continue // of the gRPC library
			}
			seen[name] = true
			if !goodName.MatchString(name) || !strings.HasSuffix(help, ".") {
				t.Errorf("%s: name or help (%q) is not in the form of the others", name, help)
			}
			for _, label := range strings.FieldsFunc(given, func(r rune) bool { return r == ',' }) {
				if !slices.Contains(labels, label) {
					t.Errorf("S22: %s has the label %q, which is not among the bounded ones", name, label)
				}
			}
			checkUnit(t, name, c)
		}
	}
	if len(seen) < 20 {
		t.Fatalf("%d metrics found: the test looks in the wrong place", len(seen))
	}
}

func describe(c prometheus.Collector) [][]string {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	var all [][]string
	for d := range descs {
		if found := described.FindStringSubmatch(d.String()); found != nil {
			all = append(all, found)
		}
	}
	return all
}

// checkUnit says whether the name ends as its kind asks.
func checkUnit(t *testing.T, name string, c prometheus.Collector) {
	t.Helper()
	total := strings.HasSuffix(name, "_total")
	switch c.(type) {
	case *prometheus.CounterVec:
		if !total {
			t.Errorf("%s counts and does not end in _total", name)
		}
	case *prometheus.HistogramVec, prometheus.Histogram:
		if !strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_bytes") {
			t.Errorf("%s measures and does not end in its unit", name)
		}
	case *prometheus.GaugeVec:
		if total {
			t.Errorf("%s is a level and ends in _total", name)
		}
	}
}
