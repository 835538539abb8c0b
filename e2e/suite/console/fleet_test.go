//go:build console

package console_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/paver/socket"
	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/crowd"
	"nstance.dev/e2e/env/demandoperator"
	"nstance.dev/e2e/env/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var machines = flag.Int("machines", 1000, "how many machines the large fleet has")

// What the fleet has: machines in groups with a size, machines that a cluster needs, hosts among the first
// whose pavers report, and hosts whose pavers do not.
const (
	needed  = 16
	pavers  = 8
	absent  = 4
	hostile = 1 // in the group whose name is a property of every object of JavaScript
)

// word is a name that shards take, and that is not to be taken for a property.
const word = "constructor"

// thousands writes a number as the console does.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// allRun is the headline of a fleet in which so many machines run.
func allRun(n int) string { return fmt.Sprintf("All %s machines are running.", thousands(n)) }

// grown is how long a thousand machines may take to run, on a busy box.
const grown = 10 * time.Minute

// largeFleet is a shard with a thousand machines, whose agents run in this process, demand mode and host
// machines, and its console.
type largeFleet struct {
	*world
	servers *shards.Cluster
	conn    *grpc.ClientConn
	api     nstancev1.OperatorServiceClient
	hosts   []string // ids of those that have an assignment
}

const fleetShard = "a"

func newLargeFleet(t *testing.T) *largeFleet {
	t.Helper()
	userData := strings.Replace(crowd.UserData, "\nEND\n", "\nNSTANCE_PAVER_SOCKET=$d/paver.sock\nEND\n", 1)
	f := &largeFleet{world: &world{t: t}}
	f.servers = shards.New(t, map[string]shards.Groups{fleetShard: {"web": *machines - needed - pavers - absent - hostile}},
		shards.Unbound, shards.UserData(userData), shards.Hosts, shards.ReportInterval(time.Minute),
		shards.Demand(shards.Tenant, object{"instance_type": []string{"cpu:2,memory:4096"}}, object{"max": 2 * needed}))
	f.join(func(ctx context.Context) error {
		return crowd.Run(ctx, f.servers.MachineDirs(), slog.New(slog.DiscardHandler))
	})
	var err error
	f.conn, err = f.servers.Dial(fleetShard, shards.Tenant)
	f.must(err)
	t.Cleanup(func() { _ = f.conn.Close() })
	f.api = nstancev1.NewOperatorServiceClient(f.conn)
	f.servers.UpsertGroup(fleetShard, word, hostile)
	_, err = f.api.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{
		Key: "hosts", Config: &nstancev1.GroupConfig{Template: proto.String(shards.HostTemplate), Size: proto.Int32(pavers + absent)},
	})
	f.must(err)
	f.need()
	f.await("all machines run", grown, func() error { return f.counts(*machines) })
	f.assign()
	f.web = f.servers.Admin(shards.Tenant, "console")
	login := ""
	f.await("the console prints its address", time.Minute, func() error {
		found := printed.FindStringSubmatch(f.web.Output())
		if found == nil {
			return fmt.Errorf("it has printed %q", f.web.Output())
		}
		f.url, login = found[1], found[1]+found[2]
		return nil
	})
	f.open(login)
	return f
}

// join runs something beside the test until its end.
func (f *largeFleet) join(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			f.t.Error(err)
		}
	})
}

