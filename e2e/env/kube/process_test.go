package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// starter has a copy of the test program start a process, say its id, and wait.
const starter = "NSTANCE_TEST_STARTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starter); dir != "" {
		p, err := Run("/bin/sleep", []string{"1000"}, nil, filepath.Join(dir, "log"))
		if err != nil {
			fmt.Println(err) //nolint:forbidigo // the other process reads it
			return
		}
		fmt.Println(p.cmd.Process.Pid) //nolint:forbidigo // the other process reads it
		<-p.done
		return
	}
	goleak.VerifyTestMain(OwnNetwork(m))
}

func TestRun_endsWithTheTestThatIsKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starter+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed is no success
	comm := filepath.Join("/proc", strings.TrimSpace(line), "comm")
	Await(t, "the process of a killed test has ended", func(context.Context) error {
		name, err := os.ReadFile(comm)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("%s still runs", name)
	})
}

func TestRun_keepsTheOutputOfAllStarts(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, word := range []string{"one", "two", "three"} {
		p, err := Run("/bin/sh", []string{"-c", "echo $WORD"}, []string{"WORD=" + word}, log)
		if err != nil {
			t.Fatal(err)
		}
		<-p.done
	}
	if got := tail(log, 2); got != "two\nthree" {
		t.Errorf("the last two lines are %q", got)
	}
}

func TestRun_aProgramThatCannotBeStarted(t *testing.T) {
	if _, err := Run("/nothing/here", nil, nil, filepath.Join(t.TempDir(), "log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that there is no such file", err)
	}
}

func TestStop_saysThatAProcessDoesNotWantToEnd(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Run("/bin/sh", []string{"-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	Await(t, "the trap is set", func(context.Context) error {
		if tail(log, 1) != "ready" {
			return errors.New("not ready")
		}
		return nil
	})
	if err := p.Stop(10 * time.Millisecond); err == nil {
		t.Error("no error, although it ignores the signal")
	}
	if !p.Ended() {
		t.Error("it still runs")
	}
}

func TestTool_aMissingOneSaysHowToBuildIt(t *testing.T) {
	_, err := tool("no-such-component")
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "make kube-components") {
		t.Errorf("error %v, want one that names the make target", err)
	}
}

func TestFreePort_givesNoneTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port >= lastPort {
			t.Errorf("port %d; seen before: %t", port, seen[port])
		}
		seen[port] = true
	}
}

// A process that is being started has the files of this one until it is executed, and a
// socket that listens there keeps its port.
func TestFreePort_isFreeWhileProcessesStart(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	defer starters.Wait()
	defer stop()
	for range 4 {
		starters.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run() // killed at the end
			}
		})
	}
	for range 500 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}
