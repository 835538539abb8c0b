package dashboards_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/hujson"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/demandoperator"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

type object = map[string]any

// shard is one as `make dev` runs it, with a group of mode demand beside `web`.
type shard struct {
	*box.Box
	t        *testing.T
	operator *demandoperator.Operator
}

func newShard(t *testing.T) *shard {
	t.Helper()
	s := &shard{Box: box.New(t), t: t}
	s.Configure(3, 5*time.Second)
	text, err := hujson.Standardize([]byte(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
	var config object
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["server"].(object)["demand"] = object{"prices": []object{{"vcpu_hour": 0.02, "gib_hour": 0.002}}}
	config["groups"].(object)["default"].(object)["pool"] = object{
		"template": "dev", "mode": "demand", "instance_type": []string{"cpu:2,memory:4096"}, "vars": object{"joins_clusters": "true"}, "drain_timeout": "2m",
		"demand": object{"max": 1000, "release_hold": "1s", "scale_down_delay": "2s", "min_lifetime": "0s", "join_deadline": "5m"},
	}
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	s.SetConfig(string(text))
	if err := os.MkdirAll(s.Path("nodes"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Dev(3, "--keep")
	s.operator = demandoperator.Start(t, demandoperator.Options{
		Dial: s.dial, Cluster: box.Cluster, Tenant: "default", Machines: s.Path("machines"), Nodes: s.Path("nodes"),
	})
	s.Await("three machines run", func() error { return s.Settled("web", 3, time.Time{}) })
	return s
}

// dial connects to whoever leads.
func (s *shard) dial() (*grpc.ClientConn, error) {
	addrs, err := s.Leader()
	if err != nil {
		return nil, err
	}
	settings, err := box.ClientTLS(s.Identity())
	if err != nil {
		return nil, err
	}
	return box.Dial(addrs.Operator, settings)
}

// metrics is what the leader answers to a scrape.
func (s *shard) metrics() map[string]string {
	s.t.Helper()
	addrs, err := s.Leader()
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := box.Metrics(s.t.Context(), addrs.Health)
	if err != nil {
		s.t.Fatal(err)
	}
	return map[string]string{addrs.Health: text}
}

// happen has machines of a group die and be replaced, the group grow, and a cluster need machines and give
// some back; what it needs first comes before a scrape, as a series counts from its second sample on.
func (s *shard) happen(scrape func()) {
	s.t.Helper()
	one, two := demandoperator.Need{Name: "one", Pods: 1}, demandoperator.Need{Name: "two", Pods: 1}
	s.operator.Need(one)
	s.configured(1)
	s.replaced(3)
	scrape()
	s.operator.Need(one, two)
	s.configured(2)
	s.operator.Need(one)
	s.configured(1)
	if err := s.Scale("web", 4); err != nil {
		s.t.Fatal(err)
	}
	s.replaced(4)
}

// replaced kills a machine of `web`, and waits until so many others run.
func (s *shard) replaced(want int) {
	s.t.Helper()
	all, err := s.Instances()
	if err != nil {
		s.t.Fatal(err)
	}
	var victim string
	for _, i := range all {
		if i.GetGroup() == "web" && i.GetStatus() == "running" {
			victim = i.GetInstanceId()
		}
	}
	for _, m := range s.Machines() {
		if m.ID == victim {
			if err := m.Signal(unix.SIGKILL); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.Await(fmt.Sprintf("%d other machines of web run", want), func() error {
		all, err := s.Instances()
		running := 0
		for _, i := range all {
			if i.GetGroup() == "web" && i.GetStatus() == "running" && i.GetInstanceId() != victim {
				running++
			}
		}
		if err == nil && running != want {
			err = fmt.Errorf("%d do", running)
		}
		return err
	})
}

// configured waits until so many machines are Nodes of the cluster.
func (s *shard) configured(want int) {
	s.t.Helper()
	s.Await(fmt.Sprintf("the cluster has %d machines", want), func() error {
		seen := s.operator.Seen()
		if got := seen.States[demandpb.MachineState_MACHINE_STATE_CONFIGURED]; got != want || len(seen.Nodes) != want {
			return fmt.Errorf("%d are configured, %d are Nodes: %v", got, len(seen.Nodes), seen.States)
		}
		return nil
	})
}

// Why queries have no value here: what they count has not happened, and its labels are not known before.
const (
	noHosts    = "no machine here is a host of node machines"
	noFaults   = "no call of the provider fails on this box"
	noFiles    = "the configuration of `dev` has no files"
	noLaggards = "every machine joins, and nothing is paused"
)

// TestServers has all that servers show: their dashboard, their half of that of demand mode, and
// their rules.
func TestServers(t *testing.T) {
	s := newShard(t)
	var all scrapes
	scrape := func() { all.take(t, s.metrics()) }
	scrape()
	s.happen(scrape)
	scrape()
	servers := func(query string) bool { return !ofOperator(query) && !strings.Contains(query, `held_by!=""`) } // on a slow box something is held back
	all.evaluate(t, read(t, "docs/dashboard.json"), servers, map[string]string{
		"Creates that failed":                          noFaults,
		"Calls that failed":                            noFaults,
		"Look-ups of images":                           "machines of this box have no image",
		"Files sent to machines":                       noFiles,
		"Files that could not be made or put in place": noFiles,
		"Assignments":                                  noHosts,
		"Calls about assignments":                      noHosts,
		"Messages to hosts, and their reports":         noHosts,
		"Calls about holds":                            noHosts,
		"Calls about operations":                       noHosts,
		"Power operations that are over":               noHosts,
	})
	all.evaluate(t, read(t, chart+"dashboard-demand.json"), servers, map[string]string{
		"Decided and not carried out": noLaggards,
		"Machines that were given up": noLaggards,
		"Messages not handled":        "the operator sends nothing that is not valid",
	})
	all.evaluate(t, read(t, "docs/alerts.yaml"), servers, map[string]string{
		"NstanceProviderErrors":     noFaults,
		"NstanceProviderThrottles":  noFaults,
		"NstanceDemandMachinesFail": noLaggards,
	})
}

// TestTheDashboardShowsAllMetrics: those of the servers that the manual lists, but for demand mode, which has
// a dashboard of its own.
func TestTheDashboardShowsAllMetrics(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := ""
	for _, panel := range read(t, "docs/dashboard.json").panels {
		shown += strings.Join(panel.Queries, "\n") + "\n"
	}
	listed := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `(nstance_[a-z_]+)` \\|").FindAllStringSubmatch(string(manual), -1) {
		name := row[1]
		if strings.HasPrefix(name, "nstance_demand_") || name == "nstance_held_vms" { // an earlier name of nstance_unmanaged_vms
			continue
		}
		listed++
		if !regexp.MustCompile(name + `(_bucket|_count)?[\[{)]`).MatchString(shown) {
			t.Errorf("no panel shows %s", name)
		}
	}
	if listed < 40 {
		t.Errorf("docs/operations.md lists %d metrics", listed)
	}
}
