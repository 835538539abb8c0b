//go:build console

package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/demandoperator"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/providers/local"
	"nstance.dev/server/layout"
)

// party is a tenant whose names, texts and secrets all bear its mark. Its methods call the shard
// as its operator.
type party struct {
	s      *markedShard
	mark   string
	kind   string   // of its template: how the ids of its instances begin
	ids    []string // of its instances
	nonces []string // ids of instances whose nonces were not misused yet: each is told of once
	lost   string   // id of its unmanaged machine, which only administrators are told of
	api    nstancev1.OperatorServiceClient
	demand *demandoperator.Operator
}

// named is a name of the party's.
func (p *party) named(what string) string { return p.mark + "-" + what }

// Things of a party that bear its mark, each in a way of its own: whoever may see what a party has is answered
// with the first ones, and is told of the others on streams.
var (
	answered = []string{
		"tenant", "fixed", "full", "pool", "made", "template", "plain", "variable", "label", "balancer", "file", "subnet", "pause", "need", "operation", "wrote",
	}
	streamed = []string{"made", "machine", "configuration", "stirred"}
)

func (p *party) identity() string { return p.s.box.Path("operator-" + p.mark) }

// markedShard is a shard with two parties, each of which has something of everything.
type markedShard struct {
	t       *testing.T
	box     *box.Box
	server  *box.Process
	parties [2]*party
}

type object = map[string]any

// fixed is the size of the parties' first group.
const fixed = 9

// newMarkedShard returns when everything is there.
func newMarkedShard(t *testing.T) *markedShard {
	t.Helper()
	s := &markedShard{t: t, box: box.New(t)}
	s.parties = [2]*party{{s: s, mark: "lime-8d03b6a5", kind: "lim"}, {s: s, mark: "plum-4f9c2e71", kind: "plm"}}
	s.box.Configure(0, 10*time.Second) // directories and the key; the configuration is another one
	text, err := json.MarshalIndent(s.configuration(), "", "  ")
	s.must(err)
	s.box.SetConfig(string(text))
	s.box.Cluster("init", "--cluster-id", box.Cluster)
	s.enrol(identity.DefaultTenant, s.box.Identity())
	for _, p := range s.parties {
		s.enrol(p.named("tenant"), p.identity())
		s.must(os.MkdirAll(s.box.Path("machines", "balancers", p.named("balancer")), 0o700))
	}
	context, err := json.Marshal(object{
		"cluster_id": box.Cluster, "tenant": identity.DefaultTenant, "identity_dir": s.box.Identity(), "shard": box.Shard,
		"leader_file": s.box.Path("machines", "leader.json"),
	})
	s.must(err)
	s.must(os.WriteFile(s.box.ContextPath(), context, 0o600))
	s.serve()
	for _, p := range s.parties {
		s.box.Await("the machines of "+p.mark+" run", func() error { return p.runs(fixed + 1) })
	}
	s.loseRecords()
	for _, p := range s.parties {
		p.furnish()
	}
	return s
}

func (s *markedShard) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *markedShard) enrol(tenant, dir string) {
	s.box.Cluster("register-operator", "--tenant", tenant, "--output-dir", dir)
}

// serve starts the server, and waits until it leads.
func (s *markedShard) serve() {
	s.t.Helper()
	s.server = s.box.Serve("leader")
	s.box.Await("the server leads", func() error { return s.box.Leads("leader") })
	addrs, err := s.box.Leader()
	s.must(err)
	for _, p := range s.parties {
		p.api, err = s.box.Operator(addrs.Operator, p.identity())
		s.must(err)
	}
}

