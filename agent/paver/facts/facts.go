// Package facts finds out about a host what package render has to know of it: its name
// servers, which sources of binds and which devices exist, and which users. It reads, and
// changes nothing; what follows from it is decided elsewhere.
package facts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// Options say where to look; zero fields take the defaults.
type Options struct {
	// Root stands for the host's root directory in tests; empty: the root.
	Root string
	// UserExists says whether the host has a user; nil: the host is asked.
	UserExists func(name string) bool
}

const (
	mostResolvConf = 64 << 10
	// mostMatches bounds the devices of one pattern.
	mostMatches = 256

	resolvConf = "/etc/resolv.conf"
	// upstream are the servers that the host's own resolver asks.
	upstream = "/run/systemd/resolve/resolv.conf"
)

// Read returns what is known of the host for a template: all but the machine's name and the
// users whose keys may be set. An error says that a host cannot be looked at, not that
// something is missing.
func Read(t *nstancev1.MachineTemplate, o Options) (render.Host, error) {
	host := render.Host{Paths: map[string]string{}}
	for _, q := range render.Wanted(t) {
		if err := o.find(q, host.Paths); err != nil {
			return render.Host{}, err
		}
	}
	own, err := o.nameServers(resolvConf)
	if err != nil {
		return render.Host{}, err
	}
	host.ResolvConf, host.PodResolvConf = own, own
	if onLoopback(own) {
		servers, err := o.nameServers(upstream)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return render.Host{}, err
		}
		if servers != "" {
			host.PodResolvConf = servers
		}
	}
	return host, nil
}

// Users returns those users of a template that the host has; never nil.
func Users(t *nstancev1.MachineTemplate, o Options) []string {
	exists := o.UserExists
	if exists == nil {
		exists = func(name string) bool { _, err := user.Lookup(name); return err == nil }
	}
	users := []string{}
	for _, u := range t.GetHost().GetSshKeys() {
		if exists(u.GetUser()) {
			users = append(users, u.GetUser())
		}
	}
	return users
}

// find adds what a query finds to paths.
func (o Options) find(q render.Query, paths map[string]string) error {
	found := []string{filepath.Join(o.root(), q.Path)}
	if q.Device {
		matches, err := filepath.Glob(found[0])
		if err != nil {
			return fmt.Errorf("look for %s: %w", q.Path, err)
		}
		if found = matches; len(found) > mostMatches {
			return fmt.Errorf("look for %s: more than %d devices match", q.Path, mostMatches)
		}
	}
	for _, name := range found {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && q.Device && info.Mode()&fs.ModeDevice == 0 {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", q.Path, err)
		}
		resolved, err := filepath.EvalSymlinks(name)
		if err != nil {
			return fmt.Errorf("look for %s: %w", q.Path, err)
		}
		paths[o.onHost(name)] = o.onHost(resolved)
	}
	return nil
}

func (o Options) root() string {
	if o.Root == "" {
		return "/"
	}
	return o.Root
}

// onHost is a path as the host has it.
func (o Options) onHost(name string) string {
	return path.Join("/", strings.TrimPrefix(filepath.Clean(name), filepath.Clean(o.root())))
}

// nameServers returns a file that says which name servers are asked.
func (o Options) nameServers(name string) (string, error) {
	f, err := os.Open(filepath.Join(o.root(), name))
	if err != nil {
		return "", fmt.Errorf("read name servers: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostResolvConf+1))
	if err != nil {
		return "", fmt.Errorf("read name servers: %w", err)
	}
	if len(text) > mostResolvConf {
		return "", fmt.Errorf("read name servers: %s has more than %d bytes", name, mostResolvConf)
	}
	return string(text), nil
}

// onLoopback says whether all name servers of a file answer on the host's loopback interface,
// where no Pod reaches them.
func onLoopback(text string) bool {
	servers := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err != nil || !addr.IsLoopback() {
			return false
		}
		servers++
	}
	return servers > 0
}
