package kube

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inOwnNetwork is set in the environment of a test program that OwnNetwork started.
const inOwnNetwork = "NSTANCE_TEST_OWN_NETWORK"

// Runner is the tests of a package, as a *testing.M.
type Runner interface {
	// Run runs the tests and returns the exit code of the test program.
	Run() int
}

// OwnNetwork returns the tests of a package such that they run in a network namespace
// of their own. Where the system does not allow that they run where they are, and say so.
// Tests whose clusters run elsewhere stay in the network of these.
func OwnNetwork(tests Runner) Runner { return ownNetwork{tests} }

type ownNetwork struct{ tests Runner }

// Run is called twice: outside, where it starts this program again, and inside.
func (n ownNetwork) Run() int {
	if Where() != Here {
		return n.tests.Run() // the cluster is in this network
	}
	if os.Getenv(inOwnNetwork) != "" {
		if err := raiseLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "raise the loopback interface:", err)
			return 1
		}
		return n.tests.Run()
	}
	code, err := again()
	if errors.Is(err, syscall.EPERM) {
		fmt.Fprintln(os.Stderr, "not root: components run in this network, and the webhooks of Cluster API listen on all of its addresses")
		return n.tests.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in their own network:", err)
		return 1
	}
	return code
}

// again runs this program once more, in a new network namespace, and returns its exit
// code. Signals that end a test go to that process; it dies with this one.
func again() (int, error) {
	// The kernel takes the end of this thread for the end of the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // an error means that it has ended
			case <-ended:
				return
			}
		}
	}()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// raiseLoopback sets the interface lo up; in a new network namespace it is down. The
// addresses of Services are its too: where the API server calls a webhook through a Service,
// it reaches whoever listens here at the Service's port.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	alias, err := unix.NewIfreq("lo:services")
	if err != nil {
		return err
	}
	for _, set := range []struct {
		request uint
		value   []byte
	}{
		{unix.SIOCSIFADDR, services.Addr().AsSlice()},
		{unix.SIOCSIFNETMASK, net.CIDRMask(services.Bits(), 32)},
	} {
		if err := alias.SetInet4Addr(set.value); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, set.request, alias); err != nil {
			return err
		}
	}
	return nil
}

// services is the range of the addresses of Services, with one of them.
var services = netip.MustParsePrefix("10.96.0.1/16")