// await waits for what takes real time.
func (f *largeFleet) await(what string, patience time.Duration, check func() error) {
	f.t.Helper()
	begun := time.Now()
	for {
		err := check()
		if err == nil {
			f.t.Logf("measured: %s after %v", what, time.Since(begun).Round(time.Millisecond))
			return
		}
		if time.Since(begun) > patience {
			f.t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// counts says what is missing until so many machines run, and no other is there.
func (f *largeFleet) counts(want int) error {
	all, complete, err := f.servers.Instances(f.t.Context(), fleetShard)
	running := 0
	for _, in := range all {
		if in.GetStatus() == "running" {
			running++
		}
	}
	if err == nil && (!complete || running != want || len(all) != want) {
		err = fmt.Errorf("%d instances, of which %d run", len(all), running)
	}
	return err
}

// need has a cluster need as many machines as make the fleet full, and one that cannot be had.
func (f *largeFleet) need() {
	f.t.Helper()
	operator := demandoperator.Start(f.t, demandoperator.Options{
		Dial:    func() (*grpc.ClientConn, error) { return f.servers.Dial(fleetShard, shards.Tenant) },
		Cluster: shards.ClusterID, Tenant: shards.Tenant, Machines: f.servers.Machines(fleetShard), Nodes: f.t.TempDir(),
	})
	var all []demandoperator.Need
	for n := range needed {
		all = append(all, demandoperator.Need{Name: fmt.Sprintf("need-%02d", n), Pods: 1})
	}
	operator.Need(append(all, demandoperator.Need{Name: "cannot-be-had", Pods: 1, Label: "example.com/moon"})...)
}

// assign has the hosts build node machines: of most of them a paver reports, and of the others none.
func (f *largeFleet) assign() {
	f.t.Helper()
	all, _, err := f.servers.Instances(f.t.Context(), fleetShard)
	f.must(err)
	for _, in := range all {
		if in.GetGroup() == "hosts" {
			f.hosts = append(f.hosts, in.GetInstanceId())
		}
	}
	for n, id := range f.hosts {
		_, err := f.api.PutAssignment(f.t.Context(), &nstancev1.PutAssignmentRequest{
			InstanceId: id,
			Assignment: &nstancev1.MachineAssignment{
				MachineName: fmt.Sprintf("host-%02d", n), MachineUid: id, Epoch: 1, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, NodeName: id,
				Configuration: version, Template: &nstancev1.MachineTemplate{Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3"}},
				ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://api.example:6443"},
			},
			Credential: &nstancev1.MachineCredential{Epoch: 1, Sequence: 1, Token: "t", ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))},
		})
		f.must(err)
		if n < pavers {
			f.pave(id)
		}
	}
}

var version = &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 7, Uid: "c", Hash: "sha256:" + strings.Repeat("0", 64)}

// pave runs a paver on a host that says it is done with what it is told, and that its disk is called like a script.
func (f *largeFleet) pave(id string) {
	f.t.Helper()
	server, err := socket.Listen(socket.Options{
		Path: filepath.Join(f.servers.Machines(fleetShard), id, "paver.sock"), Paver: &paver{news: make(chan struct{})}, Log: slog.New(slog.DiscardHandler),
	})
	f.must(err)
	f.join(server.Run)
}

// paver is one that reports and builds nothing.
type paver struct {
	mu     sync.Mutex
	status *nstancev1.MachineStatus
	news   chan struct{} // closed when status is newer
}

func (p *paver) Take(_ context.Context, w *nstancev1.MachineWork) error {
	a := w.GetAssignment()
	if a == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = &nstancev1.MachineStatus{
		Epoch: a.GetEpoch(), Stage: nstancev1.MachineStage_MACHINE_STAGE_RUNNING, MachineUid: a.GetMachineUid(), ActiveSlot: "a", KubeletActive: true,
		Slots:          []*nstancev1.MachineSlot{{Name: "a", Configuration: a.GetConfiguration()}},
		Problems:       []*nstancev1.MachineProblem{{Reason: "Disk", Message: hostileNames[0]}},
		StageStartedAt: timestamppb.Now(), ReportedAt: timestamppb.Now(),
	}
	close(p.news)
	p.news = make(chan struct{})
	return nil
}

func (p *paver) Status() (*nstancev1.MachineStatus, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return proto.CloneOf(p.status), p.news
}

func (p *paver) Logs() *nstancev1.MachineLogs { return nil }

// TestAThousandMachines: each page of the console shows what a real shard with a thousand machines has, with
// demand mode and host machines on, follows what happens to them, has nothing that axe finds serious, and takes
// no name for anything but a name.
func TestAThousandMachines(t *testing.T) {
	f := newLargeFleet(t)
	f.nameHostile()
	all, _, err := f.servers.Instances(t.Context(), fleetShard)
	f.must(err)
	member := func(group string) string {
		i := slices.IndexFunc(all, func(in *nstancev1.InstanceStatus) bool { return in.GetGroup() == group })
		if i < 0 {
			t.Fatalf("group %s has no instance", group)
		}
		return all[i].GetInstanceId()
	}
	group, instance := "/groups/"+fleetShard+"/"+shards.Tenant+"/", "/instances/"+fleetShard+"/"
	pages := []struct {
		path  string
		words []string
	}{
		{"/", []string{allRun(*machines), "web", "hosts", shards.DemandGroup, word}},
		{group + "web", []string{thousands(*machines-needed-pavers-absent-hostile) + " instances", "Size over time", "Settings"}},
		{group + shards.DemandGroup, []string{fmt.Sprintf("%d instances", needed), "Settings"}},
		{group + word, append([]string{"Settings"}, hostileNames[:3]...)},
		{instance + member("web"), []string{member("web"), "It is running", "registered"}},
		{instance + member(shards.DemandGroup), []string{member(shards.DemandGroup), "It is running"}},
		{instance + f.hosts[0], []string{f.hosts[0], "It is running"}},
		{"/shards", []string{"1 shard, each with a leader.", "Term", "Leader"}},
		{"/demand", []string{fmt.Sprintf("1 of %d needs lack something.", needed+1), fmt.Sprintf("%d machines for $0.768", needed), "example.com/moon", "lacks"}},
		{"/machines", []string{fmt.Sprintf("%d host machines: %d not connected.", pavers+absent, absent), "host-00", "gpu", hostileNames[0]}},
		{"/errors", []string{"Nothing went wrong."}},
		{"/plan", []string{"See what a configuration would do."}},
	}
	for _, scheme := range []string{"light", "dark"} {
		f.must(f.tab.Scheme(scheme))
		for _, page := range pages {
			f.visit(page.path, append(slices.Clone(page.words), "live")...)
			if page.path == "/" {
				f.shoot("fleet-" + scheme)
			}
			f.harmless(page.path)
			found, err := f.tab.Serious()
			f.must(err)
			for _, v := range found {
				t.Errorf("%s, %s: %v", page.path, scheme, v)
			}
		}
	}
	f.killed(member("web"))
	f.full()
	f.clean()
}

// nameHostile gives the shard names that do something where they are taken for markup or script. It refuses them
// for what has a name; texts may say anything.
func (f *largeFleet) nameHostile() {
	f.t.Helper()
	ctx := f.t.Context()
	for _, name := range hostileNames {
		_, err := f.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: name, Config: &nstancev1.GroupConfig{Template: proto.String(shards.Template)}})
		if err == nil {
			f.t.Errorf("the shard takes a group %q", name)
		}
	}
	_, err := f.api.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "group", Group: word, Reason: strings.Join(hostileNames[:3], " ")})
	f.must(err)
}

