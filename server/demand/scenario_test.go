package demand_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// TestScenarios runs the stories in testdata: commands at the left margin, the answers indented
// below them. testdata/README says which commands there are.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, workers := range []int{1, 4, 16} {
				got := runScenario(t, string(old), workers)
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if !bytes.Equal(old, []byte(got)) {
					t.Fatalf("%s: answers of %d workers differ (-update accepts them)\n%s", file, workers, got)
				}
			}
		})
	}
}

func runScenario(t *testing.T, script string, workers int) string {
	s := scenario{house: newHouse(t, demand.Settings{Workers: workers, Policy: demand.Policy{Domains: map[string]string{"a": "us", "b": "us"}}})}
	s.boot, s.join = 20*time.Second, 10*time.Second
	s.fault = func(offer string) (demand.Failure, bool) { return demand.NoCapacity, s.dry[offer] }
	s.dry = map[string]bool{}
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line + "\n")
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		answer, err := s.command(fields[0], fields[1:])
		if err != nil {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
		for _, a := range answer {
			out.WriteString("    " + a + "\n")
		}
	}
	return out.String()
}

type scenario struct {
	*house
	dry    map[string]bool
	short  []string // what was said last
	offers []demand.Offer
}

func (s *scenario) command(name string, args []string) ([]string, error) {
	switch name {
	case "group":
		return nil, s.group(args)
	case "offer":
		return nil, s.offer(args)
	case "pool":
		n, err := strconv.ParseInt(args[1], 10, 64)
		s.tell(demand.PoolChanged{Name: args[0], Limit: n})
		return nil, err
	case "price":
		n, err := strconv.ParseInt(args[1], 10, 64)
		for i := range s.offers {
			if s.offers[i].Name == args[0] {
				s.offers[i].PricePerHour = n
			}
		}
		s.tell(demand.OffersChanged{Offers: s.offers})
		return nil, err
	case "dry", "wet":
		s.dry[args[0]] = name == "dry"
	case "needs":
		return nil, s.needs(args)
	case "repeat":
		s.tell(demand.Rollup{Cluster: args[0], Repeated: true})
	case "lose":
		delete(s.machines, args[0])
		s.tell(demand.Gone{ID: args[0]})
	case "restart":
		s.restart()
	case "step":
		return s.describe(s.step()), nil
	case "run":
		return s.run(args)
	case "show":
		return s.show(), nil
	default:
		return nil, fmt.Errorf("unknown command")
	}
	return nil, nil
}

// run steps every ten seconds for a while, and tells when what was decided.
func (s *scenario) run(args []string) (answer []string, err error) {
	d, err := time.ParseDuration(args[0])
	for until := s.now.Add(d); s.now.Before(until); {
		for _, line := range s.describe(s.step()) {
			answer = append(answer, s.now.Sub(epoch).String()+" "+line)
		}
		s.progress(10 * time.Second)
	}
	return answer, err
}

func (s *scenario) describe(actions []demand.Action) (answer []string) {
	for _, a := range s.last.Answers {
		if a.Quarantined {
			answer = append(answer, "roll-up of "+a.Cluster+" held")
		}
	}
	for _, a := range actions {
		answer = append(answer, a.String())
	}
	var short []string
	for _, f := range s.last.Shortfalls {
		short = append(short, fmt.Sprintf("short %s %s cpu %d memory %dMi: %s", f.Cluster, f.Fingerprint, f.Deficit[0], f.Deficit[1]>>20, f.Reason))
	}
	if !slices.Equal(short, s.short) {
		answer = append(answer, short...)
		if len(short) == 0 {
			answer = append(answer, "nothing is short")
		}
	}
	s.short = short
	return answer
}

func (s *scenario) show() (answer []string) {
	count := map[string]int{}
	for _, m := range s.machines {
		count[fmt.Sprintf("%s %s %s", m.offer, m.state, m.cluster)]++
	}
	for _, id := range s.sorted() {
		m := s.machines[id]
		k := fmt.Sprintf("%s %s %s", m.offer, m.state, m.cluster)
		if n := count[k]; n > 0 {
			answer = append(answer, fmt.Sprintf("%d %s", n, strings.TrimSpace(k)))
			count[k] = 0
		}
	}
	return answer
}

