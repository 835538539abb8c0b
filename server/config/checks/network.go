package checks

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
)

func (c serverCheck) addresses(path jsonc.Path) {
	s := &c.cfg.Server
	var bound []netip.AddrPort
	bind := s.Bind.All()
	if s.Bind.Metrics != "" && s.Bind.Metrics != s.Bind.Health {
		bind = append(bind, document.NamedAddress{Name: "metrics_addr", Value: &s.Bind.Metrics})
	}
	for _, a := range bind {
		p := path.Key("bind").Key(a.Name)
		host, port, ok := c.hostPort(p, *a.Value)
		if !ok {
			continue
		}
		ip, err := netip.ParseAddr(host)
		if err != nil && host != "" && host != "localhost" {
			c.add(p, jsonc.Quoted(host)+" is not an IP address", "listen on an address of this box, or on 0.0.0.0 or [::]")
			continue
		}
		at := netip.AddrPortFrom(ip, port)
		if port != 0 && slices.ContainsFunc(bound, func(other netip.AddrPort) bool { return overlap(at, other) }) {
			c.add(p, "port "+strconv.Itoa(int(port))+" is taken by another address of this server", "give each its own port")
		}
		bound = append(bound, at)
	}
	for _, a := range s.Advertise.All() {
		if p := path.Key("advertise").Key(a.Name); c.doc.Has(p) { // else it was made from bind
			c.hostPort(p, *a.Value)
		}
	}
}

// overlap says whether two listeners would want the same port of one address.
func overlap(a, b netip.AddrPort) bool {
	anywhere := func(ip netip.Addr) bool { return !ip.IsValid() || ip.IsUnspecified() }
	return a.Port() == b.Port() && (a.Addr() == b.Addr() || anywhere(a.Addr()) || anywhere(b.Addr()))
}

func (c serverCheck) hostPort(path jsonc.Path, address string) (host string, port uint16, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		c.add(path, jsonc.Quoted(address)+" is not an address", `write host:port, such as "0.0.0.0:8992" or "[::]:8992"`)
		return "", 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		c.add(path, jsonc.Quoted(text)+" is not a port", "a number from 0 to 65535")
		return "", 0, false
	}
	return host, uint16(n), true
}

func (c serverCheck) leaderNetwork(path jsonc.Path) {
	n, kind := c.cfg.Server.LeaderNetwork, c.cfg.Server.Provider.Kind
	if n == nil {
		return
	}
	if p, ok := schema.Known().Of(kind); ok && p.LeaderNetwork == nil {
		c.addKey(path, "not supported on "+kind, "leave it out")
		return
	}
	if c.required(path.Key("ip"), n.IP, "the address that moves") {
		c.ip(path.Key("ip"), n.IP)
		if addr, err := netip.ParseAddr(n.IP); err == nil && !addr.IsGlobalUnicast() {
			c.add(path.Key("ip"), jsonc.Quoted(n.IP)+" is no address that others could reach", "an address of the subnet of the servers that no machine has")
		}
	}
	if rules := c.cfg.Rules.Provider(); rules != nil && rules.CheckLeaderNetwork != nil {
		c.found(path, rules.CheckLeaderNetwork(n.Args))
	}
}

func (c serverCheck) ip(path jsonc.Path, ip string) {
	if _, err := netip.ParseAddr(ip); err != nil {
		c.add(path, jsonc.Quoted(ip)+" is not an IP address", `such as "10.0.0.100"`)
	}
}

func (c serverCheck) subnetPools(path jsonc.Path) {
	s := &c.cfg.Server
	pools := path.Key("subnet_pools")
	if len(s.SubnetPools) == 0 {
		c.add(pools, "required", "name at least one pool with at least one subnet")
	}
	owner := map[string]string{}
	sorted(s.SubnetPools, func(pool string, ids []string) {
		c.name(pools.Key(pool), pool)
		if len(ids) == 0 {
			c.add(pools.Key(pool), "a pool needs at least one subnet", "name one, or take the pool out")
		}
		for i, id := range ids {
			c.subnet(pools.Key(pool).Index(i), id)
			if other, taken := owner[id]; taken && id != "" {
				c.add(pools.Key(pool).Index(i), jsonc.Quoted(id)+" is in pool "+jsonc.Quoted(other)+" already", "a subnet may stand in one pool, once")
			}
			owner[id] = pool
		}
	})
	c.unique(path.Key("dynamic_subnet_pools"), s.DynamicSubnetPools)
	for i, pool := range s.DynamicSubnetPools {
		reference(c.report, path.Key("dynamic_subnet_pools").Index(i), "subnet pool", pool, s.SubnetPools)
	}
}

func (c serverCheck) subnet(path jsonc.Path, id string) {
	if !c.required(path, id, "the provider's id of a subnet") {
		return
	}
	if _, err := netip.ParsePrefix(id); err == nil {
		c.add(path, jsonc.Quoted(id)+" is an address range", "write the provider's id of the subnet")
		return
	}
	if rules := c.cfg.Rules.Provider(); rules != nil && rules.CheckSubnet != nil {
		if err := rules.CheckSubnet(id); err != nil {
			c.add(path, err.Error(), "")
		}
	}
}
