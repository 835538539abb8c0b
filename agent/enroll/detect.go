package enroll

import (
	"net"
	"net/netip"
	"os"
	"strings"

	"nstance.dev/protos/identity"
)

// Addresses that are routed to nobody: their source address is that of the default route.
const (
	anyIPv4 = "192.0.2.1:9"
	anyIPv6 = "[2001:db8::1]:9"
)

// Detect fills in what host leaves open, as far as this machine knows it: the kernel's
// host name, if it is a valid one, and the addresses of the interface with the default
// route. It sends nothing.
func Detect(host Host) Host {
	if host.Hostname == "" {
		if name, err := os.Hostname(); err == nil && identity.ValidHostname(name) {
			host.Hostname = strings.ToLower(name)
		}
	}
	if !host.IPv4.IsValid() {
		host.IPv4 = sourceAddress("udp4", anyIPv4)
	}
	if !host.IPv6.IsValid() {
		host.IPv6 = sourceAddress("udp6", anyIPv6)
	}
	return host
}

// sourceAddress returns the address from which packets to target would leave; connecting
// a datagram socket looks up the route and sends no packet. Invalid: there is no route.
func sourceAddress(network, target string) netip.Addr {
	conn, err := net.Dial(network, target)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := local.AddrPort().Addr().Unmap().WithZone("")
	if !addr.IsGlobalUnicast() {
		return netip.Addr{}
	}
	return addr
}