// configuration gives both parties the same.
func (s *markedShard) configuration() object {
	pools, room := object{"local": []string{"local"}}, object{}
	templates, groups, tenants, balancers := object{}, object{}, object{}, object{}
	for _, p := range s.parties {
		own := []string{p.named("tenant")}
		pools[p.named("subnet")], room[p.named("subnet")] = []string{p.named("subnet")}, 1
		balancers[p.named("balancer")] = object{"provider": "local", "tenants": own}
		template := func(name string, hosts bool) {
			templates[name] = object{
				"kind": p.kind, "arch": runtime.GOARCH, "instance_type": "process", "subnet_pool": "local", "tenants": own,
				"vars":     object{"note": p.named("variable")},
				"files":    object{p.named("file"): object{"kind": "string", "template": p.named("content")}},
				"userdata": object{"content": strings.Replace(local.DefaultUserData, "#!/bin/sh\n", "#!/bin/sh\necho "+p.named("wrote")+"\n# "+p.named("userdata")+"\n", 1)},
				"machine":  object{"enabled": hosts},
			}
		}
		template(p.named("template"), true)
		template(p.named("plain"), false)
		of := func(fields object) object {
			fields["template"] = p.named("template")
			return fields
		}
		groups[own[0]] = object{
			p.named("fixed"): of(object{
				"size": fixed, "load_balancers": []string{p.named("balancer")},
				"node": object{"labels": object{"example.com/" + p.named("label"): "yes"}},
			}),
			p.named("full"): of(object{"size": 2, "subnet_pool": p.named("subnet")}), // there is room for one
			p.named("pool"): object{
				"template": p.named("plain"), "mode": "demand", "instance_type": []string{"cpu:2,memory:4096"}, "vars": object{"joins_clusters": "true"},
				"demand": object{"max": 3},
			},
		}
		tenants[own[0]] = object{"subnet_pools": []string{"local", p.named("subnet")}}
	}
	server := object{
		"cluster_id": box.Cluster, "shard": box.Shard, "admin_tenants": []string{identity.DefaultTenant},
		"provider": object{"kind": "local", "zone": "local", "options": object{"dir": s.box.Path("machines"), "room": room}},
		"secrets": object{
			"provider": "object-storage", "encryption_key": object{"provider": "file", "source": s.box.KeyPath()},
		},
		"subnet_pools": pools, "health_check_interval": "20s", "request_timeout": "10s", "drain_timeout": "0s",
		"garbage_collection": object{"interval": "2s", "registration_timeout": "5m"},
		"shard_election":     object{"leader_timeout": "10s"}, "cluster_election": object{"leader_timeout": "5s"},
		"error_exit_jitter": object{"min_delay": "0s", "max_delay": "0s"},
		"demand":            object{"prices": []object{{"vcpu_hour": 0.02, "gib_hour": 0.002}}},
	}
	for _, block := range []string{"bind", "advertise"} {
		addresses := object{}
		for i, port := range []string{"health", "election", "registration", "operator", "agent"} {
			addresses[port+"_addr"] = fmt.Sprintf("127.0.0.1:%d", 8990+i)
		}
		server[block] = addresses
	}
	return object{"server": server, "tenants": tenants, "load_balancers": balancers, "templates": templates, "groups": groups}
}

// runs says what is missing until so many machines of the party run.
func (p *party) runs(want int) error {
	list, err := p.instances()
	if err != nil {
		return err
	}
	n := 0
	for _, in := range list {
		if in.GetStatus() == "running" {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %d run: %v", n, want, list)
	}
	return nil
}

func (p *party) instances() ([]*nstancev1.InstanceStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), box.CallTimeout)
	defer cancel()
	r, err := p.api.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageSize: 1000})
	return r.GetInstances(), err
}

// loseRecords leaves each party with a machine that has no record, under another leader.
func (s *markedShard) loseRecords() {
	s.t.Helper()
	s.server.Kill()
	for _, p := range s.parties {
		list, err := s.box.ListRecords()
		s.must(err)
		for _, id := range list {
			if strings.HasPrefix(id, p.kind) {
				p.lost = id
				s.must(os.Remove(s.box.Path("bucket", layout.InstanceKey(box.Shard, p.named("tenant"), identity.ID(id)))))
				break
			}
		}
	}
	s.serve()
	s.box.Await("two machines are unmanaged", s.unmanaged)
}

// unmanaged says what is missing until an administrator is told of the machines without a record.
func (s *markedShard) unmanaged() error {
	r := s.box.Admin("instance", "list", "--unmanaged", "-o", "name")
	for _, p := range s.parties {
		if !strings.Contains(r.Out, p.lost) {
			return fmt.Errorf("%s is not: %s%s", p.lost, r.Out, r.Err)
		}
	}
	return nil
}

