// Package cable puts programs of a test on a host of their own, as far as the network goes: a
// namespace with one interface, whose cable to the test can be pulled and plugged in again. What
// runs there keeps running meanwhile, as it does on a machine whose network is gone.
//
// Whoever speaks to a host whose cable is pulled gets no answer and no refusal: its packets are lost.
// The programs on it find their network unreachable. It needs root and the program ip, and makes
// an interface in the network of the test, which should therefore be the test's own.
package cable

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Addresses of both ends.
const (
	Near = "10.99.0.1" // the test's
	Far  = "10.99.0.2" // the host's
)

// Names of both ends.
const (
	near = "cable0"
	far  = "eth0"
)

// Host is the other end of a cable. Its methods belong to the test's goroutine.
type Host struct {
	t     testing.TB
	space *os.File // the network namespace
}

// New makes a host whose cable is plugged in. It is gone when the test ends; one at a time can be.
func New(t testing.TB) *Host {
	t.Helper()
	// The program ip names a namespace by a process in it, so one stays there until the cable is laid.
	holder := exec.Command("cat")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, err := holder.StdinPipe() // it ends with the test, however that ends
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatalf("make a network namespace, which takes root: %v", err)
	}
	defer func() {
		_ = in.Close()
		_ = holder.Wait() // it copied nothing
	}()
	pid := strconv.Itoa(holder.Process.Pid)
	space, err := os.Open(filepath.Join("/proc", pid, "ns", "net"))
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{t: t, space: space}
	h.ip("link add " + near + " type veth peer name " + far + " netns " + pid)
	t.Cleanup(func() {
		h.ip("link delete " + near)
		_ = space.Close() // it was only held
	})
	h.ip("addr add " + Near + "/24 dev " + near)
	h.ip("link set " + near + " up")
	h.On(func() {
		h.ip("link set lo up")
		h.ip("addr add " + Far + "/24 dev " + far)
	})
	h.Plug()
	return h
}

// Pull takes the cable out.
func (h *Host) Pull() {
	h.t.Helper()
	h.On(func() { h.ip("link set " + far + " down") })
}

// Plug puts the cable in.
func (h *Host) Plug() {
	h.t.Helper()
	h.On(func() { h.ip("link set " + far + " up") })
}

// On does something on the host: a process that is started meanwhile is there for as long as it runs.
func (h *Host) On(do func()) {
	h.t.Helper()
	runtime.LockOSThread() // a thread that can't come back is not given back either: it ends with the goroutine
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		h.t.Fatal(err)
	}
	defer home.Close()
	if err := unix.Setns(int(h.space.Fd()), unix.CLONE_NEWNET); err != nil {
		h.t.Fatalf("go to the host: %v", err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			h.t.Fatalf("come back from the host: %v", err)
		}
		runtime.UnlockOSThread()
	}()
	do()
}

// ip runs the program ip where the calling thread is.
func (h *Host) ip(args string) {
	h.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		h.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}
