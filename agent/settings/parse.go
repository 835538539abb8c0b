package settings

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nstance.dev/agent/interruption"
	"nstance.dev/protos/identity"
)

// minReportInterval keeps a mistyped interval from loading server and machine.
const minReportInterval = 500 * time.Millisecond

// A cloud announces an interruption two minutes ahead, and limits how often it is asked.
const (
	minSpotPollInterval = 500 * time.Millisecond
	maxSpotPollInterval = time.Minute
)

// parser collects what is wrong, so that one start shows all of it.
type parser struct {
	getenv func(string) string
	errs   []error
}

func (p *parser) wrong(name, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: %w", name, fmt.Errorf(format, args...)))
}

func (p *parser) text(name, otherwise string) string {
	if v := p.getenv(name); v != "" {
		return v
	}
	return otherwise
}

func (p *parser) boolean(name string) bool {
	v := p.getenv(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		p.wrong(name, "%.80q is neither true nor false", v)
	}
	return b
}

// path returns an absolute, clean path: the agent's working directory is nobody's business.
func (p *parser) path(name, otherwise string) string {
	v := p.text(name, otherwise)
	if v == "" {
		return ""
	}
	if !filepath.IsAbs(v) || strings.ContainsRune(v, 0) {
		p.wrong(name, "%.80q is not an absolute path", v)
		return ""
	}
	return filepath.Clean(v)
}

// secrecy says whether files of a place may be open to every user of the machine.
type secrecy bool

const (
	secret secrecy = true
	public secrecy = false
)

func (p *parser) place(dirName, sub, modeName string, mode fs.FileMode, s secrecy) Place {
	place := Place{Dir: p.path(dirName, root+sub), Mode: mode}
	v := p.getenv(modeName)
	if v == "" {
		return place
	}
	n, err := strconv.ParseUint(v, 8, 32)
	switch m := fs.FileMode(n); {
	case err != nil || n > 0o777:
		p.wrong(modeName, "%.80q is not an octal file mode such as %#o", v, mode)
	case m&0o600 != 0o600:
		p.wrong(modeName, "%#o keeps the agent from its own files; add 0600", m)
	case m&0o111 != 0:
		p.wrong(modeName, "%#o makes files executable; use %#o", m, m&^0o111)
	case s == secret && m&0o007 != 0:
		p.wrong(modeName, "%#o opens private keys to every user; use %#o", m, m&^0o007)
	default:
		place.Mode = m
	}
	return place
}

func (p *parser) cluster() Cluster {
	return Cluster{
		Dir:    p.path(identity.EnvClusterDir, root+"cluster"),
		Status: p.path(identity.EnvClusterStatus, "/var/lib/nstance-cluster/status"),
	}
}

func (p *parser) distinct(identityDir, keys, recv, cluster string) {
	seen := map[string]string{}
	for _, d := range []struct{ name, dir string }{
		{identity.EnvIdentityDir, identityDir},
		{identity.EnvKeysDir, keys},
		{identity.EnvRecvDir, recv},
		{identity.EnvClusterDir, cluster},
	} {
		if other, taken := seen[d.dir]; taken && d.dir != "" {
			p.wrong(d.name, "%q is the directory of %s too; each needs its own", d.dir, other)
		}
		seen[d.dir] = d.name
	}
}

func (p *parser) id() identity.ID {
	v := p.getenv(identity.EnvInstanceID)
	if v == "" {
		p.wrong(identity.EnvInstanceID, "is required: the id of this instance")
		return ""
	}
	id, err := identity.ParseID(v)
	if err != nil {
		p.wrong(identity.EnvInstanceID, "%w", err)
		return ""
	}
	if kind := p.getenv(identity.EnvInstanceKind); kind != "" && kind != id.Prefix() {
		p.wrong(identity.EnvInstanceKind, "%.80q differs from %q, with which %s begins", kind, id.Prefix(), identity.EnvInstanceID)
	}
	return id
}

// hostname returns the host name or, if only that is given, the fully qualified one:
// registration has one field for both.
func (p *parser) hostname() string {
	for _, name := range []string{identity.EnvInstanceHostname, identity.EnvInstanceFQDN} {
		if v := p.getenv(name); v != "" && !identity.ValidHostname(v) {
			p.wrong(name, "%.80q is not a host name: labels of letters, digits and \"-\" with dots between them", v)
		}
	}
	return p.text(identity.EnvInstanceHostname, p.getenv(identity.EnvInstanceFQDN))
}

func (p *parser) address(name string, is func(netip.Addr) bool, family string) netip.Addr {
	v := p.getenv(name)
	if v == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(v)
	if err != nil || !is(a) || a.Zone() != "" || a.Is4In6() {
		p.wrong(name, "%.80q is not an %s address", v, family)
		return netip.Addr{}
	}
	return a
}

func (p *parser) report() Report {
	v := p.getenv(identity.EnvReportInterval)
	if v == "" {
		return Report{}
	}
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		p.wrong(identity.EnvReportInterval, "%.80q is not a duration such as 30s", v)
	case d == 0:
		return Report{Disabled: true}
	case d < minReportInterval:
		p.wrong(identity.EnvReportInterval, "%v is less than %v; 0 disables reports", d, minReportInterval)
	}
	return Report{Interval: d}
}

func (p *parser) provider() interruption.Provider {
	provider, err := interruption.ParseProvider(p.getenv(identity.EnvProvider))
	if err != nil {
		p.wrong(identity.EnvProvider, "%w", err)
	}
	return provider
}

// metadataAddr returns an address and no name: what decides about the machine's end is not
// looked up.
func (p *parser) metadataAddr() netip.AddrPort {
	v := p.getenv(identity.EnvMetadataAddr)
	if v == "" {
		return netip.AddrPort{}
	}
	addr, err := netip.ParseAddrPort(v)
	if err != nil || addr.Port() == 0 {
		p.wrong(identity.EnvMetadataAddr, "%.80q is not an IP address with a port, such as 169.254.169.254:80", v)
		return netip.AddrPort{}
	}
	return addr
}

func (p *parser) spotPollInterval() time.Duration {
	v := p.getenv(identity.EnvSpotPollInterval)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		p.wrong(identity.EnvSpotPollInterval, "%.80q is not a duration such as 2s", v)
	case d < minSpotPollInterval || d > maxSpotPollInterval:
		p.wrong(identity.EnvSpotPollInterval, "%v is not from %v to %v", d, minSpotPollInterval, maxSpotPollInterval)
	}
	return d
}

func (p *parser) networkInterface() string {
	v := p.getenv(identity.EnvMetricsInterface)
	if v != "" && !interfacePattern.MatchString(v) {
		p.wrong(identity.EnvMetricsInterface, "%.80q is not the name of a network interface", v)
	}
	return v
}

// hostPort accepts an empty host: it listens on every address.
func (p *parser) hostPort(name string) string {
	v := p.getenv(name)
	if v == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(v)
	if n, convErr := strconv.ParseUint(port, 10, 16); err != nil || convErr != nil || n == 0 {
		p.wrong(name, "%.80q is not host:port", v)
	}
	return v
}

func (p *parser) addresses(name string) []string {
	v := p.getenv(name)
	if v == "" {
		p.wrong(name, "is required: host:port of the shard's servers; or set %s", identity.EnvServerAddrFile)
		return nil
	}
	addrs, err := SplitAddresses(v)
	if err != nil {
		p.wrong(name, "%w", err)
	}
	return addrs
}