// furnish has a party do what only its operator can: make a group, pause it, assign a host machine,
// begin an operation, and need machines of which one kind does not exist.
func (p *party) furnish() {
	t, ctx := p.s.t, p.s.t.Context()
	t.Helper()
	made, size := p.named("made"), int32(1)
	call := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %s: %v", p.mark, what, err)
		}
	}
	template := p.named("template")
	_, err := p.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: made, Config: &nstancev1.GroupConfig{Template: &template, Size: &size}})
	call("make a group", err)
	var host, switched string
	p.s.box.Await("the machines of "+p.mark+" run again", func() error {
		list, err := p.instances()
		for _, in := range list {
			switch {
			case in.GetGroup() == made && in.GetStatus() == "running":
				switched = in.GetInstanceId()
			case in.GetGroup() == p.named("fixed") && in.GetStatus() == "running":
				host = in.GetInstanceId()
			}
		}
		if err == nil && (host == "" || switched == "") {
			err = fmt.Errorf("instances %v", list)
		}
		return err
	})
	_, err = p.api.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "group", Group: made, Reason: p.named("pause")})
	call("pause a group", err)
	_, err = p.api.PutAssignment(ctx, &nstancev1.PutAssignmentRequest{
		InstanceId: host,
		Assignment: &nstancev1.MachineAssignment{
			MachineName: p.named("machine"), MachineUid: p.named("uid"), Epoch: 1, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, NodeName: p.named("node"),
			Configuration: &nstancev1.MachineConfigurationVersion{Name: p.named("configuration"), Version: 1, Uid: "c", Hash: "sha256:" + strings.Repeat("0", 64)},
			Template:      &nstancev1.MachineTemplate{Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3"}},
			ApiServer:     &nstancev1.MachineApiServer{Endpoint: "https://" + p.named("api") + ":6443"},
		},
		Credential: &nstancev1.MachineCredential{Epoch: 1, Sequence: 1, Token: p.named("credential"), ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))},
	})
	call("assign a host machine", err)
	_, err = p.api.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: switched, Reason: "power", Until: timestamppb.New(time.Now().Add(30 * time.Minute))})
	call("put an instance on hold", err)
	_, err = p.api.StartOperation(ctx, &nstancev1.StartOperationRequest{Id: p.named("operation"), InstanceId: switched, Name: "powerOff"})
	call("begin an operation", err)
	p.serveDemand()
	list, err := p.instances()
	call("list the instances", err)
	for _, in := range list {
		p.ids = append(p.ids, in.GetInstanceId())
		if in.GetGroup() == p.named("fixed") && in.GetRegisteredAt() != nil {
			p.nonces = append(p.nonces, in.GetInstanceId())
		}
	}
}

// serveDemand has a cluster of the party need two machines, of which one cannot be had.
func (p *party) serveDemand() {
	nodes := p.s.box.Path("nodes-" + p.mark)
	p.s.must(os.MkdirAll(nodes, 0o700))
	p.demand = demandoperator.Start(p.s.t, demandoperator.Options{
		Dial: func() (*grpc.ClientConn, error) {
			addrs, err := p.s.box.Leader()
			if err != nil {
				return nil, err
			}
			settings, err := box.ClientTLS(p.identity())
			if err != nil {
				return nil, err
			}
			return box.Dial(addrs.Operator, settings)
		},
		Cluster: box.Cluster, Tenant: p.named("tenant"), Machines: p.s.box.Path("machines"), Nodes: nodes,
	})
	p.demand.Need(demandoperator.Need{Name: "can-be-had", Pods: 1}, demandoperator.Need{Name: "cannot", Pods: 1, Label: "example.com/" + p.named("need")})
	p.s.box.Await("one need of "+p.mark+" is served, and one is not", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), box.CallTimeout)
		defer cancel()
		d, err := p.api.GetDemand(ctx, &nstancev1.GetDemandRequest{})
		if err == nil && (len(d.GetMachines()) != 1 || d.GetMachines()[0].GetState() != "configured" || len(d.GetNeeds()) != 2) {
			err = fmt.Errorf("demand %v", d)
		}
		return err
	})
}

// stir has something happen of each kind that is told: in the first round to an instance, too, and an error.
func (p *party) stir(round int) error {
	ctx, cancel := context.WithTimeout(context.Background(), box.CallTimeout)
	defer cancel()
	config := &nstancev1.GroupConfig{Vars: &nstancev1.StringMap{Values: map[string]string{"stirred": fmt.Sprint(p.named("stirred-"), round)}}}
	if _, err := p.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: p.named("made"), Config: config}); err != nil {
		return err
	}
	if round > 0 {
		return nil
	}
	if _, err := p.api.CreateInstance(ctx, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: p.named("fixed")}}); err != nil {
		return err
	}
	return p.misuseNonce(ctx)
}

var nonceForm = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// misuseNonce registers a machine a second time with another key, of which its tenant is told as of an error.
func (p *party) misuseNonce(ctx context.Context) error {
	id := p.nonces[0]
	p.nonces = p.nonces[1:]
	text, err := os.ReadFile(p.s.box.Path("machines", id, "userdata"))
	if err != nil {
		return err
	}
	addrs, err := p.s.box.Leader()
	if err != nil {
		return err
	}
	settings, err := box.AnonymousTLS(filepath.Join(p.identity(), "ca.crt"))
	if err != nil {
		return err
	}
	conn, err := box.Dial(addrs.Registration, settings)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = nstancev1.NewRegistrationServiceClient(conn).RegisterAgent(ctx, box.Registration(p.s.t, nonceForm.FindString(string(text)), box.NewKey(p.s.t)))
	if err == nil {
		return errors.New("a nonce is good for two keys")
	}
	return nil
}
