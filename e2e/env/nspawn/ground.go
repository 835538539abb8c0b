// Package nspawn has machines of the local provider be systemd-nspawn machines that boot, beside clusters of
// kind and in reach of them: what it takes to run on them what was written for machines with a service manager, such as
// user data and what makes a machine join a cluster.
//
// Each has a copy of the root file system of a node image of kind, a systemd of its own, and the address that its
// provider says it has. The user data that it is given run once, when it has booted. What is not there is a kernel of
// its own and a name server. It needs root, systemd-nspawn, and the Docker engine that kind uses.
package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Ground is what machines stand on.
type Ground struct {
	t      testing.TB
	dir    string
	group  string
	bridge string
}

// New makes a ground for machines with a node image at a bridge network of the engine, whose addresses are of another
// network: this box, which has the last one, is the router between both. It is gone with the test, and so is what ran
// on it.
func New(t testing.TB, image, network string, addresses netip.Prefix) *Ground {
	t.Helper()
	for program, pkg := range map[string]string{"systemd-nspawn": "systemd-container", "unshare": "util-linux", "docker": "docker.io"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s: it is not installed; apt-get install %s", program, pkg)
		}
	}
	g := &Ground{t: t, dir: t.TempDir(), group: "nstance-nspawn-" + fmt.Sprint(os.Getpid())}
	if engine := os.Getenv("NSTANCE_ENGINE"); engine != "" {
		g.group = "nstance-docker-" + engine // e2e/env/kind/engine.sh removes it
	}
	t.Cleanup(g.removeGroups)
	router := last(addresses)
	if err := g.route(network, netip.PrefixFrom(router, addresses.Bits())); err != nil {
		t.Fatal(err)
	}
	if err := unpack(t.Context(), image, g.path("image")); err != nil {
		t.Fatal(err)
	}
	g.write("hosts", "")
	g.write("settings", fmt.Sprintf("image=%s hosts=%s bridge=%s gateway=%s bits=%d group=%s\n",
		g.path("image"), g.path("hosts"), g.bridge, router, addresses.Bits(), g.group))
	return g
}

func (g *Ground) path(name string) string { return filepath.Join(g.dir, name) }

func (g *Ground) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(g.path(name), []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// route gives this box an address at the bridge of a network of the engine.
func (g *Ground) route(network string, address netip.Prefix) error {
	out, err := output(exec.CommandContext(g.t.Context(), "docker", "network", "inspect", "--format", "{{.Id}}", network))
	if err != nil {
		return err
	}
	id := strings.TrimSpace(string(out))
	g.bridge = "br-" + id[:min(12, len(id))]
	if _, err := output(exec.CommandContext(g.t.Context(), "ip", "address", "add", address.String(), "dev", g.bridge)); err != nil {
		return err
	}
	g.t.Cleanup(func() {
		if _, err := output(exec.Command("ip", "address", "del", address.String(), "dev", g.bridge)); err != nil {
			g.t.Error(err)
		}
	})
	return nil
}

// last is the last address of a network that a host may have.
func last(of netip.Prefix) netip.Addr {
	bytes := of.Masked().Addr().As4()
	for bit := of.Bits(); bit < 31; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(bytes)
}

// unpack writes the root file system of an image.
func unpack(ctx context.Context, image, dir string) error {
	id, err := output(exec.CommandContext(ctx, "docker", "create", image))
	if err != nil {
		return err
	}
	container := strings.TrimSpace(string(id))
	defer func() {
		_, _ = output(exec.Command("docker", "rm", "--volumes", container)) // the engine's end is its end too
	}()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	_, err = output(exec.CommandContext(ctx, "sh", "-c", `docker export "$1" | tar --extract --directory "$2"`, "sh", container, dir))
	return err
}

// output runs a command, whose error has what it said of errors.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return out, nil
}

// Know has machines that boot from now on know the address of a name.
func (g *Ground) Know(name string, address netip.Addr) {
	g.t.Helper()
	g.write("hosts", fmt.Sprintf("%s %s\n", address, name))
}

// UserData returns the template of user data for the local provider that boots a machine, which is given user data of
// this template.
func (g *Ground) UserData(template string) string {
	g.t.Helper()
	_, here, _, _ := runtime.Caller(0)
	const end = "END_OF_USER_DATA"
	return strings.Join([]string{
		"#!/bin/sh", "set -eu", "umask 077", `cat >"$NSTANCE_MACHINE_DIR/user-data" <<'` + end + "'",
		strings.TrimSuffix(template, "\n"), end, "umask 022",
		"exec " + filepath.Join(filepath.Dir(here), "boot.sh") + " " + g.path("settings"), "",
	}, "\n")
}

// removeGroups removes the control groups of machines, which have ended.
func (g *Ground) removeGroups() {
	var dirs []string
	for _, pattern := range []string{"/sys/fs/cgroup/" + g.group + "/knd*", "/sys/fs/cgroup/*/" + g.group + "/knd*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			g.t.Error(err)
		}
		for _, dir := range found {
			_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
		}
	}
	for _, dir := range slices.Backward(dirs) { // what is below comes first
		err := os.Remove(dir)
		for range 50 { // who was killed takes a moment to go
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			time.Sleep(100 * time.Millisecond)
			err = os.Remove(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			g.t.Errorf("control group of a machine that has ended: %v", err)
		}
	}
}
