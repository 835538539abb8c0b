package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// program is a process of a built command, in a measure.
type program struct {
	cmd  *exec.Cmd
	said *bufio.Reader // what it prints
}

// built is the path of a command that `make build` made.
func (e Env) built(name string) (string, error) {
	path := filepath.Join(e.Root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: build it with `make build`", err)
	}
	return path, nil
}

// build makes one of the commands of this module that are floors, in a folder, as
// the release builds are made.
func (e Env) build(ctx context.Context, dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", path, "./e2e/cmd/"+name)
	cmd.Dir, cmd.Env = e.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// start starts a process that is killed when ctx ends, with more environment; what
// it logs is dropped.
func start(ctx context.Context, env []string, path string, args ...string) (*program, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &program{cmd: cmd, said: bufio.NewReader(out)}, nil
}

// end ends a process by a signal, and waits for that.
func (p *program) end(sig unix.Signal) error {
	_ = p.cmd.Process.Signal(sig) // an error means that it has ended
	err := p.cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil // by the signal
	}
	return err
}

// resident is the memory of a process in bytes, as its status tells.
func (p *program) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("no VmRSS in the status of a process")
}

// clockTick is the unit of times in /proc: 100 a second on every Linux (man 5 proc).
const clockTick = 10 * time.Millisecond

// used is the processor time of a process so far.
func (p *program) used() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("%d fields in the stat of a process", len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, err
}
