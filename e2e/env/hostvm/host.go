package hostvm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed power.sh
var power string

// Options are the settings of a Host. All but Memory are required.
type Options struct {
	Image       string            // folder that image.sh made
	Dir         string            // for the host's disk and console; empty, and the host's alone
	Port        int               // of 127.0.0.1, by which commands are run
	Accelerator string            // of QEMU; see [Accelerator]
	Memory      int               // MiB; 2048
	Files       map[string]string // what the host is given, by name: files of this box
	Start       string            // what root runs at each start of the host, in /run/seed, where Files are; then the user data
}

// Host is one virtual host. Make one with [New].
type Host struct{ opts Options }

// New makes a host that is switched off, and has never been on. It is off for ever when this process ends.
func New(ctx context.Context, opts Options) (*Host, error) {
	if opts.Memory == 0 {
		opts.Memory = 2048
	}
	h := &Host{opts}
	seed := h.path("seed.d")
	if err := os.MkdirAll(seed, 0o700); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", h.path("key")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a key for the host: %w: %s", err, out)
	}
	files := map[string]string{"authorized_keys": h.path("key.pub")}
	for name, path := range opts.Files {
		files[name] = path
	}
	for name, path := range files {
		if err := copyFile(filepath.Join(seed, name), path); err != nil {
			return nil, fmt.Errorf("give the host %s: %w", name, err)
		}
	}
	if err := own(h.path("owner")); err != nil {
		return nil, fmt.Errorf("own the host: %w", err)
	}
	start := "cd /run/seed\ninstall -D --mode 600 authorized_keys /root/.ssh/authorized_keys\n" + opts.Start + "\nexec /bin/sh user-data\n"
	settings := fmt.Sprintf("memory=%d accelerator=%s port=%d\n", opts.Memory, opts.Accelerator, opts.Port)
	return h, errors.Join(
		os.WriteFile(filepath.Join(seed, "start"), []byte(start), 0o600),
		os.WriteFile(h.path("settings"), []byte(settings), 0o600),
		os.WriteFile(h.path("power.sh"), []byte(power), 0o700),
		os.Symlink(opts.Image, h.path("image")),
	)
}

// own locks a file until this process ends, however it does.
func own(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}

func (h *Host) path(name string) string { return filepath.Join(h.opts.Dir, name) }

// UserData is the template of user data for an instance of provider local that is this host. The host
// runs own, a template of user data as well, at each of its starts.
func (h *Host) UserData(own string) string {
	const end = "END_OF_THE_HOSTS_USER_DATA"
	return fmt.Sprintf("#!/bin/sh\nset -eu\numask 077\ncat >\"$NSTANCE_MACHINE_DIR/host-user-data\" <<'%[1]s'\n%[2]s\n%[1]s\nexec %[3]s %[4]s \"$NSTANCE_MACHINE_DIR/host-user-data\"\n",
		end, strings.TrimSuffix(own, "\n"), h.path("power.sh"), h.opts.Dir)
}

// ErrOff is matched by the error about a host that is not running.
var ErrOff = errors.New("the host is off")

// CutPower takes the power from a host, which stays off until RestorePower. When it returns the host
// has ended.
func (h *Host) CutPower() error {
	if err := os.WriteFile(h.path("off"), nil, 0o600); err != nil {
		return err
	}
	text, err := os.ReadFile(h.path("pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrOff
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("pid of QEMU: %w", err)
	}
	// By a pidfd it cannot be a stranger: QEMU removes its file only when it ends by itself.
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrOff
	}
	if err != nil {
		return fmt.Errorf("open QEMU: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !bytes.Contains(command, []byte("qemu-system-x86_64\x00")) {
		return ErrOff
	}
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill QEMU: %w", err)
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err == nil {
			return os.Remove(h.path("pid"))
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the end of QEMU: %w", err)
		}
	}
}

// RestorePower ends what CutPower began: the host starts.
func (h *Host) RestorePower() error { return os.Remove(h.path("off")) }

// Console is what the host has printed in all its boots.
func (h *Host) Console() ([]byte, error) {
	text, err := os.ReadFile(h.path("console"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Prints waits until the console has what a pattern wants behind offset, and returns where that ends.
func (h *Host) Prints(ctx context.Context, offset int, pattern *regexp.Regexp) (int, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		text, err := h.Console()
		if err != nil {
			return 0, err
		}
		if at := pattern.FindIndex(text[min(offset, len(text)):]); at != nil {
			return offset + at[1], nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the console of the host has no %s: %w", pattern, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Run runs a script of the shell as root of the host, and returns what it prints.
func (h *Host) Run(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "ssh", "-F", "none", "-i", h.path("key"), "-p", strconv.Itoa(h.opts.Port),
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=60", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"root@127.0.0.1", "sh", "-s")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return string(out), fmt.Errorf("run on the host: %w", err)
	}
	return string(out), nil
}
