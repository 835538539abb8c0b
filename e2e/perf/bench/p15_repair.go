package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
)

// P15: from the death of a machine to the create call of its replacement.
//
// Ours: the command `dev` with three machines, processes of the local provider, of
// which one is killed; the time until the directory of another machine appears,
// which is the first thing that a create call makes.
//
// Floor: what the design promises: 100 ms.
const (
	repairSize  = 3
	repairBound = 100 * time.Millisecond
	repairTurns = 3
)

func measureRepair(ctx context.Context, env Env) (rows []Row, err error) {
	dir, err := os.MkdirTemp("", "nstance-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := env.built("nstance-server-local")
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, nil, server, "dev", "--dir", dir, "--size", strconv.Itoa(repairSize), "--plain")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.end(unix.SIGTERM)) }()
	s := &sickbay{machines: filepath.Join(dir, "machines")}
	if err := s.healthy(ctx); err != nil {
		return nil, err
	}
	least, err := interleave(ctx, repairTurns*env.Rounds, s.repair)
	if err != nil {
		return nil, err
	}
	return []Row{{
		Name: "machine killed, until the create call", Unit: "ms", Ours: 1e3 * least[0], Floor: 1e3 * repairBound.Seconds(),
		Against: "the promise", Goal: AtMost(1),
	}}, nil
}

// sickbay is the machines of a box.
type sickbay struct {
	machines string // their folder
}

// registered are the machines whose agents have a certificate.
func (s *sickbay) registered() (found []identity.ID) {
	certificates, _ := filepath.Glob(filepath.Join(s.machines, "*", "identity", "identity.crt")) // the pattern is well-formed
	for _, path := range certificates {
		if id, err := identity.ParseID(filepath.Base(filepath.Dir(filepath.Dir(path)))); err == nil {
			found = append(found, id)
		}
	}
	return found
}

// healthy waits until there are as many machines as there should be, and all have
// registered a moment ago.
func (s *sickbay) healthy(ctx context.Context) error {
	err := eventually(ctx, "machines", func() bool {
		return len(s.registered()) == repairSize && len(s.directories()) == repairSize
	})
	return errors.Join(err, pause(ctx, settling))
}

// directories are the machines that there are.
func (s *sickbay) directories() map[string]bool {
	entries, _ := os.ReadDir(s.machines) // nothing yet
	found := map[string]bool{}
	for _, e := range entries {
		if _, err := identity.ParseID(e.Name()); err == nil {
			found[e.Name()] = true
		}
	}
	return found
}

// repair kills a machine and returns the seconds until another one is there.
func (s *sickbay) repair(ctx context.Context) (float64, error) {
	before := s.directories()
	victim := s.registered()[0]
	pid, err := s.process(victim)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return 0, fmt.Errorf("kill %s: %w", victim, err)
	}
	err = eventually(ctx, "a replacement", func() bool {
		for id := range s.directories() {
			if !before[id] {
				return true
			}
		}
		return false
	})
	took := time.Since(began).Seconds()
	return took, errors.Join(err, s.healthy(ctx))
}

// process finds the process of a machine by its environment.
func (s *sickbay) process(id identity.ID) (int, error) {
	own := identity.EnvMachineDir + "=" + filepath.Join(s.machines, id.String()) + "\x00"
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains(string(environ), own) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("machine %s has no process", id)
}
