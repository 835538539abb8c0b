//go:build kube && fleet

package operator_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/controllers/hosts/prebuild"
	"nstance.dev/operator/hosts/assignment"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// preparing is what the simulated hosts of a shard prepare in the background. Its leader hands on what it is asked for and
// knows of that no more than a real one does: the next one has forgotten it, and what was on its way is lost.
type preparing struct {
	*lives
	took, way time.Duration // of a download, and of a message to a host
	fails     string        // the host whose downloads fail

	leader    int
	asked     map[string]*nstancev1.MachinePrebuild // by host, of this leader
	status    map[string]*nstancev1.MachinePrebuildStatus
	downloads map[string]*nstancev1.MachinePrebuild // that go on, by host
	highest   int                                   // how many went on at once
	begun     int
	early     []string // machines that were assigned what was not prepared
}

func newPreparing(l *lives) *preparing {
	p := &preparing{
		lives: l, took: 1500 * time.Millisecond, way: 30 * time.Millisecond, asked: map[string]*nstancev1.MachinePrebuild{},
		status: map[string]*nstancev1.MachinePrebuildStatus{}, downloads: map[string]*nstancev1.MachinePrebuild{},
	}
	l.prepares = p
	return p
}

// say implements background.
func (p *preparing) say(id string, m *nstancev1.MachineState) {
	m.PrebuildHash = p.asked[id].GetAssignment().GetConfiguration().GetHash()
	m.Status = proto.CloneOf(m.GetStatus())
	m.Status.Prebuilds, m.Status.Prebuild = true, proto.CloneOf(p.status[id])
}

// assigned implements background: it notes who is built anew from what was not prepared.
func (p *preparing) assigned(id string, version int32) {
	s := p.status[id]
	ready := s.GetState() == nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE || id == p.fails
	if s.GetConfiguration().GetVersion() != version || !ready {
		p.early = append(p.early, fmt.Sprintf("%s to version %d, with %v", id, version, s))
	}
}

// PutPrebuild implements [prebuild.Server].
func (p *preparing) PutPrebuild(_ context.Context, r *nstancev1.PutPrebuildRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, leader, wanted := r.GetInstanceId(), p.leader, r.GetPrebuild()
	if p.asked[id] = wanted; wanted == nil {
		delete(p.asked, id)
	}
	p.lives.say(id)
	p.builds.Go(func() error {
		time.Sleep(p.way)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.leader == leader { // else it is lost with the leader
			p.take(id, wanted)
		}
		return nil
	})
	return nil
}

// take has a host take in what it is to prepare; mu is held.
func (p *preparing) take(id string, wanted *nstancev1.MachinePrebuild) {
	of := wanted.GetAssignment().GetConfiguration()
	if wanted != nil && p.status[id].GetConfiguration().GetHash() == of.GetHash() {
		return // a replay
	}
	delete(p.downloads, id)
	delete(p.status, id)
	if wanted == nil {
		p.lives.say(id)
		return
	}
	p.begun++
	p.downloads[id] = wanted
	p.highest = max(p.highest, len(p.downloads))
	p.status[id] = &nstancev1.MachinePrebuildStatus{Configuration: of, Scope: wanted.GetScope(), State: nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FETCH}
	p.lives.say(id)
	p.builds.Go(func() error {
		time.Sleep(p.took)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.downloads[id] != wanted {
			return nil
		}
		delete(p.downloads, id)
		s := p.status[id]
		if s.State = nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE; id == p.fails {
			s.State, s.LastError = nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED, "bad digest"
		}
		if p.asked[id].GetAssignment().GetConfiguration().GetHash() == of.GetHash() {
			delete(p.asked, id)
		}
		p.lives.say(id)
		return nil
	})
}

// elect gives the shard another leader, after a while in which it has none.
func (p *preparing) elect() {
	p.mu.Lock()
	p.leader++
	p.up = false
	clear(p.asked)
	p.mu.Unlock()
	time.Sleep(200 * time.Millisecond)
	p.change(true, true)
}

