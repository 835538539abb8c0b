package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// P14: what an agent costs the machine that it runs on.
//
// Ours: an agent that has registered, is connected and reports at the default
// interval: its resident memory, its processor time over two minutes, and the size
// of its binary.
//
// Floors: the resident memory of a hello-world gRPC client that is connected; a
// thousandth of a core; 15 MB.
//
// Goal: 1.5 times the memory; not above the other two.
const (
	agentWatched   = 2 * time.Minute
	agentCoreShare = 0.001
	agentBinaryMB  = 15
)

// defaultInterval is the configuration of the other measures, with agents that
// report as often as they do by default.
var defaultInterval = strings.Replace(configuration, `"health_check_interval": "10m"`, `"health_check_interval": "60s"`, 1)

func measureAgent(ctx context.Context, env Env) (rows []Row, err error) {
	dir, err := os.MkdirTemp("", "nstance-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	room, err := newMachineRoom(ctx, dir, defaultInterval)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, room.close()) }()
	s := &agentProcesses{machineRoom: room}
	if s.agent, err = env.built("nstance-agent"); err != nil {
		return nil, err
	}
	if s.greeter, err = env.build(ctx, dir, "greeter"); err != nil {
		return nil, err
	}
	least, err := interleave(ctx, env.Rounds, s.agentMemory, s.greeterMemory)
	if err != nil {
		return nil, err
	}
	share, err := s.cpu(ctx)
	if err != nil {
		return nil, err
	}
	binary, err := os.Stat(s.agent)
	if err != nil {
		return nil, err
	}
	const mb = 1e6
	return []Row{
		{
			Name: "agent: resident memory", Unit: "MB", Ours: least[0] / mb, Floor: least[1] / mb,
			Against: "hello-world client", Goal: AtMost(1.5),
		},
		{
			Name: "agent: share of a core", Unit: "%", Ours: 100 * share, Floor: 100 * agentCoreShare,
			Against: "the promise", Goal: AtMost(1),
		},
		{
			Name: "agent: binary", Unit: "MB", Ours: float64(binary.Size()) / mb, Floor: agentBinaryMB,
			Against: "the promise", Goal: AtMost(1),
		},
	}, nil
}

// agentProcesses are agents and the least that they could be.
type agentProcesses struct {
	*machineRoom
	agent, greeter string // programs
	n              int
}

// connected starts an agent, and waits until it has reported.
func (s *agentProcesses) connected(ctx context.Context) (*program, error) {
	s.n++
	a, env, err := s.newMachine(ctx, fmt.Sprintf("agent-%d", s.n))
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, env, s.agent)
	if err != nil {
		return nil, err
	}
	err = eventually(ctx, "a report", func() bool {
		h, ok := s.w.cache.Health(a.id)
		return ok && h.Count > 0
	})
	if err != nil {
		return nil, errors.Join(err, p.end(unix.SIGKILL))
	}
	return p, nil
}

func (s *agentProcesses) agentMemory(ctx context.Context) (float64, error) {
	p, err := s.connected(ctx)
	if err != nil {
		return 0, err
	}
	return settled(ctx, p)
}

func (s *agentProcesses) greeterMemory(ctx context.Context) (float64, error) {
	greeted := make(chan struct{}, 1)
	addr, stop, err := s.greetings(func() { greeted <- struct{}{} })
	if err != nil {
		return 0, err
	}
	defer stop()
	p, err := start(ctx, nil, s.greeter, s.greeterFlags(addr)...)
	if err != nil {
		return 0, err
	}
	select {
	case <-greeted:
	case <-ctx.Done():
		return 0, errors.Join(ctx.Err(), p.end(unix.SIGKILL))
	}
	return settled(ctx, p)
}

// settled returns the resident memory of a process after a while, and ends it.
func settled(ctx context.Context, p *program) (float64, error) {
	err := pause(ctx, settling)
	bytes, readErr := p.resident()
	return bytes, errors.Join(err, readErr, p.end(unix.SIGKILL))
}

// cpu returns which share of a core an agent uses.
func (s *agentProcesses) cpu(ctx context.Context) (float64, error) {
	p, err := s.connected(ctx)
	if err != nil {
		return 0, err
	}
	err = pause(ctx, settling)
	before, beforeErr := p.used()
	began := time.Now()
	err = errors.Join(err, beforeErr, pause(ctx, agentWatched))
	after, afterErr := p.used()
	share := (after - before).Seconds() / time.Since(began).Seconds()
	return share, errors.Join(err, afterErr, p.end(unix.SIGKILL))
}