// killed kills a machine: the page follows.
func (f *largeFleet) killed(id string) {
	f.t.Helper()
	f.visit("/", allRun(*machines))
	text, err := os.ReadFile(filepath.Join(f.servers.Machines(fleetShard), id, "pid"))
	f.must(err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	f.must(err)
	f.must(syscall.Kill(pid, syscall.SIGKILL))
	f.must(f.tab.Until(patience, func(text string) bool {
		return strings.Contains(text, "leaves: it was unhealthy") || strings.Contains(text, "is being created")
	}, "that the machine is replaced"))
	f.must(f.tab.Until(box.Patience, func(text string) bool { return strings.Contains(text, allRun(*machines)) }, "that all run again"))
}

// full asks for a machine where there is no room: the page says so, with what helps.
func (f *largeFleet) full() {
	f.t.Helper()
	size := int32(2) // there is room for one
	_, err := f.api.UpsertGroup(f.t.Context(), &nstancev1.UpsertGroupRequest{
		Key: "narrow", Config: &nstancev1.GroupConfig{Template: proto.String(shards.Template), SubnetPool: proto.String(shards.Narrow), Size: &size},
	})
	f.must(err)
	f.visit("/errors", "The provider has no room", "narrow", "capacity")
	f.visit("/", fmt.Sprintf("%s of %s machines running", thousands(*machines+1), thousands(*machines+2)), "narrow")
}
