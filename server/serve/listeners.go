package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
)

// listeners are the process's sockets, and how others are told to reach them.
type listeners struct {
	health, election, registration, operator, agent net.Listener
	metrics                                         net.Listener // nil: they have no address of their own

	advertised driver.Addresses
	peers      string // the advertised address of election: this server's own
	leader     string // host that moves with leadership; empty: there is none
}

// listen opens every socket, or none. With free, a port that is taken is
// replaced by a free one.
func listen(ctx context.Context, s document.Server, advertiseHost string, free bool) (*listeners, error) {
	ls := &listeners{leader: leaderHost(s)}
	for _, l := range []struct {
		field     string
		bind, adv string
		socket    *net.Listener
		address   *string
	}{
		{"health_addr", s.Bind.Health, withHost(s.Advertise.Health, advertiseHost), &ls.health, &ls.advertised.Health},
		{"election_addr", s.Bind.Election, withHost(s.Advertise.Election, advertiseHost), &ls.election, &ls.peers},
		{"registration_addr", s.Bind.Registration, s.Advertise.Registration, &ls.registration, &ls.advertised.Registration},
		{"operator_addr", s.Bind.Operator, s.Advertise.Operator, &ls.operator, &ls.advertised.Operator},
		{"agent_addr", s.Bind.Agent, s.Advertise.Agent, &ls.agent, &ls.advertised.Agent},
	} {
		socket, err := listenOn(ctx, l.bind, free)
		if err != nil {
			ls.close()
			return nil, fmt.Errorf("server.bind.%s: %w", l.field, err)
		}
		*l.socket = socket
		leader := ls.leader
		if l.field == "health_addr" || l.field == "election_addr" {
			leader = "" // each server's own
		}
		*l.address, err = advertise(l.bind, l.adv, socket.Addr(), leader)
		if err != nil {
			ls.close()
			return nil, fmt.Errorf("server.advertise.%s: %w", l.field, err)
		}
	}
	if s.Bind.Metrics != "" && s.Bind.Metrics != s.Bind.Health {
		var err error
		if ls.metrics, err = listenOn(ctx, s.Bind.Metrics, free); err != nil {
			ls.close()
			return nil, fmt.Errorf("server.bind.metrics_addr: %w; several servers on one host need an address each", err)
		}
	}
	return ls, nil
}

// boundTo returns the settings of a server that listens on another host, if there is
// one to put: several servers on one box can have one configuration then. Metrics that
// have an address of their own go along if that host is loopback, and stay otherwise.
func boundTo(s document.Server, host string) document.Server {
	if ip, err := netip.ParseAddr(host); s.Bind.Metrics == s.Bind.Health || err == nil && ip.IsLoopback() {
		s.Bind.Metrics = withHost(s.Bind.Metrics, host)
	}
	for _, addr := range []*string{&s.Bind.Health, &s.Bind.Election, &s.Bind.Registration, &s.Bind.Operator, &s.Bind.Agent} {
		*addr = withHost(*addr, host)
	}
	return s
}

func (ls *listeners) close() {
	for _, l := range []net.Listener{ls.health, ls.election, ls.registration, ls.operator, ls.agent, ls.metrics} {
		if l != nil {
			_ = l.Close() // nothing was accepted on it
		}
	}
}

// has reports whether one of the sockets has the port.
func (ls *listeners) has(port string) bool {
	for _, l := range []net.Listener{ls.health, ls.election, ls.registration, ls.operator, ls.agent, ls.metrics} {
		if l == nil {
			continue
		}
		if tcp, ok := l.Addr().(*net.TCPAddr); ok && strconv.Itoa(tcp.Port) == port {
			return true
		}
	}
	return false
}

func listenOn(ctx context.Context, addr string, free bool) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if !free || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}

// advertise is the address that others are told for a socket. Its port is the
// configured one, or the socket's where that is the bound one. Its host is the
// configured one, else the leader's movable address, else the bound one, else
// that of the primary interface.
func advertise(bind, configured string, actual net.Addr, leader string) (string, error) {
	bindHost, bindPort, err := net.SplitHostPort(bind)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(configured)
	if configured == "" {
		host, port, err = "", bindPort, nil
	}
	if err != nil {
		return "", err
	}
	if tcp, ok := actual.(*net.TCPAddr); ok && (port == bindPort || port == "") {
		port = fmt.Sprint(tcp.Port)
	}
	if unspecified(host) {
		host = leader
	}
	if host == "" && !unspecified(bindHost) {
		host = bindHost
	}
	if host == "" {
		if host, err = primaryAddress(); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, port), nil
}

func unspecified(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

func leaderHost(s document.Server) string {
	if s.LeaderNetwork == nil {
		return ""
	}
	return s.LeaderNetwork.IP
}

// withHost puts host in place of the one in addr, if there is one to put.
func withHost(addr, host string) string {
	_, port, err := net.SplitHostPort(addr)
	if host == "" || err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// errNoAddress says that the box has no address that others could reach.
var errNoAddress = errors.New("no interface has an address that others could reach; set the host")

// primaryAddress is the first global unicast address of an interface that is up,
// IPv4 first.
func primaryAddress() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	var ipv6 string
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			return prefix.Addr().String(), nil
		}
		if ipv6 == "" {
			ipv6 = prefix.Addr().String()
		}
	}
	if ipv6 == "" {
		return "", errNoAddress
	}
	return ipv6, nil
}
