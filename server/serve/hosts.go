package serve

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
)

// hosts are the names and addresses that others are told for the sockets.
func (ls *listeners) hosts() []string {
	adv := ls.advertised
	var hosts []string
	for _, addr := range []string{ls.peers, adv.Registration, adv.Operator, adv.Agent} {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	if ls.leader != "" {
		hosts = append(hosts, ls.leader)
	}
	return hosts
}

// names are those of the hosts that are names, not addresses.
func (ls *listeners) names() []string {
	var out []string
	for _, host := range ls.hosts() {
		if _, err := netip.ParseAddr(host); err != nil {
			out = append(out, host)
		}
	}
	return out
}

// addresses are the IP addresses that clients may dial: those of this box, and
// the advertised ones.
func (ls *listeners) addresses(log *slog.Logger) []netip.Addr {
	var out []netip.Addr
	for _, host := range ls.hosts() {
		if addr, err := netip.ParseAddr(host); err == nil {
			out = append(out, addr)
		}
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		log.Warn("addresses of this box not known", "error", err)
	}
	for _, a := range local {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, prefix.Addr())
		}
	}
	return out
}

// serverHosts are the names and addresses of this server, and those at which the leaders
// of the locks are reached.
func serverHosts(ls *listeners, log *slog.Logger, locks ...*election) []string {
	out := ls.hosts()
	for _, addr := range ls.addresses(log) {
		out = append(out, addr.Unmap().String())
	}
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	for _, lock := range locks {
		doc, ok := lock.leader()
		if !ok {
			continue
		}
		for _, addr := range []string{doc.Addrs.Registration, doc.Addrs.Operator, doc.Addrs.Agent} {
			if host, _, err := net.SplitHostPort(addr); err == nil {
				out = append(out, host)
			}
		}
	}
	return out
}
