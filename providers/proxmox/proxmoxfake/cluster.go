package proxmoxfake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

var clusterRoutes = []route{
	{op: "GET /version", do: func(*Cloud, *request) (any, error) {
		return map[string]any{"version": "9.0.10", "release": "9.0", "repoid": "deb1ca707ec72a89"}, nil
	}},
	{op: "GET /cluster/status", grants: []string{"Sys.Audit"}, do: (*Cloud).clusterStatus},
	{op: "GET /cluster/resources", schema: schema{"type": {enum: []string{"vm", "storage", "node", "sdn"}}}, do: (*Cloud).resources},
	{op: "GET /cluster/nextid", schema: schema{"vmid": vmidParam}, do: (*Cloud).nextID},
	{op: "GET /nodes", do: (*Cloud).listNodes},
	{op: "GET /nodes/{node}/status", grants: []string{"Sys.Audit"}, do: (*Cloud).nodeStatus},
	{op: "GET /access/permissions", schema: schema{"path": {}, "userid": {}}, do: (*Cloud).permissions},
	{op: "GET /pools", schema: schema{"poolid": {}, "type": {enum: []string{"qemu", "lxc", "storage"}}}, do: (*Cloud).listPools},
}

func (c *Cloud) clusterStatus(*request) (any, error) {
	entries := []map[string]any{}
	for i, n := range c.opts.Nodes {
		up := c.nodes[n.Name].online
		entries = append(entries, map[string]any{
			"type": "node", "id": "node/" + n.Name, "name": n.Name, "nodeid": i + 1, "online": bit(up),
			"local": bit(i == 0), "ip": fmt.Sprintf("192.0.2.%d", 11+i), "level": "",
		})
	}
	head := map[string]any{
		"type": "cluster", "id": "cluster", "name": "fake", "version": 3, "nodes": len(c.opts.Nodes), "quorate": bit(c.quorate()),
	}
	return append([]map[string]any{head}, entries...), nil
}

// bit is a truth as most answers spell it.
func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// resources lists what the caller may see.
func (c *Cloud) resources(r *request) (any, error) {
	list := []map[string]any{}
	want := r.params["type"]
	if want == "" || want == "vm" {
		for _, id := range c.ids() {
			if r.may("VM.Audit") && !c.hidden {
				list = append(list, c.machineResource(c.machines[id]))
			}
		}
	}
	if want == "" || want == "node" {
		for _, n := range c.opts.Nodes {
			list = append(list, c.nodeResource(r, n))
		}
	}
	if want == "" || want == "storage" {
		for _, n := range c.opts.Nodes {
			for _, s := range c.opts.Storages {
				if _, err := c.store(s.Name, n.Name); err == nil && r.may("Datastore.Audit") {
					list = append(list, c.storageResource(s, n.Name))
				}
			}
		}
	}
	return list, nil
}

// machineResource is a machine as listed: what the cluster's file system knows is of
// now, the rest as old as the status daemons' last round.
func (c *Cloud) machineResource(m *machine) map[string]any {
	entry := map[string]any{
		"id": fmt.Sprintf("qemu/%d", m.id), "type": "qemu", "vmid": m.id, "node": m.node, "status": "unknown",
	}
	if s, known := c.seen.machines[m.id]; known {
		maps.Copy(entry, map[string]any{
			"name": s.name, "status": s.status, "template": bit(s.template), "uptime": s.uptime,
			"maxcpu": s.cores, "cpu": s.cpu, "maxmem": s.memory, "mem": s.inUse, "maxdisk": s.disk, "disk": 0,
			"netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0,
		})
	}
	for _, option := range []string{"tags", "lock"} {
		if value := m.config[option]; value != "" {
			entry[option] = value
		}
	}
	for pool, members := range c.pools {
		if slices.Contains(members, m.id) {
			entry["pool"] = pool
		}
	}
	return entry
}

// nodeResource is a node as listed. Who may not audit it does not see its load.
func (c *Cloud) nodeResource(r *request, n Node) map[string]any {
	entry := map[string]any{"id": "node/" + n.Name, "type": "node", "node": n.Name, "status": "unknown", "level": "", "cgroup-mode": 2}
	s, known := c.seen.nodes[n.Name]
	if known {
		entry["status"] = "online"
	}
	if known && r.may("Sys.Audit") {
		maps.Copy(entry, map[string]any{
			"maxcpu": n.Cores, "cpu": s.cpu, "maxmem": n.Memory, "mem": s.memory, "uptime": s.uptime,
			"maxdisk": int64(100 * GiB), "disk": int64(10 * GiB),
		})
	}
	if !c.nodes[n.Name].online {
		entry["status"] = "offline"
		delete(entry, "mem")
		delete(entry, "cpu")
		delete(entry, "uptime")
	}
	return entry
}

func (c *Cloud) listNodes(r *request) (any, error) {
	list := []map[string]any{}
	for _, n := range c.opts.Nodes {
		list = append(list, c.nodeResource(r, n))
	}
	return list, nil
}

func (c *Cloud) nodeStatus(r *request) (any, error) {
	n := c.nodes[r.node]
	s := c.nodeStats(r.node, r.now)
	return map[string]any{
		"pveversion": "pve-manager/9.0.10/deb1ca707ec72a89", "kversion": "Linux 6.14.11-3-pve", "uptime": s.uptime, "cpu": s.cpu,
		"wait": 0, "idle": 0, "loadavg": []string{"0.10", "0.10", "0.10"},
		"cpuinfo": map[string]any{"cpus": n.Cores, "cores": n.Cores, "sockets": 1, "model": "Fake CPU", "mhz": "3000.000", "user_hz": 100, "flags": "", "hvm": "1"},
		"memory":  map[string]any{"total": n.Memory, "used": s.memory, "free": n.Memory - s.memory},
		"swap":    map[string]any{"total": 0, "used": 0, "free": 0},
		"rootfs":  map[string]any{"total": int64(100 * GiB), "used": int64(10 * GiB), "free": int64(90 * GiB), "avail": int64(90 * GiB)},
		"ksm":     map[string]any{"shared": 0},
	}, nil
}

// nextID returns a free number, or says whether the one asked about is free.
func (c *Cloud) nextID(r *request) (any, error) {
	if asked := r.params["vmid"]; asked != "" {
		vmid, _ := strconv.Atoi(asked)
		if m := c.machines[vmid]; m != nil {
			return nil, badParam("vmid", "VM %d already exists", vmid)
		}
		return asked, nil
	}
	next := 100
	for c.machines[next] != nil {
		next++
	}
	return strconv.Itoa(next), nil
}

func (c *Cloud) permissions(r *request) (any, error) {
	granted := map[string]any{}
	for _, privileges := range Roles {
		for _, p := range privileges {
			if r.may(p) {
				granted[p] = 1
			}
		}
	}
	path := r.params["path"]
	if path == "" {
		path = "/"
	}
	return map[string]any{path: granted}, nil
}

func (c *Cloud) listPools(r *request) (any, error) {
	list := []map[string]any{}
	for _, pool := range slices.Sorted(maps.Keys(c.pools)) {
		if asked := r.params["poolid"]; !r.may("Pool.Audit") || asked != "" && asked != pool {
			continue
		}
		members := []map[string]any{}
		for _, id := range c.pools[pool] {
			members = append(members, c.machineResource(c.machines[id]))
		}
		entry := map[string]any{"poolid": pool}
		if r.params["poolid"] != "" {
			entry["members"] = members
		}
		list = append(list, entry)
	}
	return list, nil
}
