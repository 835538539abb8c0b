// Package settings reads the agent's environment into a checked value.
//
// Everything but the verbosity comes from environment variables, because user data of
// every cloud can write an env file and a service manager can load it. Variables that
// the agent does not know are ignored: the environment belongs to the machine.
//
// The package looks at nothing but the variables. What is left empty here and needs the
// machine to be known (its host name, its addresses) is found where it is used.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nstance.dev/agent/interruption"
	"nstance.dev/protos/identity"
)

// ErrInvalid is matched by every error of [Parse].
var ErrInvalid = errors.New("invalid environment")

// Settings are the agent's settings, complete and consistent.
type Settings struct {
	// Debug turns debug messages on.
	Debug bool
	// Environment is a label for the log and changes nothing.
	Environment string

	// RegistrationAddrs and AgentAddrs are addresses, host:port, of the shard's servers.
	// They are empty if AddrFile is set.
	RegistrationAddrs, AgentAddrs []string
	// AddrFile is the path of a file that holds the leader's addresses, read at every
	// dial; empty: the lists above count.
	AddrFile string

	Identity Place // certificate authority, nonce, own key and certificate
	Keys     Place // keys of which only the public halves leave the machine
	Recv     Place // files that the server delivers

	// Cluster is where the machine's binding to a cluster is handed over.
	Cluster Cluster

	// PaverSocket is the socket on which the program that builds node machines listens; where
	// it does not exist none are built.
	PaverSocket string

	// InstanceID is who this machine is.
	InstanceID identity.ID
	// Hostname is told to the server at registration; empty: the kernel's.
	Hostname string
	// IPv4 and IPv6 are told to the server at registration; invalid (zero): detected.
	IPv4, IPv6 netip.Addr

	// Report says when the agent reports.
	Report Report
	// MetricsInterface is the network interface whose counters go into reports, together
	// with the size of the connection tracking table; empty: neither.
	MetricsInterface string
	// Provider is the cloud that may announce the machine's end, and SpotPollInterval the
	// time between two questions where it has to be polled; 0: interruption.DefaultInterval.
	Provider         interruption.Provider
	SpotPollInterval time.Duration
	// MetadataAddr is where that cloud's metadata service is; invalid (zero): where the
	// clouds have it.
	MetadataAddr netip.AddrPort
	// HealthAddr is the address, host:port, on which liveness is answered; empty: nowhere.
	HealthAddr string
}

// Place is a directory and the permissions of the files in it.
type Place struct {
	Dir  string
	Mode fs.FileMode // of files
}

// DirMode is the directory's own permissions: whoever may read its files may search it.
func (p Place) DirMode() fs.FileMode { return p.Mode | (p.Mode&0o444)>>2 }

// Cluster says where what makes the machine join a cluster is handed over to the program that
// runs it, and where that program says what became of it.
type Cluster struct {
	Dir    string // the agent's own
	Status string // a file of the program's; where it does not exist the machine joins nothing
}

// Report says when the agent reports.
type Report struct {
	// Interval is the pause between two reports; 0: the server's own.
	Interval time.Duration
	// Disabled: one report when a stream opens, and no other.
	Disabled bool
}

const root = "/opt/nstance-agent/"

var interfacePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,14}$`)

// Parse reads the settings from the variables that getenv returns; "" means that one is
// not set. It reports everything that is wrong, naming each variable; the error matches
// [ErrInvalid].
func Parse(getenv func(string) string) (Settings, error) {
	p := parser{getenv: getenv}
	s := Settings{
		Debug:            p.boolean(identity.EnvDebug),
		Environment:      p.text(identity.EnvEnvironment, "development"),
		AddrFile:         p.path(identity.EnvServerAddrFile, ""),
		Identity:         p.place(identity.EnvIdentityDir, "identity", identity.EnvIdentityMode, 0o600, secret),
		Keys:             p.place(identity.EnvKeysDir, "keys", identity.EnvKeysMode, 0o640, secret),
		Recv:             p.place(identity.EnvRecvDir, "recv", identity.EnvRecvMode, 0o640, public),
		Cluster:          p.cluster(),
		PaverSocket:      p.path(identity.EnvPaverSocket, "/run/nstance/paver.sock"),
		InstanceID:       p.id(),
		Hostname:         p.hostname(),
		IPv4:             p.address(identity.EnvInstanceIPv4, netip.Addr.Is4, "IPv4"),
		IPv6:             p.address(identity.EnvInstanceIPv6, netip.Addr.Is6, "IPv6"),
		Report:           p.report(),
		MetricsInterface: p.networkInterface(),
		Provider:         p.provider(),
		SpotPollInterval: p.spotPollInterval(),
		MetadataAddr:     p.metadataAddr(),
		HealthAddr:       p.hostPort(identity.EnvHealthAddr),
	}
	if s.AddrFile == "" {
		s.RegistrationAddrs = p.addresses(identity.EnvServerRegistrationAddr)
		s.AgentAddrs = p.addresses(identity.EnvServerAgentAddr)
	}
	p.distinct(s.Identity.Dir, s.Keys.Dir, s.Recv.Dir, s.Cluster.Dir)
	if err := errors.Join(p.errs...); err != nil {
		return Settings{}, fmt.Errorf("%w:\n%w", ErrInvalid, err)
	}
	return s, nil
}

// SplitAddresses splits a comma-separated list of host:port and checks each.
func SplitAddresses(list string) ([]string, error) {
	var addrs []string
	for a := range strings.SplitSeq(list, ",") {
		a = strings.TrimSpace(a)
		if err := ValidateAddress(a); err != nil {
			return nil, err
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// ValidateAddress checks that addr is host:port with a host and a port from 1 to 65535.
func ValidateAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsFunc(host, notHostRune) {
		return fmt.Errorf("%.80q is not host:port", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%.80q: the port is not a number from 1 to 65535", addr)
	}
	return nil
}

// notHostRune reports what no host name and no address contains. A percent sign is in
// the zone of a link-local address.
func notHostRune(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`/\"'?#@,`, r)
}
