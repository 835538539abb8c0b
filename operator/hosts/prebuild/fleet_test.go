package prebuild_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/prebuild"
)

// agent is the host of a machine as the fleet's test has it.
type agent struct {
	downloads hostsv1.VersionReference // zero: nothing
	ends      time.Time                // of the download
	fails     bool
	silent    time.Time // it is not connected until then
	deaf      time.Time // it is, and its shard cannot be told anything until then
	withdrawn time.Time // when its shard has taken that it is to prepare nothing
}

// works is whether it downloads.
func (a *agent) works(clock time.Time) bool {
	return a.downloads.Version != 0 && clock.Before(a.ends)
}

// M64, M95: 500 machines are prepared with 10 downloads at once at most, and as many while there is enough to do, whatever is
// late: hosts fail, hang and fall silent at random, a version is edited away in the middle, and shards cannot be told, that
// it is withdrawn neither. In the end each is prepared or was given up, and a rollout waits for none.
func TestM64_M95_500Machines(t *testing.T) {
	const machines, most = 500, 10
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		clock, edited, newest := now, now, int32(2)
		status := make([]*hostsv1.MachinePrebuild, machines)
		agents := make([]agent, machines)
		names := map[string]int{}
		for i := range machines {
			names[fmt.Sprintf("m%03d", i)] = i
		}
		busiest, over := 0, 0
		for pass := 0; over < machines; pass++ {
			if pass > 20_000 {
				t.Fatalf("seed %d: %d of %d are over after %v", seed, over, machines, clock.Sub(now))
			}
			clock = clock.Add(15 * time.Second)
			if pass == 400 {
				newest, edited = 3, clock
				for i := range agents {
					if r.IntN(2) == 0 {
						agents[i].deaf = clock.Add(5 * time.Minute)
					}
				}
			}
			in := prebuild.Input{Mode: hostsv1.PrebuildImages, MaxConcurrent: most, Target: version(newest), Synced: true, Edited: edited}
			for name, i := range names {
				in.Machines = append(in.Machines, seen(name, status[i], &agents[i], clock))
			}
			d := prebuild.Decide(in, clock)
			for _, s := range d.Steps {
				i := names[s.Machine]
				status[i] = s.Prebuild
				agents[i].takes(s, r, clock)
			}
			downloads := 0
			for i := range agents {
				a := &agents[i]
				if a.works(clock) {
					downloads++
				}
				if r.IntN(20_000) == 0 {
					a.deaf = clock.Add(time.Duration(r.IntN(20)) * time.Minute)
				}
				if r.IntN(20_000) == 0 {
					a.silent = clock.Add(time.Duration(r.IntN(20)) * time.Minute)
				}
			}
			if downloads > most || d.Running > most {
				t.Fatalf("seed %d: %d downloads at once, %d are said to run, at %v", seed, downloads, d.Running, clock.Sub(now))
			}
			busiest, over = max(busiest, downloads), 0
			for _, p := range status {
				if p != nil && p.Version == newest && p.State.Over() {
					over++
				}
			}
		}
		if busiest != most {
			t.Errorf("seed %d: %d downloads at once at the most, want %d", seed, busiest, most)
		}
		c, m := &hostsv1.MachineConfiguration{}, &hostsv1.HostMachine{}
		c.Spec.Prebuild = &hostsv1.Prebuild{Mode: hostsv1.PrebuildImages}
		for i, p := range status {
			m.Status.Prebuild = p
			if why := prebuild.Awaited(c, m, version(newest), clock); why != "" {
				t.Errorf("seed %d: a rollout waits for machine %d: %s", seed, i, why)
			}
		}
	}
}

// seen is a machine as the operator sees it.
func seen(name string, p *hostsv1.MachinePrebuild, a *agent, clock time.Time) prebuild.Machine {
	m := prebuild.Machine{Name: name, Follows: true, Outdated: true, Prebuild: p}
	if clock.Before(a.silent) {
		m.Waits = "its agent is not connected"
		return m
	}
	m.Host = prebuild.Host{Known: true, Connected: true, Prebuilds: true, Withdrawn: a.withdrawn}
	if a.downloads.Version == 0 {
		return m
	}
	m.Host.Version, m.Host.Mode, m.Host.State, m.Host.Asked = a.downloads, hostsv1.PrebuildImages, hostsv1.PrebuildRunning, string(a.downloads.Hash)
	if !a.works(clock) {
		m.Host.State, m.Host.Asked = hostsv1.PrebuildDone, ""
		if a.fails {
			m.Host.State, m.Host.Message = hostsv1.PrebuildFailed, "bad digest"
		}
	}
	m.Stray = (p == nil || p.State.Over()) && a.works(clock)
	return m
}

// takes has a host do what a step asks of it. One that does not hear goes on.
func (a *agent) takes(s prebuild.Step, r *rand.Rand, clock time.Time) {
	if clock.Before(a.silent) || clock.Before(a.deaf) {
		return
	}
	switch s.Action {
	case prebuild.Begin, prebuild.Ask:
		last := s.Prebuild.StartedAt.Add(29 * time.Minute) // also one that hangs ends before what it was asked for is given up
		a.downloads, a.ends, a.fails, a.withdrawn = s.Prebuild.VersionReference, clock.Add(time.Duration(1+r.IntN(8))*time.Minute), r.IntN(30) == 0, time.Time{}
		if r.IntN(50) == 0 || a.ends.After(last) {
			a.ends = last
		}
	case prebuild.Withdraw, prebuild.TimeOut:
		a.downloads, a.withdrawn = hostsv1.VersionReference{}, clock
	case prebuild.Finish, prebuild.Fail, prebuild.Unsupported, prebuild.Clear:
	}
}
