package demand_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/demandoperator"
)

var needs = flag.Int("needs", 8, "how many needs there are; every second one takes two machines")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lease is what the locks last, and with it how long a killed leader is missed.
const lease = 5 * time.Second

// The block of the group, in which nothing waits for longer than a test has time for.
const pool = `"pool": {
	"template": "dev", "mode": "demand", "instance_type": ["cpu:2,memory:4096"], "vars": { "joins_clusters": "true" }, "drain_timeout": "2m",
	"demand": { "max": 1000, "release_hold": "%s", "scale_down_delay": "2s", "min_lifetime": "0s", "join_deadline": "5m" }
}`

// world is a shard with a group of mode demand, and the cluster that it serves.
type world struct {
	*box.Box
	t        *testing.T
	server   *box.Process
	operator *demandoperator.Operator
}

// start starts a server; idle machines are kept for hold.
func start(t *testing.T, hold string) *world {
	t.Helper()
	w := &world{Box: box.New(t), t: t}
	w.Configure(0, lease)
	text := w.Config()
	for old, now := range map[string]string{
		`"templates": {`: `"demand": { "prices": [ { "vcpu_hour": 0.02, "gib_hour": 0.002 } ] } }, "templates": {`,
		`"web": { "template": "dev", "size": 0 }`: fmt.Sprintf(pool, hold),
		`"max_delay": "0s" }`:                     `"max_delay": "0s" },`,
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("the configuration has %q %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, now, 1)
	}
	// The block stands in "server", whose end comes before the templates.
	before, after, _ := strings.Cut(text, `"max_delay": "0s" },`)
	_, after, _ = strings.Cut(after, `"demand": {`)
	w.SetConfig(before + `"max_delay": "0s" }, "demand": {` + after)
	nodes := filepath.Join(w.Dir, "nodes")
	if err := os.MkdirAll(nodes, 0o700); err != nil {
		t.Fatal(err)
	}
	w.server = w.Dev(0, "--keep")
	w.operator = demandoperator.Start(t, demandoperator.Options{
		Dial: w.dial, Cluster: box.Cluster, Tenant: "default", Machines: w.Path("machines"), Nodes: nodes,
	})
	return w
}

// dial connects to whoever leads.
func (w *world) dial() (*grpc.ClientConn, error) {
	addrs, err := w.Leader()
	if err != nil {
		return nil, err
	}
	settings, err := box.ClientTLS(w.Identity())
	if err != nil {
		return nil, err
	}
	return box.Dial(addrs.Operator, settings)
}

// kill ends the server as a crash would, and starts another one.
func (w *world) kill() {
	w.t.Helper()
	w.server.Kill()
	w.server = w.Dev(0, "--keep")
}

// settled waits until the cluster has so many machines whose Nodes are ready, and all of its Pods run.
func (w *world) settled(what string, machines int) {
	w.t.Helper()
	w.patiently(what, func() error { return w.agrees(machines) })
}

// agrees says what is missing until so many machines are those of the cluster.
func (w *world) agrees(machines int) error {
	s := w.operator.Seen()
	configured := s.States[configured]
	if configured != machines || s.Pending > 0 || len(s.Nodes) != machines {
		return fmt.Errorf("%d of %d machines configured, %d Nodes, %d Pods pending, states %v", configured, machines, len(s.Nodes), s.Pending, s.States)
	}
	return nil
}

// patiently waits longer for more machines: those with Pods are given back a few at a time.
func (w *world) patiently(what string, check func() error) {
	w.t.Helper()
	w.AwaitFor(box.Patience+time.Duration(*needs)*3*time.Second, what, check)
}

// oneToOne checks that records, directories and processes are those of the same machines.
func (w *world) oneToOne() error {
	records, err := w.ListRecords()
	if err != nil {
		return err
	}
	directories, running := w.Directories(), box.IDs(w.Machines())
	if fmt.Sprint(records) != fmt.Sprint(directories) || fmt.Sprint(records) != fmt.Sprint(running) {
		return fmt.Errorf("records %v, directories %v, processes %v", records, directories, running)
	}
	return nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	return string(data)
}

// metric is the value of a series of the leader.
func (w *world) metric(series string) float64 {
	w.t.Helper()
	addrs, err := w.Leader()
	if err != nil {
		w.t.Fatal(err)
	}
	value, err := box.Metric(w.t.Context(), addrs.Health, series)
	if err != nil {
		w.t.Error(err)
	}
	return value
}
