package opsim

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/operator/testworld/apiserver"
	"nstance.dev/protos/identity"
)

// guest is the operator with what stands behind it, as the world sees it.
type guest struct {
	sim.Ground

	api         *apiserver.Server
	credentials *sim.Credentials
	host        host
	checks      *checks
	kubelets    *kubelets
	users       *users
}

// New returns what makes the guest of a world.
func New(t testing.TB) func(sim.Ground) sim.Guest {
	return func(ground sim.Ground) sim.Guest {
		g := &guest{Ground: ground, host: host{turn: newTurn()}}
		g.checks = newChecks(g)
		g.api = apiserver.New(apiserver.Options{Test: t, Faults: weather{g}, Changed: g.checks.changed})
		g.kubelets, g.users = newKubelets(g), newUsers(g)
		return g
	}
}

// Start implements [sim.Guest].
func (g *guest) Start() {
	g.credentials = g.Register()
	g.startOperator()
	g.Later(newCore(g).run)
	g.Later(g.kubelets.run)
}

// Do implements [sim.Guest].
func (g *guest) Do(args []string) { verbs[args[0]](g, args[1:]) }

// Up implements [sim.Guest].
func (g *guest) Up(id identity.ID) { g.kubelets.up(id) }

// Down implements [sim.Guest].
func (g *guest) Down(id identity.ID) { g.kubelets.down(id) }

// Heal implements [sim.Guest].
func (g *guest) Heal() {
	g.checks.away(0)
	g.api.Away(0)
	g.kubelets.heal()
	g.startOperator()
}

// Stop implements [sim.Guest].
func (g *guest) Stop() { g.stopOperator() }

// verbs are what events of a plan do, after the word guest.
var verbs = map[string]func(*guest, []string){
	// scale POOL SIZE: somebody sets the replicas of a pool, which is made if need be.
	"scale": func(g *guest, a []string) { g.Later(func() { g.users.scale(a[0], number(a[1])) }) },
	// shrink POOL N: an autoscaler names the nth machine of a pool and lowers its size.
	"shrink": func(g *guest, a []string) { g.Later(func() { g.users.shrink(a[0], number(a[1])) }) },
	// remove POOL N: somebody deletes the nth Machine of a pool.
	"remove": func(g *guest, a []string) { g.Later(func() { g.users.remove(a[0], number(a[1])) }) },
	// delete POOL: somebody deletes a pool.
	"delete": func(g *guest, a []string) { g.Later(func() { g.users.delete(a[0]) }) },
	// ask N GROUP: somebody makes the nth Pod that asks for a machine of its own.
	"ask": func(g *guest, a []string) { g.Later(func() { g.users.ask(number(a[0]), a[1]) }) },
	// done N: its work comes to an end.
	"done": func(g *guest, a []string) { g.Later(func() { g.users.done(number(a[0])) }) },
	// drop N: somebody deletes it.
	"drop": func(g *guest, a []string) { g.Later(func() { g.users.drop(number(a[0])) }) },
	// wipe: somebody deletes every object of the operator and of Cluster API.
	"wipe": func(g *guest, _ []string) { g.Later(g.users.wipe) },
	// restart DURATION: the operator is down for a while.
	"restart": func(g *guest, a []string) { g.Later(func() { g.restart(duration(a[0])) }) },
	// away DURATION: nobody reaches the API server.
	"away": func(g *guest, a []string) { g.away(duration(a[0])) },
	// budget DURATION: no Pod may be spared.
	"budget": func(g *guest, a []string) { g.kubelets.tight(duration(a[0])) },
	// stubborn DURATION: Pods that are to end do not.
	"stubborn": func(g *guest, a []string) { g.kubelets.stubborn(duration(a[0])) },
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err) // the plan is ours
	}
	return n
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err) // the plan is ours
	}
	return d
}

// away takes the API server away for a while.
func (g *guest) away(d time.Duration) {
	g.Logf("the API server is away for %v", d)
	g.checks.away(d)
	g.api.Away(d)
}

func (g *guest) restart(d time.Duration) {
	g.Logf("the operator stops")
	g.stopOperator()
	_ = wait(g.Context(), d)
	g.startOperator()
}

// wait waits for d or the end of ctx, which it reports.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// until holds for how long something that plans turn on for a while is on.
type until struct {
	mu sync.Mutex
	at time.Time
}

func (u *until) set(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at = time.Now().Add(d)
}

func (u *until) on() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Before(u.at)
}