func (s *scenario) group(args []string) (err error) {
	g := demand.Group{Name: args[0], Max: -1}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "max":
			g.Max, err = strconv.ParseInt(value, 10, 64)
		case "min":
			g.Min, err = strconv.ParseInt(value, 10, 64)
		case "warm":
			g.MinIdle, err = strconv.ParseInt(value, 10, 64)
		case "tenant":
			g.Tenant = value
		case "reuse":
			g.Reuse = true
		case "drains":
			g.Disruption = []demand.Budget{{}}
			g.Disruption[0].Nodes, err = strconv.ParseInt(value, 10, 64)
		}
	}
	s.tell(demand.GroupChanged{Group: g})
	return err
}

// offer is NAME GROUP CPU MEMORY PRICE and options.
func (s *scenario) offer(args []string) error {
	var n [3]int64
	for i := range n {
		v, err := strconv.ParseInt(args[2+i], 10, 64)
		if err != nil {
			return err
		}
		n[i] = v
	}
	o := offerOf(args[1], args[0], n[0], n[1], n[2])
	o.Name = args[0]
	for _, arg := range args[5:] {
		key, value, _ := strings.Cut(arg, "=")
		number, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "limit":
			o.Limit = number
		case "pool":
			o.Pools = append(o.Pools, demand.PoolUse{Pool: value, Units: n[0]})
		case "spot":
			o.Class.CapacityType, o.Class.InterruptionPPM = demand.Spot, number
		case "reserved":
			o.Class.CapacityType = demand.Reserved
		case "taint":
			o.Class.Taints = []match.Taint{{Key: value, Effect: match.NoSchedule}}
		default:
			o.Class.Labels[key] = value
		}
	}
	s.offers = append(s.offers, o)
	s.tell(demand.OffersChanged{Offers: s.offers})
	return nil
}

// needs is CLUSTER and rows NAME:PRIORITY:PODS:CPU:MEMORY_MI, each with options after a comma.
func (s *scenario) needs(args []string) error {
	var rows []demand.Row
	for _, arg := range args[1:] {
		options := strings.Split(arg, ",")
		f := strings.Split(options[0], ":")
		var n [4]int64
		for i := range n {
			v, err := strconv.ParseInt(f[1+i], 10, 64)
			if err != nil {
				return err
			}
			n[i] = v
		}
		r := row(f[0], int32(n[0]), n[1], n[2], n[3]<<20)
		for _, option := range options[1:] {
			switch key, value, _ := strings.Cut(option, "="); key {
			case "same":
				r.Terms.Requirements = append(r.Terms.Requirements, match.Requirement{Key: value, Op: match.Same})
				r.Group = f[0]
			case "spread":
				r.Spread = append(r.Spread, demand.Spread{TopologyKey: value, MaxSkew: 1})
			case "all":
				r.AllOrNothing = true
			case "tolerates":
				r.Terms.Tolerations = append(r.Terms.Tolerations, match.Toleration{Key: value, Exists: true})
			case "stuck":
				r.Stuck = 1
			}
		}
		rows = append(rows, r)
	}
	s.tell(needs(args[0], rows...)...)
	return nil
}

// restart is a new process: it reads the records, and has heard nothing yet.
func (s *scenario) restart() {
	old := s.house
	s.house = newHouse(old.t, demand.Settings{Policy: demand.Policy{Domains: map[string]string{"a": "us", "b": "us"}}})
	s.now, s.ids, s.machines, s.boot, s.join, s.fault = old.now, old.ids, old.machines, old.boot, old.join, old.fault
	s.tell(demand.GroupChanged{Group: demand.Group{Name: "g", Max: -1}}, demand.OffersChanged{Offers: s.offers})
	for _, id := range s.sorted() {
		m := s.machines[id]
		for _, o := range s.offers {
			if o.Name == m.offer {
				s.tell(demand.Observed{Machine: demand.Supply{
					ID: id, Offer: o.Name, Class: o.Class, State: m.state, Cluster: m.cluster, Tenant: m.tenant, Price: m.price, Since: m.since,
				}})
			}
		}
	}
}