// starts starts the controller of what is prepared beside those of rollouts.
func (p *preparing) starts(mgr ctrl.Manager, live client.Client, o controller.Options) error {
	err := prebuild.New(prebuild.Options{
		Client: mgr.GetClient(), Live: live, Namespace: bootstrapNamespace, Inventory: p.known.store, Reports: p.store,
		Server: func(string) (prebuild.Server, bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p, p.up
		},
		Lock: func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, assignment.Content, error) {
			v, err := p.versions.Lock(ctx, configuration, number, machine)
			return v.Reference, assignment.Content{Template: v.Template}, err
		},
		API: func(context.Context) assignment.APIServer {
			return assignment.APIServer{URL: "https://api.example.com"}
		},
		Events: mgr.GetEventRecorder("nstance-operator"), Log: slog.New(slog.DiscardHandler), Now: time.Now, Settle: time.Second,
	}).SetupWithManager(mgr, o)
	if err != nil {
		return err
	}
	return rollsOut(p.lives)(mgr, live, o)
}

// prepared waits until a version is prepared on so many machines, or was given up there.
func (p *preparing) prepared(t *testing.T, version int32, machines int) {
	t.Helper()
	kube.AwaitFor(t, 10*time.Minute, fmt.Sprintf("version %d is prepared on %d machines", version, machines), func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 0
		for id, s := range p.status {
			if s.GetConfiguration().GetVersion() == version && p.downloads[id] == nil {
				n++
			}
		}
		if n < machines {
			return fmt.Errorf("it is on %d, %d downloads go on", n, len(p.downloads))
		}
		return nil
	})
}

// M64, M95: a version is prepared on a fleet, and the next one in its place when it is edited half-way. By what the hosts see at
// every moment no more than ten download at once, although the operator is killed and the leader of the shard changes again
// and again, which loses messages. The rollout then builds each machine from what was prepared on it; that it was given up
// on one delays nobody.
func TestM64M95_PreparedOverAFleet(t *testing.T) {
	ownCluster(t)
	const most = 10
	fleet := *hostFleet
	strategy := rolling(20)
	strategy.Paused = true
	r, ids := newFleet(t, fleet, strategy)
	p := newPreparing(r.lives)
	p.fails, p.with = ids[fleet/2], p.starts
	stop := p.run()
	for _, id := range ids {
		p.await(id, "the controller has seen the fleet", joined(1))
	}
	kill := func() {
		stop()
		stop = p.run()
	}
	p.edit(t, func(s *hostsv1.MachineConfigurationSpec) {
		s.Prebuild = &hostsv1.Prebuild{Mode: hostsv1.PrebuildImages, MaxConcurrent: most}
		s.Template.Kubernetes.Version = "v1.36.1"
	})
	began := time.Now()
	for i, upset := range []func(){kill, p.elect, func() { p.elect(); kill() }} {
		p.prepared(t, 2, fleet*(i+1)/8)
		upset()
	}
	p.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.2" })
	for i, upset := range []func(){p.elect, kill, func() { kill(); p.elect() }} {
		p.prepared(t, 3, fleet*(i+1)/4)
		upset()
	}
	p.prepared(t, 3, fleet)
	p.awaitCondition(t, hostsv1.ConditionPrebuilt, hostsv1.ReasonPrebuildFailed)
	p.mu.Lock()
	t.Logf("measured: %d machines are prepared in %v, %d downloads, at most %d at once", fleet, time.Since(began).Round(time.Second), p.begun, p.highest)
	if p.highest != most || len(p.early) > 0 {
		t.Errorf("%d downloads at once, want %d; before the rollout %v", p.highest, most, p.early)
	}
	p.mu.Unlock()

	p.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.UpdateStrategy.RollingUpdate.Paused = false })
	r.awaitRollout(t, hostsv1.ConditionRollingOut, hostsv1.ReasonUpToDate, 3)
	for _, id := range ids {
		p.await(id, "it runs version 3", func(m *hostsv1.HostMachine) bool {
			return m.Status.Configuration.Applied.Version == 3 && m.Status.Prebuild == nil
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.early) > 0 || p.highest != most {
		t.Errorf("%d downloads at once; built from what was not prepared: %v", p.highest, p.early)
	}
}
