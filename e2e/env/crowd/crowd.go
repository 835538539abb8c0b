// Package crowd runs the agents of many machines of the local provider in one process, for tests
// in which a process for each would take more of the box than what is measured.
//
// A machine whose user data are [UserData] starts no agent: it writes down what one is started
// with, and waits for its end. [Run] runs the agent, and the program beside it that joins
// clusters, for each of these machines, for as long as the machine's process runs. Both are what
// a machine's own processes would run, with connections, certificates and files of their own.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/agent"
	"nstance.dev/agent/cluster/unit"
	"nstance.dev/agent/settings"
)

// environmentFile is what a machine writes down, in its directory: NAME=value in each line.
const environmentFile = "agent.env"

// UserData is a template of user data for machines whose agents [Run] runs.
const UserData = `#!/bin/sh
set -eu
umask 077
cd "$NSTANCE_MACHINE_DIR"
if [ ! -s identity/identity.crt ]; then
	mkdir -p identity leave.d cluster
	printf '%s' '{{ .Cluster.CACert }}' > identity/ca.crt
	printf '%s' '{{ .Nonce }}' > identity/nonce.jwt
fi
export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}' d=$(pwd -P)
cat > ` + environmentFile + `.part <<END
PATH=$PATH
NSTANCE_MACHINE_DIR=$d
NSTANCE_INSTANCE_ID=$NSTANCE_INSTANCE_ID
NSTANCE_SERVER_ADDR_FILE=$NSTANCE_SERVER_ADDR_FILE
NSTANCE_IDENTITY_DIR=$d/identity
NSTANCE_KEYS_DIR=$d/keys
NSTANCE_RECV_DIR=$d/recv
NSTANCE_CLUSTER_DIR=$d/cluster
NSTANCE_CLUSTER_STATUS=$d/cluster-unit/status
END
mv ` + environmentFile + `.part ` + environmentFile + `
exec sleep infinity
`

// pause is that between two looks at which machines there are.
const pause = 20 * time.Millisecond

// Run runs the agents of all machines whose directories a pattern matches, in the form of
// [filepath.Match], until ctx ends. What an agent says at debug and info is left out.
func Run(ctx context.Context, pattern string, log *slog.Logger) error {
	var agents errgroup.Group
	known := map[string]context.CancelFunc{} // by directory
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for ctx.Err() == nil {
		files, err := filepath.Glob(filepath.Join(pattern, environmentFile))
		if err != nil {
			return err
		}
		for _, file := range files {
			dir := filepath.Dir(file)
			if known[dir] != nil || !runs(dir) {
				continue
			}
			env, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue // the machine has ended just now
			}
			if err != nil {
				return err
			}
			life, end := context.WithCancel(ctx)
			known[dir] = end
			agents.Go(func() error { return one(life, dir, strings.Fields(string(env)), log) })
		}
		for dir, end := range known {
			if !runs(dir) {
				end()
				delete(known, dir)
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return agents.Wait()
}

// one runs the agent of a machine, and the program beside it.
func one(ctx context.Context, dir string, env []string, log *slog.Logger) error {
	s, err := settings.Parse(func(name string) string {
		for _, variable := range env {
			if value, is := strings.CutPrefix(variable, name+"="); is {
				return value
			}
		}
		return ""
	})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	beside := unit.New(unit.Options{
		Requests: filepath.Join(dir, "cluster"), State: filepath.Join(dir, "cluster-unit"), Leave: filepath.Join(dir, "leave.d"), Env: env,
	}, log)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return agent.Run(ctx, s, agent.Options{}, log) })
	g.Go(func() error { return beside.Watch(ctx) })
	if err := g.Wait(); err != nil && runs(dir) {
		return fmt.Errorf("agent of %s: %w", dir, err)
	}
	return nil
}

// runs is whether the process of a machine does.
func runs(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && syscall.Kill(pid, 0) == nil
}
